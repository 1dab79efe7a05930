//! Whether a claim is still held.
//!
//! Promise: no body that may change the world begins unless this worker renewed less than three quarters of a lease ago,
//! by a clock that nobody sets, and in the database that has the run. A pause between the intent and the body therefore ends
//! in a look at the store: whether this worker was told of a loss, and whether the run is still its own. The list of losses
//! alone does not say so: it goes with a run that is deleted, and with a worker that was forgotten.

use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::run::leases::RENEWAL_RETRY;
use crate::store::error::{AppendError, StoreError};
use crate::store::workers::LostRun;
use crate::vocabulary::id::Epoch;

impl Run {
    /// Returns when the lease on this run is known to hold for a while. Never returns when it is lost.
    pub(crate) async fn hold_lease(&self) {
        let shared = &self.shared;
        let is_renewed = || shared.store.is_renewed(&shared.worker, &self.id);
        if shared.leases.are_fresh(shared.environment.monotonic()) && is_renewed() {
            return;
        }
        loop {
            let began = shared.environment.monotonic();
            match shared.renew(Vec::new()).await {
                Ok(lost) => {
                    if let Some(lost) = lost.iter().find(|lost| self.is_lost(lost)) {
                        return self.stop(self.lost(lost.epoch)).await;
                    }
                    if let Some(fault) = self.taken_meanwhile().await {
                        return self.stop(fault).await;
                    }
                    // By this renewal: as long as a loss of another run is not noticed, it counts for this run alone.
                    if shared.leases.hold(began, shared.environment.monotonic()) && is_renewed() {
                        return;
                    }
                    tracing::warn!(target: "aether::run", run = %self.id, "a body waits, because the lease on its run cannot be renewed");
                }
                Err(error) => {
                    tracing::warn!(target: "aether::run", run = %self.id, %error, "a body waits, because leases cannot be renewed");
                }
            }
            shared.environment.sleep(RENEWAL_RETRY.min(shared.leases.lease)).await;
        }
    }

    /// The fault of a claim that the store does not know any more.
    async fn taken_meanwhile(&self) -> Option<Fault> {
        let shared = &self.shared;
        match self.insist(|| shared.store.run(&self.id)).await {
            Some(run) if run.epoch == self.epoch && run.owner.as_ref() == Some(&shared.worker) => None,
            Some(run) if run.epoch > self.epoch => Some(self.lost(run.epoch.saturating_sub(1))),
            // Deleted, and perhaps created again.
            _ => Some(StoreError::UnknownRun { run: self.id.clone() }.into()),
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
