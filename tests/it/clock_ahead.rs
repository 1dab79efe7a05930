//! A clock that was years ahead for a moment: what it put off comes in its time by the clock as it was set right, and nothing is
//! changed before it is clear which of the two was wrong. Time is virtual.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aether::engine::Environment;
use aether::id::{CodeId, WorkerId};
use aether::prelude::*;
use aether::retention::Retention;
use aether::schedule::{CatchUp, Overlap, TickOutcome};
use aether::store::journal::Frame;
use aether::store::memory::MemoryStore;
use aether::store::{Created, DueStarts, NewRun, RunFilter, Store as _};
use aether::view::Status;
use aether_testing::SimEnvironment;
use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const YEARS: i64 = 3 * 365 * 24 * 3_600;

/// Say which tick it is.
#[workflow]
async fn ahead_tick(cx: &mut Cx) -> Result<String> {
    Ok(cx.scheduled_for().map(|tick| tick.to_string()).unwrap_or_default())
}

/// Wait for somebody.
#[workflow]
async fn ahead_wait(cx: &mut Cx) -> Result<()> {
    Ok(cx.signal("somebody").await?)
}

/// Add up what was gathered.
#[workflow]
async fn ahead_sum(_cx: &mut Cx, numbers: Vec<u64>) -> Result<u64> {
    Ok(numbers.iter().sum())
}

/// A clock that goes as it should, and is ahead by so many seconds.
#[derive(Clone, Debug)]
struct Ahead {
    world: SimEnvironment,
    by: Arc<AtomicI64>,
}

impl Ahead {
    fn set(&self, seconds: i64) {
        self.by.store(seconds, Ordering::SeqCst);
    }
}

impl Environment for Ahead {
    fn now(&self) -> Timestamp {
        self.world.now() + SignedDuration::from_secs(self.by.load(Ordering::SeqCst))
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.world.fill_random(bytes);
    }

    fn sleep_until(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.clone();
        Box::pin(async move {
            while clock.now() < until {
                clock.world.sleep(Duration::from_secs(10)).await;
            }
        })
    }

    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.world.sleep(span)
    }

    fn monotonic(&self) -> Duration {
        self.world.monotonic()
    }

    fn spawn_keeper(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.world.spawn_keeper(task);
    }
}

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Half an hour before the first full hour.
async fn begin(store: &MemoryStore) -> (Ahead, Engine) {
    let world = SimEnvironment::new("2026-01-02T00:30:00Z".parse().unwrap(), 7);
    let clock = Ahead { world, by: Arc::default() };
    let builder = Engine::builder().environment(Arc::new(clock.clone())).store(Arc::new(store.clone()));
    (clock, builder.poll_interval(MINUTE).start().await.unwrap())
}

async fn has_run(store: &MemoryStore, tick: &str) -> bool {
    let runs = store.runs(RunFilter::default()).await.unwrap();
    runs.iter().any(|run| run.id.as_str() == format!("schedule:ahead_tick:{tick}"))
}

#[tokio::test(start_paused = true)]
async fn a_schedule_ticks_on() {
    let store = MemoryStore::new();
    let (clock, engine) = begin(&store).await;
    let schedule = engine.schedule::<ahead_tick>("0 * * * *", "UTC").await.unwrap();
    clock.set(YEARS);
    let is_far_off = async || schedule.record().await.unwrap().next > "2028-01-01T00:00:00Z".parse().unwrap();
    while !is_far_off().await {
        sleep(MINUTE).await;
    }
    clock.set(0);
    sleep(8 * MINUTE).await;
    assert!(is_far_off().await, "its clock may be about to be set right");
    sleep(2 * HOUR).await;
    assert!(has_run(&store, "2026-01-02T01:00:00Z").await && has_run(&store, "2026-01-02T02:00:00Z").await);
    let next = schedule.record().await.unwrap().next;
    assert_eq!(next.to_string(), "2026-01-02T03:00:00Z");
}

/// Its worker has died, and only a program with other code is there.
#[tokio::test(start_paused = true)]
async fn a_run_that_was_begun_by_a_clock_that_was_ahead_is_adopted_from_a_dead_worker() {
    let made = MemoryStore::new();
    let (clock, engine) = begin(&made).await;
    let run = engine.start::<ahead_sum>(vec![1, 2]).id("sum").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 3);
    engine.shutdown().await.unwrap();
    let record = made.run(run.id()).await.unwrap().unwrap();
    let created = &made.load(run.id(), 0).await.unwrap()[0];
    let (store, worker) = (MemoryStore::new(), WorkerId::from("gone".to_owned()));
    store.register(&worker, MINUTE, Vec::new()).await.unwrap();
    let new = NewRun {
        id: record.id.clone(),
        workflow: record.workflow,
        version: record.version,
        code: CodeId::of("elsewhere", "ahead_sum", record.version, "0011223344556677"),
        digest: record.digest,
        parent: None,
        labels: record.labels,
        traceparent: None,
        frame: Frame::encode(&created.events().unwrap()).unwrap(),
        at: clock.now() + DAY,
        owner: Some(worker),
        parent_epoch: None,
        terms: record.terms,
    };
    assert_eq!(store.create(new).await, Ok(Created::New));
    let (_clock, engine) = begin(&store).await;
    let ended = async || store.run(&record.id).await.unwrap().unwrap().status.is_terminal();
    let until = tokio::time::Instant::now() + HOUR;
    while !ended().await {
        assert!(tokio::time::Instant::now() < until, "it waits for a clock that is a day ahead");
        sleep(MINUTE).await;
    }
    engine.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_behind_for_a_moment_starts_no_tick_again() {
    let store = MemoryStore::new();
    let (clock, engine) = begin(&store).await;
    let schedule = engine.schedule::<ahead_tick>("0 * * * *", "UTC").await.unwrap();
    sleep(3 * HOUR).await;
    let before = schedule.record().await.unwrap();
    assert_eq!(before.recent.len(), 3);
    // For less than ten minutes, which is not believed; and for long, when the hours come again.
    for (minutes, ticks) in [(8, 3), (4 * 60, 5)] {
        clock.set(-3 * 3_600);
        sleep(minutes * MINUTE).await;
        clock.set(0);
        let runs = store.runs(RunFilter::default()).await.unwrap().len();
        let record = schedule.record().await.unwrap();
        let started: Vec<_> = record.recent.iter().map(|tick| tick.at).collect();
        let mut once = started.clone();
        once.sort();
        once.dedup();
        assert_eq!((once.len(), runs), (started.len(), started.len()), "{record:?}");
        assert!(runs <= ticks, "{record:?}");
    }
}

/// A run that was started before its tick, by a clock that was ahead for a moment, is not in the way of that very tick.
#[tokio::test(start_paused = true)]
async fn a_tick_ends_no_run_of_its_own() {
    for overlap in [Overlap::Skip, Overlap::Wait, Overlap::Cancel, Overlap::Terminate] {
        for resumes in [false, true] {
            let store = MemoryStore::new();
            let (clock, engine) = begin(&store).await;
            let schedule = engine.schedule::<ahead_wait>("0 * * * *", "UTC").overlap(overlap).await.unwrap();
            clock.set(3_600);
            sleep(3 * MINUTE).await;
            clock.set(0);
            let is_open = async |tick: &str| {
                let run = format!("schedule:ahead_wait:2026-01-02T{tick}:00:00Z").parse().unwrap();
                let run = store.run(&run).await.unwrap();
                run.map(|run| !run.status.is_terminal())
            };
            assert_eq!(is_open("01").await, Some(true));
            if resumes {
                schedule.pause().await.unwrap();
                schedule.resume().await.unwrap();
            }
            // Until the clock is believed, and beyond the tick.
            sleep(40 * MINUTE).await;
            assert_eq!(is_open("01").await, Some(true), "{overlap:?}, {resumes}");
            let record = schedule.record().await.unwrap();
            let outcomes: Vec<_> = record.recent.iter().map(|tick| &tick.outcome).collect();
            assert_eq!(outcomes, [&TickOutcome::Started], "{overlap:?}, {resumes}");
            sleep(HOUR).await;
            let (first, second) = (is_open("01").await, is_open("02").await);
            let ends = matches!(overlap, Overlap::Cancel | Overlap::Terminate);
            assert_eq!((first, second), (Some(!ends), ends.then_some(true)), "{overlap:?}, {resumes}");
            engine.shutdown().await.unwrap();
        }
    }
}

/// A tick that is skipped because it is late ends no run.
#[tokio::test(start_paused = true)]
async fn a_tick_that_is_missed_ends_no_run() {
    for overlap in [Overlap::Wait, Overlap::Cancel, Overlap::Terminate] {
        let store = MemoryStore::new();
        let (clock, engine) = begin(&store).await;
        let declared = engine.schedule::<ahead_wait>("0 * * * *", "UTC").overlap(overlap);
        declared.catch_up(CatchUp::None).await.unwrap();
        sleep(40 * MINUTE).await;
        engine.shutdown().await.unwrap();
        sleep(HOUR).await;
        let builder = Engine::builder().environment(Arc::new(clock.clone())).store(Arc::new(store.clone()));
        let engine = builder.poll_interval(MINUTE).start().await.unwrap();
        sleep(5 * MINUTE).await;
        let run = engine.find("schedule:ahead_wait:2026-01-02T01:00:00Z").await.unwrap();
        assert_eq!(run.status().await.unwrap(), Status::Waiting, "{overlap:?}");
        let record = engine.find_schedule("ahead_wait").await.unwrap().record().await.unwrap();
        let outcomes: Vec<_> = record.recent.iter().map(|tick| &tick.outcome).collect();
        assert_eq!(outcomes, [&TickOutcome::Started, &TickOutcome::Missed], "{overlap:?}");
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn windows_end_and_what_is_gathered_begins() {
    let store = MemoryStore::new();
    let (clock, engine) = begin(&store).await;
    let start = async |id: &'static str| {
        engine.start::<ahead_sum>(vec![1]).id(id).dedup("k", HOUR).await.unwrap().id().to_string()
    };
    clock.set(YEARS);
    assert_eq!(start("first").await, "first");
    let batch = engine.start::<ahead_sum>(vec![2]).collect("k", 100, HOUR).await.unwrap();
    clock.set(0);
    assert_eq!(start("second").await, "first");
    // Longer than the window, and not yet an hour after the clock is believed.
    sleep(8 * MINUTE).await;
    assert_eq!(start("third").await, "first");
    assert!(store.run(batch.id()).await.unwrap().is_none());
    sleep(10 * MINUTE).await;
    assert_eq!(start("fourth").await, "first");
    sleep(50 * MINUTE).await;
    assert_eq!(start("fifth").await, "first");
    sleep(12 * MINUTE).await;
    assert_eq!(start("sixth").await, "sixth");
    assert_eq!(batch.result().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_window_outlasts_a_clock_that_is_ahead() {
    for minutes in [3, 15, 40] {
        let store = MemoryStore::new();
        let (clock, engine) = begin(&store).await;
        let start = async |id: &'static str| {
            engine.start::<ahead_sum>(vec![1]).id(id).dedup("k", HOUR).await.unwrap().id().to_string()
        };
        assert_eq!(start("first").await, "first");
        sleep(minutes * MINUTE).await;
        clock.set(2 * 3_600);
        sleep(2 * MINUTE).await;
        clock.set(0);
        sleep(MINUTE).await;
        assert_eq!(start("second").await, "first", "after {minutes} minutes");
        sleep((54 - minutes) * MINUTE).await;
        assert_eq!(start("third").await, "first", "after {minutes} minutes");
        sleep(6 * MINUTE).await;
        assert_eq!(start("fourth").await, "fourth");
        // Nothing is left of one whose key nobody uses again.
        sleep(5 * HOUR).await;
        let due = DueStarts {
            now: Timestamp::MAX,
            workflows: Arc::from(["ahead_sum".to_owned()]),
            after: None,
            limit: 9,
        };
        assert_eq!(store.due_starts(due).await.unwrap().len(), 0);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_to_be_kept_is_not_deleted() {
    let kept = Retention::new().completed(30 * DAY).every(HOUR);
    is_kept_by(kept.clone()).await;
    // A clock that is believed to know one age is not believed to know another one.
    is_kept_by(kept.clone().cancelled(Duration::ZERO)).await;
    is_kept_by(kept.failed(5 * MINUTE).cancelled(MINUTE)).await;
}

async fn is_kept_by(retention: Retention) {
    let store = MemoryStore::new();
    let (clock, engine) = begin(&store).await;
    let run = engine.start::<ahead_sum>(vec![1]).id("kept").await.unwrap();
    run.result().await.unwrap();
    engine.shutdown().await.unwrap();
    let is_kept = async || store.run(run.id()).await.unwrap().is_some();
    // It is ahead when the process begins, and once more while it runs, just when it is time to purge.
    clock.set(YEARS);
    let engine = Engine::builder().environment(Arc::new(clock.clone())).store(Arc::new(store.clone()));
    let engine = engine.poll_interval(MINUTE).retention(retention).start().await.unwrap();
    sleep(8 * MINUTE).await;
    clock.set(0);
    sleep(11 * MINUTE).await;
    assert!(is_kept().await);
    for _ in 0..12 {
        clock.set(YEARS);
        sleep(8 * MINUTE).await;
        clock.set(0);
        sleep(4 * MINUTE).await;
        assert!(is_kept().await);
    }
    sleep(29 * DAY).await;
    assert!(is_kept().await);
    sleep(DAY).await;
    assert!(!is_kept().await, "its time has come");
    engine.shutdown().await.unwrap();
}
