//! Draining an engine: it takes no more runs, and releases those that it has.
//!
//! Promise: nothing is cancelled, and a run is released only after its appends are durable. A drained engine still
//! starts runs for others, answers what waits, and reads.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, join, join_all, select};

use crate::engine::advance::launch::{record_known, release_run};
use crate::engine::advance::place::TakenTask;
use crate::engine::drained::Drained;
use crate::engine::inner::{Engine, Inner};
use crate::engine::whole::continued;
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::store::error::StoreError;

/// How long a drain waits for the appends of a run that it cut off.
pub(super) const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

impl Engine {
    /// Takes no more runs, gives bodies in flight `patience` to finish, and releases every run: other workers resume them
    /// at once. Unlike [`Engine::shutdown`] it leaves the engine open: like a [client](crate::engine::EngineBuilder::client)
    /// it starts runs that others advance, answers what waits, and reads, so that a web service serves its last requests.
    /// It starts no ticks of schedules, and [`Health::is_ready`](crate::engine::Health::is_ready) is false from the
    /// first moment.
    ///
    /// There is one drain, which nothing takes back: of several calls the first one drains, and all return its result.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use std::time::Duration;
    /// # async fn example(engine: Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// let drained = engine.drain(Duration::from_secs(20)).await?;
    /// println!("{} runs released, {} cut off", drained.in_time, drained.cut_off);
    /// engine.shutdown().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the runtime ends meanwhile.
    pub async fn drain(&self, patience: Duration) -> Result<Drained, StoreError> {
        let inner = Arc::clone(&self.inner);
        // A caller that is dropped leaves no half-drained engine behind.
        continued(&self.inner, async move { Ok(drained(&inner, patience).await) }).await
    }

    /// Whether the engine is draining, was drained, or is shut down: it takes no more runs.
    pub fn is_draining(&self) -> bool {
        !self.inner.takes_runs()
    }

    /// Ends the patience of a drain or a shutdown that is under way, or of the next one: what is still in flight is cut
    /// off. For a second signal of an operator who does not want to wait.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # async fn example(engine: Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.end_patience();
    /// engine.shutdown().await?;
    /// # Ok(()) }
    /// ```
    pub fn end_patience(&self) {
        self.inner.hurried.store(true, Ordering::Release);
        self.inner.hurry.notify_waiters();
    }
}

/// Drains once. The engine is draining as soon as this is polled.
pub(super) async fn drained(inner: &Arc<Inner>, patience: Duration) -> Drained {
    *inner.drained.get_or_init(|| release_all(inner, patience)).await
}

/// Releases all runs. May be dropped at any point, with a runtime: it is done again from the beginning, with what is left of
/// the patience.
async fn release_all(inner: &Arc<Inner>, patience: Duration) -> Drained {
    let now = inner.shared.environment.monotonic();
    let patience = inner.patient_until.get_or_init(|| now.saturating_add(patience)).saturating_sub(now);
    // 1. Nothing new: nothing is claimed and nothing is launched. Under the lock of the active runs, so that a run is
    // either among them, with its task, or not launched.
    let taken: Vec<TakenTask> = {
        let mut active = inner.active();
        inner.draining.store(true, Ordering::Release);
        active.values_mut().filter_map(|place| TakenTask::out_of(inner, place)).collect()
    };
    inner.wake_scheduler.notify_one();
    inner.wake_ticking.notify_one();
    let mut ends: Vec<BoxFuture<'_, bool>> = Vec::new();
    for task in taken {
        // 2. Every run is asked to stop before the first one is waited for. Its task ends when nothing is in flight, and
        // then releases the run itself.
        task.run.begin_stopping();
        ends.push(Box::pin(release(inner, task, patience)));
    }
    // 3. Runs that were just being claimed or created are released by whoever does that. A store that does not answer is
    // not waited for longer than the bodies are.
    let admitted = async {
        let limit = inner.shared.environment.sleep(patience.saturating_add(FLUSH_PATIENCE));
        let _released_or_stuck = select(Box::pin(inner.admissions.ended()), limit).await;
    };
    let (cut_off, ()) = join(join_all(ends), admitted).await;
    let all = cut_off.len();
    let cut_off = cut_off.into_iter().filter(|cut_off| *cut_off).count();
    Drained { in_time: all - cut_off, cut_off }
}

/// Waits until a run has stopped, and cuts it off when the patience is over. Says whether it did.
async fn release(inner: &Arc<Inner>, mut task: TakenTask, patience: Duration) -> bool {
    let limit = Box::pin(patience_over(inner, patience));
    match select(&mut task, limit).await {
        Either::Left((true, _)) => return false,
        // Its runtime has ended, and it was dropped there without releasing anything.
        Either::Left((false, _)) => {}
        Either::Right(_) => {
            // The order matters: an aborted task may still be running until it is awaited, so only after that is the
            // journal final; all of it must be durable before the release, or the next owner would read a journal that
            // still grows; and a run that is not released yet is still active.
            task.abort();
            let aborted = select(&mut task, inner.shared.environment.sleep(FLUSH_PATIENCE)).await;
            if matches!(aborted, Either::Right(_)) {
                release_when_unstuck(inner, task);
                return true;
            }
        }
    }
    // A store that cannot write for the moment keeps the appends; its `close` says what became of them. One that does not
    // answer is told again: a drained engine stays open, and would renew the lease of a run that it does not advance.
    let released = inner.spawn(release_when_flushed(Arc::clone(inner), Arc::clone(&task.run)));
    let _released_or_later = select(released, inner.shared.environment.sleep(FLUSH_PATIENCE)).await;
    true
}

/// Nobody can take its thread from a body. It may still do something, so nobody else gets the run before it has ended, or
/// this process has, or is silent.
fn release_when_unstuck(inner: &Arc<Inner>, mut task: TakenTask) {
    tracing::error!(target: "aether::engine", run = %task.run.id, "a body blocks its thread: it cannot be cut off");
    let engine = Arc::clone(inner);
    inner.spawn(async move {
        let _aborted = (&mut task).await;
        release_when_flushed(engine, Arc::clone(&task.run)).await;
    });
}

/// Releases a run as soon as its appends are durable or refused. What bodies had come back with is among them: whoever goes
/// on with the run finds it.
async fn release_when_flushed(inner: Arc<Inner>, run: Arc<Run>) {
    record_known(&run).await;
    run.watermark().settled().await;
    release_run(&inner, &run.id, run.epoch, Fault::ShutDown { run: run.id.clone() }).await;
}

impl Inner {
    /// Waits, after a drain, until no body blocks its thread that could not be cut off.
    pub(super) async fn unstuck(&self) {
        loop {
            // Before the look, so that an end in between is not missed.
            let changed = self.unstuck.notified();
            if !self.is_stuck() {
                return;
            }
            changed.await;
        }
    }

    /// Whether, after a drain, a body still blocks its thread: no other run has its place then.
    pub(super) fn is_stuck(&self) -> bool {
        !self.active().is_empty()
    }
}

async fn patience_over(inner: &Inner, patience: Duration) {
    // Before the look, so that a call in between is not missed.
    let hurry = inner.hurry.notified();
    if inner.hurried.load(Ordering::Acquire) {
        return;
    }
    select(inner.shared.environment.sleep(patience), Box::pin(hurry)).await;
}
