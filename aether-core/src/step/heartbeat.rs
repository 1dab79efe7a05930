//! Heartbeats of a step's body, as the body sends them: that it is alive, and its progress.
//!
//! Promise: nothing here waits for a store; the newest progress is the one that the body reported last.

use std::sync::{MutexGuard, PoisonError};

use crate::sched::{Mutex, Notify, OnceLock};
use crate::vocabulary::payload::Payload;

/// The heartbeats of one execution of a body.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    /// Progress that an earlier execution reported.
    before: OnceLock<Payload>,
    state: Mutex<Progress>,
    beat: Notify,
}

#[derive(Debug, Default)]
struct Progress {
    progress: Option<Payload>,
    /// The store does not have it yet.
    unsaved: bool,
}

impl Heartbeats {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a heartbeat, with the body's progress if it could be encoded.
    pub(crate) fn beat(&self, progress: Option<Payload>) {
        let mut state = self.lock();
        if progress.is_some() {
            state.progress = progress;
            state.unsaved = true;
        }
        drop(state);
        // `notify_one` keeps one permit, so that a heartbeat between two waits is not lost.
        self.beat.notify_one();
    }

    /// Sets the progress that an earlier execution reported.
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
        self.lock().progress.clone().or_else(|| self.before.get().cloned())
    }

    /// Progress that the store does not have yet; returned once.
    pub(crate) fn take_unsaved(&self) -> Option<Payload> {
        let mut state = self.lock();
        if std::mem::take(&mut state.unsaved) { state.progress.clone() } else { None }
    }

    /// Whether there is progress that the store does not have yet.
    pub(crate) fn is_unsaved(&self) -> bool {
        self.lock().unsaved
    }

    /// Completes at the next heartbeat, or at once if one came since it completed last.
    pub(crate) async fn next_beat(&self) {
        self.beat.notified().await;
    }
}
