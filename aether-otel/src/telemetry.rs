//! `Telemetry`: what a program sets up, and the handle of the task that exports.
//!
//! Promise: a run never waits for telemetry. What is durable in the store is exported sooner or later, at least once.

use std::sync::Arc;
use std::time::Duration;

use aether_core::engine::Engine;
use aether_core::recording::Masking;
use aether_core::store::{RunFilter, Store, StoreError};
use jiff::Timestamp;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter;
use tokio::sync::{mpsc, oneshot};

use crate::exporter::Exporter;
use crate::fold::Fold;
use crate::metrics::Metrics;
use crate::progress::{FileProgress, InMemory, Progress};
use crate::reader::{Reader, read_on};
use crate::registry::Registry;
use crate::settings::Settings;
use crate::work::{Ask, Times, Work};

/// Runs of one page of a backfill, and spans of one batch.
const PAGE: usize = 200;

/// Why spans could not be exported.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The exporter failed. What was not exported is kept, and tried again.
    #[error("spans could not be exported: {reason}; they are kept in the store and tried again")]
    Export {
        /// What it said.
        reason: String,
    },
    /// It took longer than was allowed.
    #[error("spans were not exported within {limit:?}; they are kept in the store and exported later")]
    TimedOut {
        /// How long it was allowed to take.
        limit: Duration,
    },
    /// The task that exports has ended.
    #[error("the task of the telemetry has ended: the runtime that it was started in is gone")]
    Ended,
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

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
    /// Without this, every process begins with the runs that are open or not older than a minute.
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
    /// appends is seen at once.
    pub fn look_every(mut self, interval: Duration) -> Self {
        self.times.sweep = interval;
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
        let exporter = exporter.map(Arc::<dyn Exporter>::from);
        let metrics = Metrics::new(Arc::clone(&registry), Arc::clone(&store), engine.gauge());
        let reader =
            Reader::new(Arc::clone(&store), settings.clone(), Arc::clone(&registry), exporter.is_some());
        let (asks, asked) = mpsc::channel(8);
        let work = Work::new(
            Arc::clone(&store),
            exporter.clone(),
            progress,
            metrics.clone(),
            registry,
            reader,
            times,
        );
        drop(tokio::spawn(work.run(asked, engine.watch())));
        Telemetry { asks, metrics, store, exporter, settings, times }
    }
}

/// The telemetry of one engine: spans and metrics made of the journals in its store. The task behind it ends when this is
/// dropped, as if the process were killed: the next one goes on where the progress was saved.
#[derive(Debug)]
pub struct Telemetry {
    asks: mpsc::Sender<Ask>,
    metrics: Metrics,
    store: Arc<dyn Store>,
    exporter: Option<Arc<dyn Exporter>>,
    settings: Settings,
    times: Times,
}

/// What a backfill has exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backfilled {
    /// Number of runs.
    pub runs: u64,
    /// Number of spans.
    pub spans: u64,
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
    /// [`TelemetryError::Export`] and [`TelemetryError::TimedOut`] where not everything was exported.
    pub async fn flush(&self, limit: Duration) -> Result<(), TelemetryError> {
        let flushed = async {
            let (reply, replied) = oneshot::channel();
            self.asks.send(Ask::Flush(reply)).await.map_err(|_| TelemetryError::Ended)?;
            let flushed = replied.await.map_err(|_| TelemetryError::Ended)?;
            flushed.map_err(|reason| TelemetryError::Export { reason })
        };
        tokio::time::timeout(limit, flushed).await.unwrap_or(Err(TelemetryError::TimedOut { limit }))
    }

    /// Exports the spans of all runs that were started at `since` or later and are in the store, whether or not they were
    /// exported before: they have the same ids. Counts nothing, and changes no progress. Spans of a run that has not ended
    /// are those that have.
    ///
    /// # Errors
    /// [`TelemetryError::Store`], and [`TelemetryError::Export`] at the first batch that is refused; nothing is lost, and it
    /// can be called again.
    pub async fn backfill(&self, since: Timestamp) -> Result<Backfilled, TelemetryError> {
        let mut done = Backfilled::default();
        let Some(exporter) = &self.exporter else { return Ok(done) };
        let mut filter = RunFilter::new().created_after(since).limit(PAGE);
        loop {
            let page = self.store.runs(filter.clone()).await?;
            let Some(last) = page.last() else { return Ok(done) };
            filter.after = Some(last.place);
            for record in page {
                let mut fold = Fold::new(record.id.clone(), record.traceparent);
                let mut ended = Vec::new();
                read_on(&*self.store, &record.id, &mut fold, &self.settings, &mut ended, |_, _, _| {})
                    .await?;
                if fold.trace().is_none_or(|trace| !trace.is_sampled()) {
                    continue;
                }
                for batch in ended.chunks(PAGE) {
                    let spans: Vec<_> = batch.iter().map(|ended| ended.span.clone()).collect();
                    done.spans += spans.len() as u64;
                    let exported = exporter.export(spans, self.times.export).await;
                    exported.map_err(|reason| TelemetryError::Export { reason })?;
                }
                done.runs += 1;
            }
        }
    }
}
