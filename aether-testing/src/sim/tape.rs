//! What one simulation hands to another: answers of stubs, and draws of workflow code.
//!
//! Promise: an answer belongs to one idempotency key and a draw to one command, so that order does not matter.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aether_core::id::{CommandId, IdempotencyKey, RunId};
use aether_core::journal::history::RecordedResult;
use aether_core::step::BodyResult;

/// What stubs answered in a first simulation, to answer the same in a second one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape {
    answers: Arc<Mutex<BTreeMap<IdempotencyKey, BodyResult>>>,
    plays: bool,
}

impl Tape {
    /// Takes answers down.
    pub(crate) fn recording(&self) -> Self {
        Self { plays: false, ..self.clone() }
    }

    /// Gives the answers that were taken down. A stub is called all the same, and may wait.
    pub(crate) fn playing(&self) -> Self {
        Self { plays: true, ..self.clone() }
    }

    pub(crate) fn pass(&self, key: IdempotencyKey, answer: BodyResult) -> BodyResult {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if self.plays {
            return answers.get(&key).cloned().unwrap_or(answer);
        }
        answers.insert(key, answer.clone());
        answer
    }
}

/// The draws of workflow code by run and command. One that a crash took along is drawn again with the same value, and so
/// is one of another simulation that shares them.
pub(crate) type Draws = Arc<Mutex<BTreeMap<(RunId, CommandId), RecordedResult>>>;
