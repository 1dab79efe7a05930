//! Counters, gauges and histograms, and their text for Prometheus.
//!
//! Promise: the text is the exposition format 0.0.4, with every family together, sorted, and every label escaped.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::Histogram;

/// Labels of one series, by name.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// What a family of metrics is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    /// A histogram that the engine keeps: a meter reads its sum and its count.
    Measured,
    /// A sum and a count.
    Summary,
}

/// A family of metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
}

const fn family(name: &'static str, kind: Kind, help: &'static str) -> Family {
    Family { name, kind, help }
}

pub(crate) const RUNS_STARTED: &str = "aether_runs_started_total";
pub(crate) const RUNS_ENDED: &str = "aether_runs_ended_total";
pub(crate) const RUN_SECONDS: &str = "aether_run_seconds";
pub(crate) const CLAIM_DELAY: &str = "aether_claim_delay_seconds";
pub(crate) const STEPS: &str = "aether_steps_total";
pub(crate) const STEP_SECONDS: &str = "aether_step_seconds";
pub(crate) const STEP_RETRIES: &str = "aether_step_retries_total";
pub(crate) const UNKNOWN: &str = "aether_unknown_total";
pub(crate) const LLM_TOKENS: &str = "aether_llm_tokens_total";
pub(crate) const LLM_COST: &str = "aether_llm_cost_total";
pub(crate) const EXPORTED: &str = "aether_telemetry_spans_total";
pub(crate) const EXPORT_FAILURES: &str = "aether_telemetry_export_failures_total";
pub(crate) const RUNS_OPEN: &str = "aether_runs_open";
pub(crate) const RUNS_PARKED: &str = "aether_runs_parked";
pub(crate) const DUE_OLDEST: &str = "aether_due_oldest_seconds";
pub(crate) const APPROVALS_OPEN: &str = "aether_approvals_open";
pub(crate) const APPROVAL_OLDEST: &str = "aether_approval_oldest_seconds";
pub(crate) const QUEUE_DEPTH: &str = "aether_queue_depth";
pub(crate) const APPEND_SECONDS: &str = "aether_append_seconds";
pub(crate) const APPEND_BATCH: &str = "aether_append_batch";
pub(crate) const REPLAY_SECONDS: &str = "aether_replay_seconds";
pub(crate) const REPLAYED_EVENTS: &str = "aether_replayed_events_total";
pub(crate) const LEASES_LOST: &str = "aether_leases_lost_total";
pub(crate) const STORE_ERRORS: &str = "aether_store_errors_total";
pub(crate) const TELEMETRY_BEHIND: &str = "aether_telemetry_runs_behind";

/// Every family, by name.
pub(crate) const FAMILIES: &[Family] = &[
    family(APPEND_BATCH, Kind::Summary, "Appends that the store has written in one commit."),
    family(
        APPEND_SECONDS,
        Kind::Measured,
        "Time from when a run of this process handed an append to the store until it was durable.",
    ),
    family(APPROVAL_OLDEST, Kind::Gauge, "Age of the oldest open approval."),
    family(APPROVALS_OPEN, Kind::Gauge, "Approvals that wait for a person."),
    family(CLAIM_DELAY, Kind::Histogram, "Time from when a waiting run was due until a worker took it."),
    family(DUE_OLDEST, Kind::Gauge, "How long the oldest due run has waited for a worker."),
    family(LEASES_LOST, Kind::Counter, "Runs that another worker has taken over from this process."),
    family(LLM_COST, Kind::Counter, "Cost of answers of models, by the program's table of prices."),
    family(LLM_TOKENS, Kind::Counter, "Tokens of questions to models and of their answers."),
    family(QUEUE_DEPTH, Kind::Gauge, "Runs of a queue that have not begun."),
    family(
        REPLAY_SECONDS,
        Kind::Measured,
        "Time to take a run up again: to read its journal, and to pass all that is recorded.",
    ),
    family(REPLAYED_EVENTS, Kind::Counter, "Events of the journals of runs that were taken up again."),
    family(RUN_SECONDS, Kind::Histogram, "Time from the start of a run to its end, waits included."),
    family(RUNS_ENDED, Kind::Counter, "Runs that ended."),
    family(RUNS_OPEN, Kind::Gauge, "Runs that have not ended."),
    family(RUNS_PARKED, Kind::Gauge, "Runs that wait for code that they fit."),
    family(RUNS_STARTED, Kind::Counter, "Runs that were started."),
    family(STEP_RETRIES, Kind::Counter, "Attempts that failed and were followed by another one."),
    family(
        STEP_SECONDS,
        Kind::Histogram,
        "Time of a step, with all its attempts and the waits between them.",
    ),
    family(STEPS, Kind::Counter, "Steps that have an outcome."),
    family(STORE_ERRORS, Kind::Counter, "Errors of the store that this process met."),
    family(
        EXPORT_FAILURES,
        Kind::Counter,
        "Batches of spans that could not be exported, and are tried again.",
    ),
    family(TELEMETRY_BEHIND, Kind::Gauge, "Runs with spans that are not exported yet."),
    family(EXPORTED, Kind::Counter, "Spans that were exported."),
    family(UNKNOWN, Kind::Counter, "Decisions about calls whose outcome was unknown."),
];

/// Upper bounds of the buckets of histograms, in seconds: from milliseconds to a week.
pub(crate) const BOUNDS: [f64; 17] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3_600.0, 86_400.0,
    604_800.0,
];

#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// The number; of a histogram, the sum.
    pub(crate) value: f64,
    pub(crate) count: u64,
    /// Upper bounds in ascending order, each with how many values are not above it.
    pub(crate) buckets: Vec<(f64, u64)>,
}

type AllSeries = BTreeMap<&'static str, BTreeMap<Labels, Series>>;

/// All series of all families.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    series: Mutex<AllSeries>,
    /// Histograms of an OpenTelemetry meter that are told, too.
    mirrored: Mutex<BTreeMap<&'static str, Histogram<f64>>>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, AllSeries> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, family: &'static str, labels: Labels, by: f64) {
        self.lock().entry(family).or_default().entry(labels).or_default().value += by;
    }

    pub(crate) fn observe(&self, family: &'static str, labels: Labels, value: f64) {
        self.mirror(family, &labels, value);
        let mut all = self.lock();
        let series = all.entry(family).or_default().entry(labels).or_default();
        series.value += value;
        series.count += 1;
        if series.buckets.is_empty() {
            series.buckets = BOUNDS.map(|bound| (bound, 0)).into();
        }
        for (bound, bucket) in &mut series.buckets {
            *bucket += u64::from(value <= *bound);
        }
    }

    /// Tells only the meter, under a name of the conventions.
    pub(crate) fn mirror(&self, family: &'static str, labels: &[(&'static str, String)], value: f64) {
        let mirrored = self.mirrored.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(histogram) = mirrored.get(family) {
            histogram.record(value, &attributes(labels));
        }
    }

    pub(crate) fn mirror_into(&self, family: &'static str, histogram: Histogram<f64>) {
        self.mirrored.lock().unwrap_or_else(PoisonError::into_inner).insert(family, histogram);
    }

    /// Replaces all series of a family.
    pub(crate) fn set(&self, family: &'static str, series: impl IntoIterator<Item = (Labels, f64)>) {
        let series =
            series.into_iter().map(|(labels, value)| (labels, Series { value, ..Series::default() }));
        self.lock().insert(family, series.collect());
    }

    /// Replaces what there is of a family that has one series.
    pub(crate) fn set_whole(&self, family: &'static str, series: Series) {
        self.lock().insert(family, BTreeMap::from([(Labels::new(), series)]));
    }

    /// The series of one family, with their labels.
    pub(crate) fn series(&self, family: &str) -> Vec<(Labels, Series)> {
        let all = self.lock();
        let series = all.get(family).into_iter().flatten();
        series.map(|(labels, series)| (labels.clone(), series.clone())).collect()
    }

    /// The text for Prometheus.
    pub(crate) fn text(&self) -> String {
        let all = self.lock();
        let mut text = String::new();
        for family in FAMILIES {
            let Some(series) = all.get(family.name).filter(|series| !series.is_empty()) else { continue };
            let kind = match family.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram | Kind::Measured => "histogram",
                Kind::Summary => "summary",
            };
            // Writing to a string does not fail.
            let _written = write!(text, "# HELP {0} {1}\n# TYPE {0} {kind}\n", family.name, family.help);
            for (labels, series) in series {
                match family.kind {
                    Kind::Histogram | Kind::Measured | Kind::Summary => {
                        distribution(&mut text, family, labels, series)
                    }
                    _ => line(&mut text, family.name, labels, None, series.value),
                }
            }
        }
        text
    }
}

/// Labels as attributes of OpenTelemetry.
pub(crate) fn attributes(labels: &[(&'static str, String)]) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| KeyValue::new(*name, value.clone())).collect()
}

#[allow(clippy::cast_precision_loss, reason = "a count beyond 2^53 is out of reach")]
fn distribution(text: &mut String, family: &Family, labels: &Labels, series: &Series) {
    let name = family.name;
    if family.kind != Kind::Summary {
        let buckets = format!("{name}_bucket");
        for (bound, count) in &series.buckets {
            line(text, &buckets, labels, Some(bound.to_string()), *count as f64);
        }
        line(text, &buckets, labels, Some("+Inf".into()), series.count as f64);
    }
    line(text, &format!("{name}_sum"), labels, None, series.value);
    line(text, &format!("{name}_count"), labels, None, series.count as f64);
}

fn line(text: &mut String, name: &str, labels: &Labels, le: Option<String>, value: f64) {
    text.push_str(name);
    let bound = le.map(|bound| ("le", bound));
    let all: Vec<_> = labels.iter().cloned().chain(bound).collect();
    for (at, (label, value)) in all.iter().enumerate() {
        text.push(if at == 0 { '{' } else { ',' });
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _written = write!(text, "{label}=\"{value}\"");
    }
    if !all.is_empty() {
        text.push('}');
    }
    let _written = writeln!(text, " {value}");
}
