//! Schedules: a tick has one run, whatever dies, waits, leaps or looks at the same time. Time is virtual where nothing
//! dies.

use std::sync::Arc;
use std::time::Duration;

use aether::engine::{EngineBuilder, Environment as _};
use aether::error::StartError;
use aether::prelude::*;
use aether::schedule::{CatchUp, CronError, Overlap, ScheduleError, TickOutcome};
use aether::store::memory::MemoryStore;
use aether::store::{RunFilter, Store};
use aether::view::Status;
use aether_testing::SimEnvironment;
use jiff::Timestamp;
use tokio::time::sleep;

use crate::seeds::kit::in_time;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Say which tick it is.
#[workflow]
async fn hourly(cx: &mut Cx) -> Result<String> {
    Ok(cx.scheduled_for().map(|tick| tick.to_string()).unwrap_or_default())
}

/// Work for some hours.
#[workflow]
async fn slow(cx: &mut Cx, hours: u64) -> Result<u64> {
    cx.sleep(Duration::from_secs(hours * 3600)).await;
    Ok(hours)
}

/// Half an hour before the first full hour.
fn world() -> SimEnvironment {
    SimEnvironment::new("2026-01-02T00:30:00Z".parse().unwrap(), 7)
}

fn engine(store: &MemoryStore, world: &SimEnvironment) -> EngineBuilder {
    Engine::builder()
        .environment(Arc::new(world.clone()))
        .store(Arc::new(store.clone()))
        .poll_interval(10 * MINUTE)
}

/// Ids of all runs, oldest first, without the name of the schedule.
async fn ticks(store: &dyn Store) -> Vec<String> {
    let mut ticks: Vec<_> = store
        .runs(RunFilter::default())
        .await
        .unwrap()
        .iter()
        .map(|run| run.id.as_str().splitn(3, ':').nth(2).unwrap_or_default().to_owned())
        .collect();
    ticks.sort();
    ticks
}

fn hours(hours: impl IntoIterator<Item = u32>) -> Vec<String> {
    hours.into_iter().map(|hour| format!("2026-01-02T{hour:02}:00:00Z")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_starts_at_each_tick_and_knows_it() {
    let (store, world) = (MemoryStore::new(), world());
    let engine = engine(&store, &world).start().await.unwrap();
    let schedule = engine.schedule::<hourly>("0 * * * *", "UTC").label("kind", "report").await.unwrap();
    sleep(3 * HOUR).await;
    assert_eq!(ticks(&store).await, hours([1, 2, 3]));
    assert_eq!(engine.runs(RunFilter::new().label("kind", "report")).await.unwrap().len(), 3);
    let run = engine.handle::<hourly>("schedule:hourly:2026-01-02T02:00:00Z").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "2026-01-02T02:00:00Z");
    let record = schedule.record().await.unwrap();
    assert_eq!(record.next, "2026-01-02T04:00:00Z".parse::<Timestamp>().unwrap());
    assert!(
        record.recent.iter().all(|tick| tick.outcome == TickOutcome::Started) && record.recent.len() == 3
    );
    // A run that nobody scheduled has no tick.
    assert_eq!(engine.start::<hourly>(()).id("by-hand").await.unwrap().result().await.unwrap(), "");
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_caught_up_with_as_the_schedule_says() {
    for (catch_up, expected) in [
        (CatchUp::None, hours([1, 6])),
        (CatchUp::Last, hours([1, 5, 6])),
        (CatchUp::All(2), hours([1, 4, 5, 6])),
        (CatchUp::All(9), hours(1..=6)),
    ] {
        let (store, world) = (MemoryStore::new(), world());
        let first = engine(&store, &world).start().await.unwrap();
        let declare = async |engine: &Engine| {
            engine
                .schedule::<hourly>("0 * * * *", "UTC")
                .overlap(Overlap::Allow)
                .catch_up(catch_up)
                .await
                .unwrap()
        };
        declare(&first).await;
        sleep(HOUR).await;
        first.shutdown().await.unwrap();
        // Down from half past one until half past five.
        sleep(4 * HOUR).await;
        let second = engine(&store, &world).start().await.unwrap();
        let schedule = declare(&second).await;
        sleep(HOUR).await;
        assert_eq!(ticks(&store).await, expected, "{catch_up:?}");
        let missed = schedule.record().await.unwrap().recent;
        let missed = missed.iter().any(|tick| tick.outcome == TickOutcome::Missed);
        assert_eq!(missed, catch_up != CatchUp::All(9), "{catch_up:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_run_skips_delays_or_allows_the_next() {
    for (overlap, expected) in [
        (Overlap::Skip, hours([1, 4, 7])),
        // That of 02:00 waits until after 03:00, and is not the newest by then.
        (Overlap::Wait, hours([1, 3, 5, 7])),
        (Overlap::Allow, hours(1..=8)),
    ] {
        let (store, world) = (MemoryStore::new(), world());
        let engine = engine(&store, &world).start().await.unwrap();
        let slow = engine.schedule::<slow>("0 * * * *", "UTC").input(2).overlap(overlap);
        let slow = slow.await.unwrap();
        // It takes longer than the ticks are apart, by a bit.
        sleep(7 * HOUR + 45 * MINUTE).await;
        assert_eq!(ticks(&store).await, expected, "{overlap:?}");
        let record = slow.record().await.unwrap();
        let skipped = record.recent.iter().any(|tick| tick.outcome == TickOutcome::Overlapped);
        assert_eq!(skipped, overlap == Overlap::Skip);
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_schedule_starts_nothing_and_forgets_its_ticks() {
    let (store, world) = (MemoryStore::new(), world());
    let engine = engine(&store, &world).start().await.unwrap();
    let schedule = engine
        .schedule::<hourly>("0 * * * *", "UTC")
        .overlap(Overlap::Allow)
        .catch_up(CatchUp::All(9))
        .await
        .unwrap();
    sleep(HOUR).await;
    schedule.pause().await.unwrap();
    sleep(2 * HOUR).await;
    // Declared again, as by a program that starts, it stays paused.
    engine
        .schedule::<hourly>("0 * * * *", "UTC")
        .overlap(Overlap::Allow)
        .catch_up(CatchUp::All(9))
        .await
        .unwrap();
    sleep(HOUR).await;
    assert_eq!(ticks(&store).await, hours([1]));
    // By hand it starts all the same, once for each tick.
    schedule.trigger_for("2026-01-02T02:00:00Z".parse().unwrap()).await.unwrap();
    schedule.trigger_for("2026-01-02T02:00:00Z".parse().unwrap()).await.unwrap();
    schedule.resume().await.unwrap();
    sleep(HOUR).await;
    assert_eq!(ticks(&store).await, hours([1, 2, 5]));
    assert!(schedule.remove().await.unwrap());
    sleep(HOUR).await;
    assert_eq!(ticks(&store).await, hours([1, 2, 5]));
    assert!(matches!(schedule.pause().await, Err(ScheduleError::Unknown { .. })));
    assert_eq!(engine.schedules().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_changed_schedule_ticks_in_the_new_way_from_then_on() {
    let (store, world) = (MemoryStore::new(), world());
    let engine = engine(&store, &world).start().await.unwrap();
    engine.schedule::<hourly>("0 * * * *", "UTC").await.unwrap();
    sleep(HOUR).await;
    // The same again neither starts the tick again nor skips one.
    engine.schedule::<hourly>("0 * * * *", "UTC").await.unwrap();
    sleep(HOUR).await;
    engine.schedule::<hourly>("15 * * * *", "UTC").await.unwrap();
    sleep(HOUR).await;
    let mut expected = hours([1, 2]);
    expected.push("2026-01-02T03:15:00Z".into());
    assert_eq!(ticks(&store).await, expected);
    assert_eq!(engine.schedules().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn three_engines_start_one_run_a_tick() {
    let (store, world) = (MemoryStore::new(), world());
    let mut engines = Vec::new();
    for _ in 0..3 {
        let engine = engine(&store, &world).start().await.unwrap();
        engine.schedule::<slow>("* * * * *", "UTC").input(0).overlap(Overlap::Wait).await.unwrap();
        engines.push(engine);
    }
    sleep(30 * MINUTE + Duration::from_secs(5)).await;
    let runs = store.runs(RunFilter::default()).await.unwrap();
    assert_eq!(runs.len(), 30);
    assert!(runs.iter().all(|run| run.status == Status::Completed), "{runs:?}");
    let recent = store.schedules(None, 0).await.unwrap().remove(0).recent;
    assert!(recent.iter().all(|tick| tick.outcome == TickOutcome::Started), "{recent:?}");
}

/// A worker dies between its decision and the start: the next one starts what was decided, also where the policy would
/// decide otherwise by then.
#[tokio::test(start_paused = true)]
async fn what_was_decided_is_started_by_whoever_comes() {
    let (store, world) = (MemoryStore::new(), world());
    let first = engine(&store, &world).start().await.unwrap();
    first.schedule::<hourly>("0 * * * *", "UTC").catch_up(CatchUp::None).await.unwrap();
    first.shutdown().await.unwrap();
    let mut decided = store.schedules(None, 0).await.unwrap().remove(0);
    let replaces = decided.revision;
    let tick: Timestamp = "2026-01-02T01:00:00Z".parse().unwrap();
    decided.starting.push(tick);
    decided.last = Some(tick);
    decided.next = "2026-01-02T09:00:00Z".parse().unwrap();
    decided.revision += 1;
    assert!(store.put_schedule(decided, replaces).await.unwrap());
    sleep(5 * HOUR).await;
    let second = engine(&store, &world).start().await.unwrap();
    sleep(MINUTE).await;
    assert_eq!(ticks(&store).await, hours([1]));
    assert_eq!(second.schedules().await.unwrap()[0].starting, []);
}

#[tokio::test]
async fn a_schedule_in_a_file_starts_again_with_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.db");
    let engine = Engine::builder().sqlite(&file).start().await.unwrap();
    let schedule = engine.schedule::<hourly>("@yearly", "Asia/Kathmandu").name("rare").await.unwrap();
    schedule.pause().await.unwrap();
    engine.shutdown().await.unwrap();

    let engine = Engine::builder().sqlite(&file).start().await.unwrap();
    let schedule = engine.find_schedule("rare").await.unwrap();
    assert!(schedule.record().await.unwrap().paused);
    // Linked, though nobody declared it or started a run of it here.
    let run = schedule.trigger().await.unwrap();
    in_time(async {
        while run.status().await.unwrap() != Status::Completed {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(run.id().as_str().starts_with("schedule:rare:"));
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_is_no_schedule_is_refused_before_anything_is_written() {
    let engine = Engine::builder().memory().start().await.unwrap();
    let refused = async |cron: &str, zone: &str| engine.schedule::<hourly>(cron, zone).await.unwrap_err();
    assert!(matches!(refused("0 3 * *", "UTC").await, ScheduleError::Cron(CronError::Expression { .. })));
    assert!(matches!(refused("0 3 * * *", "Mars").await, ScheduleError::Cron(CronError::Zone { .. })));
    assert!(matches!(refused("0 0 30 2 *", "UTC").await, ScheduleError::Cron(CronError::Never { .. })));
    let no_input = engine.schedule::<slow>("@daily", "UTC").await.unwrap_err();
    assert_eq!(
        no_input.to_string(),
        "workflow `slow` takes an input of type `u64`: give schedule `slow` one with `.input(..)`"
    );
    let name = engine.schedule::<hourly>("@daily", "UTC").name("x".repeat(300)).await.unwrap_err();
    assert!(matches!(name, ScheduleError::Name { .. }), "{name}");
    assert!(matches!(engine.find_schedule("nobody").await, Err(ScheduleError::Unknown { .. })));
    assert_eq!(engine.schedules().await.unwrap(), []);
}

/// The id of a tick belongs to another run: the tick has failed and says why, and the next one is not held up.
#[tokio::test(start_paused = true)]
async fn a_tick_whose_run_cannot_start_says_why() {
    let (store, world) = (MemoryStore::new(), world());
    let engine = engine(&store, &world).start().await.unwrap();
    engine.start::<slow>(0).id("schedule:hourly:2026-01-02T01:00:00Z").await.unwrap();
    let schedule = engine.schedule::<hourly>("0 * * * *", "UTC").await.unwrap();
    sleep(2 * HOUR).await;
    let recent = schedule.record().await.unwrap().recent;
    assert!(
        matches!(&recent[0].outcome, TickOutcome::Failed(why) if why.contains("workflow `slow`")),
        "{recent:?}"
    );
    assert_eq!(recent[1].outcome, TickOutcome::Started);
}

/// As many schedules as one page of a look, and more, wait for runs that are open. The others tick on.
#[tokio::test(start_paused = true)]
async fn schedules_that_wait_hide_no_others() {
    let (store, world) = (MemoryStore::new(), world());
    let engine = engine(&store, &world).start().await.unwrap();
    for number in 0..300 {
        let name = format!("waits-{number}");
        engine.schedule::<slow>("@hourly", "UTC").input(100).name(name).overlap(Overlap::Wait).await.unwrap();
    }
    engine.schedule::<hourly>("0 * * * *", "UTC").await.unwrap();
    sleep(5 * HOUR).await;
    let ticked = store.runs(RunFilter::new().id_prefix("schedule:hourly:")).await.unwrap();
    assert_eq!(ticked.len(), 5);
    let waiting = store.runs(RunFilter::new().id_prefix("schedule:waits-")).await.unwrap();
    assert_eq!(waiting.len(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_pause_stops_a_backlog() {
    let (store, world) = (MemoryStore::new(), world());
    let first = engine(&store, &world).start().await.unwrap();
    let declare = async |engine: &Engine| {
        let schedule = engine.schedule::<hourly>("* * * * *", "UTC").overlap(Overlap::Allow);
        schedule.catch_up(CatchUp::All(5_000)).await.unwrap()
    };
    declare(&first).await;
    first.shutdown().await.unwrap();
    sleep(50 * HOUR).await;
    // Decided and not started, as a worker leaves it that dies.
    let mut decided = store.schedules(None, 0).await.unwrap().remove(0);
    let replaces = decided.revision;
    decided.starting = (1..=10).map(|minute| decided.next + minute * MINUTE).collect();
    decided.revision += 1;
    assert!(store.put_schedule(decided, replaces).await.unwrap());
    let second = engine(&store, &world).max_active(10).start().await.unwrap();
    let schedule = second.find_schedule("hourly").await.unwrap();
    schedule.pause().await.unwrap();
    let started = store.runs(RunFilter::new()).await.unwrap().len();
    sleep(HOUR).await;
    // One may have been under way.
    assert!(store.runs(RunFilter::new()).await.unwrap().len() <= started + 1);
    let record = schedule.record().await.unwrap();
    assert!(record.starting.is_empty() && record.due_at().is_none(), "{record:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_by_hand_is_another_each_time_and_is_noted() {
    let (store, world) = (MemoryStore::new(), world());
    let engine = engine(&store, &world).start().await.unwrap();
    let schedule = engine.schedule::<hourly>("0 * * * *", "UTC").await.unwrap();
    // No time passes between the calls.
    let (one, other) = (schedule.trigger().await.unwrap(), schedule.trigger().await.unwrap());
    assert_ne!(one.id(), other.id());
    let tick = "2026-01-01T05:00:00Z".parse().unwrap();
    let again = (schedule.trigger_for(tick).await.unwrap(), schedule.trigger_for(tick).await.unwrap());
    assert_eq!(again.0.id(), again.1.id());
    let recent = schedule.record().await.unwrap().recent;
    assert!(
        recent.len() == 3 && recent.iter().all(|tick| tick.outcome == TickOutcome::Triggered),
        "{recent:?}"
    );
}

/// Another program on the same store has a workflow of the same name in another module.
#[tokio::test(start_paused = true)]
async fn a_schedule_starts_the_workflow_of_its_own_module() {
    let (store, world) = (MemoryStore::new(), world());
    let engine = engine(&store, &world).start().await.unwrap();
    engine.schedule::<hourly>("0 * * * *", "UTC").await.unwrap();
    let mut foreign = store.schedules(None, 0).await.unwrap().remove(0);
    foreign.name = "foreign".into();
    foreign.spec.module = "other_program::reports".into();
    assert!(store.put_schedule(foreign, 0).await.unwrap());
    sleep(2 * HOUR).await;
    assert_eq!(ticks(&store).await, hours([1, 2]));
    let foreign = store.schedule("foreign").await.unwrap().unwrap();
    assert!(
        foreign.recent.is_empty() && foreign.next < world.now(),
        "left to the other program: {foreign:?}"
    );
    let refused = engine.find_schedule("foreign").await.unwrap().trigger().await;
    assert!(matches!(refused, Err(ScheduleError::NotLinked { .. })));
}

#[tokio::test]
async fn what_would_skip_most_of_what_is_caught_up_with_is_refused() {
    let engine = Engine::builder().memory().start().await.unwrap();
    for overlap in [Overlap::Skip, Overlap::Cancel, Overlap::Terminate] {
        let all = engine.schedule::<hourly>("@daily", "UTC").catch_up(CatchUp::All(7)).overlap(overlap);
        assert!(matches!(all.await, Err(ScheduleError::SkippedCatchUp { .. })));
    }
    let refused = engine.schedule::<hourly>("@daily", "UTC").catch_up(CatchUp::All(7)).await.unwrap_err();
    assert!(matches!(refused, ScheduleError::SkippedCatchUp { .. }));
    assert!(refused.to_string().contains("Overlap::Wait"), "{refused}");
}

/// Work until somebody ends it.
#[workflow]
async fn endless(cx: &mut Cx) -> Result<()> {
    let _: () = cx.signal("never").await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_tick_ends_the_run_of_the_one_before() {
    for (overlap, end) in [(Overlap::Cancel, Status::Cancelled), (Overlap::Terminate, Status::Cancelled)] {
        let (store, world) = (MemoryStore::new(), world());
        let engine = engine(&store, &world).start().await.unwrap();
        let schedule = engine.schedule::<endless>("0 * * * *", "UTC").overlap(overlap).await.unwrap();
        sleep(4 * HOUR + MINUTE).await;
        assert_eq!(ticks(&store).await, hours([1, 2, 3, 4]), "{overlap:?}");
        let runs = store.runs(RunFilter::default()).await.unwrap();
        let mut ended = runs.iter().map(|run| run.status).collect::<Vec<_>>();
        assert!(!ended.remove(0).is_terminal(), "the newest is left alone");
        assert_eq!(ended, [end; 3], "{overlap:?}");
        let recent = schedule.record().await.unwrap().recent;
        assert!(recent.iter().all(|tick| tick.outcome == TickOutcome::Started), "{recent:?}");
        let trace = engine.trace(&runs[1].id).await.unwrap().to_string();
        assert!(trace.contains("schedule endless"), "{trace}");
    }
}

/// A backfill starts each tick of a time once: not those that the schedule started, nor those of a backfill that was cut
/// off, nor those that are not due yet.
#[tokio::test(start_paused = true)]
async fn a_backfill_starts_each_tick_that_has_no_run() {
    let (store, world) = (MemoryStore::new(), world());
    let engine = engine(&store, &world).start().await.unwrap();
    let schedule = engine.schedule::<hourly>("0 * * * *", "UTC").await.unwrap();
    sleep(2 * HOUR).await;
    schedule.trigger_for("2026-01-01T22:00:00Z".parse().unwrap()).await.unwrap();
    let whole = "2026-01-01T20:00:00Z".parse().unwrap().."2026-01-02T09:00:00Z".parse().unwrap();
    let done = schedule.backfill(whole.clone()).await.unwrap();
    // 20:00 to 02:00, of which 22:00, 01:00 and 02:00 were there.
    assert_eq!((done.started, done.existing), (4, 3));
    let again = schedule.backfill(whole).await.unwrap();
    assert_eq!((again.started, again.existing), (0, 7));
    let backfilled = schedule.record().await.unwrap().recent.pop().unwrap();
    assert_eq!(backfilled.outcome, TickOutcome::Backfilled);
    assert_eq!(backfilled.at, "2026-01-01T20:00:00Z".parse().unwrap());
    assert_eq!(backfilled.until, "2026-01-02T00:00:00Z".parse().unwrap());
    assert_eq!(backfilled.noted_at, Some(world.now()));
    sleep(HOUR).await;
    assert_eq!(ticks(&store).await.len(), 8);
}

/// Start as one workflow, and go on as another.
#[workflow]
async fn renamed_later(cx: &mut Cx) -> Result<String> {
    cx.continue_as_new::<hourly>(()).await
}

/// A tick whose run is of another workflow has its run, and ends no backfill; a run that continued as another workflow is
/// that of its tick all the same.
#[tokio::test(start_paused = true)]
async fn a_backfill_goes_on_behind_runs_of_other_workflows() {
    let (store, world) = (MemoryStore::new(), world());
    let engine = engine(&store, &world).start().await.unwrap();
    let former = engine.schedule::<slow>("0 * * * *", "UTC").input(1).name("report").await.unwrap();
    former.trigger_for("2026-01-01T22:00:00Z".parse().unwrap()).await.unwrap();
    let schedule = engine.schedule::<renamed_later>("0 * * * *", "UTC").name("report").await.unwrap();
    let continued = "2026-01-01T21:00:00Z".parse().unwrap();
    let run = schedule.trigger_for(continued).await.unwrap();
    let run = engine.handle::<renamed_later>(run.id().as_str()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), continued.to_string());
    assert_eq!(schedule.trigger_for(continued).await.unwrap().id(), run.id());
    let whole = "2026-01-01T20:00:00Z".parse().unwrap().."2026-01-02T00:00:01Z".parse().unwrap();
    let done = schedule.backfill(whole).await.unwrap();
    assert_eq!((done.started, done.existing), (3, 2));
    let other = schedule.trigger_for("2026-01-01T22:00:00Z".parse().unwrap()).await;
    assert!(matches!(other, Err(ScheduleError::Start(StartError::IdTaken { .. }))), "{other:?}");
}

/// The run of a tick is created after the tick's delay, and is that of the tick.
#[tokio::test(start_paused = true)]
async fn a_schedule_with_a_jitter_starts_after_each_tick() {
    let (store, world) = (MemoryStore::new(), world());
    let engine = engine(&store, &world).start().await.unwrap();
    let schedule = engine.schedule::<hourly>("0 * * * *", "UTC").jitter(HOUR).await.unwrap();
    let first = schedule.record().await.unwrap().starts_at();
    sleep(6 * HOUR).await;
    let mut started: Vec<_> = store.runs(RunFilter::default()).await.unwrap();
    started.reverse();
    let tick =
        |run: &aether::store::RunRecord| run.id.as_str().rsplit("hourly:").next().unwrap().parse().unwrap();
    let second = jiff::SignedDuration::from_secs(1);
    let mut delays = Vec::new();
    for run in &started {
        let delay = run.created_at.duration_since(tick(run));
        assert!(!delay.is_negative() && delay < jiff::SignedDuration::from_hours(1) + second, "{run:?}");
        delays.push(delay.as_secs());
    }
    let late = started[0].created_at.duration_since(first);
    assert!(!late.is_negative() && late < second, "the delay is known beforehand: {late:?}");
    delays.sort();
    delays.dedup();
    assert!(delays.len() > 3 && delays[delays.len() - 1] > 600, "{delays:?}");
    let mut named = ticks(&store).await;
    named.truncate(5);
    assert_eq!(named, hours(1..=5));
}

/// A wall clock that shows a time twice, or skips one, as the schedule wants it.
#[tokio::test(start_paused = true)]
async fn the_days_on_which_clocks_change_follow_the_schedules_rules() {
    use aether::schedule::{Gap, Repeat};
    let store = MemoryStore::new();
    let world = SimEnvironment::new("2026-10-24T12:00:00Z".parse().unwrap(), 7);
    let engine = engine(&store, &world).start().await.unwrap();
    let both = engine.schedule::<hourly>("30 2 * * *", "Europe/Berlin").name("both");
    both.repeat(Repeat::Twice).gap(Gap::Skip).await.unwrap();
    engine.schedule::<hourly>("30 2 * * *", "Europe/Berlin").name("once").await.unwrap();
    sleep(24 * HOUR).await;
    let of = async |name: &str| {
        let prefix = format!("schedule:{name}:");
        store.count(RunFilter::new().id_prefix(prefix)).await.unwrap()
    };
    assert_eq!((of("both").await, of("once").await), (2, 1));
}
