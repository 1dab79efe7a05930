//! Whether a claim is still held.
//!
//! Promise: no body that may change the world begins unless this worker renewed less than three quarters of a lease ago,
//! by a clock that nobody sets, and in the database that has the run. A pause between the intent and the body therefore ends in a look at the store.

use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::run::leases::RENEWAL_RETRY;
use crate::store::error::AppendError;
use crate::store::workers::LostRun;
use crate::vocabulary::id::Epoch;

impl Run {
    /// Returns when the lease on this run is known to hold for a while. Never returns when it is lost.
    pub(crate) async fn hold_lease(&self) {
        let shared = &self.shared;
        let is_held = || {
            shared.leases.are_fresh(shared.environment.monotonic())
                && shared.store.is_renewed(&shared.worker, &self.id)
        };
        while !is_held() {
            match shared.renew(Vec::new()).await {
                Ok(lost) => {
                    if let Some(lost) = lost.iter().find(|lost| self.is_lost(lost)) {
                        return self.stop(self.lost(lost.epoch)).await;
                    }
                    if !shared.store.is_renewed(&shared.worker, &self.id) {
                        tracing::warn!(target: "aether::run", run = %self.id, "a body waits, because the lease on its run cannot be renewed");
                        shared.environment.sleep(RENEWAL_RETRY.min(shared.leases.lease)).await;
                    }
                }
                Err(error) => {
                    tracing::warn!(target: "aether::run", run = %self.id, %error, "a body waits, because leases cannot be renewed");
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
