//! Starting the ticks of a time that is over.
//!
//! Promise: each tick has at most one run, also where some were started before, and where a backfill is cut off and made
//! again.

use std::ops::Range;

use futures_util::stream::{self, StreamExt as _};
use jiff::{SignedDuration, Timestamp};

use crate::engine::inner::now;
use crate::engine::schedules::decision::cron_of;
use crate::engine::schedules::error::ScheduleError;
use crate::engine::schedules::handle::{Schedule, start};
use crate::engine::start::StartError;
use crate::store::schedules::{ScheduleRecord, TickOutcome};

/// How many runs are created at the same time, so that their writes share commits.
const AT_ONCE: usize = 64;

/// What a backfill did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backfill {
    /// How many runs it started.
    pub started: u64,
    /// How many ticks had a run before, also one of a workflow that the schedule started then.
    pub existing: u64,
}

impl Schedule {
    /// Starts the run of each tick in `time` that has none, beside each other, whatever `overlap` says and also while the
    /// schedule is paused. Ticks that are not due yet are left to the schedule. A call that failed or was cut off is made
    /// again: what it started is not started twice.
    ///
    /// ```
    /// # use aether_core::engine::{Schedule, ScheduleError};
    /// # async fn example(schedule: &Schedule) -> Result<(), Box<dyn std::error::Error>> {
    /// let done = schedule.backfill("2026-11-01T00:00:00Z".parse()?.."2026-11-08T00:00:00Z".parse()?).await?;
    /// println!("{} runs were started, {} were there", done.started, done.existing);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Schedule::trigger`], and [`ScheduleError::Cron`] when its expression cannot be read any more.
    pub async fn backfill(&self, time: Range<Timestamp>) -> Result<Backfill, ScheduleError> {
        let schedule = self.record().await?;
        let cron = cron_of(&schedule.spec)?;
        let now = now(&self.inner);
        // The first moment may be a tick.
        let before = time.start.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(time.start);
        let ticks = cron.after(before).take_while(|tick| *tick < time.end && *tick <= now);
        let mut starts = stream::iter(ticks)
            .map(async |tick| (tick, self.start_missed(&schedule, tick).await))
            .buffered(AT_ONCE);
        let (mut done, mut first, mut last, mut failed) = (Backfill::default(), None, None, None);
        while let Some((tick, started)) = starts.next().await {
            match started {
                Ok(true) => {
                    done.started += 1;
                    (first, last) = (first.or(Some(tick)), Some(tick));
                }
                Ok(false) => done.existing += 1,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        drop(starts);
        if let (Some(first), Some(last)) = (first, last)
            && let Some(_admission) = self.inner.admit().await
        {
            self.note(first, last, TickOutcome::Backfilled).await?;
        }
        failed.map_or(Ok(done), Err)
    }

    /// Starts the run of a tick; `false` where the tick had one.
    async fn start_missed(&self, schedule: &ScheduleRecord, tick: Timestamp) -> Result<bool, ScheduleError> {
        let admission = self.admit(tick).await?;
        match start(&self.inner, schedule, tick, admission).await {
            Ok((_, is_new)) => Ok(is_new),
            // The schedule started another workflow then.
            Err(ScheduleError::Start(StartError::IdTaken { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
