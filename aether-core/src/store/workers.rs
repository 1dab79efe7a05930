//! Workers as the store knows them: how a lease is renewed, seen to be silent, and lost.
//!
//! Promise: nothing here holds a time of day. A lease is a count that its owner raises; whoever wants to take a run over
//! watches the count with a monotonic clock of its own. A clock that leaps takes no run from a live worker.

use std::time::Duration;

use crate::vocabulary::id::{CodeId, Epoch, RunId, WorkerId};
use crate::vocabulary::queue::Serves;

/// A worker that holds runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRecord {
    /// The worker.
    pub id: WorkerId,
    /// How often it has renewed its leases. A worker that lives raises it about four times in each lease.
    pub renewals: u64,
    /// How long the number of renewals must have stayed the same before another worker may take its runs over. `None` for
    /// a worker that never said: then the lease of the worker that watches counts.
    pub lease: Option<Duration>,
}

/// A worker that is registered, whether or not it holds runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownWorker {
    /// The worker.
    pub id: WorkerId,
    /// How often it has renewed its leases. One that never held a run may never have.
    pub renewals: u64,
    /// Its lease; `None` for a worker that never said.
    pub lease: Option<Duration>,
    /// What it can advance; empty for a client.
    pub codes: Vec<CodeId>,
    /// Which runs it takes.
    pub serves: Serves,
    /// How many runs it holds.
    pub runs: u64,
    /// Whether its process is known to have died: others may take its runs at once.
    pub is_dead: bool,
}

impl KnownWorker {
    /// What is known of a worker that holds runs.
    pub fn of(WorkerRecord { id, renewals, lease }: WorkerRecord) -> Self {
        Self { id, renewals, lease, codes: Vec::new(), serves: Serves::ALL, runs: 1, is_dead: false }
    }
}

/// Which runs a worker advances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serving {
    /// Those of these codes.
    pub codes: Vec<CodeId>,
    /// Those that this allows.
    pub serves: Serves,
}

/// A worker whose leases another worker has seen expire: it watched for a whole lease, and there was no renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentWorker {
    /// The worker that was watched.
    pub id: WorkerId,
    /// Its number of renewals. A store gives its runs away only if it still is the same when the claim is written.
    pub renewals: u64,
}

/// A run that was taken from a worker while it was silent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LostRun {
    /// The run.
    pub run: RunId,
    /// The epoch at which the worker held it.
    pub epoch: Epoch,
}
