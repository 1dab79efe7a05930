//! What becomes of the ticks that are due.
//!
//! Promise: a function of the schedule, the time, and whether an earlier run is open. It reads no clock and no store.

use jiff::{SignedDuration, Timestamp};

use crate::engine::schedules::jitter::delay_ms;
use crate::policy::cron::{Cron, CronError};
use crate::store::schedules::{CatchUp, Overlap, ScheduleRecord, ScheduleSpec, Tick, TickOutcome};
use crate::vocabulary::environment::{CLOCKS_APART, later};

/// A tick that is late by no more than this is not missed.
pub(super) const LATE: SignedDuration = SignedDuration::from_secs(60);

/// How many ticks one decision starts. The next look decides the others.
const STARTS: usize = 16;

/// When a schedule of this kind ticks.
pub(super) fn cron_of(spec: &ScheduleSpec) -> Result<Cron, CronError> {
    Ok(Cron::parse(&spec.cron, &spec.zone)?.gap(spec.gap).repeat(spec.repeat))
}

/// Makes `next` the first tick that is not decided.
pub(super) fn aim(schedule: &mut ScheduleRecord, cron: &Cron, next: Timestamp) {
    schedule.next = next;
    schedule.delay_ms = delay_ms(&schedule.name, &schedule.spec, cron, next);
}

/// Whether ticks are decided that a clock like this one would decide later: another one was ahead.
pub(super) fn is_aimed_too_far(schedule: &ScheduleRecord, cron: &Cron, now: Timestamp) -> bool {
    let latest = later(now, CLOCKS_APART);
    schedule.next > cron.due_after(latest) || schedule.starting.iter().any(|at| *at > latest)
}

/// Whether a tick waits until the run of the one before has ended.
fn waits(overlap: Overlap) -> bool {
    matches!(overlap, Overlap::Wait | Overlap::Cancel | Overlap::Terminate)
}

/// The newest time up to which ticks are decided: before a tick whose delay is not over.
fn decided_until(schedule: &ScheduleRecord, cron: &Cron, now: Timestamp) -> Timestamp {
    let Some(newest) = cron.newest(schedule.next, now, 1).pop() else { return now };
    let mut last = ScheduleRecord { recent: Vec::new(), ..schedule.clone() };
    aim(&mut last, cron, newest);
    if last.starts_at() > now { newest - SignedDuration::from_nanos(1) } else { now }
}

/// Decides the ticks that are due at `now`; `None` when none is, or the one that is to be started waits. `open`: the run of the
/// newest tick has not ended.
pub(super) fn decide(
    schedule: &ScheduleRecord,
    cron: &Cron,
    now: Timestamp,
    open: bool,
) -> Option<ScheduleRecord> {
    let (overlap, catch_up) = (schedule.spec.overlap, schedule.spec.catch_up);
    if schedule.paused || schedule.starts_at() > now {
        return None;
    }
    let until = decided_until(schedule, cron, now);
    let mut decided = schedule.clone();
    let limit = match catch_up {
        CatchUp::All(limit) if overlap != Overlap::Skip => usize::from(limit.max(1)),
        _ => 1,
    };
    let mut newest = cron.newest(schedule.next, until, limit);
    if catch_up == CatchUp::None {
        newest.retain(|tick| {
            let delay = delay_ms(&schedule.name, &schedule.spec, cron, *tick);
            now.duration_since(*tick)
                <= LATE + SignedDuration::from_millis(i64::try_from(delay).unwrap_or(i64::MAX))
        });
    }
    let first = newest.first().copied();
    let missed = |tick: &Timestamp| first.is_none_or(|first| *tick < first);
    let before = first.map_or(until, |first| first - SignedDuration::from_nanos(1));
    if let Some(until) = cron.newest(schedule.next, before, 1).pop().filter(missed) {
        decided.keep(Tick { at: schedule.next, until, outcome: TickOutcome::Missed, noted_at: Some(now) });
    }
    // The others are decided when these are started, and after one that is to be waited for.
    let starts = if waits(overlap) { 1 } else { STARTS };
    let rest = newest.get(starts).copied();
    aim(&mut decided, cron, rest.unwrap_or_else(|| cron.due_after(until)));
    newest.truncate(starts);
    // Started before a clock was set back, and perhaps deleted since.
    let has_started = |at: &Timestamp| {
        let is_it = |tick: &Tick| tick.at == *at && tick.outcome == TickOutcome::Started;
        schedule.recent.iter().any(is_it)
    };
    newest.retain(|at| !has_started(at));
    if open && waits(overlap) && !newest.is_empty() {
        return None;
    }
    if open && overlap == Overlap::Skip {
        for at in newest {
            decided.keep(Tick { at, until: at, outcome: TickOutcome::Overlapped, noted_at: Some(now) });
        }
    } else {
        decided.last = newest.last().copied().or(decided.last);
        decided.starting = newest;
    }
    Some(decided)
}

/// Decides all that is due at `now`, for a schedule that is about to tick in another way. What may not begin yet is missed:
/// nobody looks for it any more. What is decided and has not begun counts as open.
pub(super) fn settle(schedule: &ScheduleRecord, cron: &Cron, now: Timestamp, open: bool) -> ScheduleRecord {
    let mut settled = schedule.clone();
    loop {
        let starting = std::mem::take(&mut settled.starting);
        let decided = decide(&settled, cron, now, open || !starting.is_empty());
        let decided = decided.filter(|decided| decided.next != settled.next);
        let is_all = decided.is_none();
        settled = decided.unwrap_or(settled);
        settled.starting.splice(0..0, starting);
        if is_all {
            break;
        }
    }
    let rest = cron.newest(settled.next, now, 1).pop().filter(|_| !settled.paused);
    if let Some(until) = rest {
        let tick = Tick { at: settled.next, until, outcome: TickOutcome::Missed, noted_at: Some(now) };
        settled.keep(tick);
        aim(&mut settled, cron, cron.due_after(now));
    }
    settled
}

#[cfg(test)]
mod tests;
