//! The steps that programs call: one of every effect class and every policy for unknown outcomes that it allows, and of
//! each thing that may happen around a body: consent, a callback, confirmation, undoing.
//!
//! All of them do what their arguments say, on the stage that the engine was given. A new class is a new row.

use aether::definition::Step;
use aether::definition::{OnUnknown, StepDef};
use aether::effect::EffectClass;
use aether::id::RunId;
use aether::prelude::*;
use aether::resource::{Inspection, Verifier};
use aether::store::event::StateChanged;
use serde::{Deserialize, Serialize};

use super::program::{Call, Word};
use super::stage::Stage;

macro_rules! steps {
    ($($kind:ident $name:ident [$($option:tt)*])*) => {
        /// A step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
        pub(crate) enum Kind {
            Pure,
            /// A transaction step: not in memory.
            Booked,
            /// Undoes a compensated step; programs do not call it.
            Refund,
            $($kind,)*
        }

        impl Kind {
            /// What programs call.
            pub(crate) const ALL: &[Self] = &[Self::Pure, $(Self::$kind,)* Self::Booked];

            /// What the step declares.
            pub(crate) fn def(self) -> &'static StepDef {
                match self {
                    Self::Pure => <compute as Step>::DEF,
                    Self::Booked => <book as Step>::DEF,
                    Self::Refund => <refund as Step>::DEF,
                    $(Self::$kind => <$name as Step>::DEF,)*
                }
            }
        }

        $(
            /// Does what its argument says.
            #[step($($option)*)]
            pub(crate) async fn $name(cx: &mut StepCx, call: Call) -> Result<i64> {
                Stage::act(cx, &call).await
            }
        )*
    };
}

steps! {
    Read read_it [effect = "read", retry(max_retries = 2, delay = "1ms")]
    Llm ask_model [effect = "llm", retry(max_retries = 1, delay = "1ms")]
    Tool tool_or_fail [effect = "tool"]
    ToolAsk tool_or_ask [effect = "tool", on_unknown = "ask", idempotent, retry(max_retries = 2, delay = "1ms")]
    ToolRetry tool_again [effect = "tool", on_unknown = "retry", idempotent, retry(max_retries = 2, delay = "1ms")]
    ToolProbe tool_or_look [effect = "tool", on_unknown = "probe", probe = look, retry(max_retries = 2, delay = "1ms")]
    External external_or_fail [effect = "external", idempotent, retry(max_retries = 1, delay = "1ms")]
    ExternalAsk external_or_ask [effect = "external", on_unknown = "ask"]
    ExternalRetry external_again [effect = "external", on_unknown = "retry", idempotent]
    ExternalProbe external_or_look [effect = "external", on_unknown = "probe", probe = look]
    Http http_or_fail [effect = "http"]
    HttpAsk http_or_ask [effect = "http", on_unknown = "ask"]
    HttpRetry http_again [effect = "http", on_unknown = "retry", idempotent]
    HttpProbe http_or_look [effect = "http", on_unknown = "probe", probe = look]
    Once do_once [effect = "tool", irreversible]
    OnceInStore do_once_in_store [effect = "tool", irreversible, scope = "store"]
    Approved send_approved [effect = "tool", approval = "required"]
    CalledBack report_later [effect = "tool"]
    Confirmed change_file [effect = "tool", changes = ["file"]]
    Compensated pay [effect = "tool", compensate = refund]
}

/// Undoes a payment, and always can.
#[step(effect = "tool", on_unknown = "retry", idempotent)]
pub(crate) async fn refund(cx: &mut StepCx, call: Call, paid: Option<i64>) -> Result<i64> {
    let _half_way = paid;
    Stage::act(cx, &call.undoing()).await
}

/// Inserts a row of its own, and then does what its argument says.
#[step(effect = "transaction", retry(max_retries = 2, delay = "1ms"))]
pub(crate) async fn book(cx: &mut StepCx, call: Call) -> Result<i64> {
    Stage::book(cx, &call).await
}

/// An await that the attribute does not see: a pure step awaits nothing, but here processes die in the middle of one.
macro_rules! awaited {
    ($future:expr) => {
        $future.await
    };
}

/// Does what its argument says, and touches nothing.
#[step(effect = "pure")]
pub(crate) async fn compute(call: Call) -> Result<i64> {
    awaited!(Stage::compute(&call))
}

impl Kind {
    /// Name in the journal.
    pub(crate) fn name(self) -> &'static str {
        self.def().name
    }

    pub(crate) fn class(self) -> EffectClass {
        self.def().options.class
    }

    pub(crate) fn changes_world(self) -> bool {
        self.class().changes_world()
    }

    pub(crate) fn on_unknown(self) -> OnUnknown {
        self.def().options.on_unknown
    }

    /// The step of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let refund = std::iter::once(Self::Refund);
        Self::ALL.iter().copied().chain(refund).find(|kind| kind.name() == name)
    }
}

/// Looks at the stage.
async fn look(cx: &mut StepCx, call: Call) -> Result<Probe<i64>> {
    let happened = cx.dep::<Stage>()?.happened(cx.idempotency_key().as_str());
    match call.word {
        Word::Truth if happened => Ok(Probe::Happened(call.value(cx.attempt()))),
        Word::Truth => Ok(Probe::DidNotHappen),
        Word::Nothing => Ok(Probe::Unknown),
        Word::Failure => Err(Failure::new("the probe is broken")),
    }
}

type Looking<'a> = std::pin::Pin<Box<dyn Future<Output = Result<Inspection>> + Send + 'a>>;

/// Finds every file as it was left.
#[derive(Debug)]
pub(crate) struct AsLeft;

impl Verifier for AsLeft {
    fn name(&self) -> &str {
        "as left"
    }

    fn look<'a>(&'a self, _: &'a RunId, _: &'a StateChanged) -> Looking<'a> {
        Box::pin(std::future::ready(Ok(Inspection::Unchanged)))
    }
}
