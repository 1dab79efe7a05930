//! Ticks against a calendar that is read off a clock.

#![allow(clippy::unwrap_used)]

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use super::{Cron, CronError};
use crate::vocabulary::clock_change::{Gap, Repeat};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn ticks(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let cron = Cron::parse(expression, zone).unwrap();
    cron.after(at(after)).take(count).map(|tick| tick.to_string()).collect()
}

#[test]
fn a_time_that_is_skipped_ticks_at_the_change() {
    let ticks = ticks("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3);
    assert_eq!(ticks, ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
}

#[test]
fn several_skipped_times_tick_once() {
    let ticks = ticks("0,15,30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3);
    assert_eq!(ticks, ["2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z", "2026-03-29T01:30:00Z"]);
}

#[test]
fn a_time_that_comes_twice_ticks_once() {
    let ticks = ticks("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
    assert_eq!(ticks, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
}

#[test]
fn every_hour_is_every_hour_that_passes() {
    let ticks = ticks("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 4);
    let hours =
        ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z"];
    assert_eq!(ticks, hours);
}

/// A year of ticks in twelve zones, against a clock on the wall that is read every quarter of an hour, which is when
/// clocks change; with every rule for the days on which they do.
#[test]
fn a_year_in_twelve_zones_is_that_of_a_calendar() {
    let zones = [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "America/St_Johns",
        "Australia/Lord_Howe",
        "Asia/Kolkata",
        "Asia/Kathmandu",
        "Pacific/Chatham",
        "America/Sao_Paulo",
        "Africa/Casablanca",
        "Asia/Tehran",
        "Pacific/Apia",
    ];
    // Minutes and hours; every day.
    let times: [(&[i8], &[i8], &str); 3] = [
        (&[30], &[2], "30 2 * * *"),
        (&[0, 45], &[1, 2, 3], "0,45 1,2,3 * * *"),
        (&[15], &[0, 23], "15 0,23 * * *"),
    ];
    let (from, until) = (at("2025-08-01T00:00:00Z"), at("2026-08-01T00:00:00Z"));
    for zone in zones {
        let clock = clock(zone, from, until);
        for (minutes, hours, expression) in times {
            for (gap, repeat) in RULES {
                let expected = calendar(&clock, minutes, hours, gap, repeat);
                assert_ticks(expression, zone, (gap, repeat), (from, until), &expected);
            }
        }
        // With `*` every hour that passes, whatever the rules. The library steps through them slowly.
        let around = (at("2026-03-20T00:00:00Z"), at("2026-04-12T00:00:00Z"));
        if ["Europe/Berlin", "Australia/Lord_Howe"].contains(&zone) {
            let passed = clock.iter().filter(|(now, _)| *now > around.0 && *now < around.1);
            let hourly: Vec<_> =
                passed.filter(|(_, wall)| wall.minute() == 15).map(|(now, _)| *now).collect();
            assert_ticks("15 * * * *", zone, RULES[3], around, &hourly);
        }
    }
}

/// The four rules differ where clocks change, and nowhere else.
#[test]
fn each_rule_has_its_own_ticks() {
    let found = RULES.map(|(gap, repeat)| {
        let cron = Cron::parse("30 2 * * *", "Europe/Berlin").unwrap().gap(gap).repeat(repeat);
        cron.after(at("2026-01-01T00:00:00Z")).take_while(|tick| *tick < at("2027-01-01T00:00:00Z")).count()
    });
    assert_eq!(found, [365, 364, 366, 365]);
}

const RULES: [(Gap, Repeat); 4] = [
    (Gap::Shift, Repeat::Once),
    (Gap::Skip, Repeat::Once),
    (Gap::Shift, Repeat::Twice),
    (Gap::Skip, Repeat::Twice),
];

fn assert_ticks(
    expression: &str,
    zone: &str,
    (gap, repeat): (Gap, Repeat),
    (from, until): (Timestamp, Timestamp),
    expected: &[Timestamp],
) {
    let cron = Cron::parse(expression, zone).unwrap().gap(gap).repeat(repeat);
    let found: Vec<_> = cron.after(from).take_while(|tick| *tick < until).collect();
    let wrong = found.iter().zip(expected).find(|(found, expected)| found != expected);
    assert_eq!(wrong, None, "{expression} {zone} {gap:?} {repeat:?}");
    assert_eq!(found.len(), expected.len(), "{expression} {zone} {gap:?} {repeat:?}");
    // From wherever one looks, the next tick is the same one.
    for (no, tick) in found.iter().enumerate().skip(1).step_by(97) {
        let between = found[no - 1] + tick.duration_since(found[no - 1]) / 2;
        assert_eq!(cron.next_after(between), Some(*tick), "{expression} {zone} {gap:?} {repeat:?}");
    }
}

/// What a clock on the wall shows at every quarter of an hour.
fn clock(zone: &str, from: Timestamp, until: Timestamp) -> Vec<(Timestamp, DateTime)> {
    let zone = TimeZone::get(zone).unwrap();
    let quarters = std::iter::successors(Some(from), |now| Some(*now + 15.minutes()));
    quarters.take_while(|now| *now < until).map(|now| (now, zone.to_datetime(now))).collect()
}

/// The times at which a clock shows one of `hours` and `minutes`: each once a day, as soon as it has shown or skipped it, or
/// as the rules say.
fn calendar(
    clock: &[(Timestamp, DateTime)],
    minutes: &[i8],
    hours: &[i8],
    gap: Gap,
    repeat: Repeat,
) -> Vec<Timestamp> {
    let named = |wall: &DateTime| hours.contains(&wall.hour()) && minutes.contains(&wall.minute());
    let mut ticks = Vec::new();
    // The latest time that it has shown.
    let mut shown = clock[0].1;
    for (now, wall) in &clock[1..] {
        let mut ticked = *wall <= shown && repeat == Repeat::Twice && named(wall);
        while shown < *wall {
            shown = shown.checked_add(15.minutes()).unwrap();
            ticked |= named(&shown) && (gap == Gap::Shift || shown == *wall);
        }
        if ticked {
            ticks.push(*now);
        }
    }
    ticks
}

#[test]
fn the_newest_ticks_are_the_last_of_all() {
    let cron = Cron::parse("*/7 * * * *", "UTC").unwrap();
    let (from, until) = (at("2025-01-01T00:07:00Z"), at("2026-11-22T10:00:00Z"));
    let all: Vec<_> =
        std::iter::once(from).chain(cron.after(from)).take_while(|tick| *tick <= until).collect();
    for limit in [0, 1, 5, 100, 30_000] {
        assert_eq!(cron.newest(from, until, limit), all[all.len() - limit..], "{limit}");
    }
    assert_eq!(cron.newest(from, from, 5), [from]);
    assert_eq!(cron.newest(until, from, 5), []);
}

#[test]
fn what_is_no_schedule_is_refused_with_the_reason() {
    let refused = |expression: &str, zone: &str| Cron::parse(expression, zone).unwrap_err();
    assert!(matches!(refused("0 3 * * *", "Berlin"), CronError::Zone { .. }));
    assert!(matches!(refused("0 3 * *", "UTC"), CronError::Expression { .. }));
    assert!(matches!(refused("0 3 * * * *", "UTC"), CronError::Expression { .. }));
    assert!(matches!(refused("0 25 * * *", "UTC"), CronError::Expression { .. }));
    assert!(matches!(refused("", "UTC"), CronError::Expression { .. }));
    assert!(matches!(refused("0 0 31 2 *", "UTC"), CronError::Never { .. }));
    assert!(refused("0 25 * * *", "UTC").to_string().contains("25"), "{}", refused("0 25 * * *", "UTC"));
}
