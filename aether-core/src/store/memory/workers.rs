//! Workers in memory: their renewals, and what was taken from them.
//!
//! Promise: a run that was taken from a worker is told at each of its renewals until it has noticed.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::sched::HashMap;
use crate::store::workers::{KnownWorker, LostRun, Serving, SilentWorker, WorkerRecord};
use crate::vocabulary::id::{CodeId, WorkerId};
use crate::vocabulary::queue::Serves;

/// The workers that have registered or renewed.
#[derive(Debug, Default)]
pub(super) struct Workers(HashMap<WorkerId, Worker>);

#[derive(Debug, Default)]
struct Worker {
    renewals: u64,
    lease: Duration,
    /// What it can advance.
    codes: Vec<CodeId>,
    serves: Serves,
    /// Runs that were taken from it and that it has not noticed.
    lost: BTreeSet<LostRun>,
}

impl Workers {
    /// Adds a worker unless one of that name is known; says whether it did.
    pub(super) fn register(&mut self, worker: &WorkerId, lease: Duration, codes: Vec<CodeId>) -> bool {
        let is_free = !self.0.contains_key(worker);
        if is_free {
            self.0.insert(worker.clone(), Worker { lease, codes, ..Worker::default() });
        }
        is_free
    }

    /// What the others can advance, each once. The content ends with its process, so none of them is known to be dead.
    pub(super) fn codes_elsewhere(&self, me: &WorkerId) -> Vec<CodeId> {
        let others = self.0.iter().filter(|(id, _)| *id != me);
        let codes: BTreeSet<_> = others.flat_map(|(_, worker)| &worker.codes).collect();
        codes.into_iter().cloned().collect()
    }

    /// Keeps which runs a registered worker takes.
    pub(super) fn serve(&mut self, worker: &WorkerId, serves: Serves) {
        if let Some(worker) = self.0.get_mut(worker) {
            worker.serves = serves;
        }
    }

    /// What each of the others can advance and takes.
    pub(super) fn serving_elsewhere(&self, me: &WorkerId) -> Vec<Serving> {
        let others = self.0.iter().filter(|(id, _)| *id != me);
        let serving =
            others.map(|(_, worker)| Serving { codes: worker.codes.clone(), serves: worker.serves.clone() });
        serving.collect()
    }

    pub(super) fn renew(&mut self, worker: &WorkerId, lease: Duration, noticed: &[LostRun]) -> Vec<LostRun> {
        let worker = self.0.entry(worker.clone()).or_default();
        worker.renewals += 1;
        worker.lease = lease;
        worker.lost.retain(|lost| !noticed.contains(lost));
        worker.lost.iter().cloned().collect()
    }

    /// Those of `watched` that have not renewed since.
    pub(super) fn still_silent(&self, watched: &[SilentWorker]) -> Vec<WorkerId> {
        let is_silent = |silent: &&SilentWorker| self.renewals(&silent.id) == silent.renewals;
        watched.iter().filter(is_silent).map(|silent| silent.id.clone()).collect()
    }

    /// Keeps that a run was taken from a worker. One that never registered has nobody who could notice.
    pub(super) fn take_from(&mut self, worker: &WorkerId, lost: LostRun) {
        if let Some(worker) = self.0.get_mut(worker) {
            worker.lost.insert(lost);
        }
    }

    pub(super) fn record(&self, id: &WorkerId) -> WorkerRecord {
        let lease = self.0.get(id).map(|worker| worker.lease);
        WorkerRecord { id: id.clone(), renewals: self.renewals(id), lease }
    }

    /// Every worker; `runs` counts those that one holds.
    pub(super) fn known(&self, runs: impl Fn(&WorkerId) -> u64) -> Vec<KnownWorker> {
        let known = self.0.iter().map(|(id, worker)| KnownWorker {
            id: id.clone(),
            renewals: worker.renewals,
            lease: Some(worker.lease),
            codes: worker.codes.clone(),
            serves: worker.serves.clone(),
            runs: runs(id),
            is_dead: false,
        });
        known.collect()
    }

    pub(super) fn forget(&mut self, worker: &WorkerId) {
        self.0.remove(worker);
    }

    fn renewals(&self, worker: &WorkerId) -> u64 {
        self.0.get(worker).map_or(0, |worker| worker.renewals)
    }
}
