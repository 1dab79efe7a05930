//! Metrics: what was counted, and what the store says now.
//!
//! Promise: a counter follows durable events and a gauge is a question to the store, so a replay changes neither.

use std::collections::BTreeMap;
use std::sync::Arc;

use aether_core::contract::Status;
use aether_core::store::{RunFilter, Store, StoreError, WaitFilter};
use aether_core::waiting::Waiting;
use jiff::Timestamp;
use opentelemetry::metrics::{AsyncInstrument, Meter};

use crate::registry::{
    APPROVAL_OLDEST, APPROVALS_OPEN, DUE_OLDEST, FAMILIES, Kind, Labels, QUEUE_DEPTH, RUNS_OPEN, RUNS_PARKED,
    Registry, attributes,
};
use crate::semconv::gen_ai::metric;

/// Runs and waits of one page.
const PAGE: usize = 1_000;

/// The metrics of an engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    store: Arc<dyn Store>,
}

impl Metrics {
    pub(crate) fn new(registry: Arc<Registry>, store: Arc<dyn Store>) -> Self {
        Self { registry, store }
    }

    /// All metrics as text for Prometheus, version 0.0.4 of its format: what `GET /metrics` answers, as
    /// `text/plain; version=0.0.4`. Asks the store for the gauges.
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
        let (open, queues) = open_runs(store).await?;
        self.registry.set(RUNS_OPEN, open);
        self.registry.set(QUEUE_DEPTH, queues);
        let parked = store.count(RunFilter::new().open().parked(true)).await?;
        self.registry.set(RUNS_PARKED, [(Labels::new(), count(parked))]);
        let late = store.next_wake().await?.map_or(0.0, |due| age(due, now));
        self.registry.set(DUE_OLDEST, [(Labels::new(), late)]);
        let (approvals, oldest) = approvals(store).await?;
        self.registry.set(APPROVALS_OPEN, [(Labels::new(), count(approvals))]);
        self.registry.set(APPROVAL_OLDEST, oldest.map(|since| (Labels::new(), age(since, now))));
        Ok(())
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
                    let _read_by_the_meter = counter.with_callback(series(registry, family.name)).build();
                }
                Kind::Gauge => {
                    let gauge = meter.f64_observable_gauge(name).with_description(family.help);
                    let _read_by_the_meter = gauge.with_callback(series(registry, family.name)).build();
                }
                Kind::Histogram => {
                    let histogram = meter.f64_histogram(name).with_description(family.help).with_unit("s");
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
            self.registry.mirror_into(name, meter.f64_histogram(name).with_unit("s").build());
        }
    }
}

/// What a meter calls to read a family.
fn series(registry: Arc<Registry>, name: &'static str) -> impl Fn(&dyn AsyncInstrument<f64>) {
    move |to| {
        for (labels, value) in registry.series(name) {
            to.observe(value, &attributes(&labels));
        }
    }
}

type Gauge = Vec<(Labels, f64)>;

/// Open runs by workflow and status, and those that wait in queues.
async fn open_runs(store: &dyn Store) -> Result<(Gauge, Gauge), StoreError> {
    let (mut open, mut queues) = (BTreeMap::<Labels, u64>::new(), BTreeMap::<Labels, u64>::new());
    let mut filter = RunFilter::new().open().limit(PAGE);
    loop {
        let page = store.runs(filter.clone()).await?;
        let Some(last) = page.last() else { break };
        filter.after = Some(last.place);
        for record in &page {
            let status = record.status.as_str().to_owned();
            *open.entry(vec![("status", status), ("workflow", record.workflow.clone())]).or_default() += 1;
            if let Some(place) = &record.terms.queue
                && record.status == Status::Pending
            {
                *queues.entry(vec![("queue", place.queue.to_string())]).or_default() += 1;
            }
        }
    }
    let gauge = |counts: BTreeMap<Labels, u64>| {
        counts.into_iter().map(|(labels, runs)| (labels, count(runs))).collect()
    };
    Ok((gauge(open), gauge(queues)))
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
