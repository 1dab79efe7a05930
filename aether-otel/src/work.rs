//! The task that exports: it looks for what is new, reads it, sends it, and keeps how far it came.
//!
//! Promise: it is never in the way of a run. Reading and sending take turns, in small pieces, and how far it came is saved
//! between them. What cannot be exported is tried again for as long as it takes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use aether_core::id::RunId;
use aether_core::run::Observed;
use aether_core::store::{Store, StoreError};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use crate::error::TelemetryError;
use crate::metrics::Metrics;
use crate::progress::{Kept, Progress, Reached};
use crate::reader::{Read, Reader};
use crate::registry::{Registry, TELEMETRY_BEHIND};
use crate::saving::Saver;
use crate::sending::{BATCH_BYTES, Sender};
use crate::sweep::Sweep;

/// Target of what this crate logs.
const TARGET: &str = "aether::telemetry";
/// Runs that are read between two batches.
const READS: usize = 64;
/// Bytes of spans in memory from which on reading waits for sending.
const ENOUGH: usize = 2 * BATCH_BYTES;
/// For how long appends are gathered before they are read: they are durable by then, mostly.
const GATHER: Duration = Duration::from_millis(100);
/// Wait before the progress is read again that could not be read.
const LOAD_AGAIN: Duration = Duration::from_secs(5);
/// Least age of a look when appends were missed, and by how much it must be older than what it took.
const LEAST_AGE: Duration = Duration::from_millis(500);
const AGE: u32 = 4;

/// What the task is asked for.
#[derive(Debug)]
pub(crate) enum Ask {
    /// To export everything that is durable, and to say whether it could.
    Flush(Reply),
}

type Reply = oneshot::Sender<Result<(), TelemetryError>>;

/// Times of the task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Between two looks at the whole list of runs.
    pub(crate) sweep: Duration,
    /// For one export.
    pub(crate) export: Duration,
}

/// When the list of runs is looked at.
#[derive(Clone, Copy, Debug)]
struct Looks {
    next: Instant,
    /// When the last one ended, and what it took.
    ended: Instant,
    took: Duration,
}

impl Looks {
    /// Appends were missed: the next look finds them. One does not follow upon the other, so that there is time for what
    /// was found.
    fn missed(&mut self) {
        self.next = self.next.min(self.ended + LEAST_AGE.max(self.took * AGE));
    }
}

/// The task.
#[derive(Debug)]
pub(crate) struct Work {
    store: Arc<dyn Store>,
    sender: Option<Sender>,
    saver: Saver,
    metrics: Metrics,
    registry: Arc<Registry>,
    sweep: Sweep,
    every: Duration,
    looks: Looks,
    reader: Reader,
    kept: Arc<Kept>,
    /// Nothing was ever kept.
    first: bool,
    /// Runs to be read, and whether once more where there is nothing: their appends may not be durable yet.
    moved: BTreeMap<RunId, bool>,
    /// Those of them that are being read now.
    round: VecDeque<(RunId, bool)>,
    /// Runs that were read too early, perhaps, and when they are read again.
    again: BTreeSet<RunId>,
    again_at: Option<Instant>,
    /// Who waits for an export of everything.
    flushes: Vec<Reply>,
    /// What went wrong since the first of them asked.
    failed: Option<TelemetryError>,
}

impl Work {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        sender: Option<Sender>,
        progress: Arc<dyn Progress>,
        metrics: Metrics,
        registry: Arc<Registry>,
        reader: Reader,
        every: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            store,
            sender,
            saver: Saver::new(progress),
            metrics,
            registry,
            sweep: Sweep::new(jiff::Timestamp::now()),
            every,
            looks: Looks { next: now, ended: now, took: Duration::ZERO },
            reader,
            kept: Arc::default(),
            first: true,
            moved: BTreeMap::new(),
            round: VecDeque::new(),
            again: BTreeSet::new(),
            again_at: None,
            flushes: Vec::new(),
            failed: None,
        }
    }

    /// Works until the handle is dropped.
    pub(crate) async fn run(
        mut self,
        mut asks: mpsc::Receiver<Ask>,
        mut watch: broadcast::Receiver<Observed>,
    ) {
        let mut heard = Vec::new();
        if hearing(&mut asks, &mut heard, self.load()).await.is_none() {
            return;
        }
        let mut watches = true;
        loop {
            let Some(went_on) = hearing(&mut asks, &mut heard, self.piece()).await else { break };
            self.hear(&mut watch);
            let is_asked = !heard.is_empty();
            heard.drain(..).for_each(|ask| self.ask(ask));
            if went_on || is_asked {
                self.save(false).await;
                continue;
            }
            self.answer().await;
            let next = self.next();
            tokio::select! {
                ask = asks.recv() => match ask {
                    None => break,
                    Some(ask) => self.ask(ask),
                },
                observed = watch.recv(), if watches => match observed {
                    Ok(observed) => {
                        self.moved.insert(observed.run, true);
                        sleep(GATHER).await;
                    }
                    Err(RecvError::Lagged(_)) => self.looks.missed(),
                    Err(RecvError::Closed) => watches = false,
                },
                () = sleep_until(next) => {}
            }
        }
        self.save(true).await;
    }

    fn ask(&mut self, Ask::Flush(reply): Ask) {
        if self.flushes.is_empty() {
            self.failed = None;
        }
        self.flushes.push(reply);
        self.looks.next = Instant::now();
        if let Some(sender) = &mut self.sender {
            sender.retry_at = None;
        }
    }

    /// Answers who waits: nothing is left that could be done now.
    async fn answer(&mut self) {
        self.save(!self.flushes.is_empty()).await;
        let lag = self.reader.lag();
        for reply in std::mem::take(&mut self.flushes) {
            let flushed = match &self.failed {
                Some(error) => Err(error.clone()),
                None if lag > 0 => Err(TelemetryError::Export {
                    reason: format!("spans of {lag} runs wait for another try"),
                }),
                None => Ok(()),
            };
            let _nobody_waits = reply.send(flushed);
        }
    }

    /// Takes in what was appended meanwhile.
    fn hear(&mut self, watch: &mut broadcast::Receiver<Observed>) {
        loop {
            match watch.try_recv() {
                Ok(observed) => {
                    self.moved.insert(observed.run, true);
                }
                Err(TryRecvError::Lagged(_)) => self.looks.missed(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// When there is something to be done, if nothing is heard before.
    fn next(&self) -> Instant {
        let retry = self.sender.as_ref().and_then(|sender| sender.retry_at);
        let retry = retry.filter(|_| self.reader.lag() > 0);
        let others = [self.again_at, retry].into_iter().flatten();
        others.fold(self.looks.next, std::cmp::Ord::min)
    }

    /// What an earlier process has kept. Without that it would export again what is exported, so it waits for it.
    async fn load(&mut self) {
        loop {
            match self.saver.load().await {
                Ok(None) => return,
                Ok(Some(text)) => {
                    match Kept::read(text) {
                        Ok(kept) => (self.kept, self.first) = (Arc::new(kept), false),
                        Err(error) => {
                            tracing::warn!(target: TARGET, error, "the progress of the telemetry is not \
                            readable: open runs are exported from their beginning")
                        }
                    }
                    return;
                }
                Err(error) => {
                    tracing::warn!(target: TARGET, %error, "the progress of the telemetry cannot be read yet");
                    sleep(LOAD_AGAIN).await;
                }
            }
        }
    }

    /// Does a piece of the work: a look at the list of runs if it is time for one, some journals, and a batch. Whether there
    /// was anything to do.
    async fn piece(&mut self) -> bool {
        let looks = Instant::now() >= self.looks.next;
        if looks {
            self.look().await;
        }
        let has_read = self.read_some().await;
        let has_sent = self.send_batch().await;
        self.registry.set(TELEMETRY_BEHIND, [(Vec::new(), count(self.reader.lag()))]);
        looks || has_read || has_sent
    }

    async fn look(&mut self) {
        let (began, since) = (Instant::now(), std::time::Instant::now());
        let kept = Arc::make_mut(&mut self.kept);
        match self.sweep.look(&*self.store, kept, self.first, &self.reader).await {
            Ok((moved, open)) => {
                self.metrics.set_open_runs(open, since);
                self.first = false;
                for run in moved {
                    self.moved.entry(run).or_insert(false);
                }
            }
            Err(error) => {
                tracing::warn!(target: TARGET, %error, "the list of runs cannot be read yet");
                self.fail(error.into());
            }
        }
        if let Err(error) = self.metrics.refresh().await {
            tracing::warn!(target: TARGET, %error, "the store cannot be asked for metrics yet");
        }
        let ended = Instant::now();
        self.looks = Looks { next: ended + self.every, ended, took: ended - began };
    }

    /// Keeps what went wrong first.
    fn fail(&mut self, error: TelemetryError) {
        self.failed.get_or_insert(error);
    }

    /// Reads a few of the journals that have something new. Whether there was any.
    async fn read_some(&mut self) -> bool {
        if self.round.is_empty() {
            if self.again_at.is_some_and(|at| at <= Instant::now()) {
                self.again_at = None;
                let again = std::mem::take(&mut self.again).into_iter();
                self.moved.extend(again.map(|run| (run, false)));
            }
            self.round.extend(std::mem::take(&mut self.moved));
        }
        let mut has_read = false;
        for number in 0..READS {
            let has_enough =
                || self.sender.as_ref().is_some_and(|sender| sender.has_enough(&self.reader, ENOUGH));
            if number % 8 == 0 && has_enough() {
                break;
            }
            let Some((run, is_early)) = self.round.pop_front() else { break };
            has_read = true;
            if let Err(error) = self.read(run.clone(), is_early).await {
                tracing::warn!(target: TARGET, %run, %error, "a journal cannot be read for telemetry");
                // The next look finds it again.
                self.fail(error.into());
            }
        }
        has_read
    }

    async fn read(&mut self, run: RunId, is_early: bool) -> Result<(), StoreError> {
        if !self.kept.open.contains_key(&run) {
            self.welcome(&run).await?;
        }
        let read = self.reader.read(&run, Arc::make_mut(&mut self.kept)).await?;
        if read == Read::Nothing && is_early {
            self.again.insert(run);
            self.again_at.get_or_insert(Instant::now() + GATHER * 5);
        }
        Ok(())
    }

    /// Takes up a run that was not in the list when that was read last.
    async fn welcome(&mut self, run: &RunId) -> Result<(), StoreError> {
        let Some(record) = self.store.run(run).await? else { return Ok(()) };
        let place = record.place.number();
        // The first look says from where on it counts.
        if !self.first && self.kept.is_new(run, place) {
            let reached = Reached { place, ..Reached::default() };
            Arc::make_mut(&mut self.kept).open.insert(run.clone(), reached);
        }
        Ok(())
    }

    /// Sends a batch, if there is one that may be sent now. Whether there was.
    async fn send_batch(&mut self) -> bool {
        let Some(sender) = &mut self.sender else { return false };
        let kept = Arc::make_mut(&mut self.kept);
        match sender.next(&mut self.reader, kept).await {
            Ok(batch) if batch.is_empty() => false,
            Ok(batch) => {
                match sender.send(&batch, &mut self.reader, kept).await {
                    Ok(more) => self.moved.extend(more.into_iter().map(|run| (run, false))),
                    Err(reason) => self.fail(TelemetryError::Export { reason }),
                }
                true
            }
            Err(error) => {
                tracing::warn!(target: TARGET, %error, "a journal cannot be read again for telemetry");
                self.fail(error.into());
                false
            }
        }
    }

    async fn save(&mut self, now: bool) {
        if let Err(error) = self.saver.save(&self.kept, now).await {
            tracing::warn!(target: TARGET, %error, "the progress of the telemetry is not saved yet");
        }
    }
}

/// Does some work, and hears what is asked meanwhile. `None`, and the work is given up, where the handle is dropped: nothing
/// that is kept says that it was done.
async fn hearing<T>(
    asks: &mut mpsc::Receiver<Ask>,
    heard: &mut Vec<Ask>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            ask = asks.recv() => heard.push(ask?),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a count beyond 2^53 is out of reach")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
