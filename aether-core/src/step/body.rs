//! What `#[step]` implements: the typed trait, and its erased form that the engine works with.
//!
//! Promise: a body gets its arguments decoded from the record, on the first attempt as on every later one.

use std::any::Any;
use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::definition::def::{Allow, Approval, OnUnknown, Probe, StepDef, StepOptions};
use crate::definition::linked::{LinkedCode, LinkedItem, linked_items};
use crate::step::context::StepCx;
use crate::step::recordable::{Recordable, Returning, Returns};
use crate::vocabulary::budget::{Spend, Spent};
use crate::vocabulary::deps::{Deps, Need};
use crate::vocabulary::failure::Failure;
use crate::vocabulary::outcome::{Classify, EffectClass, FailureClass};
use crate::vocabulary::payload::{Payload, PayloadError};

/// A step function. Implemented by `#[step]` for the type named like the function.
pub trait Step: Returning + Sized + Send + Sync + 'static {
    /// Name, class and source position.
    const DECLARED: Declared<Self::Returned>;
    /// How it is executed: as any step of its class, unless it says more.
    const OPTIONS: StepOptions = StepOptions::of(Self::DECLARED.class);
    /// Checks that were switched off, with reasons.
    const ALLOWS: &'static [Allow] = &[];
    /// The whole definition. Checking a program does not evaluate it, as it is none of the program's own constants.
    const DEF: &'static StepDef = &StepDef {
        name: Self::DECLARED.name,
        path: Self::DECLARED.path,
        doc: Self::DECLARED.doc,
        file: Self::DECLARED.file,
        line: Self::DECLARED.line,
        options: Self::OPTIONS,
        allows: Self::ALLOWS,
    };
    /// The values that the body takes from its program.
    const NEEDS: &'static [Need] = &[];
    /// How the body of a transaction step reaches its database (`cx.sql`, `cx.postgres`), where its code says it.
    const TRANSACTION: Option<&'static str> = None;
    /// The arguments, owned: `()`, the one argument, or a tuple.
    type Args: Send + 'static;

    /// Encodes arguments.
    ///
    /// # Errors
    /// [`PayloadError`] when an argument does not serialize.
    fn encode(args: &Self::Args) -> Result<Payload, PayloadError>;

    /// Decodes recorded arguments.
    ///
    /// # Errors
    /// [`PayloadError`] when the record does not fit the function's signature.
    fn decode(args: &Payload) -> Result<Self::Args, PayloadError>;

    /// Calls the body.
    fn call(cx: StepCx, args: Self::Args) -> BoxFuture<'static, Self::Returned>;

    /// What the error that the body returned says of another attempt: [`Declared::classify`]. `cargo aether check` ends its way
    /// through a workflow's code here, as at everything of a step but the encoding of its arguments.
    fn classify(returned: &Self::Returned) -> ErrorClass {
        (Self::DECLARED.classify)(returned)
    }

    /// The business key of a call. Asked of a step that declares one (`StepOptions::keyed`).
    fn business_key(_args: &Self::Args) -> Option<String> {
        None
    }

    /// Whether a call with these arguments needs approval. Asked of a step that declares `approval` as a function
    /// (`Approval::ByArguments`).
    fn needs_approval(_args: &Self::Args) -> bool {
        false
    }

    /// The step that undoes a call. Asked of a step that declares one (`StepOptions::compensated`); `output` is absent where
    /// the call failed half-way.
    fn compensation(_args: Self::Args, _output: Option<Self::Output>) -> Option<Undo> {
        None
    }

    /// Finds out whether a call of unknown outcome happened. Asked of a step that declares a probe (`OnUnknown::Probe`).
    fn probe(
        _cx: StepCx,
        _args: Self::Args,
    ) -> Option<BoxFuture<'static, Result<Probe<Self::Output>, Failure>>> {
        None
    }
}

/// What the source says of a step that returns `R`.
#[derive(Clone, Copy, Debug)]
pub struct Declared<R> {
    /// Name as it stands in the journal.
    pub name: &'static str,
    /// Module path and name: unique in a program.
    pub path: &'static str,
    /// Name of the function, which need not be that in the journal.
    pub function: &'static str,
    /// A hash of its signature and its options; empty where a step is implemented by hand.
    pub fingerprint: &'static str,
    /// Its doc comment.
    pub doc: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Line of the function.
    pub line: u32,
    /// What kind of contact with the world it is; [`Step::OPTIONS`] say the same.
    pub class: EffectClass,
    /// What the error that the body returned says of another attempt. Asked of no value.
    pub classify: fn(&R) -> ErrorClass,
}

/// What an error says of another attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorClass {
    /// The class of the error.
    pub class: FailureClass,
    /// The minimum wait before the next attempt, where the error gives one.
    pub retry_after: Option<Duration>,
    /// Whether an answer was lost; see [`Classify::is_lost`].
    pub lost: bool,
}

impl ErrorClass {
    /// What the error in `returned` says, whose type has a class.
    pub fn of<T, E: Classify>(returned: &Result<T, E>) -> Self {
        let said = |error: &E| Self {
            class: error.class(),
            retry_after: error.retry_after(),
            lost: error.is_lost(),
        };
        returned.as_ref().err().map(said).unwrap_or_default()
    }

    /// What it says where the body may have changed the world: with an answer, it is lost what became of that.
    fn of_change(self) -> Self {
        if self.lost { Self { class: FailureClass::Unknown, ..self } } else { self }
    }
}

/// A step call that undoes another one.
#[derive(Clone)]
pub struct Undo {
    /// Definition of the undoing step.
    pub def: &'static StepDef,
    /// Its encoded arguments, or why they do not encode.
    pub args: Result<Payload, PayloadError>,
    /// The undoing step's function.
    pub body: Arc<dyn Body>,
}

impl Undo {
    /// The call of step `S` with `args`: those of the undone call, then its output if it gave one.
    pub fn of<S: Step>(args: &S::Args) -> Self {
        Self { def: S::DEF, args: S::encode(args), body: StepBody::<S>::shared() }
    }
}

impl Debug for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Undo({}, {:?})", self.def.name, self.args)
    }
}

/// A body's error, encoded.
#[derive(Clone, Debug)]
pub struct BodyError {
    /// The error as JSON.
    pub error: Payload,
    /// The error as text.
    pub message: String,
    /// The class of the error.
    pub class: FailureClass,
    /// The minimum wait before the next attempt, where the error gives one.
    pub retry_after: Option<Duration>,
}

/// Result of a body, encoded. The outer error says that the value or error could not be encoded.
pub type BodyResult = Result<Result<Payload, BodyError>, PayloadError>;

/// Result of a probe, encoded. The outer error says that a value could not be encoded or decoded.
pub type ProbeResult = Result<Result<Probe<Payload>, Failure>, PayloadError>;

/// A step's function with its types erased, as the engine calls it.
pub trait Body: Send + Sync + 'static {
    /// Calls the body with recorded arguments.
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult>;

    /// The error with which the body would end before it does anything: what an interceptor must not answer in its place.
    fn refuses(&self, _cx: &StepCx) -> Option<BodyResult> {
        None
    }

    /// Checks that a call with `args` could be made, without making it.
    ///
    /// # Errors
    /// [`PayloadError`] when they do not fit the function's signature.
    fn check(&self, _args: &Payload) -> Result<(), PayloadError> {
        Ok(())
    }

    /// The business key of a call.
    ///
    /// # Errors
    /// [`PayloadError`] when the record does not fit the function's signature.
    fn business_key(&self, _args: &Payload) -> Result<Option<String>, PayloadError> {
        Ok(None)
    }

    /// The arguments as the step itself would record them, without members that it does not take.
    ///
    /// # Errors
    /// [`PayloadError`] when the record does not fit the function's signature.
    fn canonical_args(&self, args: &Payload) -> Result<Payload, PayloadError> {
        Ok(args.clone())
    }

    /// Whether a call with `args` needs approval.
    ///
    /// # Errors
    /// [`PayloadError`] when the record does not fit the function's signature.
    fn needs_approval(&self, _args: &Payload) -> Result<bool, PayloadError> {
        Ok(false)
    }

    /// The step that undoes a call, if there is one.
    ///
    /// # Errors
    /// [`PayloadError`] when arguments or output do not fit the function's signature.
    fn compensation(&self, _args: &Payload, _output: Option<&Payload>) -> Result<Option<Undo>, PayloadError> {
        Ok(None)
    }

    /// Checks that `value` could be this body's result: before an operator's value or a callback is accepted.
    ///
    /// # Errors
    /// [`PayloadError`] when it does not decode into the body's type.
    fn accepts(&self, _value: &Payload) -> Result<(), PayloadError> {
        Ok(())
    }

    /// Decodes an error that a callback reports in place of this body.
    ///
    /// # Errors
    /// [`PayloadError`] when it does not decode into the body's error type.
    fn failure(&self, error: &Payload) -> Result<BodyError, PayloadError> {
        let failure: Failure = error.decode()?;
        let (message, class, retry_after) = (failure.to_string(), failure.class(), failure.retry_after());
        Ok(BodyError { error: error.clone(), message, class, retry_after })
    }

    /// Waits until this process lets an attempt begin, where it keeps calls back: asked before the attempt's intent is
    /// written, so that a crash in the wait leaves nothing unknown. The place is given back when the body has ended. `None`
    /// where nothing keeps it back. Asked of no body in a simulation.
    fn admit(&self, _deps: &Deps) -> Option<BoxFuture<'static, Admission>> {
        None
    }

    /// What one attempt at a call with `args` may take of budgets at most. Asked where a budget holds for the call.
    ///
    /// # Errors
    /// Why it cannot be known what it costs; the call is not made then.
    fn estimate(&self, _args: &Payload, _facts: &Estimating<'_>) -> Result<Spend, String> {
        Ok(Spend::CALL)
    }

    /// Whether budgets hold for calls of this body. Not for what asks about a call that was made and counted, or ends it: a
    /// budget that is used up must not lose what became of that call.
    fn counts(&self) -> bool {
        true
    }

    /// What the attempt took that returned `value`, where the body did not say so by [`StepCx::spent`] and the value tells.
    fn spent(&self, _value: &Payload) -> Option<Spent> {
        None
    }

    /// Finds out whether a call of unknown outcome happened; `None` where the step has no probe.
    fn probe(&self, _cx: StepCx, _args: &Payload) -> Option<BoxFuture<'static, ProbeResult>> {
        None
    }
}

/// What an attempt is told that asks whether it may begin.
pub enum Admission {
    /// It begins now. The place is kept until the body has ended, and given back when it is dropped.
    Now(Box<dyn Any + Send + Sync>),
    /// It asks again after this time. The run may leave the memory meanwhile.
    Later(Duration),
}

impl Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(_) => f.write_str("Now"),
            Self::Later(wait) => write!(f, "Later({wait:?})"),
        }
    }
}

/// What an estimate may look at.
#[derive(Clone, Copy, Debug)]
pub struct Estimating<'a> {
    /// The values that the program provides.
    pub deps: &'a Deps,
    /// The currency of the budgets that limit the cost; `None` where none does.
    pub currency: Option<&'a str>,
}

/// The erased form of a step.
pub struct StepBody<S>(PhantomData<fn() -> S>);

impl<S: Step> StepBody<S> {
    /// The one value of this type.
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// The body, shared.
    pub fn shared() -> Arc<dyn Body> {
        Arc::new(Self::new())
    }
}

impl<S: Step> Default for StepBody<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Debug for StepBody<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StepBody")
    }
}

impl<S: Step> Body for StepBody<S> {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        let body = S::decode(args).map(|args| S::call(cx, args));
        encoded(body, S::classify, S::DEF.options.class.changes_world())
    }

    fn check(&self, args: &Payload) -> Result<(), PayloadError> {
        S::decode(args).map(drop)
    }

    fn accepts(&self, value: &Payload) -> Result<(), PayloadError> {
        value.decode::<S::Output>().map(drop)
    }

    fn failure(&self, error: &Payload) -> Result<BodyError, PayloadError> {
        failed(error, S::classify)
    }

    fn business_key(&self, args: &Payload) -> Result<Option<String>, PayloadError> {
        if const { S::DEF.options.keyed } {
            return Ok(S::business_key(&S::decode(args)?));
        }
        Ok(None)
    }

    fn canonical_args(&self, args: &Payload) -> Result<Payload, PayloadError> {
        S::encode(&S::decode(args)?)
    }

    fn needs_approval(&self, args: &Payload) -> Result<bool, PayloadError> {
        if const { matches!(S::DEF.options.approval, Approval::ByArguments) } {
            return Ok(S::needs_approval(&S::decode(args)?));
        }
        Ok(false)
    }

    fn compensation(&self, args: &Payload, output: Option<&Payload>) -> Result<Option<Undo>, PayloadError> {
        if const { S::DEF.options.compensated } {
            return Ok(S::compensation(S::decode(args)?, output.map(Payload::decode).transpose()?));
        }
        Ok(None)
    }

    fn probe(&self, cx: StepCx, args: &Payload) -> Option<BoxFuture<'static, ProbeResult>> {
        if const { matches!(S::DEF.options.on_unknown, OnUnknown::Probe) } {
            return match S::decode(args) {
                Ok(args) => S::probe(cx, args).map(probed),
                Err(error) => Some(Box::pin(std::future::ready(Err(error)))),
            };
        }
        None
    }
}

/// Encodes what a body of `S` returned, as it is recorded. A value that does not decode again is found when it is
/// delivered, on every replay alike.
///
/// # Errors
/// [`PayloadError`] when the value or the error does not serialize.
pub fn encode_result<S: Step>(result: Result<S::Output, S::Error>) -> BodyResult {
    encode_returned(S::returned(result), S::classify, S::DEF.options.class.changes_world())
}

// What follows is generic over what is returned, and not over the step: programs have fewer types of results than steps.

/// What [`Step::classify`] is.
type Classifier<R> = fn(&R) -> ErrorClass;

fn encoded<R: Returns>(
    body: Result<BoxFuture<'static, R>, PayloadError>,
    classify: Classifier<R>,
    changes_world: bool,
) -> BoxFuture<'static, BodyResult> {
    match body {
        Ok(body) => Box::pin(async move { encode_returned(body.await, classify, changes_world) }),
        Err(error) => Box::pin(std::future::ready(Err(error))),
    }
}

fn probed<T: Recordable>(
    probe: BoxFuture<'static, Result<Probe<T>, Failure>>,
) -> BoxFuture<'static, ProbeResult> {
    Box::pin(async move {
        Ok(match probe.await {
            Ok(Probe::Happened(value)) => Ok(Probe::Happened(Payload::encode(&value)?)),
            Ok(Probe::DidNotHappen) => Ok(Probe::DidNotHappen),
            Ok(Probe::Unknown) => Ok(Probe::Unknown),
            Err(failure) => Err(failure),
        })
    })
}

/// The class of the error, where one was returned.
fn class_of<R: Returns>(returned: &R, classify: Classifier<R>) -> ErrorClass {
    returned.error().map(|_| classify(returned)).unwrap_or_default()
}

fn failed<R: Returns>(error: &Payload, classify: Classifier<R>) -> Result<BodyError, PayloadError> {
    let returned = R::of(Err(error.decode()?));
    let message = returned.error().map(ToString::to_string).unwrap_or_default();
    // Whoever reports a failure says that it is one.
    let ErrorClass { class, retry_after, .. } = class_of(&returned, classify);
    Ok(BodyError { error: error.clone(), message, class, retry_after })
}

fn encode_returned<R: Returns>(returned: R, classify: Classifier<R>, changes_world: bool) -> BodyResult {
    let said = class_of(&returned, classify);
    let ErrorClass { class, retry_after, .. } = if changes_world { said.of_change() } else { said };
    Ok(match returned.into_result() {
        Ok(value) => Ok(Payload::encode(&value)?),
        Err(error) => {
            let message = error.to_string();
            let reason = |error: PayloadError| error.to_string();
            let error = Payload::encode(&error).map_err(reason);
            let error = error.map_err(|reason| PayloadError::Error { class, retry_after, reason })?;
            Err(BodyError { error, message, class, retry_after })
        }
    })
}

/// A step that is linked into a program. `#[step]` registers one, and code without the attribute does with `inventory`.
#[derive(Clone, Copy)]
pub struct RegisteredStep {
    /// Definition of the step.
    pub def: &'static StepDef,
    /// The values that its body takes from the program.
    pub needs: &'static [Need],
    /// How the body reaches its database, where its code says it; see [`Step::TRANSACTION`].
    pub transaction: Option<&'static str>,
    body: fn() -> Arc<dyn Body>,
}

impl RegisteredStep {
    /// The erased form of `S`.
    pub const fn of<S: Step>() -> Self {
        Self { def: S::DEF, needs: S::NEEDS, transaction: S::TRANSACTION, body: StepBody::<S>::shared }
    }

    /// Every step that is linked into this program.
    pub fn linked() -> impl Iterator<Item = &'static Self> {
        inventory::iter::<Self>.into_iter().chain(linked_items())
    }

    /// The step's function, type-erased.
    pub fn body(&self) -> Arc<dyn Body> {
        (self.body)()
    }
}

impl Debug for RegisteredStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegisteredStep({})", self.def.path)
    }
}

inventory::collect!(RegisteredStep);

/// What `#[step]` registers of a step without type parameters.
pub fn linked_step<S: Step>() -> LinkedItem {
    let Declared { name, function, fingerprint, file, line, .. } = S::DECLARED;
    let class = Some(S::DEF.options.class);
    LinkedItem {
        code: LinkedCode { function, name, file, line, fingerprint, mentions: &[], class },
        item: Some(const { &RegisteredStep::of::<S>() }),
    }
}
