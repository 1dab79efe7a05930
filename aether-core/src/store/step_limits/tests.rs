//! Whom a limit on steps lets through, and when.

use proptest::prelude::*;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn at(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(1_700_000_000_000_000 + micros).unwrap()
}

fn calls(n: u64, per: Duration) -> Bookings {
    Bookings::new(StepLimit::new("l").unwrap().calls(n, per).unwrap(), at(0))
}

#[test]
fn the_first_tenth_goes_at_once_and_the_rest_in_its_order() {
    let mut bookings = calls(20, MINUTE);
    let waits: Vec<u64> = (0..5).map(|_| bookings.take(at(0), 0).wait.as_millis() as u64).collect();
    // Two at once; then one for each 60 s / 19.
    assert_eq!(waits, [0, 0, 3_157, 6_315, 9_473]);
    assert_eq!(calls(1, MINUTE).take(at(0), 0).wait, Duration::ZERO);
}

#[test]
fn tokens_count_as_they_were_taken() {
    let limit = StepLimit::new("l").unwrap().tokens(1_000, MINUTE).unwrap();
    let mut bookings = Bookings::new(limit, at(0));
    assert_eq!(bookings.take(at(0), 600).wait, Duration::ZERO, "more than a tenth, but nothing is before it");
    let wait = bookings.take(at(0), 100).wait;
    assert!(wait > Duration::from_secs(38), "{wait:?}");
    // Of the 700 only 10 were taken.
    bookings.correct(at(0), 700, 10, Duration::ZERO);
    assert_eq!(bookings.take(at(0), 50).wait, Duration::ZERO);
}

#[test]
fn a_correction_gives_back_no_place_of_another() {
    let limit = StepLimit::new("l").unwrap().tokens(1_000, MINUTE).unwrap();
    let mut bookings = Bookings::new(limit, at(0));
    bookings.take(at(0), 1_000);
    // The first booking has drained when the second one comes.
    assert_eq!(bookings.take(at(67_000_000), 1_000).wait, Duration::ZERO);
    bookings.correct(at(67_100_000), 1_000, 10, Duration::from_millis(67_100));
    let wait = bookings.take(at(67_200_000), 1_000).wait;
    assert!(wait > Duration::from_secs(59), "{wait:?}");
    // Of a booking that is half drained, the other half is given back.
    let mut bookings = Bookings::new(bookings.limit.clone(), at(0));
    bookings.take(at(0), 1_000);
    bookings.correct(at(33_000_000), 1_000, 0, Duration::from_secs(33));
    assert_eq!(bookings.take(at(33_000_000), 100).wait, Duration::ZERO);
}

#[test]
fn a_hold_moves_everybody_and_lowers_the_rate_until_it_has_come_back() {
    let mut bookings = calls(100, MINUTE);
    let before = bookings.take(at(0), 0);
    bookings.hold(at(0), Duration::from_secs(5));
    bookings.hold(at(0), Duration::from_secs(3));
    assert_eq!((bookings.percent, bookings.held), (75, 5_000_000), "a second word does not count twice");
    assert_eq!(bookings.longer(before.held_ms), Some((Duration::from_secs(5), 5_000)));
    let during = bookings.take(at(1_000_000), 0);
    assert_eq!((during.wait.as_secs(), bookings.longer(during.held_ms)), (4, None));
    for _ in 0..20 {
        let later = bookings.at.as_microsecond() - at(0).as_microsecond() + 10_000_000;
        bookings.hold(at(later), Duration::from_secs(1));
    }
    assert_eq!(bookings.percent, LEAST);
    // A tenth comes back with each minute without another one.
    let end = bookings.at.as_microsecond() - at(0).as_microsecond() + 1_000_000;
    bookings.pass(at(end + 180_000_000));
    assert_eq!(bookings.percent, 40);
    bookings.pass(at(end + 3_600_000_000));
    assert_eq!(bookings.percent, 100);
}

#[test]
fn a_clock_that_leaps_neither_opens_the_gate_nor_closes_it() {
    let mut bookings = calls(10, MINUTE);
    (0..10).for_each(|_| {
        let _place = bookings.take(at(0), 0);
    });
    let hour = 3_600_000_000;
    // An hour on: what was booked counts as over, and no more than one goes at once.
    let leaped: Vec<_> = (0..3).map(|_| bookings.take(at(hour), 0).wait.as_secs()).collect();
    assert_eq!(leaped, [0, 6, 12]);
    // Back again: nobody waits for the hour.
    assert_eq!(bookings.take(at(1), 0).wait.as_secs(), 18);
    bookings.hold(at(1), Duration::from_secs(2));
    assert!(bookings.take(at(-hour), 0).wait < Duration::from_secs(40));
}

#[test]
fn a_clock_that_is_set_back_by_less_than_a_span_stops_the_time_for_as_long() {
    let mut bookings = calls(10, MINUTE);
    let waits = |bookings: &mut Bookings, now: i64| bookings.take(at(now * 1_000_000), 0).wait.as_secs();
    assert_eq!((waits(&mut bookings, 50), waits(&mut bookings, 50)), (0, 6));
    assert_eq!((waits(&mut bookings, 20), waits(&mut bookings, 49)), (12, 18));
    assert_eq!(waits(&mut bookings, 74), 0);
    // Who sets the limit says from when it counts.
    let limit = bookings.limit.clone();
    bookings.replace(at(30_000_000), limit);
    assert_eq!((waits(&mut bookings, 30), waits(&mut bookings, 30), waits(&mut bookings, 36)), (0, 6, 6));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let limit = || StepLimit::new("l").unwrap();
    assert!(limit().calls(0, MINUTE).is_err() && limit().calls(1, Duration::ZERO).is_err());
    assert!(limit().tokens(1, Duration::from_secs(86_401)).is_err());
    assert!(StepLimit::new("").is_err() && StepLimit::new("a/b").is_err() && StepLimit::new("a*").is_err());
}

proptest! {
    /// Whatever the calls, the processes and the corrections: no span holds more than the limit.
    #[test]
    fn no_span_holds_more_calls_than_the_limit(
        n in 1..60_u64,
        per in 1..5_000_u64,
        asks in proptest::collection::vec(0..200_000_i64, 1..300),
    ) {
        let per = Duration::from_millis(per);
        let (mut bookings, mut now, mut begun) = (calls(n, per), 0, Vec::new());
        for pause in asks {
            now += pause;
            let wait = bookings.take(at(now), 0).wait;
            begun.push(now + i64::try_from(wait.as_micros()).unwrap());
        }
        prop_assert!(begun.is_sorted());
        let n = usize::try_from(n).unwrap();
        let span = i64::try_from(per.as_micros()).unwrap();
        for window in begun.windows(n + 1) {
            prop_assert!(window[n] - window[0] >= span - 1, "{:?} in {span}", window);
        }
    }

    /// Nor where the clocks of those that take turns differ: one that is behind comes late to its place by no more than that.
    #[test]
    fn clocks_that_differ_let_no_more_through(
        n in 1..60_u64,
        per in 1..20_000_u64,
        behind in proptest::collection::vec(0..9_000_000_i64, 1..5),
        asks in proptest::collection::vec((0..20_000_i64, 0..6_usize), 1..300),
    ) {
        let span = i64::try_from(per * 1_000).unwrap();
        let behind: Vec<i64> = behind.into_iter().map(|behind| behind % span).collect();
        let (mut bookings, mut now, mut begun) = (calls(n, Duration::from_millis(per)), 0, Vec::new());
        for (pause, who) in asks {
            now += pause;
            // One is ahead of all others, and set the limit.
            let clock = now - behind.get(who).copied().unwrap_or(0);
            let wait = bookings.take(at(clock), 0).wait;
            begun.push(now + i64::try_from(wait.as_micros()).unwrap());
        }
        begun.sort_unstable();
        let (n, late) = (usize::try_from(n).unwrap(), behind.into_iter().max().unwrap_or(0));
        for spans in 1..=begun.len() / n {
            let least = i64::try_from(spans).unwrap() * (span - 1) - late;
            for window in begun.windows(spans * n + 1) {
                prop_assert!(window[spans * n] - window[0] >= least, "{window:?} in {spans} of {span}");
            }
        }
    }
}
