//! Listening to a body's heartbeats: how long it was silent, and keeping how far it says it has come.
//!
//! Promise: a body that is silent for longer than its step declares counts as lost; the newest progress it told is
//! kept by the store, at most a second late and without growing the journal, for the next attempt.

use std::future::{pending, ready};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, select};

use crate::perform::call::StepCall;
use crate::step::heartbeat::Heartbeats;

/// Shortest time between two writes of the progress of one body.
const THROTTLE: Duration = Duration::from_secs(1);

impl StepCall {
    /// Gives newly told progress to the store.
    pub(crate) async fn save_progress(&self, heartbeats: &Heartbeats) {
        let Some(progress) = heartbeats.take_unsaved() else { return };
        let (run, command) = (&self.run, &self.command);
        if let Err(error) = run.shared.store.save_progress(&run.id, run.epoch, command, progress).await {
            tracing::warn!(run = %run.id, %command, %error, "the progress of a step was not kept");
        }
    }

    /// Ends when the body was silent for `limit`. Keeps its progress meanwhile.
    pub(crate) async fn heartbeat_timeout(&self, heartbeats: &Heartbeats, limit: Duration) {
        let environment = &self.run.shared.environment;
        let mut quiet = environment.sleep(limit);
        let mut rested: BoxFuture<'static, ()> = Box::pin(ready(()));
        loop {
            let unsaved = heartbeats.is_unsaved();
            let save = pin!(async { if unsaved { (&mut rested).await } else { pending().await } });
            match select(pin!(heartbeats.next_beat()), select(&mut quiet, save)).await {
                Either::Left(_) => quiet = environment.sleep(limit),
                Either::Right((Either::Left(_), _)) => return,
                Either::Right((Either::Right(_), _)) => {
                    self.save_progress(heartbeats).await;
                    rested = environment.sleep(THROTTLE.min(limit));
                }
            }
        }
    }
}
