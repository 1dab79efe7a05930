//! What a program says about a tool: whether it changes the world, and what is done when an answer is lost.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aether_core::definition::def::{Approval, OnUnknown, Retry, StepOptions, TOOL_TIMEOUT};
use aether_core::outcome::EffectClass;
use aether_core::payload::Payload;

use crate::input::{InputAnswer, InputQuestion};
use crate::list::ToolHints;

/// Default time for a task.
const TASK_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Says of the arguments of a call whether it needs approval.
#[derive(Clone)]
pub(crate) struct ApprovalRule(pub(crate) Arc<dyn Fn(&Payload) -> bool + Send + Sync>);

/// Answers for the program what a tool asks for.
#[derive(Clone)]
pub(crate) struct Responder(pub(crate) Arc<Answers>);

type Answers = dyn Fn(&InputQuestion) -> Option<InputAnswer> + Send + Sync;

impl fmt::Debug for ApprovalRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApprovalRule")
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}

impl PartialEq for ApprovalRule {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl PartialEq for Responder {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What a program says about a tool. Without a word a tool changes the world: its intent is durable before it is called,
/// it is called once, and an outcome that nobody knows is [`InDoubt`](aether_core::failure::StepError::InDoubt).
///
/// ```
/// use aether_mcp::Contract;
/// let search = Contract::read();
/// let create = Contract::tool().key_argument("request_id").idempotent();
/// let close = Contract::tool().needs_approval().timeout(std::time::Duration::from_secs(5));
/// assert_ne!(search, create);
/// assert_ne!(close, Contract::default());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Contract {
    pub(crate) options: StepOptions,
    pub(crate) timeout: Duration,
    pub(crate) key_argument: Option<String>,
    pub(crate) approval_rule: Option<ApprovalRule>,
    pub(crate) responder: Option<Responder>,
    pub(crate) input_expires: Option<Duration>,
    pub(crate) task_timeout: Duration,
    retry: Option<Retry>,
}

impl Default for Contract {
    fn default() -> Self {
        Self::tool()
    }
}

impl Contract {
    /// A tool that may change the world.
    pub fn tool() -> Self {
        Self::of(EffectClass::Tool)
    }

    /// A tool that changes nothing. It needs no intent, and it is tried again as reads are.
    pub fn read() -> Self {
        Self::of(EffectClass::Read)
    }

    /// What a server says about its tool, believed: one that says `readOnlyHint` is a read, and one that says
    /// `idempotentHint` is called again when its answer was lost. Anything else is [`Contract::tool`].
    ///
    /// A server that is wrong about itself makes calls repeat: believe those that you run or know.
    ///
    /// ```
    /// use aether_mcp::{Contract, ToolHints};
    /// let hints = ToolHints { read_only: Some(true), ..ToolHints::default() };
    /// assert_eq!(Contract::trusting(&hints), Contract::read());
    /// assert_eq!(Contract::trusting(&ToolHints::default()), Contract::tool());
    /// ```
    pub fn trusting(hints: &ToolHints) -> Self {
        Self::tool().believing(hints)
    }

    /// This contract, lowered to what the hints say.
    pub(crate) fn believing(&self, hints: &ToolHints) -> Self {
        match (hints.read_only, hints.idempotent) {
            (Some(true), _) => {
                let read = Self::read();
                let options = StepOptions { approval: self.options.approval, ..read.options };
                Self { options, ..self.clone() }
            }
            (_, Some(true)) => self.clone().idempotent(),
            _ => self.clone(),
        }
    }

    fn of(class: EffectClass) -> Self {
        // The call has a timeout of its own, which can tell whether anything was sent.
        let options = StepOptions { timeout: None, ..StepOptions::of(class) };
        Self {
            options,
            timeout: TOOL_TIMEOUT,
            key_argument: None,
            approval_rule: None,
            responder: None,
            input_expires: None,
            task_timeout: TASK_TIMEOUT,
            retry: None,
        }
    }

    /// Says that the server spots repeats, by the key in the call: a call whose answer was lost is made again under the
    /// same key, and one that definitely was not made is tried again.
    ///
    /// The key stands in `_meta["dev.aether/idempotencyKey"]` of every call. Few servers look there: see
    /// [`Contract::key_argument`]. A tool that does the same however often it is called needs no key.
    pub fn idempotent(mut self) -> Self {
        self.options.idempotent = self.options.class.changes_world();
        self
    }

    /// Puts the idempotency key into this argument as well, for servers that take one there. It is added when the call is
    /// made, and is not part of the recorded arguments.
    pub fn key_argument(mut self, name: impl Into<String>) -> Self {
        self.key_argument = Some(name.into());
        self
    }

    /// A person must agree before the tool is called.
    pub fn needs_approval(mut self) -> Self {
        self.options.approval = Approval::Required;
        self.approval_rule = None;
        self
    }

    /// A person must agree before the tool is called, where `rule` says so of its arguments. The rule is asked once, before the
    /// call; one that panics requires approval.
    ///
    /// ```
    /// use aether_mcp::Contract;
    /// #[derive(serde::Deserialize)]
    /// struct Transfer { cents: u64 }
    /// let large = |args: &aether_core::payload::Payload| args.decode::<Transfer>().map_or(true, |it| it.cents > 100_00);
    /// let transfer = Contract::tool().needs_approval_when(large);
    /// ```
    pub fn needs_approval_when(mut self, rule: impl Fn(&Payload) -> bool + Send + Sync + 'static) -> Self {
        if self.options.approval != Approval::Required {
            self.options.approval = Approval::ByArguments;
            self.approval_rule = Some(ApprovalRule(Arc::new(rule)));
        }
        self
    }

    /// Lets the program answer what the tool asks for in the middle of a call. `None` leaves a question to a person. The
    /// function runs as workflow code does, so its answer must follow from the question; and an answer that does not fit the
    /// requested schema ends the call.
    ///
    /// ```
    /// use aether_mcp::{Contract, InputAnswer, InputQuestion};
    /// let never = |asked: &InputQuestion| asked.url.is_some().then_some(InputAnswer::Decline);
    /// let transfer = Contract::tool().answered_by(never);
    /// ```
    pub fn answered_by(
        mut self,
        answers: impl Fn(&InputQuestion) -> Option<InputAnswer> + Send + Sync + 'static,
    ) -> Self {
        self.responder = Some(Responder(Arc::new(answers)));
        self
    }

    /// How long a person has for an answer that the tool asks for; it gets [`InputAnswer::Cancel`] then. Without it a question
    /// stays open until it is answered.
    pub fn input_expires(mut self, limit: Duration) -> Self {
        self.input_expires = Some(limit);
        self
    }

    /// Time for a task, where the server makes one of the call. Default 24 h. After it the server is told to cancel the task.
    pub fn task_timeout(mut self, timeout: Duration) -> Self {
        self.task_timeout = timeout;
        self
    }

    /// The run waits for an operator when nobody knows whether a call happened, where it would otherwise get an error.
    pub fn ask_when_unknown(mut self) -> Self {
        self.options.on_unknown = OnUnknown::Ask;
        self
    }

    /// When another attempt is made at a call of a [`Contract::read`], or of one that is [`Contract::idempotent`]; any other
    /// is made once. By default the engine's policy for reads holds, and three retries for idempotent calls.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Time for one call, connecting to the server not included. Default 30 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Whether a call may change the world.
    pub fn changes_world(&self) -> bool {
        self.options.class.changes_world()
    }

    /// The options of a later round of a call, which was approved at its beginning.
    pub(crate) fn later_options(&self) -> StepOptions {
        StepOptions { approval: Approval::Never, ..self.step_options() }
    }

    /// The options of a call as a step of the engine.
    pub(crate) fn step_options(&self) -> StepOptions {
        // What undoes a call that became a task is to cancel the task, if it still runs.
        StepOptions { compensated: true, ..self.options }.retried(self.retry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOLS: [Option<bool>; 3] = [None, Some(false), Some(true)];

    #[test]
    fn every_combination_of_hints_has_its_class_retry_and_policy() {
        for read_only in BOOLS {
            for idempotent in BOOLS {
                for destructive in BOOLS {
                    for open_world in BOOLS {
                        let hints = ToolHints { read_only, idempotent, destructive, open_world };
                        let options = Contract::trusting(&hints).step_options();
                        let expected = if read_only == Some(true) {
                            (EffectClass::Read, None, OnUnknown::Fail)
                        } else if idempotent == Some(true) {
                            (EffectClass::Tool, Some(Retry::times(3)), OnUnknown::Retry)
                        } else {
                            (EffectClass::Tool, None, OnUnknown::Fail)
                        };
                        assert_eq!((options.class, options.retry, options.on_unknown), expected, "{hints:?}");
                        assert_eq!(options.approval, Approval::Never, "{hints:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_call_that_is_not_idempotent_is_made_once_whatever_is_said_about_retries() {
        let once = Contract::tool().retry(Retry::times(9)).step_options();
        assert_eq!((once.retry, once.on_unknown), (None, OnUnknown::Fail));
        let asked = Contract::tool().idempotent().ask_when_unknown().step_options();
        assert_eq!(asked.on_unknown, OnUnknown::Ask);
        assert!(!Contract::read().idempotent().step_options().idempotent);
    }
}
