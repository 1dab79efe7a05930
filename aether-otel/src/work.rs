//! The task that exports: it looks for what is new, reads it, sends it, and keeps how far it came.
//!
//! Promise: it is never in the way of a run. What cannot be exported is tried again for as long as it takes; one run whose
//! spans are refused holds up no other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aether_core::id::RunId;
use aether_core::run::Observed;
use aether_core::store::{Store, StoreError};
use jiff::Timestamp;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use crate::exporter::Exporter;
use crate::metrics::Metrics;
use crate::progress::{Kept, Progress};
use crate::reader::Reader;
use crate::registry::{EXPORT_FAILURES, EXPORTED, Registry, TELEMETRY_BEHIND};
use crate::sweep::sweep;

/// Target of what this crate logs.
const TARGET: &str = "aether::telemetry";
/// Spans of one batch.
const BATCH: usize = 256;
/// For how long appends are gathered before they are read: they are durable by then, mostly.
const GATHER: Duration = Duration::from_millis(100);
/// Least time between two writes of the progress.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// First and longest wait after an export that failed.
const WAITS: std::ops::RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(30);

/// What the task is asked for.
#[derive(Debug)]
pub(crate) enum Ask {
    /// To export everything that is durable, and to say whether it could.
    Flush(oneshot::Sender<Result<(), String>>),
}

/// Times of the task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Between two looks at the whole list of runs.
    pub(crate) sweep: Duration,
    /// For one export.
    pub(crate) export: Duration,
}

/// The task.
#[derive(Debug)]
pub(crate) struct Work {
    store: Arc<dyn Store>,
    exporter: Option<Arc<dyn Exporter>>,
    progress: Arc<dyn Progress>,
    metrics: Metrics,
    registry: Arc<Registry>,
    times: Times,
    reader: Reader,
    kept: Kept,
    /// Nothing was ever kept.
    first: bool,
    /// Runs to be read.
    moved: BTreeSet<RunId>,
    /// Runs that were read too early, perhaps: their appends were not durable.
    again: BTreeSet<RunId>,
    /// Runs whose spans were in a batch that failed: they are sent alone.
    suspects: BTreeSet<RunId>,
    /// Whether the collector took the last batch of others.
    is_taken: bool,
    wait: Duration,
    /// When suspects are sent again; all, where nothing is taken.
    retry_at: Option<Instant>,
    saved: (Instant, String),
}

impl Work {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        exporter: Option<Arc<dyn Exporter>>,
        progress: Arc<dyn Progress>,
        metrics: Metrics,
        registry: Arc<Registry>,
        reader: Reader,
        times: Times,
    ) -> Self {
        Self {
            store,
            exporter,
            progress,
            metrics,
            registry,
            times,
            reader,
            kept: Kept::default(),
            first: true,
            moved: BTreeSet::new(),
            again: BTreeSet::new(),
            suspects: BTreeSet::new(),
            is_taken: true,
            wait: *WAITS.start(),
            retry_at: None,
            saved: (Instant::now(), String::new()),
        }
    }

    /// Works until the handle is dropped.
    pub(crate) async fn run(
        mut self,
        mut asks: mpsc::Receiver<Ask>,
        mut watch: broadcast::Receiver<Observed>,
    ) {
        self.load().await;
        let mut next_sweep = Instant::now();
        let mut watches = true;
        loop {
            let next = self.next_look(next_sweep);
            tokio::select! {
                ask = asks.recv() => match ask {
                    None => return self.save(true).await,
                    Some(Ask::Flush(reply)) => {
                        let flushed = self.flush().await;
                        let _nobody_waits = reply.send(flushed);
                        continue;
                    }
                },
                observed = watch.recv(), if watches => match observed {
                    Ok(observed) => {
                        self.moved.insert(observed.run);
                        sleep(GATHER).await;
                        while let Ok(observed) = watch.try_recv() {
                            self.moved.insert(observed.run);
                        }
                    }
                    Err(RecvError::Lagged(_)) => next_sweep = Instant::now(),
                    Err(RecvError::Closed) => watches = false,
                },
                () = sleep_until(next) => {}
            }
            if Instant::now() >= next_sweep {
                self.look().await;
                next_sweep = Instant::now() + self.times.sweep;
            }
            let _said_in_the_log = self.work().await;
            self.save(false).await;
        }
    }

    fn next_look(&self, next_sweep: Instant) -> Instant {
        let soon = (!self.again.is_empty()).then(|| Instant::now() + GATHER * 5);
        let retry = self.retry_at.filter(|_| self.reader.lag() > 0);
        [Some(next_sweep), soon, retry].into_iter().flatten().min().unwrap_or(next_sweep)
    }

    /// What an earlier process has kept. Without that it would export again what is exported, so it waits for it.
    async fn load(&mut self) {
        loop {
            let kept = match self.progress.load().await {
                Ok(None) => return,
                Ok(Some(text)) => Kept::read(&text).map(|kept| (kept, text)),
                Err(error) => {
                    tracing::warn!(target: TARGET, %error, "the progress of the telemetry cannot be read yet");
                    sleep(*WAITS.end() / 6).await;
                    continue;
                }
            };
            match kept {
                Ok((kept, text)) => {
                    self.saved.1 = text;
                    (self.kept, self.first) = (kept, false);
                }
                Err(error) => tracing::warn!(target: TARGET, error,
                    "the progress of the telemetry is not readable: open runs are exported from their beginning"),
            }
            return;
        }
    }

    async fn look(&mut self) {
        let began = std::time::Instant::now();
        match sweep(&*self.store, &mut self.kept, Timestamp::now(), self.first).await {
            Ok((moved, open)) => {
                self.metrics.set_open_runs(open, began);
                self.first = false;
                self.moved.extend(moved);
            }
            Err(error) => tracing::warn!(target: TARGET, %error, "the list of runs cannot be read yet"),
        }
        if let Err(error) = self.metrics.refresh().await {
            tracing::warn!(target: TARGET, %error, "the store cannot be asked for metrics yet");
        }
    }

    /// Reads what is new, and exports it.
    async fn work(&mut self) -> Result<(), String> {
        let again = std::mem::take(&mut self.again);
        for run in std::mem::take(&mut self.moved) {
            if !self.kept.open.contains_key(&run) {
                self.welcome(&run).await;
            }
            match self.reader.read(&run, &mut self.kept).await {
                Ok(true) => {}
                Ok(false) if again.contains(&run) => {}
                Ok(false) => {
                    self.again.insert(run);
                }
                Err(error) => self.unreadable(&run, &error),
            }
        }
        for run in again {
            if let Err(error) = self.reader.read(&run, &mut self.kept).await {
                self.unreadable(&run, &error);
            }
        }
        let exported = self.export().await;
        self.registry.set(TELEMETRY_BEHIND, [(Vec::new(), count(self.reader.lag()))]);
        exported
    }

    /// Takes up a run that was not in the list when that was read last.
    async fn welcome(&mut self, run: &RunId) {
        if let Ok(Some(record)) = self.store.run(run).await
            && self.kept.is_new(run, record.place.number())
        {
            let reached = crate::progress::Reached { place: record.place.number(), ..Default::default() };
            self.kept.open.insert(run.clone(), reached);
        }
    }

    fn unreadable(&mut self, run: &RunId, error: &StoreError) {
        tracing::warn!(target: TARGET, %run, %error, "a journal cannot be read for telemetry");
        // The next sweep finds it again.
    }

    /// Exports what was read, until nothing is left that may be sent now, or an export fails.
    async fn export(&mut self) -> Result<(), String> {
        while let Some(runs) = self.next_batch().await {
            let spans: Vec<_> = runs.iter().flat_map(|run| self.reader.spans(run).to_vec()).collect();
            let (total, were_suspects) = (spans.len(), runs.iter().any(|run| self.suspects.contains(run)));
            match self.send(spans).await {
                Ok(()) => {
                    self.registry.add(EXPORTED, Vec::new(), count(total));
                    self.is_taken = true;
                    if were_suspects {
                        (self.wait, self.retry_at) = (*WAITS.start(), None);
                    }
                    runs.iter().for_each(|run| {
                        self.suspects.remove(run);
                    });
                    self.reader.exported(&runs, &mut self.kept);
                }
                Err(error) => {
                    self.registry.add(EXPORT_FAILURES, Vec::new(), 1.0);
                    self.is_taken &= were_suspects;
                    let is_alone = runs.len() == 1;
                    self.suspects.extend(runs);
                    // Of several, perhaps one was refused: each is tried alone.
                    if is_alone {
                        self.retry_at = Some(Instant::now() + self.wait);
                        self.wait = (self.wait * 2).min(*WAITS.end());
                        tracing::warn!(target: TARGET, error, "spans cannot be exported; they are tried again");
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// The runs of the next batch: several that never failed, or one that did.
    async fn next_batch(&mut self) -> Option<Vec<RunId>> {
        self.exporter.as_ref()?;
        let is_due = self.retry_at.is_none_or(|at| at <= Instant::now());
        let ready = self.reader.ready();
        let (suspects, fine): (Vec<_>, Vec<_>) =
            ready.into_iter().partition(|run| self.suspects.contains(run));
        if !fine.is_empty() && (is_due || self.is_taken) {
            let mut spans = 0;
            let fits = |run: &RunId| {
                let fits = spans < BATCH;
                spans += self.reader.spans(run).len();
                fits
            };
            return Some(fine.into_iter().take_while(fits).collect());
        }
        if !is_due {
            return None;
        }
        if let Some(suspect) = self.turn(suspects) {
            return Some(vec![suspect]);
        }
        let behind = self.reader.next_behind()?;
        match self.reader.read(&behind, &mut self.kept).await {
            Ok(_) if !self.reader.spans(&behind).is_empty() => Some(vec![behind]),
            _ => None,
        }
    }

    /// They take turns, so that one that is refused for good does not stand in the way of the others.
    fn turn(&self, suspects: Vec<RunId>) -> Option<RunId> {
        let failures =
            self.registry.series(EXPORT_FAILURES).iter().map(|(_, series)| series.value).sum::<f64>();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let at = (failures as usize).checked_rem(suspects.len())?;
        suspects.into_iter().nth(at)
    }

    async fn send(&self, spans: Vec<opentelemetry_sdk::trace::SpanData>) -> Result<(), String> {
        let Some(exporter) = &self.exporter else { return Ok(()) };
        for batch in spans.chunks(BATCH) {
            exporter.export(batch.to_vec(), self.times.export).await?;
        }
        Ok(())
    }

    /// Exports all that is durable now.
    async fn flush(&mut self) -> Result<(), String> {
        self.look().await;
        self.retry_at = None;
        let exported = self.work().await;
        self.save(true).await;
        match (exported, self.reader.lag()) {
            (Ok(()), runs) if runs > 0 => Err(format!("{runs} runs could not be read")),
            (exported, _) => exported,
        }
    }

    async fn save(&mut self, now: bool) {
        let is_early = self.saved.0.elapsed() < SAVE_EVERY;
        if is_early && !now {
            return;
        }
        let text = self.kept.to_text();
        if text == self.saved.1 {
            return;
        }
        match self.progress.save(text.clone()).await {
            Ok(()) => self.saved = (Instant::now(), text),
            Err(error) => {
                self.saved.0 = Instant::now();
                tracing::warn!(target: TARGET, %error, "the progress of the telemetry is not saved yet");
            }
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a count beyond 2^53 is out of reach")]
fn count(number: usize) -> f64 {
    number as f64
}
