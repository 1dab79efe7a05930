//! What a program says about a tool: whether it changes the world, and what is done when an answer is lost.

use std::time::Duration;

use aether_core::definition::def::{Approval, OnUnknown, Retry, StepOptions, TOOL_TIMEOUT};
use aether_core::outcome::EffectClass;

use crate::list::ToolHints;

/// Retries of an idempotent call by default. Each attempt has a key of its own, so a long series of them would hide from
/// the server that it is one call.
const IDEMPOTENT_RETRIES: u32 = 3;

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
        match (hints.read_only, hints.idempotent) {
            (Some(true), _) => Self::read(),
            (_, Some(true)) => Self::tool().idempotent(),
            _ => Self::tool(),
        }
    }

    fn of(class: EffectClass) -> Self {
        // The call has a timeout of its own, which can tell whether anything was sent.
        let options = StepOptions { timeout: None, ..StepOptions::of(class) };
        Self { options, timeout: TOOL_TIMEOUT, key_argument: None, retry: None }
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

    /// The options of a call as a step of the engine.
    pub(crate) fn step_options(&self) -> StepOptions {
        let mut options = self.options;
        if !self.changes_world() {
            options.retry = self.retry;
        } else if options.idempotent {
            options.retry = Some(self.retry.unwrap_or(Retry::times(IDEMPOTENT_RETRIES)));
            if options.on_unknown == OnUnknown::Fail {
                options.on_unknown = OnUnknown::Retry;
            }
        }
        options
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
