//! The order of a run's appends while one of them executes a body.
//!
//! Promise: a step begins when everything that its run queued before is answered; what the run queues meanwhile waits until
//! the step is answered, or is queued behind its append. Other runs notice nothing. A lane ends, whatever becomes of the
//! runtimes in which the store was opened and the body is called.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aether_core::id::RunId;
use aether_core::store::{Append, StoreError, Work};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use crate::database::Database;
use crate::network;
use crate::work::{Done, Step};
use crate::writer::Op;
use crate::writer::batch::{Group, Item, Write};
use crate::writer::recover::answer;

/// An append, and the unit of work that it carries, with the runtime of its run.
type Queued = (Box<Write>, Option<(Box<dyn Work>, Handle)>);

type Waiting = HashMap<RunId, VecDeque<Queued>>;

/// The runs that are in a transaction step, each with what waits behind it.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// How many there are: most appends need not look further.
    busy: AtomicUsize,
    waiting: Mutex<Waiting>,
    idle: Notify,
}

/// Where bodies are called: in the runtime of the run that appends.
fn body_runtime() -> Handle {
    Handle::try_current().unwrap_or_else(|_| network::runtime())
}

/// Where an append goes.
enum Entry {
    /// To the writer.
    Free(Box<Write>),
    /// It begins a lane.
    Begins(Queued),
    /// Behind a step of its run.
    Waits,
}

impl Lanes {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, mut append: Append) -> Entry {
        let work = append.work.take().map(|work| (work, body_runtime()));
        let append = Box::new(Write::from(append));
        if work.is_none() && self.busy.load(Ordering::Acquire) == 0 {
            return Entry::Free(append);
        }
        let mut waiting = self.waiting();
        match waiting.get_mut(&append.run) {
            Some(behind) => {
                behind.push_back((append, work));
                Entry::Waits
            }
            None if work.is_none() => Entry::Free(append),
            None => {
                waiting.insert(append.run.clone(), VecDeque::new());
                self.busy.store(waiting.len(), Ordering::Release);
                Entry::Begins((append, work))
            }
        }
    }

    /// What the run queued next. `None` ends its lane.
    fn next(&self, run: &RunId) -> Option<Queued> {
        let mut waiting = self.waiting();
        let next = waiting.get_mut(run).and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.remove(run);
            // After everything of the lane was queued: who sees the number queues behind it.
            self.busy.store(waiting.len(), Ordering::Release);
            self.idle.notify_waiters();
        }
        next
    }

    /// Waits until no run is in a step.
    pub(crate) async fn idle(&self) {
        loop {
            let changed = self.idle.notified();
            if self.busy.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }
}

impl Database {
    /// See [`Store::append`](aether_core::store::Store::append).
    pub(crate) fn append(self: &Arc<Self>, append: Append) {
        match self.lanes.enter(append) {
            Entry::Free(append) => self.queue_append(append),
            Entry::Waits => {}
            Entry::Begins(first) => {
                drop(network::runtime().spawn(Arc::clone(self).serve_lane(first)));
            }
        }
    }

    async fn serve_lane(self: Arc<Self>, first: Queued) {
        let run = first.0.run.clone();
        let mut next = Some(first);
        while let Some(append) = next {
            self.pass_lane(append).await;
            next = self.lanes.next(&run);
        }
    }

    async fn pass_lane(&self, (append, work): Queued) {
        let Some((work, runtime)) = work else { return self.queue_append(append) };
        // The body's outcome is known only behind the body; what depends on it cannot be decided before.
        if append.acquire.is_some() || append.renews.is_some() || append.unless_asked_to_end {
            let reason = "an append with a unit of work acquires and renews nothing".to_owned();
            let store = self.name.to_string();
            return append.ack.failed(StoreError::ContractBroken { store, reason }.into());
        }
        self.written_before(&append.run).await;
        let step = Step { group: Group::new(Item::new(append)), work: Some(work), runtime };
        match self.execute(step).await {
            Done::Durable(group, head) => {
                self.passed(&group, head);
                group.items.into_iter().for_each(answer);
            }
            Done::Plain(group) => group.items.into_iter().for_each(|item| self.queue_append(item.append)),
            Done::Failed(group, error) => {
                self.heads.forget(&group.run);
                group.items.into_iter().for_each(|item| item.append.ack.failed(error.clone()));
            }
        }
    }

    /// Waits until everything that the run queued is answered. Where the writer has ended, nothing is on its way.
    async fn written_before(&self, run: &RunId) {
        let (reply, answered) = oneshot::channel();
        let barrier = Op::Barrier(run.clone(), reply);
        if self.writers.get().is_some_and(|writers| writers.send(run.as_str(), barrier).is_ok()) {
            let _the_writer_has_ended = answered.await;
        }
    }
}
