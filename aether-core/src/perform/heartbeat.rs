//! Watching a body's heartbeats: the heartbeat timeout, and saving the progress that the body reports.
//!
//! Promise: a body without a heartbeat for longer than its step declares counts as lost; the newest progress is saved in
//! the store, at most a second late and without growing the journal, for the next attempt.

use std::future::{pending, ready};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, select};

use crate::perform::call::StepCall;
use crate::step::context::StepCx;
use crate::step::heartbeat::Heartbeats;

/// Shortest time between two writes of the progress of one body.
const THROTTLE: Duration = Duration::from_secs(1);

impl StepCall {
    /// Saves new progress in the store. An error is logged and not a fault: progress only saves work.
    pub(crate) async fn save_progress(&self, heartbeats: &Heartbeats) {
        let Some(progress) = heartbeats.take_unsaved() else { return };
        let progress = self.run.shared.redaction.value(progress);
        let (run, command) = (&self.run, &self.command);
        if let Err(error) = run.shared.store.save_progress(&run.id, run.epoch, command, progress).await {
            tracing::warn!(target: "aether::step", run = %run.id, %command, %error, "the progress of a step was not kept");
        }
    }

    /// Ends when there was no heartbeat for `limit`, the time left out in which the body waits for the store. Saves progress in the meantime.
    ///
    /// It waits for three things at once: the next heartbeat, the timeout, and the end of the pause after the last save.
    /// While a save is under way it polls none of them, so a slow store delays the detection of a lost body by as long as
    /// it takes to answer. A heartbeat in that time is not lost: `Notify` keeps it for the next round.
    pub(crate) async fn heartbeat_timeout(&self, cx: &StepCx, limit: Duration) {
        let (environment, heartbeats) = (&self.run.shared.environment, cx.heartbeats());
        let mut quiet = self.has_run_for(cx, limit);
        // Ready: the first progress is saved at once.
        let mut rested: BoxFuture<'static, ()> = Box::pin(ready(()));
        loop {
            // A pause that has ended must not be polled again, and is not: it is replaced below after each save.
            let unsaved = heartbeats.is_unsaved();
            let save = pin!(async { if unsaved { (&mut rested).await } else { pending().await } });
            // The heartbeat is polled first: one that came at the last instant counts.
            match select(pin!(heartbeats.next_beat()), select(&mut quiet, save)).await {
                Either::Left(_) => quiet = self.has_run_for(cx, limit),
                Either::Right((Either::Left(_), _)) => return,
                Either::Right((Either::Right(_), _)) => {
                    self.save_progress(heartbeats).await;
                    rested = environment.sleep(THROTTLE.min(limit));
                }
            }
        }
    }
}
