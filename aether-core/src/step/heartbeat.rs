//! Signs of life of a step's body, as the body gives them: that it lives, and how far it says it has come.
//!
//! Promise: nothing here waits for a store; the newest progress is what the body told last.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;

use crate::vocabulary::payload::Payload;

/// What one execution of a body tells of itself.
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

    /// The body is alive; `progress` is how far it has come.
    pub(crate) fn beat(&self, progress: Option<Payload>) {
        let mut state = self.lock();
        if progress.is_some() {
            state.progress = progress;
            state.unsaved = true;
        }
        drop(state);
        self.beat.notify_one();
    }

    /// Says what an earlier execution reported.
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

    /// Newly reported progress, once: the store does not have it yet.
    pub(crate) fn take_unsaved(&self) -> Option<Payload> {
        let mut state = self.lock();
        if std::mem::take(&mut state.unsaved) { state.progress.clone() } else { None }
    }

    /// Whether the store lacks progress that was reported.
    pub(crate) fn is_unsaved(&self) -> bool {
        self.lock().unsaved
    }

    /// Ends at the next sign of life, or at one that came since this was asked last.
    pub(crate) async fn next_beat(&self) {
        self.beat.notified().await;
    }
}
