//! Runs that this worker owns and does not advance: those of which a store carried something out and said that it failed,
//! or answered after nobody waited any more.
//!
//! Promise: such a run is released by the second look that finds it, a lease after the first, whatever led there, and its
//! next claim launches it. A run that is being claimed, created, read or released is left to whoever does that. Who is told
//! of a claim only later, while it is given back, does not launch the run.

use crate::engine::inner::{Inner, now};
use crate::sched::{HashMap, mutated};
use crate::store::error::StoreError;
use crate::vocabulary::id::{Epoch, RunId};

/// What earlier looks found: each run with its epoch, and the number of the first admission that began later.
#[derive(Debug, Default)]
pub(super) struct Orphans(HashMap<RunId, (Epoch, u64)>);

impl Orphans {
    /// Looks, and releases what was found before. The caller lets a lease pass between two looks.
    pub(super) async fn release(&mut self, inner: &Inner) -> Result<(), StoreError> {
        if !inner.settings.advances || mutated("released-once") {
            return Ok(());
        }
        let began = inner.admissions.next();
        let held = inner.shared.store.held(&inner.shared.worker).await?;
        let ended_before = |number| inner.admissions.ended_before(number);
        inner.let_go().forget(ended_before);
        // Whether a release that failed took effect, its repetition says: that a run is not found says nothing where a part of
        // the store does not answer.
        let mut left_behind = inner.let_go().unsure();
        let found = {
            let active = inner.active();
            held.into_iter().filter(|(run, _)| !active.contains_key(run)).collect::<Vec<_>>()
        };
        left_behind.extend(self.note(found, began, ended_before));
        left_behind.sort();
        left_behind.dedup();
        // With several databases, one that does not answer holds up no run of the others.
        let mut failed = Ok(());
        for (run, epoch) in left_behind {
            let released = self.release_one(inner, run, epoch).await;
            failed = failed.and(released);
        }
        failed
    }

    /// Notes what a look found that began when the next admission was to have the number `began`; returns what was found
    /// before. Whoever had to do with such a run then has ended and left it behind: a later claim has another epoch.
    fn note(
        &mut self,
        found: Vec<(RunId, Epoch)>,
        began: u64,
        ended_before: impl Fn(u64) -> bool,
    ) -> Vec<(RunId, Epoch)> {
        let former = std::mem::take(&mut self.0);
        let mut left_behind = Vec::new();
        for (run, epoch) in found {
            let known = former.get(&run).filter(|(known, _)| *known == epoch);
            let since = known.map_or(began, |(_, since)| *since);
            if known.is_some() && ended_before(since) {
                left_behind.push((run.clone(), epoch));
            }
            self.0.insert(run, (epoch, since));
        }
        left_behind
    }

    async fn release_one(&mut self, inner: &Inner, run: RunId, epoch: Epoch) -> Result<(), StoreError> {
        let Some(_admission) = inner.admit().await else { return Ok(()) };
        {
            // In one piece with the look at it: a launch looks at both under this lock.
            let active = inner.active();
            if active.contains_key(&run) {
                return Ok(());
            }
            inner.let_go().add(&run, epoch);
        }
        tracing::warn!(target: "aether::engine", %run, epoch, "a run was owned here and not advanced; it is released");
        match inner.shared.store.release(&inner.shared.worker, &run, epoch, now(inner)).await {
            Ok(()) | Err(StoreError::UnknownRun { .. }) => {
                inner.let_go().is_free(&run, inner.admissions.next());
                self.0.remove(&run);
                inner.wake_scheduler.notify_one();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(epoch: Epoch) -> Vec<(RunId, Epoch)> {
        vec![(RunId::new("a").unwrap(), epoch)]
    }

    #[test]
    fn what_two_looks_find_is_released() {
        let mut orphans = Orphans::default();
        assert_eq!(orphans.note(found(1), 5, |_| true), []);
        assert_eq!(orphans.note(found(1), 9, |_| true), found(1));
        // Its release failed.
        assert_eq!(orphans.note(found(1), 9, |_| true), found(1));
    }

    #[test]
    fn what_was_claimed_in_between_is_found_anew() {
        let mut orphans = Orphans::default();
        assert_eq!(orphans.note(found(1), 5, |_| true), []);
        assert_eq!(orphans.note(found(2), 9, |_| true), []);
        assert_eq!(orphans.note(Vec::new(), 12, |_| true), []);
        assert_eq!(orphans.note(found(2), 15, |_| true), []);
    }

    #[test]
    fn what_is_still_being_claimed_or_created_is_left_alone() {
        let mut orphans = Orphans::default();
        // The fourth admission began before the first look and has not ended.
        assert_eq!(orphans.note(found(1), 5, |_| true), []);
        assert_eq!(orphans.note(found(1), 9, |number| number <= 4), []);
        assert_eq!(orphans.note(found(1), 20, |number| number <= 5), found(1));
    }
}
