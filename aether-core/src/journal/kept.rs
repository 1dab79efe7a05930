//! Of a fork: the calls of its origin whose recorded outcomes it takes over when it asks for the same calls.
//!
//! Promise: an outcome goes only to a call of the same step with the same arguments, and to one call only.

use crate::journal::event::forked::ForkDecision;
use crate::journal::event::{Event, ForkDecided, OutcomeKept};
use crate::journal::obligations::undoes_another;
use crate::vocabulary::id::CommandId;
use crate::vocabulary::payload::Digest;

/// The kept calls that nothing has taken over yet, in the order in which the origin made them.
#[derive(Debug, Default)]
pub(crate) struct KeptCalls(Vec<ForkDecided>);

impl KeptCalls {
    /// Applies the next event of the fork's journal.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::ForkDecided(e) if e.decision == ForkDecision::Keep => self.0.push(e.clone()),
            Event::OutcomeKept(e) => self.0.retain(|kept| !takes_over(e, kept)),
            _ => {}
        }
    }

    /// The calls that are left.
    pub(crate) fn open(&self) -> &[ForkDecided] {
        &self.0
    }

    /// The call that `command` takes over. Of several equal ones that of the same command, else the oldest: code that
    /// changed behind the cut may ask for the call in another place.
    pub(crate) fn take(&mut self, command: &CommandId, digest: &Digest) -> Option<ForkDecided> {
        if self.0.is_empty() || undoes_another(command) {
            return None;
        }
        let fits = |kept: &ForkDecided| kept.origin.name() == command.name() && kept.digest == *digest;
        let same = self.0.iter().position(|kept| kept.origin == *command && fits(kept));
        let at = same.or_else(|| self.0.iter().position(fits))?;
        Some(self.0.remove(at))
    }
}

/// Whether `kept` is what became of `decided`.
pub(crate) fn takes_over(kept: &OutcomeKept, decided: &ForkDecided) -> bool {
    kept.origin == decided.origin && kept.digest.as_ref().is_none_or(|digest| *digest == decided.digest)
}
