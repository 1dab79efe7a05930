//! Signs of life of a step's body: how long it was silent, and how far it says it has come.
//!
//! Promise: a body that is silent for longer than its step declares counts as lost; the newest progress it told is
//! kept by the store, at most a second late and without growing the journal, for the next attempt.

use std::future::{pending, ready};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, select};
use tokio::sync::Notify;

use crate::id::CommandId;
use crate::payload::Payload;
use crate::run::Run;

/// Shortest time between two writes of the progress of one body.
const THROTTLE: Duration = Duration::from_secs(1);

/// What one execution of a body tells of itself.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    /// Progress that an earlier execution told.
    before: OnceLock<Payload>,
    told: Mutex<Told>,
    beat: Notify,
}

#[derive(Debug, Default)]
struct Told {
    progress: Option<Payload>,
    /// The store does not have it yet.
    unsaved: bool,
}

impl Heartbeats {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body is alive; `progress` is how far it has come.
    pub(crate) fn beat(&self, progress: Option<Payload>) {
        let mut told = self.told();
        if progress.is_some() {
            told.progress = progress;
            told.unsaved = true;
        }
        drop(told);
        self.beat.notify_one();
    }

    /// Says what an earlier execution told.
    pub(crate) fn begin_after(&self, progress: Option<Payload>) {
        if let Some(progress) = progress {
            let _first = self.before.set(progress);
        }
    }

    /// The newest progress of an earlier execution.
    pub(crate) fn before(&self) -> Option<&Payload> {
        self.before.get()
    }

    /// The newest progress, of this execution or of an earlier one.
    pub(crate) fn newest(&self) -> Option<Payload> {
        self.told().progress.clone().or_else(|| self.before.get().cloned())
    }

    /// Gives newly told progress to the store.
    pub(crate) async fn save(&self, run: &Run, command: &CommandId) {
        let progress = {
            let mut told = self.told();
            if !std::mem::take(&mut told.unsaved) {
                return;
            }
            told.progress.clone()
        };
        let Some(progress) = progress else { return };
        let store = &run.host.store;
        if let Err(error) = store.save_progress(&run.id, run.epoch, command, progress).await {
            tracing::warn!(run = %run.id, %command, %error, "the progress of a step was not kept");
        }
    }

    /// Ends when the body was silent for `limit`. Keeps its progress meanwhile.
    pub(crate) async fn silence(&self, run: &Run, command: &CommandId, limit: Duration) {
        let world = &run.host.world;
        let mut quiet = world.sleep(limit);
        let mut rested: BoxFuture<'static, ()> = Box::pin(ready(()));
        loop {
            let unsaved = self.told().unsaved;
            let save = pin!(async { if unsaved { (&mut rested).await } else { pending().await } });
            match select(pin!(self.beat.notified()), select(&mut quiet, save)).await {
                Either::Left(_) => quiet = world.sleep(limit),
                Either::Right((Either::Left(_), _)) => return,
                Either::Right((Either::Right(_), _)) => {
                    self.save(run, command).await;
                    rested = world.sleep(THROTTLE.min(limit));
                }
            }
        }
    }
}
