//! What becomes of the ticks that are due.
//!
//! Promise: a function of the schedule, the time, and whether an earlier run is open. It reads no clock and no store.

use jiff::{SignedDuration, Timestamp};

use crate::policy::cron::Cron;
use crate::store::schedules::{CatchUp, Overlap, ScheduleRecord, Tick, TickOutcome};

/// A tick that is late by no more than this is not missed.
pub(super) const LATE: SignedDuration = SignedDuration::from_secs(60);

/// How many ticks one decision starts. The next look decides the others.
const STARTS: usize = 16;

/// Decides the ticks that are due at `now`; `None` when none is, or the one that is waits. `open`: the run of the newest
/// tick has not ended.
pub(super) fn decide(
    schedule: &ScheduleRecord,
    cron: &Cron,
    now: Timestamp,
    open: bool,
) -> Option<ScheduleRecord> {
    let (overlap, catch_up) = (schedule.spec.overlap, schedule.spec.catch_up);
    if schedule.paused || schedule.next > now || (open && overlap == Overlap::Wait) {
        return None;
    }
    let mut decided = schedule.clone();
    let limit = match catch_up {
        CatchUp::All(limit) if overlap != Overlap::Skip => usize::from(limit.max(1)),
        _ => 1,
    };
    let mut newest = cron.newest(schedule.next, now, limit);
    if catch_up == CatchUp::None {
        newest.retain(|tick| now.duration_since(*tick) <= LATE);
    }
    let first = newest.first().copied();
    let missed = |tick: &Timestamp| first.is_none_or(|first| *tick < first);
    let before = first.map_or(now, |first| first - SignedDuration::from_nanos(1));
    if let Some(until) = cron.newest(schedule.next, before, 1).pop().filter(missed) {
        decided.keep(Tick { at: schedule.next, until, outcome: TickOutcome::Missed });
    }
    // The others are decided when these are started, and after one that is to be waited for.
    let starts = if overlap == Overlap::Wait { 1 } else { STARTS };
    let rest = newest.get(starts).copied();
    decided.next = rest.unwrap_or_else(|| cron.due_after(now));
    newest.truncate(starts);
    if open && overlap == Overlap::Skip {
        newest.iter().for_each(|&at| decided.keep(Tick { at, until: at, outcome: TickOutcome::Overlapped }));
    } else {
        decided.last = newest.last().copied().or(decided.last);
        decided.starting = newest;
    }
    Some(decided)
}

#[cfg(test)]
mod tests;
