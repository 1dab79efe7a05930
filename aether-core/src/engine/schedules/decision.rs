//! What becomes of the ticks that are due.
//!
//! Promise: a function of the schedule, the time, and whether an earlier run is open. It reads no clock and no store.

use jiff::{SignedDuration, Timestamp};

use crate::policy::cron::Cron;
use crate::store::schedules::{CatchUp, Overlap, ScheduleRecord, Tick, TickOutcome};

/// A tick that is late by no more than this is not missed.
pub(super) const LATE: SignedDuration = SignedDuration::from_secs(60);

/// Decides the ticks that are due at `now`; `None` when none is, or the one that is waits. `open`: the run of the newest
/// tick has not ended.
pub(super) fn decide(
    schedule: &ScheduleRecord,
    cron: &Cron,
    now: Timestamp,
    open: bool,
) -> Option<ScheduleRecord> {
    let mut decided = schedule.clone();
    if schedule.paused || schedule.next > now || (open && schedule.spec.overlap == Overlap::Wait) {
        return None;
    }
    let limit = match schedule.spec.catch_up {
        CatchUp::None | CatchUp::Last => 1,
        CatchUp::All(limit) => usize::from(limit.max(1)),
    };
    let mut newest = cron.newest(schedule.next, now, limit);
    if schedule.spec.catch_up == CatchUp::None {
        newest.retain(|tick| now.duration_since(*tick) <= LATE);
    }
    decided.next = cron.next_after(now).unwrap_or(Timestamp::MAX);
    let first = newest.first().copied();
    let missed = |tick: &Timestamp| first.is_none_or(|first| *tick < first);
    let before = first.map_or(now, |first| first - SignedDuration::from_nanos(1));
    if let Some(until) = cron.newest(schedule.next, before, 1).pop().filter(missed) {
        decided.keep(Tick { at: schedule.next, until, outcome: TickOutcome::Missed });
    }
    let mut open = open;
    for tick in newest {
        match schedule.spec.overlap {
            Overlap::Skip if open => {
                decided.keep(Tick { at: tick, until: tick, outcome: TickOutcome::Overlapped });
                continue;
            }
            // The later ones wait for this one.
            Overlap::Wait if open => {
                decided.next = tick;
                break;
            }
            _ => {}
        }
        decided.keep(Tick { at: tick, until: tick, outcome: TickOutcome::Started });
        decided.starting.push(tick);
        decided.last = Some(tick);
        open = true;
    }
    Some(decided)
}

#[cfg(test)]
mod tests;
