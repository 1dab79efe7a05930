//! Schedules as a store keeps them: what is started when, what became of the newest ticks, and what is decided but
//! perhaps not started.
//!
//! Promise: the decision about a tick is written before its run is created, and the run's id follows from schedule and
//! tick. So each tick is decided once and has at most one run, however many workers look.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::vocabulary::clock_change::{Gap, Repeat};
use crate::vocabulary::id::{RunId, RunIdError};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::payload::Payload;

/// What happens to a tick while the run of an earlier tick is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overlap {
    /// The tick is skipped.
    #[default]
    Skip,
    /// The tick waits until that run has ended. What else ticks meanwhile counts as missed: see [`CatchUp`].
    Wait,
    /// Its run is started beside the other.
    Allow,
    /// The earlier run is cancelled, and the tick waits until it has ended, as with [`Overlap::Wait`].
    Cancel,
    /// The earlier run is terminated, and the tick waits until it has ended, as with [`Overlap::Wait`].
    Terminate,
}

/// What happens to ticks that nobody started in time: no worker was there, or the tick waited for an earlier run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CatchUp {
    /// Ticks that are late by more than a minute are skipped.
    None,
    /// The newest is started, the others are skipped.
    #[default]
    Last,
    /// The newest of them are started, at most so many, in order. Not with [`Overlap::Skip`], which would skip all but the
    /// first, nor with [`Overlap::Cancel`] and [`Overlap::Terminate`], which would end all but the last.
    All(u16),
}

/// What a schedule starts, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleSpec {
    /// Name of the workflow.
    pub workflow: String,
    /// Module of the workflow, which tells apart those of one name.
    pub module: String,
    /// Version of the workflow; 0 for the newest one that is linked.
    #[serde(default)]
    pub version: u32,
    /// Its input.
    pub input: Payload,
    /// Labels of its runs.
    #[serde(default)]
    pub labels: Labels,
    /// The cron expression.
    pub cron: String,
    /// The time zone in which it is read.
    pub zone: String,
    /// What happens while an earlier run is open.
    pub overlap: Overlap,
    /// What happens to missed ticks.
    pub catch_up: CatchUp,
    /// How long after its time a tick may be started, in milliseconds. Each tick has its own delay, below this and below
    /// the time until the next tick.
    #[serde(default)]
    pub jitter_ms: u64,
    /// What becomes of a time of day that clocks skip.
    #[serde(default)]
    pub gap: Gap,
    /// What becomes of a time of day that comes twice.
    #[serde(default)]
    pub repeat: Repeat,
}

/// What became of a tick, or of several in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TickOutcome {
    /// Its run was started.
    Started,
    /// Its run was started by hand.
    Triggered,
    /// Its run was started by hand, with those of a whole time.
    Backfilled,
    /// It was skipped because the run of an earlier tick was open.
    Overlapped,
    /// It was skipped because it was missed.
    Missed,
    /// Its run could not be started; the text says why.
    Failed(String),
}

impl TickOutcome {
    /// Whether such ticks in a row are kept as one.
    fn is_kept_in_rows(&self) -> bool {
        matches!(self, Self::Overlapped | Self::Missed | Self::Backfilled)
    }
}

/// A tick and what became of it. Ticks in a row that were skipped for one reason are one, and those of a backfill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// When it was due.
    pub at: Timestamp,
    /// When the last tick in the row was due.
    pub until: Timestamp,
    /// What became of it.
    pub outcome: TickOutcome,
    /// When that was decided, by the clock of the worker that did; `None` for one that an older build kept.
    #[serde(default)]
    pub noted_at: Option<Timestamp>,
}

/// A schedule as a store keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleRecord {
    /// Its name, which no other schedule of the store has.
    pub name: String,
    /// What it starts, and when.
    pub spec: ScheduleSpec,
    /// Whether it is paused: its ticks pass without trace.
    pub paused: bool,
    /// The first tick that is not decided.
    pub next: Timestamp,
    /// How long after its time that tick is started, in milliseconds: its share of [`ScheduleSpec::jitter_ms`].
    #[serde(default)]
    pub delay_ms: u64,
    /// Ticks that are decided to be started, and perhaps are; a few at most.
    pub starting: Vec<Timestamp>,
    /// The newest tick whose run was to be started.
    pub last: Option<Timestamp>,
    /// The newest ticks, oldest first; at most [`ScheduleRecord::RECENT`].
    pub recent: Vec<Tick>,
    /// When it was declared first.
    pub created_at: Timestamp,
    /// Rises with every write.
    pub revision: u64,
}

impl ScheduleRecord {
    /// How many of the newest ticks a record keeps.
    pub const RECENT: usize = 100;

    /// When a worker must look at it; `None` while it is paused.
    ///
    /// ```
    /// # use aether_core::store::ScheduleRecord;
    /// fn is_due(schedule: &ScheduleRecord, now: jiff::Timestamp) -> bool {
    ///     schedule.due_at().is_some_and(|due| due <= now)
    /// }
    /// ```
    pub fn due_at(&self) -> Option<Timestamp> {
        (!self.paused).then(|| self.starting.first().copied().unwrap_or_else(|| self.starts_at()))
    }

    /// When [`ScheduleRecord::next`] is started: at its time, or later where the schedule has a jitter.
    pub fn starts_at(&self) -> Timestamp {
        let delay =
            SignedDuration::try_from(Duration::from_millis(self.delay_ms)).unwrap_or(SignedDuration::ZERO);
        self.next.saturating_add(delay).unwrap_or(Timestamp::MAX)
    }

    /// Keeps what became of ticks, and forgets the oldest.
    pub(crate) fn keep(&mut self, tick: Tick) {
        match self.recent.last_mut() {
            Some(last) if tick.outcome.is_kept_in_rows() && last.outcome == tick.outcome => {
                (last.until, last.noted_at) = (tick.until, tick.noted_at);
            }
            _ => self.recent.push(tick),
        }
        let surplus = self.recent.len().saturating_sub(Self::RECENT);
        self.recent.drain(..surplus);
    }
}

/// Which due schedules to list.
#[derive(Clone, Debug)]
pub struct DueSchedules {
    /// Only those that are due then.
    pub now: Timestamp,
    /// Only schedules of these workflows.
    pub workflows: Arc<[String]>,
    /// Only schedules behind this one: when it is due, and its name.
    pub after: Option<(Timestamp, String)>,
    /// The most schedules to list.
    pub limit: usize,
}

/// Id of the run of one tick: `schedule:nightly:2026-11-22T03:00:00Z`.
///
/// ```
/// use aether_core::store::{run_of_tick, tick_of_run};
/// let tick = "2026-11-22T03:00:00Z".parse().unwrap();
/// let run = run_of_tick("nightly", tick)?;
/// assert_eq!(run.as_str(), "schedule:nightly:2026-11-22T03:00:00Z");
/// assert_eq!(tick_of_run(&run), Some(tick));
/// # Ok::<(), aether_core::id::RunIdError>(())
/// ```
///
/// # Errors
/// [`RunIdError`] when the name is too long or holds a control character.
pub fn run_of_tick(schedule: &str, tick: Timestamp) -> Result<RunId, RunIdError> {
    RunId::new(format!("{PREFIX}{schedule}:{tick}"))
}

/// The tick that started a run; `None` for a run that no schedule started.
pub fn tick_of_run(run: &RunId) -> Option<Timestamp> {
    let named = run.as_str().strip_prefix(PREFIX)?;
    // A time holds two colons, a name may hold any number.
    let (colon, _) = named.rmatch_indices(':').nth(2)?;
    named.get(colon + 1..)?.parse().ok()
}

const PREFIX: &str = "schedule:";
