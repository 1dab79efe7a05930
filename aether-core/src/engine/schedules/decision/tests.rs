//! Decisions about an hourly schedule, by policy.

#![allow(clippy::unwrap_used)]

use jiff::Timestamp;

use super::{aim, decide, settle};
use crate::policy::cron::Cron;
use crate::store::schedules::{CatchUp, Overlap, ScheduleRecord, ScheduleSpec, Tick, TickOutcome};
use crate::vocabulary::clock_change::{Gap, Repeat};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::payload::Payload;

fn at(time: &str) -> Timestamp {
    format!("2026-11-22T{time}Z").parse().unwrap()
}

/// The next tick is that of 01:00.
fn hourly(overlap: Overlap, catch_up: CatchUp) -> ScheduleRecord {
    let spec = ScheduleSpec {
        workflow: "nightly".into(),
        module: "reports".into(),
        version: 1,
        input: Payload::null(),
        labels: Labels::default(),
        cron: "0 * * * *".into(),
        zone: "UTC".into(),
        overlap,
        catch_up,
        jitter_ms: 0,
        gap: Gap::default(),
        repeat: Repeat::default(),
    };
    ScheduleRecord {
        name: "nightly".into(),
        spec,
        paused: false,
        next: at("01:00:00"),
        delay_ms: 0,
        starting: Vec::new(),
        last: None,
        recent: Vec::new(),
        created_at: at("00:00:00"),
        revision: 1,
    }
}

/// What is started, what is kept of the others, and the next tick, in hours.
fn decision(schedule: &ScheduleRecord, now: &str, open: bool) -> Option<(Vec<i8>, Vec<String>, i8)> {
    let hour = |tick: Timestamp| tick.to_zoned(jiff::tz::TimeZone::UTC).hour();
    let decided = decide(schedule, &Cron::parse("0 * * * *", "UTC").unwrap(), at(now), open)?;
    let others = decided
        .recent
        .iter()
        .map(|tick| format!("{:?} {}-{}", tick.outcome, hour(tick.at), hour(tick.until)));
    Some((decided.starting.iter().map(|tick| hour(*tick)).collect(), others.collect(), hour(decided.next)))
}

#[test]
fn a_tick_in_time_starts() {
    for catch_up in [CatchUp::None, CatchUp::Last, CatchUp::All(3)] {
        let schedule = hourly(Overlap::Skip, catch_up);
        assert_eq!(decision(&schedule, "00:59:59", false), None);
        assert_eq!(decision(&schedule, "01:00:00", false), Some((vec![1], vec![], 2)));
        assert_eq!(decision(&schedule, "01:00:59", false), Some((vec![1], vec![], 2)));
    }
}

#[test]
fn missed_ticks_are_caught_up_with_as_the_policy_says() {
    let after = |overlap, catch_up, now| decision(&hourly(overlap, catch_up), now, false);
    let missed = |span: &str| vec![format!("Missed {span}")];
    use Overlap::{Allow, Skip, Wait};
    assert_eq!(after(Skip, CatchUp::None, "05:30:00"), Some((vec![], missed("1-5"), 6)));
    assert_eq!(after(Skip, CatchUp::None, "05:00:30"), Some((vec![5], missed("1-4"), 6)));
    assert_eq!(after(Skip, CatchUp::Last, "05:30:00"), Some((vec![5], missed("1-4"), 6)));
    assert_eq!(after(Allow, CatchUp::All(2), "05:30:00"), Some((vec![4, 5], missed("1-3"), 6)));
    assert_eq!(after(Allow, CatchUp::All(9), "03:30:00"), Some((vec![1, 2, 3], vec![], 4)));
    // With the default overlap no more than one can run, and that is the newest.
    assert_eq!(after(Skip, CatchUp::All(9), "05:30:00"), Some((vec![5], missed("1-4"), 6)));
    // One after the other: the next look decides the rest.
    assert_eq!(after(Wait, CatchUp::All(9), "03:30:00"), Some((vec![1], vec![], 2)));
}

#[test]
fn an_open_run_skips_delays_or_allows_the_next() {
    let open = |overlap| decision(&hourly(overlap, CatchUp::Last), "01:00:00", true);
    assert_eq!(open(Overlap::Skip), Some((vec![], vec!["Overlapped 1-1".into()], 2)));
    for waits in [Overlap::Wait, Overlap::Cancel, Overlap::Terminate] {
        assert_eq!(open(waits), None);
    }
    assert_eq!(open(Overlap::Allow), Some((vec![1], vec![], 2)));
}

/// A tick that is not started does not wait for an open run, and is skipped for its own reason.
#[test]
fn an_open_run_is_in_the_way_only_of_what_is_started() {
    use Overlap::{Cancel, Skip, Terminate, Wait};
    for overlap in [Wait, Cancel, Terminate] {
        let late = hourly(overlap, CatchUp::None);
        assert_eq!(decision(&late, "01:00:30", true), None);
        assert_eq!(decision(&late, "01:01:30", true), Some((vec![], vec!["Missed 1-1".into()], 2)));
    }
    for overlap in [Skip, Wait, Cancel, Terminate] {
        let mut again = hourly(overlap, CatchUp::Last);
        (again.next, again.last) = (at("01:00:00"), Some(at("01:00:00")));
        let tick = at("01:00:00");
        again.keep(Tick { at: tick, until: tick, outcome: TickOutcome::Started, noted_at: None });
        assert_eq!(decision(&again, "01:00:00", true), Some((vec![], vec!["Started 1-1".into()], 2)));
    }
}

#[test]
fn what_was_skipped_in_a_row_is_kept_as_one_and_the_list_is_short() {
    let mut schedule = hourly(Overlap::Skip, CatchUp::Last);
    let cron = Cron::parse("* * * * *", "UTC").unwrap();
    for minute in 0..59 {
        schedule = decide(&schedule, &cron, at(&format!("01:{minute:02}:00")), true).unwrap();
    }
    assert_eq!(schedule.recent.len(), 1);
    assert_eq!((schedule.recent[0].at, schedule.recent[0].until), (at("01:00:00"), at("01:58:00")));
    for minute in 0..120 {
        let at = at("02:00:00") + jiff::SignedDuration::from_mins(minute);
        schedule.keep(Tick { at, until: at, outcome: TickOutcome::Started, noted_at: None });
    }
    assert_eq!(schedule.recent.len(), ScheduleRecord::RECENT);
}

/// A year of missed minutes is decided in parts that a record can hold.
#[test]
fn a_long_backlog_is_decided_in_parts() {
    let cron = Cron::parse("* * * * *", "UTC").unwrap();
    let mut schedule = hourly(Overlap::Allow, CatchUp::All(100));
    let mut started = Vec::new();
    while let Some(decided) = decide(&schedule, &cron, at("23:00:30"), false) {
        assert!(decided.starting.len() <= 16);
        started.extend(decided.starting.iter().copied());
        schedule = ScheduleRecord { starting: Vec::new(), ..decided };
    }
    let newest: Vec<_> = cron.after(at("21:20:00")).take(100).collect();
    assert_eq!(started, newest);
    assert_eq!(schedule.next, at("23:01:00"));
}

#[test]
fn a_paused_schedule_decides_nothing() {
    let mut schedule = hourly(Overlap::Allow, CatchUp::All(9));
    schedule.paused = true;
    assert_eq!(decision(&schedule, "09:00:00", false), None);
}

#[test]
fn a_tick_with_a_jitter_starts_later_and_before_the_next() {
    let cron = Cron::parse("0 * * * *", "UTC").unwrap();
    let (mut delays, mut schedule) = (Vec::new(), hourly(Overlap::Allow, CatchUp::None));
    // A day, which is cut to the time until the next tick.
    schedule.spec.jitter_ms = 24 * 3_600_000;
    for hour in 1..22 {
        aim(&mut schedule, &cron, at(&format!("{hour:02}:00:00")));
        let starts = schedule.starts_at();
        assert!(starts < at(&format!("{:02}:00:00", hour + 1)));
        delays.push(schedule.delay_ms);
        let before = starts - jiff::SignedDuration::from_millis(1);
        assert_eq!(decide(&schedule, &cron, before, false), None);
        let decided = decide(&schedule, &cron, starts, false).unwrap();
        assert_eq!((decided.starting, decided.recent), (vec![schedule.next], vec![]));
    }
    delays.sort_unstable();
    delays.dedup();
    assert_eq!(delays.len(), 21, "each tick has a delay of its own");
    assert!(delays[0] < 600_000 && delays[20] > 3_000_000, "they are spread: {delays:?}");
}

/// The newest tick is not due while its delay lasts: those before it are decided, and it is the next.
#[test]
fn a_tick_whose_delay_is_not_over_is_left_for_later() {
    let cron = Cron::parse("0 * * * *", "UTC").unwrap();
    let mut schedule = hourly(Overlap::Allow, CatchUp::All(9));
    schedule.spec.jitter_ms = 3_600_000;
    aim(&mut schedule, &cron, at("01:00:00"));
    let decided = decide(&schedule, &cron, at("05:00:00"), false).unwrap();
    assert_eq!(decided.starting.last(), Some(&at("04:00:00")));
    assert_eq!(decided.next, at("05:00:00"));
    assert!(decided.starts_at() > at("05:00:00"));
}

#[test]
fn what_is_due_when_a_schedule_changes_is_started_or_noted() {
    let cron = Cron::parse("0 * * * *", "UTC").unwrap();
    let settled = |schedule: &ScheduleRecord, now: &str, open| {
        let settled = settle(schedule, &cron, at(now), open);
        let others: Vec<_> =
            settled.recent.iter().map(|tick| (tick.outcome.clone(), tick.at, tick.until)).collect();
        (settled.starting, others, settled.next)
    };
    let (one, two, three) = (at("01:00:00"), at("02:00:00"), at("03:00:00"));
    let daily = hourly(Overlap::Skip, CatchUp::Last);
    assert_eq!(settled(&daily, "00:59:59", false), (vec![], vec![], one));
    assert_eq!(settled(&daily, "01:10:00", false), (vec![one], vec![], two));
    assert_eq!(settled(&daily, "01:10:00", true), (vec![], vec![(TickOutcome::Overlapped, one, one)], two));
    let waits = hourly(Overlap::Wait, CatchUp::All(5));
    assert_eq!(settled(&waits, "02:10:00", true), (vec![], vec![(TickOutcome::Missed, one, two)], three));
    let others = vec![(TickOutcome::Missed, two, two)];
    assert_eq!(settled(&waits, "02:10:00", false), (vec![one], others, three));
    // What was decided before stays decided, and counts as open.
    let zero = at("00:00:00");
    let started = ScheduleRecord { starting: vec![zero], ..waits };
    let others = vec![(TickOutcome::Missed, one, two)];
    assert_eq!(settled(&started, "02:10:00", false), (vec![zero], others, three));
    let started = ScheduleRecord { starting: vec![zero], ..daily.clone() };
    let others = vec![(TickOutcome::Overlapped, one, one)];
    assert_eq!(settled(&started, "01:10:00", false), (vec![zero], others, two));
    let (every, after) = (hourly(Overlap::Allow, CatchUp::All(100)), "22:30:00");
    let (starting, others, _) = settled(&every, after, true);
    assert_eq!((starting.len(), others.len()), (22, 0));
    // Its delay is not over.
    let delayed = ScheduleRecord { delay_ms: 900_000, ..daily.clone() };
    assert_eq!(settled(&delayed, "01:10:00", false), (vec![], vec![(TickOutcome::Missed, one, one)], two));
    let paused = ScheduleRecord { paused: true, ..daily };
    assert_eq!(settled(&paused, "01:10:00", false), (vec![], vec![], one));
}
