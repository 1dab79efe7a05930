//! Queues, limits and schedules.

use aether_core::payload::Payload;
use aether_core::store::{Limit, ScheduleRecord, Tick, TickOutcome};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// `queues list`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct QueueList {
    /// The queues, by name.
    pub(crate) queues: Vec<QueueReport>,
}

/// A queue.
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct QueueReport {
    /// Its name.
    pub(crate) name: String,
    /// Number of its open runs.
    pub(crate) open: u64,
    /// How many of them a worker holds.
    pub(crate) turns: u64,
    /// How many of them wait for a turn.
    pub(crate) waiting: u64,
    /// The limits of the queue, and of its keys.
    pub(crate) limits: Vec<LimitReport>,
}

/// `queues limit list`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LimitList {
    /// The limits, by pattern.
    pub(crate) limits: Vec<LimitReport>,
}

/// `queues limit set` and `queues limit remove`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LimitDeed {
    /// set or removed.
    pub(crate) action: String,
    /// The limit.
    pub(crate) limit: LimitReport,
}

/// A limit.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LimitReport {
    /// What it counts together.
    pub(crate) pattern: String,
    /// running, starts, open or weight.
    pub(crate) kind: String,
    /// Its number.
    pub(crate) number: u32,
    /// The time that starts are counted in.
    pub(crate) per_seconds: Option<f64>,
    /// All of it in words.
    pub(crate) text: String,
}

impl LimitReport {
    pub(crate) fn of(limit: &Limit) -> Self {
        Self {
            pattern: limit.pattern.to_string(),
            kind: limit.kind.name().into(),
            number: limit.kind.number(),
            per_seconds: limit.kind.per().map(|per| per.as_secs_f64()),
            text: limit.to_string(),
        }
    }
}

/// `schedules list`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ScheduleList {
    /// The schedules, by name.
    pub(crate) schedules: Vec<ScheduleReport>,
}

/// `schedules pause` and `schedules resume`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ScheduleDeed {
    /// paused or resumed.
    pub(crate) action: String,
    /// The schedule as it is now.
    pub(crate) schedule: ScheduleReport,
}

/// A schedule.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ScheduleReport {
    /// Its name.
    pub(crate) name: String,
    /// The workflow that it starts.
    pub(crate) workflow: String,
    /// The input of its runs.
    #[schemars(with = "Value")]
    input: Payload,
    /// Its cron expression.
    pub(crate) cron: String,
    /// The time zone in which that is read.
    pub(crate) zone: String,
    /// Whether it is paused.
    pub(crate) paused: bool,
    /// The first tick that is not decided.
    #[schemars(with = "String")]
    pub(crate) next: Timestamp,
    /// What became of its newest ticks, oldest first.
    pub(crate) recent: Vec<TickReport>,
}

/// What became of a tick, or of several in a row.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TickReport {
    /// When it was due.
    #[schemars(with = "String")]
    pub(crate) at: Timestamp,
    /// When the last in the row was due.
    #[schemars(with = "String")]
    until: Timestamp,
    /// started, triggered, backfilled, overlapped, missed or failed.
    pub(crate) outcome: String,
    /// Why its run could not be started.
    error: Option<String>,
}

impl ScheduleReport {
    pub(crate) fn of(schedule: ScheduleRecord) -> Self {
        let ScheduleRecord { name, spec, paused, next, recent, .. } = schedule;
        Self {
            name,
            workflow: spec.workflow,
            input: spec.input,
            cron: spec.cron,
            zone: spec.zone,
            paused,
            next,
            recent: recent.into_iter().map(TickReport::of).collect(),
        }
    }
}

impl TickReport {
    fn of(tick: Tick) -> Self {
        let (outcome, error) = match tick.outcome {
            TickOutcome::Started => ("started", None),
            TickOutcome::Triggered => ("triggered", None),
            TickOutcome::Backfilled => ("backfilled", None),
            TickOutcome::Overlapped => ("overlapped", None),
            TickOutcome::Missed => ("missed", None),
            TickOutcome::Failed(error) => ("failed", Some(error)),
            _ => ("other", None),
        };
        Self { at: tick.at, until: tick.until, outcome: outcome.into(), error }
    }
}
