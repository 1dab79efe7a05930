//! The leases of this worker, as its runs see them: renewed, known to hold, or lost.
//!
//! Promise: no body that may change the world begins unless this worker renewed less than three quarters of a lease ago,
//! by a clock that nobody sets. A pause between the intent and the body therefore ends in a look at the store.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::run::shared::EngineShared;
use crate::sched::AtomicU64;
use crate::store::error::{AppendError, StoreError};
use crate::store::workers::LostRun;
use crate::vocabulary::id::Epoch;

/// Wait before a failed renewal is tried again.
pub(crate) const RENEWAL_RETRY: Duration = Duration::from_millis(250);

/// When this worker renewed its leases.
#[derive(Debug)]
pub(crate) struct Leases {
    /// How long another worker must see this one silent before it may take its runs over.
    pub(crate) lease: Duration,
    /// When the newest renewal that was written began; microseconds by the monotonic clock.
    renewed: AtomicU64,
}

impl Leases {
    /// The leases of a worker that registered at `at`.
    pub(crate) fn new(lease: Duration, at: Duration) -> Self {
        Self { lease, renewed: micros(at).into() }
    }

    /// Whether the leases hold for at least a quarter of their length from `now` on.
    fn are_fresh(&self, now: Duration) -> bool {
        let limit = micros(self.lease).saturating_mul(3) / 4;
        micros(now).saturating_sub(self.renewed.load(Ordering::Acquire)) < limit
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl EngineShared {
    /// Renews the leases of this worker. Returns the runs that others took from it; `noticed` are those of which nothing
    /// is in flight here any more.
    pub(crate) async fn renew(&self, noticed: Vec<LostRun>) -> Result<Vec<LostRun>, StoreError> {
        // Read before the store is asked: a slow store makes the leases look older than they are, never younger.
        let began = micros(self.environment.monotonic());
        let lost = self.store.renew(&self.worker, self.leases.lease, noticed).await?;
        self.leases.renewed.fetch_max(began, Ordering::AcqRel);
        Ok(lost)
    }
}

impl Run {
    /// Returns when the lease on this run is known to hold for a while. Never returns when it is lost.
    pub(crate) async fn hold_lease(&self) {
        let shared = &self.shared;
        while !shared.leases.are_fresh(shared.environment.monotonic()) {
            match shared.renew(Vec::new()).await {
                Ok(lost) => {
                    if let Some(lost) = lost.iter().find(|lost| self.is_lost(lost)) {
                        return self.stop(self.lost(lost.epoch)).await;
                    }
                }
                Err(error) => {
                    tracing::warn!(run = %self.id, %error, "a body waits, because leases cannot be renewed");
                    shared.environment.sleep(RENEWAL_RETRY.min(shared.leases.lease)).await;
                }
            }
        }
    }

    /// Whether `lost` is this claim, or a later one of this run.
    pub(crate) fn is_lost(&self, lost: &LostRun) -> bool {
        lost.run == self.id && self.epoch <= lost.epoch
    }

    /// The fault of a claim after which another worker, or an end, came at `epoch`.
    pub(crate) fn lost(&self, epoch: Epoch) -> Fault {
        let (run, held, found) = (self.id.clone(), self.epoch, epoch.saturating_add(1));
        Fault::Append(AppendError::StaleEpoch { run, held, found })
    }
}
