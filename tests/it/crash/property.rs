//! Generated programs that die at random points: a crashed and recovered run is what the undisturbed run is.
//!
//! `AETHER_CASES` says how many are tried, `AETHER_SEED` from which seed on; a failure tells the seed of its case and
//! the smallest case that fails in the same way.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use aether::store::event::Event;
use aether_testing::CrashPoint;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use super::judge::{agree, judge};
use super::lives::{Death, Keeping, Lived, RUN, live};
use super::program::{Case, Point, case};
use super::steps::Kind;
use crate::postgres::way::Way;

/// What all cases together came upon.
type Tally = Mutex<BTreeMap<String, u64>>;

fn count(tally: &Tally, what: impl Into<String>) {
    *tally.lock().unwrap().entry(what.into()).or_default() += 1;
}

/// Runs a case undisturbed and crashed, and holds both against the model and each other.
fn check(case: &Case, keeping: Keeping, tally: &Tally) -> Result<(), String> {
    let undisturbed = live(case, &[], keeping).map_err(|broken| format!("undisturbed: {broken}"))?;
    let judged = judge(RUN, &case.block, &undisturbed).map_err(|broken| format!("undisturbed: {broken}"))?;
    let deaths: Vec<Death> = case.points.iter().map(|point| death(*point, &undisturbed)).collect();
    let crashed = live(case, &deaths, keeping).map_err(|broken| format!("{deaths:?}: {broken}"))?;
    let found = judge(RUN, &case.block, &crashed).and_then(|crashed_judged| {
        let same = agree((&undisturbed, &judged), (&crashed, &crashed_judged))?;
        Ok((crashed_judged, same))
    });
    let (crashed_judged, same) = found.map_err(|broken| format!("{deaths:?}: {broken}"))?;
    count(tally, if same { "compared with the undisturbed run" } else { "another way was taken" });
    count(tally, format!("{} deaths", crashed.crashes));
    for decision in crashed_judged.facts.decisions.values().flatten() {
        count(tally, format!("decided: {decision:?}"));
    }
    for event in crashed.journals.values().flatten() {
        let fact = match event {
            Event::PlanGenerated(_) => "a plan",
            Event::WaitCompleted(e) if e.command.name() == "ask" => "an answer",
            Event::ApprovalDecided(e) if e.command.name() != "ask" => "a decision of a person",
            Event::CallbackReceived(_) => "a callback",
            Event::StateConfirmed(_) => "a confirmation",
            Event::StepCompensated(_) => "an undone step",
            Event::ChildStarted(e) if e.detached => "a child that was left alone",
            Event::ChildStarted(e) if e.unawaited => "a child that was started",
            Event::CommandCommitted(e) if e.caught_up => "an outcome that was caught up",
            _ => continue,
        };
        count(tally, fact);
    }
    for place in &crashed.shown {
        count(tally, format!("in the open: {place}"));
    }
    for key in crashed.deeds.keys() {
        let name = key.rsplit(':').nth(1).unwrap_or_default();
        count(tally, format!("called: {name}"));
    }
    Ok(())
}

fn death(point: Point, undisturbed: &Lived) -> Death {
    let nth = |part: u16, of: u64| 1 + u64::from(part) * of / 65_536;
    let point = match point {
        // Where nothing is large there is nothing but the journal.
        Point::BeforeEffect(part) if undisturbed.effects == 0 => Point::BeforeWrite(part),
        Point::AfterEffect(part) if undisturbed.effects == 0 => Point::AfterWrite(part),
        point => point,
    };
    match point {
        Point::BeforeWrite(part) => Death::Write(CrashPoint::Before(nth(part, undisturbed.writes))),
        Point::AfterWrite(part) => Death::Write(CrashPoint::After(nth(part, undisturbed.writes))),
        Point::BeforeEffect(part) => Death::Write(CrashPoint::BeforeEffect(nth(part, undisturbed.effects))),
        Point::AfterEffect(part) => Death::Write(CrashPoint::AfterEffect(nth(part, undisturbed.effects))),
        Point::Body(part, moment) => Death::Body(nth(part, undisturbed.bodies), moment),
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// Tries `cases` cases, each from a seed of its own.
fn try_cases(cases: u64, keeping: Keeping, test: &str) -> Tally {
    let first = number("AETHER_SEED").unwrap_or(match keeping {
        Keeping::Memory => 1,
        // From here on, few cases come upon all that is wanted.
        _ => 16,
    });
    let (next, tally) = (AtomicU64::new(0), Tally::default());
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    // On a server each death is followed by a wait until a lease is over.
    let lanes = if let Keeping::Postgres(_) = keeping { 4 * cores } else { cores };
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < cases) {
                    try_case(first + at, keeping, test, &tally);
                }
            });
        }
    });
    let found: Vec<_> =
        tally.lock().unwrap().iter().map(|(what, count)| format!("{what}: {count}")).collect();
    println!("{cases} cases from seed {first}, {keeping:?}\n  {}", found.join("\n  "));
    tally
}

fn try_case(seed: u64, keeping: Keeping, test: &str, tally: &Tally) {
    let config = Config {
        cases: 1,
        rng_seed: RngSeed::Fixed(seed),
        max_shrink_iters: 5_000,
        max_shrink_time: 20_000,
        failure_persistence: None,
        ..Config::default()
    };
    let tried = TestRunner::new(config).run(&case(keeping != Keeping::Memory), |case| {
        check(&case, keeping, tally).map_err(TestCaseError::fail)
    });
    if let Err(error) = tried {
        panic!(
            "{error}\nreproduce: AETHER_SEED={seed} AETHER_CASES=1 cargo test --test it -- --nocapture {test}"
        );
    }
}

/// A tally in which something is missing proves nothing.
fn covers(tally: &Tally, wanted: impl IntoIterator<Item = String>) {
    let tally = tally.lock().unwrap();
    let missing: Vec<_> = wanted.into_iter().filter(|what| !tally.contains_key(what)).collect();
    assert!(missing.is_empty(), "the cases came never upon {missing:?}");
}

#[test]
fn a_crashed_program_in_memory_ends_as_an_undisturbed_one() {
    let cases = number("AETHER_CASES").unwrap_or(200);
    let test = "crash::property::a_crashed_program_in_memory_ends_as_an_undisturbed_one";
    let tally = try_cases(cases, Keeping::Memory, test);
    if cases >= 200 {
        let decided =
            ["Happened", "DidNotHappen", "InDoubt", "Retry", "Ask"].map(|d| format!("decided: {d}"));
        let called = Kind::ALL
            .iter()
            .filter(|kind| !matches!(kind, Kind::Pure | Kind::Booked | Kind::OnceInStore))
            .map(|kind| format!("called: {}", kind.name()));
        let deaths = (1..=3).map(|deaths| format!("{deaths} deaths"));
        let facts = [
            "a plan",
            "an answer",
            "a decision of a person",
            "a callback",
            "a confirmation",
            "an undone step",
            "a child that was left alone",
            "a child that was started",
            "an outcome that was caught up",
        ];
        let facts = facts.into_iter().map(str::to_owned);
        covers(&tally, decided.into_iter().chain(called).chain(deaths).chain(facts));
        let tally = tally.lock().unwrap();
        assert!(tally["compared with the undisturbed run"] > tally["another way was taken"], "{tally:?}");
    }
}

#[test]
fn a_crashed_program_on_sqlite_ends_as_an_undisturbed_one() {
    let cases = number("AETHER_CASES").map_or(15, |cases| cases.div_ceil(10));
    let test = "crash::property::a_crashed_program_on_sqlite_ends_as_an_undisturbed_one";
    let tally = try_cases(cases, Keeping::Sqlite, test);
    if cases >= 15 {
        covers(&tally, ["compared with the undisturbed run", "1 deaths", "called: book"].map(str::to_owned));
        // What the next test does not find.
        covers(&tally, ["argument", "error", "question"].map(|place| format!("in the open: {place}")));
    }
}

#[test]
fn a_crashed_program_behind_a_codec_ends_as_an_undisturbed_one_and_shows_nothing() {
    let cases = number("AETHER_CASES").map_or(15, |cases| cases.div_ceil(10));
    let test =
        "crash::property::a_crashed_program_behind_a_codec_ends_as_an_undisturbed_one_and_shows_nothing";
    let tally = try_cases(cases, Keeping::Encrypted(0), test);
    if cases >= 15 {
        // Two deaths need a case in which the second one finds the run unfinished, which depends on the time.
        let covered = ["compared with the undisturbed run", "1 deaths", "called: book"];
        covers(&tally, covered.map(str::to_owned));
    }
}

#[test]
fn a_crashed_program_on_postgres_ends_as_an_undisturbed_one() {
    let cases = number("AETHER_CASES").map_or(15, |cases| cases.div_ceil(10));
    let test = "crash::property::a_crashed_program_on_postgres_ends_as_an_undisturbed_one";
    let tally = try_cases(cases, Keeping::Postgres(Way::chosen()), test);
    if cases >= 15 {
        covers(&tally, ["compared with the undisturbed run", "1 deaths", "called: book"].map(str::to_owned));
    }
}
