//! Of a fork: the calls of its origin whose recorded outcomes it takes over when it asks for the same calls.
//!
//! Promise: an outcome goes only to a call of the same step with the same arguments, whatever their encoding, and to one
//! call only.

use crate::journal::event::forked::ForkDecision;
use crate::journal::event::{Event, ForkDecided, OutcomeKept};
use crate::vocabulary::id::CommandId;
use crate::vocabulary::payload::Digest;

/// The kept calls that nothing has taken over yet, in the order in which the origin made them.
#[derive(Debug, Default)]
pub(crate) struct KeptCalls {
    calls: Vec<KeptCall>,
    decided: usize,
}

/// A kept call, and the number under which the fork knows it.
pub(crate) type KeptCall = (usize, ForkDecided);

impl KeptCalls {
    /// Applies the next event of the fork's journal.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::ForkDecided(e) => {
                if e.decision == ForkDecision::Keep {
                    self.calls.push((self.decided, e.clone()));
                }
                self.decided += 1;
            }
            Event::OutcomeKept(e) => {
                if let Some(at) = self.calls.iter().position(|(_, kept)| takes_over(e, kept)) {
                    self.calls.remove(at);
                }
            }
            _ => {}
        }
    }

    /// The calls that are left.
    pub(crate) fn open(&self) -> impl Iterator<Item = &KeptCall> {
        self.calls.iter()
    }

    /// The calls that `command` may take over, by the name of what it calls.
    pub(crate) fn candidates(&self, command: &CommandId) -> Vec<KeptCall> {
        self.calls.iter().filter(|(_, kept)| kept.origin.name() == command.name()).cloned().collect()
    }

    /// Takes this call out, so that no other command gets its outcome.
    pub(crate) fn take(&mut self, taken: &ForkDecided) {
        if let Some(at) = self.calls.iter().position(|(_, kept)| kept == taken) {
            self.calls.remove(at);
        }
    }
}

/// Of the calls that fit what `command` asks for, the one that it takes over: of several that of the same command, else
/// the oldest, because code that changed behind the cut may ask for the call in another place. One that is recorded as it
/// is asked for goes before one that has to be read again.
pub(crate) fn choose(
    candidates: Vec<ForkDecided>,
    command: &CommandId,
    digest: &Digest,
    is_same: impl Fn(&ForkDecided) -> bool,
) -> Option<ForkDecided> {
    let mut fitting: Vec<_> =
        candidates.into_iter().filter(|kept| kept.digest == *digest || is_same(kept)).collect();
    fitting.sort_by_key(|kept| (kept.digest != *digest, kept.origin != *command));
    fitting.into_iter().next()
}

/// Whether `kept` is what became of `decided`.
pub(crate) fn takes_over(kept: &OutcomeKept, decided: &ForkDecided) -> bool {
    kept.origin == decided.origin && kept.digest.as_ref().is_none_or(|digest| *digest == decided.digest)
}
