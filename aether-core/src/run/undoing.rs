//! Where those meet who undo one step, and what is recorded of the call that undoes it.
//!
//! Promise: one of them does it; who comes later waits for that one, or goes on where it was dropped, once the race that
//! dropped it has said what became of its calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::journal::event::Event;
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::sched::{AtomicBool, AtomicUsize, Notify, OnceCell};
use crate::store::pages::Pages;
use crate::store::read::events;
use crate::vocabulary::id::CommandId;

/// Events that are read at once.
const PAGE: u64 = 2_000;

/// The undoing of one step in this process.
#[derive(Debug)]
pub(crate) struct Undoing {
    pub(crate) is_done: OnceCell<()>,
    /// Somebody has begun, and may have been dropped since.
    pub(crate) is_begun: AtomicBool,
}

impl Default for Undoing {
    fn default() -> Self {
        Self { is_done: OnceCell::new(), is_begun: false.into() }
    }
}

impl Run {
    /// What the journal holds of the commands that `of` holds for. All that was appended so far is durable by then.
    pub(crate) async fn recorded_of(&self, of: impl Fn(&CommandId) -> bool + Sync) -> Vec<Event> {
        self.durable_so_far().await;
        let (store, began) = (&*self.shared.store, self.generation.began);
        self.insist(|| {
            Box::pin(async {
                let (mut found, mut pages) = (Vec::new(), Pages::new(store, &self.id, began, PAGE));
                while let Some(frames) = pages.next().await? {
                    let read = events(store, &self.id, &frames).await?;
                    found.extend(read.into_iter().filter(|event| event.command().is_some_and(&of)));
                }
                Ok(found)
            })
        })
        .await
    }

    /// The command `by` makes this call that undoes a step, whose place says who made it first.
    pub(crate) fn note_undoer(&self, call: &CommandId, by: &CommandId) {
        self.lock().undoers.insert(call.clone(), by.clone());
    }

    /// Whether a command is lost with the branches of these scopes. A call that undoes a step is lost with who makes it.
    pub(super) fn is_lost_with(&self, command: &CommandId, scopes: &[String]) -> bool {
        let state = self.lock();
        let maker = state.undoers.get(command).unwrap_or(command);
        scopes.iter().any(|scope| maker.is_within(scope))
    }

    /// Records that a call was not made which somebody dropped between its intent and its body: who goes on with it makes
    /// it.
    pub(crate) async fn settle_uncalled(&self, call: &CommandId) -> Result<(), Fault> {
        if self.has_uncalled(call) {
            let (events, extras) = self.abandon(|of| of == call).await?;
            self.append(events, extras);
        }
        Ok(())
    }
}

/// Races whose losers are dropped and whose decisions are not appended yet.
#[derive(Debug, Default)]
pub(crate) struct Deciding {
    count: AtomicUsize,
    fewer: Notify,
}

impl Deciding {
    /// A race is about to be decided, until this is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Decision {
        self.count.fetch_add(1, Ordering::AcqRel);
        Decision(Arc::clone(self))
    }

    /// Waits until no race is about to be decided.
    pub(crate) async fn is_over(&self) {
        loop {
            let fewer = self.fewer.notified();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            fewer.await;
        }
    }
}

/// A race that is about to be decided.
#[derive(Debug)]
pub(crate) struct Decision(Arc<Deciding>);

impl Drop for Decision {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.fewer.notify_waiters();
    }
}
