//! Whether a claim is still held.
//!
//! Promise: no body that may change the world begins unless this worker renewed less than three quarters of a lease ago,
//! by a clock that nobody sets, and in the database that has the run, and the store has said since the worker's last
//! silence that the run is its own. A pause between the intent and the body therefore ends in a look at the store, whoever renews first
//! after it: whether this worker was told of a loss, and whether the run is still its own. The list of losses alone does not
//! say so: it goes with a run that is deleted, and with a worker that was forgotten.

use std::sync::atomic::Ordering;

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
        // Whether it was held since the last silence of this worker is asked last: who renews says it before he has renewed.
        if shared.leases.are_fresh(shared.environment.monotonic())
            && is_renewed()
            && self.held.load(Ordering::Acquire) > shared.lapses()
        {
            return;
        }
        loop {
            let began = shared.environment.monotonic();
            match shared.renew(Vec::new()).await {
                Ok(lost) => {
                    if let Some(lost) = lost.iter().find(|lost| self.is_lost(lost)) {
                        return self.stop(self.lost(lost.epoch)).await;
                    }
                    let lapses = shared.lapses();
                    if let Some(fault) = self.taken_meanwhile().await {
                        return self.stop(fault).await;
                    }
                    self.is_held_after(lapses);
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

    /// The store said that this claim is held, after there had been so many `lapses`.
    pub(super) fn is_held_after(&self, lapses: u64) {
        self.held.fetch_max(lapses.saturating_add(1), Ordering::AcqRel);
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

    /// The fault of a run that was begun before its creation was durable, where that came to nothing: a run of its id is
    /// somebody else's.
    pub(crate) fn unborn(&self) -> Fault {
        Fault::Append(AppendError::unborn(self.id.clone(), self.epoch))
    }

    /// The fault of a claim after which another worker, or an end, came at `epoch`.
    pub(crate) fn lost(&self, epoch: Epoch) -> Fault {
        let (run, held, found) = (self.id.clone(), self.epoch, epoch.saturating_add(1));
        Fault::Append(AppendError::StaleEpoch { run, held, found })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::definition::def::StepOptions;
    use crate::journal::event::{Event, RunRequeued};
    use crate::perform::tests::stage::{Stage, now, run_id};
    use crate::run::append::AppendExtras;
    use crate::store::api::Store as _;
    use crate::store::append::StatusChange;
    use crate::store::purge::Purged;
    use crate::vocabulary::contract::Status;
    use crate::vocabulary::outcome::EffectClass;

    const PAUSE: Duration = Duration::from_secs(3_600);

    fn append(run: &Arc<Run>, status: Option<Status>) {
        let event = || RunRequeued { worker: "worker".to_owned().into(), reason: String::new() };
        let status = status.map(|status| StatusChange {
            status,
            wake_at: None,
            release: false,
            seen: 0,
            notify: None,
        });
        let events: Vec<Event> = vec![event().into()];
        now(run.append_durably(events, None, AppendExtras { status, ..AppendExtras::default() }));
    }

    /// The keeper renews, and nothing was taken from this worker that the store still knows of.
    fn renew(run: &Run) {
        let taken = LostRun { run: run_id(), epoch: run.epoch };
        assert_eq!(now(run.shared.renew(vec![taken])).unwrap(), []);
    }

    fn is_held(run: &Run) -> bool {
        run.hold_lease().now_or_never().is_some()
    }

    #[test]
    fn a_run_that_was_taken_ended_and_deleted_in_a_pause_is_not_held() {
        let stage = Stage::new(StepOptions::of(EffectClass::Tool));
        let run = stage.take_up();
        append(&run, None);
        assert!(is_held(&run));
        stage.pause(PAUSE);
        let other = stage.take_up();
        append(&other, Some(Status::Completed));
        assert_eq!(now(stage.store.purge(&run_id(), None)).unwrap(), Purged::Deleted);
        renew(&run);
        assert!(!is_held(&run));
        assert!(
            matches!(run.fault(), Some(Fault::Store(StoreError::UnknownRun { .. }))),
            "{:?}",
            run.fault()
        );
    }

    #[test]
    fn a_run_that_nobody_took_in_a_pause_is_held_after_one_look() {
        let stage = Stage::new(StepOptions::of(EffectClass::Tool));
        let run = stage.take_up();
        append(&run, None);
        stage.pause(PAUSE);
        renew(&run);
        assert!(run.held.load(Ordering::Acquire) <= run.shared.lapses());
        assert!(is_held(&run));
        assert!(run.held.load(Ordering::Acquire) > run.shared.lapses());
    }

    #[test]
    fn what_was_asked_before_a_pause_says_nothing_of_the_time_after_it() {
        let stage = Stage::new(StepOptions::of(EffectClass::Tool));
        let run = stage.take_up();
        let asked = run.shared.lapses();
        stage.pause(PAUSE);
        renew(&run);
        run.is_held_after(asked);
        assert!(run.held.load(Ordering::Acquire) <= run.shared.lapses());
    }
}
