//! Metrics: what was counted, and what the store says now.
//!
//! Promise: a counter follows durable events and a gauge is a question to the store, so a replay changes neither.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aether_core::contract::Status;
use aether_core::measures::{Batches, Gauge, Spread};
use aether_core::store::{RunFilter, RunRecord, Store, StoreError, WaitFilter};
use aether_core::waiting::Waiting;
use jiff::Timestamp;
use opentelemetry::metrics::{AsyncInstrument, Meter};

use crate::registry::{
    APPEND_BATCH, APPEND_SECONDS, APPROVAL_OLDEST, APPROVALS_OPEN, BOUNDS, DUE_OLDEST, FAMILIES, Kind,
    LEASES_LOST, Labels, QUEUE_DEPTH, REPLAY_SECONDS, REPLAYED_EVENTS, RUNS_OPEN, RUNS_PARKED, Registry,
    STORE_ERRORS, Series, attributes,
};
use crate::semconv::gen_ai::metric;

/// Runs and waits of one page.
const PAGE: usize = 1_000;

/// The metrics of an engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    store: Arc<dyn Store>,
    /// What the engine measures of its own work.
    gauge: Arc<Gauge>,
    /// When the open runs were counted last.
    counted: Arc<Mutex<Option<CountedAt>>>,
}

/// When something was counted, and how long that took.
#[derive(Clone, Copy, Debug)]
struct CountedAt {
    end: Instant,
    took: Duration,
}

/// Counting may take a twentieth of the time.
const COUNTING: u32 = 20;

impl Metrics {
    pub(crate) fn new(registry: Arc<Registry>, store: Arc<dyn Store>, gauge: Arc<Gauge>) -> Self {
        Self { registry, store, gauge, counted: Arc::default() }
    }

    /// All metrics as text for Prometheus, version 0.0.4 of its format: what `GET /metrics` answers, as
    /// `text/plain; version=0.0.4`. Asks the store for the gauges; open runs are counted again where that takes no more
    /// than a twentieth of the time.
    ///
    /// ```
    /// # async fn metrics(telemetry: &aether_otel::Telemetry) -> Result<String, aether_core::store::StoreError> {
    /// telemetry.metrics().prometheus().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be asked.
    pub async fn prometheus(&self) -> Result<String, StoreError> {
        self.refresh().await?;
        Ok(self.registry.text())
    }

    /// Asks the store for the gauges. A meter reads what the last call found; the task of the telemetry calls this with
    /// each look at the list of runs.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be asked.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let now = Timestamp::now();
        let store = &*self.store;
        if self.counts_open_runs() {
            let began = Instant::now();
            self.set_open_runs(open_runs(store).await?, began);
        }
        self.refresh_measures();
        let parked = store.count(RunFilter::new().open().parked(true)).await?;
        self.registry.set(RUNS_PARKED, [(Labels::new(), count(parked))]);
        let late = store.next_wake().await?.map_or(0.0, |due| age(due, now));
        self.registry.set(DUE_OLDEST, [(Labels::new(), late)]);
        let (approvals, oldest) = approvals(store).await?;
        self.registry.set(APPROVALS_OPEN, [(Labels::new(), count(approvals))]);
        self.registry.set(APPROVAL_OLDEST, oldest.map(|since| (Labels::new(), age(since, now))));
        Ok(())
    }

    /// Whether it is time to count the open runs again.
    fn counts_open_runs(&self) -> bool {
        let counted = *self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.is_none_or(|counted| counted.end.elapsed() >= counted.took * COUNTING)
    }

    /// The open runs were counted, from `began` until now.
    pub(crate) fn set_open_runs(&self, open: OpenRuns, began: Instant) {
        let gauge = |counts: BTreeMap<Labels, u64>| -> Vec<_> {
            counts.into_iter().map(|(labels, runs)| (labels, count(runs))).collect()
        };
        self.registry.set(RUNS_OPEN, gauge(open.open));
        self.registry.set(QUEUE_DEPTH, gauge(open.queued));
        let counted = CountedAt { end: Instant::now(), took: began.elapsed() };
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
    }

    /// What the engine and its store have measured.
    fn refresh_measures(&self) {
        let measures = self.gauge.read();
        self.registry.set_whole(APPEND_SECONDS, spread(&measures.appends));
        self.registry.set_whole(REPLAY_SECONDS, spread(&measures.replays));
        self.registry.set(REPLAYED_EVENTS, [(Labels::new(), count(measures.replayed_events))]);
        self.registry.set(LEASES_LOST, [(Labels::new(), count(measures.leases_lost))]);
        let errors = measures.store_errors.into_iter();
        self.registry
            .set(STORE_ERRORS, errors.map(|(kind, errors)| (vec![("kind", kind.to_owned())], count(errors))));
        if let Some(Batches { batches, appends, .. }) = self.store.batches() {
            let series = Series { value: count(appends), count: batches, buckets: Vec::new() };
            self.registry.set_whole(APPEND_BATCH, series);
        }
    }

    /// Has a meter of OpenTelemetry read these metrics: for OTLP, by way of a provider with a periodic exporter. Counters
    /// have no `_total` in their names there. Durations of the conventions, such as `gen_ai.client.operation.duration`, come
    /// besides, for what happens from now on.
    ///
    /// ```
    /// # fn with(telemetry: &aether_otel::Telemetry, provider: opentelemetry_sdk::metrics::SdkMeterProvider) {
    /// use opentelemetry::metrics::MeterProvider as _;
    /// telemetry.metrics().observe_with(&provider.meter("aether"));
    /// # }
    /// ```
    pub fn observe_with(&self, meter: &Meter) {
        for family in FAMILIES {
            let registry = Arc::clone(&self.registry);
            let name = family.name.trim_end_matches("_total");
            match family.kind {
                Kind::Counter => {
                    let counter = meter.f64_observable_counter(name).with_description(family.help);
                    let read = series(registry, family.name, |series| series.value);
                    let _read_by_the_meter = counter.with_callback(read).build();
                }
                Kind::Gauge => {
                    let gauge = meter.f64_observable_gauge(name).with_description(family.help);
                    let read = series(registry, family.name, |series| series.value);
                    let _read_by_the_meter = gauge.with_callback(read).build();
                }
                Kind::Measured | Kind::Summary => {
                    let parts: [(&str, Part); 2] =
                        [("sum", |series| series.value), ("count", |series| count(series.count))];
                    for (part, value) in parts {
                        let counter = meter.f64_observable_counter(format!("{name}_{part}"));
                        let read = series(Arc::clone(&registry), family.name, value);
                        let _read_by_the_meter =
                            counter.with_description(family.help).with_callback(read).build();
                    }
                }
                Kind::Histogram => {
                    let histogram = meter.f64_histogram(name).with_description(family.help).with_unit("s");
                    // Those of the SDK are for milliseconds.
                    let histogram = histogram.with_boundaries(BOUNDS.to_vec());
                    registry.mirror_into(family.name, histogram.build());
                }
            }
        }
        for name in [
            metric::CLIENT_OPERATION_DURATION,
            metric::EXECUTE_TOOL_DURATION,
            metric::INVOKE_AGENT_DURATION,
            metric::WORKFLOW_DURATION,
        ] {
            let histogram = meter.f64_histogram(name).with_unit("s");
            let histogram = histogram.with_boundaries(metric::DURATION_BOUNDS.to_vec());
            self.registry.mirror_into(name, histogram.build());
        }
    }
}

/// The part of a series that a meter reads.
type Part = fn(&Series) -> f64;

/// What a meter calls to read a family.
fn series(registry: Arc<Registry>, name: &'static str, value: Part) -> impl Fn(&dyn AsyncInstrument<f64>) {
    move |to| {
        for (labels, series) in registry.series(name) {
            to.observe(value(&series), &attributes(&labels));
        }
    }
}

/// What the engine has measured, as a series.
fn spread(spread: &Spread) -> Series {
    let buckets = spread.cumulative().map(|(bound, count)| (bound.as_secs_f64(), count)).collect();
    Series { value: spread.sum.as_secs_f64(), count: spread.count(), buckets }
}

/// Open runs by workflow and status, and those that wait in queues.
#[derive(Debug, Default)]
pub(crate) struct OpenRuns {
    open: BTreeMap<Labels, u64>,
    queued: BTreeMap<Labels, u64>,
}

impl OpenRuns {
    pub(crate) fn add(&mut self, record: &RunRecord) {
        let status = record.status.as_str().to_owned();
        *self.open.entry(vec![("status", status), ("workflow", record.workflow.clone())]).or_default() += 1;
        if let Some(place) = &record.terms.queue
            && record.status == Status::Pending
        {
            *self.queued.entry(vec![("queue", place.queue.to_string())]).or_default() += 1;
        }
    }
}

async fn open_runs(store: &dyn Store) -> Result<OpenRuns, StoreError> {
    let mut open = OpenRuns::default();
    let mut filter = RunFilter::new().open().limit(PAGE);
    loop {
        let page = store.runs(filter.clone()).await?;
        let Some(last) = page.last() else { return Ok(open) };
        filter.after = Some(last.place);
        page.iter().for_each(|record| open.add(record));
    }
}

/// How many approvals are open, and since when the oldest one is.
async fn approvals(store: &dyn Store) -> Result<(u64, Option<Timestamp>), StoreError> {
    let mut filter = WaitFilter::default().kind(Waiting::Approval).limit(PAGE);
    let (mut open, mut oldest) = (0, None);
    loop {
        let page = store.waits(filter.clone()).await?;
        let Some(last) = page.last() else { return Ok((open, oldest)) };
        filter.after = Some(last.place);
        open += page.len() as u64;
        oldest = page.iter().map(|listed| listed.wait.since).chain(oldest).min();
    }
}

fn age(since: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(since).as_secs_f64().max(0.0)
}

#[allow(clippy::cast_precision_loss, reason = "a count beyond 2^53 is out of reach")]
fn count(number: u64) -> f64 {
    number as f64
}
