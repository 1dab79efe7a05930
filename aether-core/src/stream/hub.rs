//! The writer of an engine's streams: what all bodies send, written together, and handed to readers in the process.
//!
//! Promise: one write of the store at a time, which begins at least [`PAUSE`] after the one before began unless the end of a
//! body waits for it; what is buffered of one stream of one execution has a bound; a reader hears of nothing that was not accepted.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::broadcast;

use crate::sched::{HashMap, Mutex, Notify, Runtime};
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::streams::{StreamItem, StreamWrite};
use crate::stream::execution::Execution;
use crate::vocabulary::environment::Environment;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::Payload;
use crate::vocabulary::redaction::Redaction;

/// Shortest time from the beginning of a write to that of the next one, where nobody waits for it.
const PAUSE: Duration = Duration::from_millis(50);
/// So many bytes of one stream are written without a pause.
const SOON: usize = 4096;
/// More bytes than this of one stream of one execution are not buffered: the store takes nothing.
const BOUND: usize = 1 << 20;
/// For how long a write is tried; half a second lies between two tries.
const PATIENCE: Duration = Duration::from_secs(30);
const REST: Duration = Duration::from_millis(500);

type Listeners = HashMap<RunId, HashMap<String, broadcast::Sender<Written>>>;
/// What was written to a stream; nothing where the store has news.
pub(super) type Written = Arc<[StreamItem]>;

/// The writer of an engine's streams.
#[derive(Debug)]
pub(crate) struct StreamHub {
    store: Arc<dyn Store>,
    environment: Arc<dyn Environment>,
    /// How long a reader waits before it looks into the store again.
    pub(super) look: Duration,
    /// What is replaced in items before they are sent.
    pub(super) redaction: Redaction,
    me: Weak<Self>,
    state: Mutex<State>,
    /// Where it writes: that of the engine, because bodies may send from threads of their own.
    runtime: Option<Runtime>,
    /// Something was written or given up.
    written: Notify,
    /// The pause is to end.
    hurry: Notify,
}

#[derive(Debug, Default)]
struct State {
    pending: Vec<Pending>,
    /// How many things were ever queued, and how many of them were written or given up.
    queued: u64,
    done: u64,
    is_writing: bool,
    /// How many executions began to write to a stream. Rises in the order of the writes: of an epoch all come from here.
    executions: u64,
    listeners: Listeners,
}

/// What an execution sent to a stream.
#[derive(Debug)]
struct Pending {
    execution: Arc<Execution>,
    stream: Arc<str>,
    /// JSON values with commas between them.
    items: String,
}

impl Pending {
    fn is_of(&self, execution: &Arc<Execution>, stream: &Arc<str>) -> bool {
        Arc::ptr_eq(&self.execution, execution) && self.stream == *stream
    }
}

/// One write, and the execution whose chunk it is.
type Writing = (StreamWrite, Arc<Execution>);

impl StreamHub {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        environment: Arc<dyn Environment>,
        redaction: Redaction,
        look: Duration,
        runtime: Option<Runtime>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            store,
            environment,
            look,
            redaction,
            me: Weak::clone(me),
            state: Mutex::default(),
            runtime,
            written: Notify::new(),
            hurry: Notify::new(),
        })
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The execution has ended: what is sent from here on is dropped. Under the lock, so that no item that was on its way is
    /// buffered behind its successor's.
    pub(crate) fn end(&self, execution: &Execution) {
        let _nothing_is_buffered_meanwhile = self.lock();
        execution.over.store(true, Ordering::Release);
    }

    /// Ends executions, while none of them buffers anything.
    pub(crate) fn end_all<T>(&self, end: impl FnOnce() -> T) -> T {
        let _nothing_is_buffered_meanwhile = self.lock();
        end()
    }

    /// Buffers one item, in JSON. It is dropped where the buffer is full, and with it all that the execution sends.
    pub(crate) fn send(&self, execution: &Arc<Execution>, stream: &Arc<str>, item: &str) {
        let mut state = self.lock();
        if !execution.sends() {
            return;
        }
        let mut open = state.pending.iter_mut().rev().filter(|pending| pending.is_of(execution, stream));
        let held = match open.next().map(|pending| &mut pending.items) {
            Some(items) if items.len().saturating_add(item.len()) > BOUND && items.len() > SOON => {
                lose(execution, stream, "the store takes none");
                return;
            }
            Some(items) => {
                items.push(',');
                items.push_str(item);
                items.len()
            }
            None => {
                let (execution, stream) = (Arc::clone(execution), Arc::clone(stream));
                drop(open);
                state.pending.push(Pending { execution, stream, items: item.to_owned() });
                item.len()
            }
        };
        self.queued(state);
        if held >= SOON {
            self.hurry.notify_one();
        }
    }

    /// What is sent from here on, and what was sent, does not count: an item is missing.
    pub(crate) fn lose(&self, execution: &Arc<Execution>, stream: &str, reason: &str) {
        let _state = self.lock();
        if execution.sends() {
            lose(execution, stream, reason);
        }
    }

    /// Nobody waits any more until what the execution sent is written, so that it does not count.
    pub(crate) fn give_up(&self, execution: &Execution) {
        self.end(execution);
        if execution.has_sent() {
            lose(execution, "*", "the call was cut off before it was written");
        }
    }

    /// What the execution sent to the stream so far does not count.
    pub(crate) fn take_back(&self, execution: &Arc<Execution>, stream: &Arc<str>) {
        let mut state = self.lock();
        if execution.over.load(Ordering::Acquire) {
            return;
        }
        state.pending.retain(|pending| !pending.is_of(execution, stream));
        execution.begin_again(stream);
    }

    fn queued(&self, mut state: MutexGuard<'_, State>) {
        state.queued += 1;
        if !std::mem::replace(&mut state.is_writing, true)
            && let Some(hub) = self.me.upgrade()
        {
            match &self.runtime {
                Some(_) => {
                    drop(state);
                    self.spawn(async move { hub.write_all().await });
                }
                // Without a runtime nothing can be written beside the run.
                None => {
                    state.pending.clear();
                    (state.done, state.is_writing) = (state.queued, false);
                }
            }
        }
    }

    /// Begins a task beside the runs; none where there is no runtime.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            drop(runtime.spawn(task));
        }
    }

    /// Waits until what was sent so far is written or given up.
    pub(crate) async fn flushed(&self) {
        let queued = self.lock().queued;
        loop {
            // Before the look, so that a write in between is not missed.
            let written = self.written.notified();
            if self.lock().done >= queued {
                return;
            }
            self.hurry.notify_one();
            written.await;
        }
    }

    /// What is written to this stream of this run by this engine from now on.
    pub(super) fn listen(&self, run: &RunId, stream: &str) -> broadcast::Receiver<Written> {
        let mut state = self.lock();
        let listeners = state.listeners.entry(run.clone()).or_default().entry(stream.to_owned());
        listeners.or_insert_with(|| broadcast::channel(64).0).subscribe()
    }

    /// Somebody who listened to this stream is gone: nothing is held for the last one.
    pub(super) fn unlisten(&self, run: &RunId, stream: &str) {
        let mut state = self.lock();
        let Some(of_run) = state.listeners.get_mut(run) else { return };
        if of_run.get(stream).is_some_and(|listener| listener.receiver_count() == 0) {
            of_run.remove(stream);
        }
        if of_run.is_empty() {
            state.listeners.remove(run);
        }
    }

    /// Whether somebody in this process reads streams of this run.
    pub(crate) fn is_read(&self, run: &RunId) -> bool {
        self.lock().listeners.contains_key(run)
    }

    /// The streams of this run have changed by other means, or it has ended: its readers look into the store.
    pub(crate) fn tell_readers(&self, run: &RunId) {
        let mut state = self.lock();
        let Some(listeners) = state.listeners.get_mut(run) else { return };
        listeners.retain(|_, listener| listener.send(Arc::from([])).is_ok());
        if listeners.is_empty() {
            state.listeners.remove(run);
        }
    }

    /// Writes until nothing is left.
    async fn write_all(&self) {
        loop {
            // Counted from here: what is sent while a slow store writes has waited long enough.
            let pause = self.environment.sleep(PAUSE);
            let Some((writes, upto)) = self.take() else { return };
            self.write(writes).await;
            self.lock().done = upto;
            self.written.notify_waiters();
            let hurry = pin!(self.hurry.notified());
            select(pause, hurry).await;
        }
    }

    /// Everything that is pending; `None` where nothing is, and this was the last look.
    fn take(&self) -> Option<(Vec<Writing>, u64)> {
        let mut state = self.lock();
        if state.pending.is_empty() {
            // What was taken back is not waited for.
            (state.done, state.is_writing) = (state.queued, false);
            drop(state);
            self.written.notify_waiters();
            return None;
        }
        let (pending, upto) = (std::mem::take(&mut state.pending), state.queued);
        // Under the lock: what is taken back later gets no number behind that.
        let executions = &mut state.executions;
        let parts: Vec<_> =
            pending.iter().map(|one| one.execution.next_part(&one.stream, executions)).collect();
        drop(state);
        let at = self.environment.now();
        let writes = pending.into_iter().zip(parts).filter_map(|(pending, part)| written(pending, part, at));
        Some((writes.collect(), upto))
    }

    /// Writes once, however often that must be tried, for as long as [`PATIENCE`].
    async fn write(&self, writes: Vec<Writing>) {
        let limit = self.environment.sleep(PATIENCE);
        let lost = match select(pin!(self.try_to_write(&writes)), limit).await {
            Either::Left((lost, _)) => lost,
            Either::Right(_) => {
                writes.iter().map(|write| (write, "the store took none in time".to_owned())).collect()
            }
        };
        for ((write, execution), reason) in lost {
            lose(execution, &write.stream, &reason);
        }
    }

    /// Returns what the store refuses for good, and why.
    async fn try_to_write<'w>(&self, writes: &'w [Writing]) -> Vec<(&'w Writing, String)> {
        let Err(error) = self.insist(writes).await else { return Vec::new() };
        if let [write] = writes {
            return vec![(write, error.to_string())];
        }
        // One of them is at fault: it takes no other along. What was written before is not written twice.
        let mut lost = Vec::new();
        for write in writes {
            if let Err(error) = self.insist(std::slice::from_ref(write)).await {
                lost.push((write, error.to_string()));
            }
        }
        lost
    }

    /// Writes until the store takes it, or refuses it for good.
    async fn insist(&self, writes: &[Writing]) -> Result<(), StoreError> {
        loop {
            let all = writes.iter().map(|(write, _)| write.clone()).collect();
            match self.store.write_streams(all).await {
                Ok(answers) => {
                    self.publish(writes, answers);
                    return Ok(());
                }
                Err(error) if !error.is_retryable() => return Err(error),
                Err(_) => self.environment.sleep(REST).await,
            }
        }
    }

    /// Hands what was accepted to readers, and stops executions whose writes were refused.
    fn publish(&self, writes: &[Writing], answers: Vec<Option<Vec<StreamItem>>>) {
        let state = self.lock();
        for ((write, execution), answer) in writes.iter().zip(answers) {
            let Some(items) = answer else {
                // Another worker has the run, or the chunk cannot be encoded: then an item is missing.
                execution.over.store(true, Ordering::Release);
                execution.lost.store(true, Ordering::Release);
                continue;
            };
            let of_run = state.listeners.get(&write.run);
            let Some(listener) = of_run.and_then(|of_run| of_run.get(&write.stream)) else { continue };
            // Nothing where it was written before, and the answer was lost: readers look into the store.
            let _nobody_listens = listener.send(items.into());
        }
    }
}

/// What is sent from here on, and what was sent, does not count: an item is missing.
fn lose(execution: &Execution, stream: &str, reason: &str) {
    if !execution.lost.swap(true, Ordering::AcqRel) {
        let (run, command) = (&execution.run, &execution.command);
        tracing::warn!(target: "aether::step", %run, %command, stream, reason, "a stream was not kept; the run goes on");
    }
}

/// What is written of it; nothing where an item cannot be read back, as one that is nested too deep.
fn written(pending: Pending, (number, part): (u64, u32), at: jiff::Timestamp) -> Option<Writing> {
    let Pending { execution, stream, items } = pending;
    let items = match Payload::from_text(format!("[{items}]")) {
        Ok(items) => items,
        Err(error) => {
            lose(&execution, &stream, &error.to_string());
            return None;
        }
    };
    let write = StreamWrite {
        run: execution.run.clone(),
        epoch: execution.epoch,
        command: execution.command.clone(),
        attempt: execution.attempt,
        at,
        stream: stream.to_string(),
        execution: number,
        part,
        items,
    };
    Some((write, execution))
}

#[cfg(test)]
mod tests;
