//! The places that runs have: among the active ones, and among those that are being read.
//!
//! Promise: a place is given back however the task of its run ends, also where it is dropped with its runtime. A drain that
//! has taken the task gives the place back itself, and only after the task has ended: a drain that is dropped puts the task
//! back.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use crate::engine::inner::{Active, Cell, Inner};
use crate::run::claim::Run;
use crate::run::end::RunEnd;
use crate::sched::{AtomicBool, JoinHandle, mutated};

/// The place of a run among the active ones, held by its task.
pub(super) struct Place {
    inner: Arc<Inner>,
    run: Arc<Run>,
    cell: Arc<Cell>,
    /// Set by who lists the run, and by its task if that is dropped: the second of them removes it. A runtime that has ended
    /// drops the task where it is begun, and there the list is locked.
    listed: Arc<AtomicBool>,
    has_left: bool,
}

impl Place {
    pub(super) fn new(inner: &Arc<Inner>, run: &Arc<Run>, cell: Arc<Cell>) -> Self {
        let (inner, run, listed) = (Arc::clone(inner), Arc::clone(run), Arc::default());
        Self { inner, run, cell, listed, has_left: false }
    }

    pub(super) fn listed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.listed)
    }

    /// The run's task is over, and with an `end` the run is.
    ///
    /// An end of the run is durable by now. The run leaves the active ones first, then its end is delivered: a caller that
    /// sees it finds the run no longer in flight here, so that its place is free and a shutdown does not wait for it. A
    /// handle that looks between the two finds neither, and reads the end from the store. A run that was stopped may have
    /// been claimed again, so its cell is no longer this claim's: `release_run` has set it.
    pub(super) fn leave(mut self, end: Option<RunEnd>) {
        self.has_left = true;
        remove_active(&self.inner, &self.run, end.is_some());
        if let Some(end) = end {
            self.cell.set(Some(end));
            self.inner.shared.streams.tell_readers(&self.run.id);
        }
    }

    /// Leaves it to the drain that has taken the task, if one has: it releases the run, which is active until then.
    fn is_left_to_a_drain(&self) -> bool {
        let mut active = self.inner.active();
        let place = active.get_mut(&self.run.id);
        let place = place.filter(|place| Arc::ptr_eq(&place.run, &self.run) && place.task.is_none());
        place.is_some_and(|place| {
            place.is_dropped = true;
            true
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.has_left || mutated("destructors-escape") || !self.listed.swap(true, Ordering::AcqRel) {
            return;
        }
        if !self.is_left_to_a_drain() {
            remove_active(&self.inner, &self.run, false);
            // Who waits for its end looks again.
            self.cell.changed.notify_waiters();
        }
    }
}

/// The task of an active run, taken by a drain that waits for it. Completes with whether the run has left its place by itself,
/// as one does that has released its run; a task that was dropped or aborted has not.
pub(crate) struct TakenTask {
    inner: Arc<Inner>,
    pub(crate) run: Arc<Run>,
    /// `None` once it has ended.
    task: Option<JoinHandle<()>>,
}

impl TakenTask {
    /// Takes it out of a place; `None` where that has been done.
    pub(crate) fn out_of(inner: &Arc<Inner>, place: &mut Active) -> Option<Self> {
        let task = Some(place.task.take()?);
        Some(Self { inner: Arc::clone(inner), run: Arc::clone(&place.run), task })
    }

    /// Has the task dropped as soon as it leaves its thread.
    pub(crate) fn abort(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }

    /// Puts the task back, unless it has ended.
    fn is_put_back(&mut self) -> bool {
        let mut active = self.inner.active();
        let place = active.get_mut(&self.run.id);
        let place = place.filter(|place| Arc::ptr_eq(&place.run, &self.run) && !place.is_dropped);
        match (place, self.task.take()) {
            (Some(place), Some(task)) => {
                place.task = Some(task);
                true
            }
            _ => false,
        }
    }
}

impl Future for TakenTask {
    type Output = bool;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(task) = &mut self.task else { return Poll::Ready(false) };
        let has_left = ready!(Pin::new(task).poll(cx)).is_ok();
        self.task = None;
        Poll::Ready(has_left)
    }
}

impl Drop for TakenTask {
    fn drop(&mut self) {
        if !self.is_put_back() {
            remove_active(&self.inner, &self.run, false);
            // Who waits for its end looks again.
            self.inner.cell(&self.run.id).changed.notify_waiters();
        }
        self.inner.unstuck.notify_waiters();
    }
}

/// Removes a run from the active ones, and wakes the scheduler if that may let another run be claimed: one that found no
/// place, one behind this one in its queue, or this one, which is not `over`.
fn remove_active(inner: &Inner, run: &Run, over: bool) {
    let mut active = inner.active();
    // A later claim of the same run is not this one's to remove, nor another run of the same id.
    if active.get(&run.id).is_some_and(|a| std::ptr::eq(&*a.run, run)) {
        active.remove(&run.id);
    }
    drop(active);
    let was_short = inner.short_of_room.swap(false, Ordering::AcqRel);
    if was_short || run.queued || !over {
        inner.wake_scheduler.notify_one();
    }
}

/// The place of a claimed run that is being read.
pub(super) struct Loading(Arc<Inner>);

impl Loading {
    /// Takes a place for each of so many runs.
    pub(super) fn of(inner: &Arc<Inner>, runs: usize) -> Vec<Self> {
        // At once: who counts in between would find room that is taken.
        inner.loading.fetch_add(runs, Ordering::AcqRel);
        (0..runs).map(|_| Self(Arc::clone(inner))).collect()
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.0.loading.fetch_sub(1, Ordering::AcqRel);
    }
}
