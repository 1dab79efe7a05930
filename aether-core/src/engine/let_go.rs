//! Claims that are given back because nobody advanced their runs.
//!
//! Promise: such a claim is known until nobody can be told of it any more: who has it does not begin.

use crate::sched::HashMap;
use crate::vocabulary::id::{Epoch, RunId};

/// Each with the number of the first admission that cannot be told of it any more: none, as long as this worker may own the
/// run.
#[derive(Debug, Default)]
pub(super) struct LetGo(HashMap<RunId, (Epoch, Option<u64>)>);

impl LetGo {
    pub(super) fn add(&mut self, run: &RunId, epoch: Epoch) {
        self.0.insert(run.clone(), (epoch, None));
    }

    /// Nobody is told of the claim by admissions from `next` on.
    pub(super) fn is_free(&mut self, run: &RunId, next: u64) {
        if let Some((_, until)) = self.0.get_mut(run) {
            until.get_or_insert(next);
        }
    }

    /// Whether this claim is given back, or a later one of the run.
    pub(super) fn has(&self, run: &RunId, epoch: Epoch) -> bool {
        self.0.get(run).is_some_and(|(given_back, _)| epoch <= *given_back)
    }

    /// Those of which nobody knows whether this worker still owns the run, because a release failed.
    pub(super) fn unsure(&self) -> Vec<(RunId, Epoch)> {
        let unsure = self.0.iter().filter(|(_, (_, until))| until.is_none());
        unsure.map(|(run, (epoch, _))| (run.clone(), *epoch)).collect()
    }

    /// Forgets those that nobody can have any more.
    pub(super) fn forget(&mut self, ended_before: impl Fn(u64) -> bool) {
        self.0.retain(|_, (_, until)| until.is_none_or(|until| !ended_before(until)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_is_given_back_is_known_until_nobody_can_have_it() {
        let (run, mut let_go) = (RunId::new("a").unwrap(), LetGo::default());
        let_go.add(&run, 3);
        assert!(let_go.has(&run, 3) && let_go.has(&run, 2) && !let_go.has(&run, 4));
        // As long as its release is not answered, whoever asks may be told of it.
        let_go.forget(|_| true);
        assert!(let_go.has(&run, 3));
        assert_eq!(let_go.unsure(), [(run.clone(), 3)]);
        let_go.is_free(&run, 8);
        assert_eq!(let_go.unsure(), []);
        let_go.forget(|number| number < 8);
        assert!(let_go.has(&run, 3), "an admission that began before may have it");
        let_go.forget(|number| number <= 8);
        assert!(!let_go.has(&run, 3));
    }
}
