//! Claims in memory: who gets which run, and who holds any.
//!
//! Promise: a run that was taken from a silent worker is kept for that worker's next renewal.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::store::memory::content::{Content, Run};
use crate::store::queueing::places_of_queues;
use crate::store::records::{ClaimRequest, Lease};
use crate::store::workers::{KnownWorker, LostRun, WorkerRecord};
use crate::vocabulary::id::{RunId, WorkerId};

impl Run {
    /// Whether only its queue can give it its next turn. A run of a silent worker has one.
    fn waits_for_a_turn(&self) -> bool {
        self.record.terms.queue.is_some() && self.record.owner.is_none()
    }
}

impl Content {
    pub(super) fn claim(&mut self, request: &ClaimRequest) -> Vec<Lease> {
        let silent = self.workers.still_silent(&request.silent);
        if !request.adopt.is_empty() {
            let is_free =
                |run: &Run| run.is_free(&silent) && request.serves.takes(run.record.terms.queue.as_ref());
            let free = request.adopt.iter().filter(|id| self.runs.get(*id).is_some_and(is_free));
            let free: BTreeSet<_> = free.cloned().collect();
            return free.iter().filter_map(|id| self.lease_chosen(id, request)).collect();
        }
        let is_own = |run: &&Run| !run.record.parked && request.codes.contains(&run.record.code);
        let mut found: Vec<(Option<Timestamp>, RunId)> = self
            .created
            .values()
            .filter_map(|id| self.runs.get(id))
            .filter(|run| run.is_free(&silent))
            .filter(is_own)
            .filter(|run| request.serves.takes(run.record.terms.queue.as_ref()))
            .filter(|run| request.only.is_some() || !run.waits_for_a_turn())
            .filter(|run| match &request.only {
                Some(only) => run.record.id == *only,
                None => run.is_due(request.now),
            })
            .map(|run| (run.record.wake_at, run.record.id.clone()))
            .collect();
        found.sort_by_key(|(wake_at, _)| *wake_at);
        if request.only.is_some() {
            return found.iter().filter_map(|(_, id)| self.lease_chosen(id, request)).collect();
        }
        let room = places_of_queues(request.limit, found.len(), request.others_first);
        let queued = self.take_queued(request, room);
        found.truncate(request.limit.saturating_sub(queued.len()));
        let due = found.iter().filter_map(|(_, id)| self.lease(id, request, true)).collect::<Vec<_>>();
        let queued =
            queued.iter().filter_map(|(id, slot)| self.lease(id, request, *slot)).collect::<Vec<_>>();
        due.into_iter().chain(queued).collect()
    }

    fn lease_chosen(&mut self, id: &RunId, request: &ClaimRequest) -> Option<Lease> {
        if !self.may_take(id, request) {
            return None;
        }
        self.lease(id, request, true)
    }

    fn lease(&mut self, id: &RunId, request: &ClaimRequest, slot: bool) -> Option<Lease> {
        let run = self.runs.get_mut(id)?;
        // A run of a silent worker keeps what its lease allowed.
        if run.record.terms.queue.is_some() && run.record.owner.is_none() {
            run.slot = slot;
            if slot {
                run.record.queue.started_at.get_or_insert(request.now);
                run.lapses_at = None;
            }
        }
        // The new owner reads the store after this, so it sees what the notification was about.
        run.notified = None;
        // Raised together with the owner: from here on every append of the old owner is stale.
        let former = LostRun { run: id.clone(), epoch: run.record.epoch };
        run.record.epoch += 1;
        let owner = run.record.owner.replace(request.worker.clone());
        let run = run.record.clone();
        if let Some(owner) = &owner {
            self.workers.take_from(owner, former);
        }
        Some(Lease { run, taken_from: owner })
    }

    pub(super) fn holders(&self) -> Vec<WorkerRecord> {
        let owners: BTreeSet<_> = self.runs.values().filter_map(|run| run.record.owner.as_ref()).collect();
        owners.into_iter().map(|owner| self.workers.record(owner)).collect()
    }

    pub(super) fn known_workers(&self) -> Vec<KnownWorker> {
        let held = |worker: &WorkerId| {
            self.runs.values().filter(|run| run.record.owner.as_ref() == Some(worker)).count() as u64
        };
        self.workers.known(held)
    }

    pub(super) fn retire(&mut self, worker: &WorkerId) {
        let held = self.runs.values_mut().filter(|run| run.record.owner.as_ref() == Some(worker));
        held.for_each(Run::release);
        self.workers.forget(worker);
    }
}
