//! `Telemetry`: what a program sets up, and the handle of the task that exports.
//!
//! Promise: a run never waits for telemetry. What is durable in the store is exported sooner or later, at least once.

use std::sync::Arc;
use std::time::Duration;

use aether_core::engine::Engine;
use aether_core::id::RunId;
use aether_core::journal::event::Event;
use aether_core::recording::Masking;
use aether_core::store::{RunFilter, RunRecord, Store, StoreError};
use jiff::Timestamp;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::sync::{mpsc, oneshot};

use crate::error::TelemetryError;
use crate::exporter::{Exporter, Unexported};
use crate::fold::Fold;
use crate::journal::{Sink, read_on};
use crate::metrics::Metrics;
use crate::progress::{FileProgress, InMemory, Progress};
use crate::reader::{Reader, Room};
use crate::registry::Registry;
use crate::sending::{BATCH_BYTES, Line, Sender};
use crate::settings::Settings;
use crate::spans::{Ended, bytes_of};
use crate::work::{Ask, Times, Work};

/// Runs of one page of a backfill.
const PAGE: usize = 200;
/// No instant is much longer away than that where somebody says `Duration::MAX`.
const LONGEST_SWEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// Runs in a row of which nothing is taken, after which a backfill gives up.
const REFUSED: usize = 16;

/// Settings of [`Telemetry`].
///
/// ```
/// # async fn with(engine: &aether_core::engine::Engine, exporter: impl opentelemetry_sdk::trace::SpanExporter + 'static) {
/// let telemetry = aether_otel::Telemetry::builder().spans_to(exporter).progress_in("agent.telemetry.json").start(engine);
/// # }
/// ```
#[derive(Debug)]
#[must_use = "telemetry begins with `.start(..)`"]
pub struct TelemetryBuilder {
    exporter: Option<Box<dyn Exporter>>,
    resource: Option<Resource>,
    progress: Arc<dyn Progress>,
    settings: Settings,
    times: Times,
}

impl TelemetryBuilder {
    /// Exports spans with `exporter`. Without this, there are only metrics.
    pub fn spans_to(mut self, exporter: impl SpanExporter + 'static) -> Self {
        self.exporter = Some(Box::new(exporter));
        self
    }

    /// What every batch says of the program: `service.name` and such. Without this, what `OTEL_SERVICE_NAME` and
    /// `OTEL_RESOURCE_ATTRIBUTES` say.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Keeps how far the export came in the file at `path`, best beside the store: the next process goes on from there.
    /// Without this, every process begins with the runs that are open or not older than a minute, and counts what they
    /// record from then on.
    pub fn progress_in(self, path: impl Into<std::path::PathBuf>) -> Self {
        self.progress(FileProgress::at(path))
    }

    /// Keeps how far the export came in a place of the program's.
    pub fn progress(mut self, progress: impl Progress) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// Whether spans hold what was said: prompts, answers, arguments and results of tools, and the texts of errors. Off by
    /// default. What the engine redacts is not in its journal and so in no span; what `Masking::standard()` finds, or the
    /// masking given by [`TelemetryBuilder::masking`], is replaced.
    pub fn capture_content(mut self, capture: bool) -> Self {
        self.settings.content = capture;
        self
    }

    /// Which secrets are replaced in captured content.
    pub fn masking(mut self, masking: Masking) -> Self {
        self.settings.masking = masking;
        self
    }

    /// Names the provider of a model, as `gen_ai.provider.name`. By default it follows from the model's name where that is
    /// known, and is `_OTHER` else.
    pub fn provider_of(mut self, provider: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.settings.provider_of = Arc::new(provider);
        self
    }

    /// How often the list of runs is looked at, for runs that other processes advance. 15 s by default; what this engine
    /// appends is seen at once. At most a day.
    pub fn look_every(mut self, interval: Duration) -> Self {
        self.times.sweep = interval.min(LONGEST_SWEEP);
        self
    }

    /// How long one export may take. 10 s by default.
    pub fn export_timeout(mut self, limit: Duration) -> Self {
        self.times.export = limit;
        self
    }

    /// Starts a task that exports what the store of `engine` holds, whoever advances the runs. It ends when the returned
    /// handle is dropped. Call it within a Tokio runtime.
    pub fn start(self, engine: &Engine) -> Telemetry {
        let Self { mut exporter, resource, progress, settings, times } = self;
        let resource = resource.unwrap_or_else(|| Resource::builder().build());
        if let Some(exporter) = &mut exporter {
            exporter.set_resource(&resource);
        }
        let (store, registry) = (Arc::clone(engine.store()), Arc::new(Registry::default()));
        let line = exporter.map(|exporter| Line { exporter: exporter.into(), limit: times.export });
        let metrics = Metrics::new(Arc::clone(&registry), Arc::clone(&store), engine.gauge());
        let reader = Reader::new(
            Arc::clone(&store),
            settings.clone(),
            Arc::clone(&registry),
            line.is_some(),
            Room::default(),
        );
        let sender = line.clone().map(|line| Sender::new(line, Arc::clone(&registry)));
        let (asks, asked) = mpsc::channel(8);
        let work =
            Work::new(Arc::clone(&store), sender, progress, metrics.clone(), registry, reader, times.sweep);
        drop(tokio::spawn(work.run(asked, engine.watch())));
        Telemetry { asks, metrics, store, line, settings }
    }
}

/// The telemetry of one engine: spans and metrics made of the journals in its store. The task behind it ends when this is
/// dropped, as if the process were killed: the next one goes on where the progress was saved.
#[derive(Debug)]
pub struct Telemetry {
    asks: mpsc::Sender<Ask>,
    metrics: Metrics,
    store: Arc<dyn Store>,
    line: Option<Line>,
    settings: Settings,
}

/// What a backfill has exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backfilled {
    /// Number of runs.
    pub runs: u64,
    /// Number of spans.
    pub spans: u64,
    /// Runs of which the collector refused a span: those before it were exported, it and those behind it were not.
    pub refused: Vec<RefusedRun>,
}

/// A run of which a collector refused a span.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedRun {
    /// The run.
    pub run: RunId,
    /// What the exporter said.
    pub reason: String,
}

impl Telemetry {
    /// Begins to set it up.
    pub fn builder() -> TelemetryBuilder {
        TelemetryBuilder {
            exporter: None,
            resource: None,
            progress: Arc::new(InMemory::default()),
            settings: Settings::default(),
            times: Times { sweep: Duration::from_secs(15), export: Duration::from_secs(10) },
        }
    }

    /// The metrics.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Exports all that is durable now, and waits for it for `limit` at most. Call it before the engine is shut down, which
    /// closes the store; what is left is exported by the next process.
    ///
    /// # Errors
    /// [`TelemetryError::Export`] and [`TelemetryError::TimedOut`] where not everything was exported, and
    /// [`TelemetryError::Store`] where not everything could be read.
    pub async fn flush(&self, limit: Duration) -> Result<(), TelemetryError> {
        let flushed = async {
            let (reply, replied) = oneshot::channel();
            self.asks.send(Ask::Flush(reply)).await.map_err(|_| TelemetryError::Ended)?;
            replied.await.map_err(|_| TelemetryError::Ended)?
        };
        tokio::time::timeout(limit, flushed).await.unwrap_or(Err(TelemetryError::TimedOut { limit }))
    }

    /// Exports the spans of all runs that were started at `since` or later and are in the store, whether or not they were
    /// exported before: they have the same ids. Counts nothing, and changes no progress. Spans of a run that has not ended
    /// are those that have. A run that the collector refuses is noted, and does not stop it.
    ///
    /// # Errors
    /// [`TelemetryError::Store`], and [`TelemetryError::Export`] when the collector does not answer or takes none of several
    /// runs in a row; nothing is lost, and it can be called again.
    pub async fn backfill(&self, since: Timestamp) -> Result<Backfilled, TelemetryError> {
        let mut done = Backfilled::default();
        let Some(line) = &self.line else { return Ok(done) };
        let mut filter = RunFilter::new().created_after(since).limit(PAGE);
        let mut refused_in_a_row = 0;
        loop {
            let page = self.store.runs(filter.clone()).await?;
            let Some(last) = page.last() else { return Ok(done) };
            filter.after = Some(last.place);
            for record in page {
                let run = record.id.clone();
                let spans = done.spans;
                let Err(why) = self.backfill_run(line, record, &mut done).await? else {
                    refused_in_a_row = 0;
                    continue;
                };
                refused_in_a_row = if done.spans > spans { 1 } else { refused_in_a_row + 1 };
                let reason = why.to_string();
                if refused_in_a_row >= REFUSED || matches!(why, Unexported::NoAnswer(_)) {
                    return Err(TelemetryError::Export { reason });
                }
                done.refused.push(RefusedRun { run, reason });
            }
        }
    }

    /// Exports one run, in parts. The inner result says whether all was taken.
    async fn backfill_run(
        &self,
        line: &Line,
        record: RunRecord,
        done: &mut Backfilled,
    ) -> Result<Result<(), Unexported>, StoreError> {
        let mut fold = Fold::new(record.id.clone(), record.traceparent);
        loop {
            let mut gathered = Gathered::default();
            let is_whole =
                read_on(&*self.store, &record.id, &mut fold, &self.settings, &mut gathered).await?;
            if fold.trace().is_none_or(|trace| !trace.is_sampled()) {
                return Ok(Ok(()));
            }
            let total = gathered.spans.len();
            let sent = line.send(&gathered.spans, total, None).await;
            done.spans += sent.as_ref().map_or_else(|stopped| stopped.sent, |()| total) as u64;
            if let Err(stopped) = sent {
                return Ok(Err(stopped.why));
            }
            if is_whole {
                done.runs += 1;
                return Ok(Ok(()));
            }
        }
    }
}

/// The spans of a part of a journal.
#[derive(Debug, Default)]
struct Gathered {
    spans: Vec<SpanData>,
    bytes: usize,
}

impl Sink for Gathered {
    fn event(&mut self, _: &Fold, _: Timestamp, _: &Event) {}

    fn ended(&mut self, _: &Fold, ended: Vec<Ended>) -> bool {
        self.bytes += ended.iter().map(|ended| bytes_of(&ended.span)).sum::<usize>();
        self.spans.extend(ended.into_iter().map(|ended| ended.span));
        self.bytes < BATCH_BYTES
    }
}
