//! What a program says about a tool of an agent: whether it changes the world, and what is done when an answer is lost.

use std::time::Duration;

use aether_core::definition::def::{Approval, OnUnknown, Retry, StepOptions};
use aether_core::outcome::EffectClass;

/// What a program says about a tool. Without a word a tool changes the world: its intent is durable before it is called,
/// it is called once, and an outcome that nobody knows is [`InDoubt`](aether_core::failure::StepError::InDoubt).
///
/// ```
/// use aether_rig::Contract;
/// let search = Contract::read();
/// let refund = Contract::tool().needs_approval();
/// let close = Contract::tool().idempotent().timeout(std::time::Duration::from_secs(5));
/// assert_ne!(search, refund);
/// assert_ne!(close, Contract::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contract {
    options: StepOptions,
    retry: Option<Retry>,
}

impl Default for Contract {
    fn default() -> Self {
        Self::tool()
    }
}

impl Contract {
    /// A tool that may change the world.
    pub const fn tool() -> Self {
        Self { options: StepOptions::of(EffectClass::Tool), retry: None }
    }

    /// A tool that changes nothing. It needs no intent, and it is tried again as reads are.
    pub const fn read() -> Self {
        Self { options: StepOptions::of(EffectClass::Read), retry: None }
    }

    /// Says that repeating a call does no harm, or that the tool hands
    /// [`IdempotencyKey`](crate::IdempotencyKey) to a receiver that spots repeats by it: a call whose answer was lost is
    /// made again under the same key, and one that definitely failed is tried again.
    pub const fn idempotent(mut self) -> Self {
        self.options.idempotent = self.options.class.changes_world();
        self
    }

    /// A person must agree before the tool is called.
    pub const fn needs_approval(mut self) -> Self {
        self.options.approval = Approval::Required;
        self
    }

    /// The run waits for an operator when nobody knows whether a call happened, where the agent would otherwise end.
    pub const fn ask_when_unknown(mut self) -> Self {
        self.options.on_unknown = OnUnknown::Ask;
        self
    }

    /// When another attempt is made at a call of a [`Contract::read`], or of one that is [`Contract::idempotent`]; any other
    /// is made once. By default the engine's policy for reads holds, and three retries for idempotent calls.
    pub const fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Time for one call. Default 30 s for a tool that may change the world, and none for a read.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Whether a call may change the world.
    pub const fn changes_world(&self) -> bool {
        self.options.class.changes_world()
    }

    /// The options of a call as a step of the engine.
    pub(crate) fn step_options(&self) -> StepOptions {
        self.options.retried(self.retry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_to_be_harmless_is_called_once() {
        let plain = Contract::default().step_options();
        assert_eq!((plain.class, plain.retry, plain.on_unknown), (EffectClass::Tool, None, OnUnknown::Fail));
        let once = Contract::tool().retry(Retry::times(9)).step_options();
        assert_eq!((once.retry, once.on_unknown), (None, OnUnknown::Fail));
    }

    #[test]
    fn idempotent_calls_are_repeated_and_reads_are_tried_again() {
        let idempotent = Contract::tool().idempotent().step_options();
        assert_eq!((idempotent.retry, idempotent.on_unknown), (Some(Retry::times(3)), OnUnknown::Retry));
        let asked = Contract::tool().idempotent().ask_when_unknown().step_options();
        assert_eq!(asked.on_unknown, OnUnknown::Ask);
        let read = Contract::read().idempotent().retry(Retry::times(2)).step_options();
        assert_eq!(
            (read.class, read.idempotent, read.retry),
            (EffectClass::Read, false, Some(Retry::times(2)))
        );
    }
}
