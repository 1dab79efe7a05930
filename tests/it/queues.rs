//! Queues: turns within limits, fair by key, expiry, and starts under keys, on the memory store and on SQLite.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::engine::{EngineBuilder, Hold, RunEnd};
use aether::error::{RunError, StartError};
use aether::id::{CodeId, RunId, WorkerId};
use aether::prelude::*;
use aether::queue::{DeadLetterCause, Limit, LimitKind, Singleton};
use aether::sqlite::SqliteStore;
use aether::store::memory::MemoryStore;
use aether::store::{DueStarts, Recode, RunFilter, RunRecord, Store};
use aether::view::Status;
use tokio::time::sleep;

use crate::seeds::kit::in_time;

/// How many bodies run at the same time, by tenant and in all, and which ran.
#[derive(Clone, Debug, Default)]
struct Gauge(Arc<GaugeState>);

#[derive(Debug, Default)]
struct GaugeState {
    now: AtomicUsize,
    most: AtomicUsize,
    order: Mutex<Vec<String>>,
    /// Ends the bodies that are busy.
    is_enough: AtomicBool,
    /// Whether a body waits until another one has been there at the same time.
    meets: AtomicBool,
}

impl Gauge {
    async fn work(&self, name: &str, time: Duration) {
        let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(now, Ordering::SeqCst);
        self.0.order.lock().unwrap().push(name.to_owned());
        sleep(time).await;
        while self.0.meets.load(Ordering::SeqCst) && self.most() < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }

    fn order(&self) -> Vec<String> {
        self.0.order.lock().unwrap().clone()
    }
}

/// Work under a name.
#[step(effect = "read")]
async fn work(cx: &mut StepCx, name: String) -> Result<()> {
    cx.dep::<Gauge>()?.work(&name, Duration::from_millis(15)).await;
    Ok(())
}

/// Work, wait for a moment, and work again.
#[workflow]
async fn ticket(cx: &mut Cx, name: String) -> Result<String> {
    work(cx, name.clone()).await?;
    cx.sleep(Duration::from_millis(40)).await;
    work(cx, name.clone()).await?;
    Ok(name)
}

/// Work until it is enough.
#[step(effect = "read")]
async fn toil(cx: &mut StepCx) -> Result<()> {
    let gauge = cx.dep::<Gauge>()?.clone();
    while !gauge.0.is_enough.load(Ordering::SeqCst) {
        sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Keep a slot until it is enough.
#[workflow]
async fn busy(cx: &mut Cx) -> Result<()> {
    Ok(toil(cx).await?)
}

/// Wait for a signal.
#[workflow]
async fn patient(cx: &mut Cx) -> Result<u64> {
    Ok(cx.signal::<u64>("go").await?)
}

/// Fail.
#[workflow]
async fn hopeless(_cx: &mut Cx, why: String) -> Result<()> {
    Err(Failure::permanent(why))
}

/// Say what came.
#[workflow]
async fn last_word(_cx: &mut Cx, word: String) -> Result<String> {
    Ok(word)
}

/// Add up what came.
#[workflow]
async fn total(_cx: &mut Cx, numbers: Vec<u64>) -> Result<u64> {
    Ok(numbers.iter().sum())
}

fn builder(store: &Arc<dyn Store>, gauge: &Gauge) -> EngineBuilder {
    Engine::builder().store(Arc::clone(store)).provide(gauge.clone()).poll_interval(Duration::from_millis(10))
}

/// Does the same on a store in memory and on a file.
async fn on_both(test: impl AsyncFn(Arc<dyn Store>)) {
    test(Arc::new(MemoryStore::new())).await;
    let folder = tempfile::tempdir().unwrap();
    test(file(folder.path())).await;
}

fn file(folder: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(folder.join("agent.db")).unwrap())
}

async fn limit(engine: &Engine, pattern: &str, kind: LimitKind) {
    engine.limits().set(Limit::new(pattern, kind).unwrap()).await.unwrap();
}

#[tokio::test]
async fn no_more_turns_run_at_once_than_a_limit_allows() {
    on_both(async |store| {
        let gauge = Gauge::default();
        gauge.0.meets.store(true, Ordering::SeqCst);
        let engine = builder(&store, &gauge).start().await.unwrap();
        let other = builder(&store, &gauge).start().await.unwrap();
        limit(&engine, "tickets", LimitKind::Running(3)).await;
        let mut runs = Vec::new();
        for no in 0..12 {
            let (engine, name) = (if no % 2 == 0 { &engine } else { &other }, format!("t{no}"));
            runs.push(engine.start::<ticket>(name).queue("tickets").key("acme").await.unwrap());
        }
        for run in &runs {
            in_time(run.result()).await.unwrap();
        }
        assert_eq!(gauge.order().len(), 24);
        assert!((2..=3).contains(&gauge.most()), "{}", gauge.most());
        assert!(engine.queue_position(runs[0].id()).await.unwrap().is_none());
        other.shutdown().await.unwrap();
        engine.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_run_that_waits_leaves_its_slot() {
    on_both(async |store| {
        let gauge = Gauge::default();
        let engine = builder(&store, &gauge).start().await.unwrap();
        limit(&engine, "q", LimitKind::Running(1)).await;
        let waits = engine.start::<patient>(()).queue("q").await.unwrap();
        let works = engine.start::<ticket>("t".into()).queue("q").await.unwrap();
        in_time(works.result()).await.unwrap();
        assert_eq!(waits.status().await.unwrap(), Status::Waiting);
        let record = store.run(waits.id()).await.unwrap().unwrap();
        assert!(record.owner.is_none() && record.queue.started_at.is_some(), "{record:?}");
        engine.signal(waits.id(), "go", "s", &7_u64).await.unwrap();
        assert_eq!(in_time(waits.result()).await.unwrap(), 7);
        engine.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_tenant_with_much_delays_another_by_two_turns_at_most() {
    on_both(async |store| {
        let gauge = Gauge::default();
        let client = builder(&store, &gauge).client().start().await.unwrap();
        limit(&client, "q", LimitKind::Running(1)).await;
        for no in 0..30 {
            client.start::<ticket>(format!("big{no}")).queue("q").key("big").await.unwrap();
        }
        let engine = builder(&store, &gauge).start().await.unwrap();
        while gauge.order().len() < 3 {
            sleep(Duration::from_millis(2)).await;
        }
        let small = engine.start::<ticket>("small".into()).queue("q").key("small").await.unwrap();
        let before = gauge.order().len();
        in_time(small.result()).await.unwrap();
        let place = gauge.order().iter().position(|name| name == "small").unwrap();
        assert!(place <= before + 2, "{:?}", gauge.order());
        engine.shutdown().await.unwrap();
        client.shutdown().await.unwrap();
    })
    .await;
}

/// Asks until the reason is as wanted.
async fn why(engine: &Engine, run: &RunId, wanted: impl Fn(&Hold) -> bool) -> Hold {
    let asked = async {
        loop {
            let hold = engine.why(run).await.unwrap();
            if wanted(&hold) {
                return hold;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(asked).await
}

#[tokio::test]
async fn a_run_that_waits_for_its_turn_says_so() {
    on_both(async |store| {
        let gauge = Gauge::default();
        let client = builder(&store, &gauge).client().start().await.unwrap();
        limit(&client, "q/*", LimitKind::Running(1)).await;
        let mut runs = Vec::new();
        for no in 0..3 {
            let start = client.start::<busy>(()).id(format!("busy-{no}")).queue("q").key("acme/ann");
            runs.push(start.await.unwrap().id().clone());
        }
        // Where no worker is there, its place in the queue is not what keeps it.
        assert!(matches!(client.why(&runs[0]).await.unwrap(), Hold::NoWorker { .. }));
        let engine = builder(&store, &gauge).start().await.unwrap();
        why(&client, &runs[0], |hold| matches!(hold, Hold::Running { .. })).await;
        let holds = client.holds(RunFilter::new().queue("q").open().limit(10)).await.unwrap();
        let hold_of = |run: &RunId| holds.iter().find(|(record, _)| record.id == *run).unwrap().1.clone();
        for (ahead, run) in runs[1..].iter().enumerate() {
            let hold = client.why(run).await.unwrap();
            assert_eq!(hold, hold_of(run));
            let Hold::Queued { place, since, ahead: before, limit } = &hold else { panic!("{hold:?}") };
            assert_eq!((&*place.queue, &*place.key, *before), ("q", "acme/ann", ahead as u64));
            assert_eq!(*since, store.run(run).await.unwrap().unwrap().created_at);
            assert_eq!(limit.as_ref().unwrap().to_string(), "q/*: 1 running");
            let text = format!(
                "it waits for a turn of q/acme/ann since {since}, behind {ahead} of its key, kept back by the limit `q/*: 1 running`"
            );
            assert_eq!(hold.to_string(), text);
            assert!(!hold.needs_operator());
        }
        // Of a queue that is paused somebody has to know.
        limit(&client, "q", LimitKind::Running(0)).await;
        let hold = client.why(&runs[1]).await.unwrap();
        assert!(hold.needs_operator() && hold.to_string().contains("`q: 0 running`"), "{hold}");
        limit(&client, "q", LimitKind::Running(9)).await;
        limit(&client, "q/*", LimitKind::Running(2)).await;
        why(&client, &runs[1], |hold| matches!(hold, Hold::Running { .. })).await;
        assert!(matches!(client.why(&runs[2]).await.unwrap(), Hold::Queued { ahead: 0, .. }));
        limit(&client, "q/*", LimitKind::Running(3)).await;
        why(&client, &runs[2], |hold| matches!(hold, Hold::Running { .. })).await;
        gauge.0.is_enough.store(true, Ordering::SeqCst);
        for run in &runs {
            why(&client, run, |hold| matches!(hold, Hold::Ended { .. })).await;
        }
        engine.shutdown().await.unwrap();
        client.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_expires_is_not_executed() {
    on_both(async |store| {
        let gauge = Gauge::default();
        let engine = builder(&store, &gauge).start().await.unwrap();
        limit(&engine, "q", LimitKind::Running(0)).await;
        let soon = Duration::from_millis(50);
        let run = engine.start::<ticket>("t".into()).queue("q").expires(soon).await.unwrap();
        let Err(RunError::Expired { at, .. }) = in_time(run.result()).await else { panic!() };
        let record = store.run(run.id()).await.unwrap().unwrap();
        assert_eq!((record.status, record.terms.expires_at), (Status::Cancelled, Some(at)));
        assert!(matches!(in_time(run.end()).await.unwrap(), RunEnd::Expired { .. }));
        assert_eq!(gauge.order(), Vec::<String>::new());
        engine.verify(run.id()).await.unwrap();
        // So is what is cancelled before its first turn.
        let run = engine.start::<ticket>("t".into()).queue("q").await.unwrap();
        run.cancel("enough", "ann").await.unwrap();
        assert!(matches!(in_time(run.result()).await, Err(RunError::Cancelled { .. })));
        assert_eq!(gauge.order(), Vec::<String>::new());
        engine.shutdown().await.unwrap();
    })
    .await;
}

/// Runs whose build is gone come in the order of their queue to the next build, among those of its own.
#[tokio::test]
async fn runs_of_another_build_come_when_their_turn_is() {
    on_both(async |store| come_when_their_turn_is(store, false).await).await;
}

/// So do those that wait for longer than a lease while a worker of their build is there, which may have been drained.
#[tokio::test]
async fn runs_of_a_build_that_lets_them_lie_come_when_their_turn_is() {
    on_both(async |store| come_when_their_turn_is(store, true).await).await;
}

async fn come_when_their_turn_is(store: Arc<dyn Store>, is_old_there: bool) {
    let old = CodeId::from("of another build".to_owned());
    let lease = Duration::from_millis(300);
    if is_old_there {
        let worker = WorkerId::from("old".to_owned());
        assert!(store.register(&worker, 1000 * lease, vec![old.clone()]).await.unwrap());
    }
    let gauge = Gauge::default();
    let client = builder(&store, &gauge).client().start().await.unwrap();
    limit(&client, "q", LimitKind::Running(0)).await;
    let mut runs = Vec::new();
    for (name, priority) in [("old, low", 0), ("old, high", 20), ("new, middle", 10)] {
        let start = client.start::<ticket>(name.into()).queue("q").priority(priority);
        runs.push(start.await.unwrap());
    }
    let mut olds = Vec::new();
    for run in &runs[..2] {
        let RunRecord { id, epoch, code: was, .. } = store.run(run.id()).await.unwrap().unwrap();
        olds.push(Recode { run: id, epoch, was, code: old.clone() });
    }
    assert_eq!(store.recode(olds).await, Ok(2));
    let engine = builder(&store, &gauge).lease(lease).start().await.unwrap();
    in_time(async {
        // The store has them under their new code before the engine counts them.
        while engine.adoption_counts().adopted < 2 {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(store.count(RunFilter::new().code(old.clone())).await, Ok(0));
    assert_eq!((engine.adoption_counts().adopted, gauge.order()), (2, Vec::new()));
    limit(&client, "q", LimitKind::Running(1)).await;
    for run in &runs {
        in_time(run.result()).await.unwrap();
        engine.verify(run.id()).await.unwrap();
    }
    let (mut order, mut seen) = (gauge.order(), BTreeSet::new());
    order.retain(|name| seen.insert(name.clone()));
    assert_eq!(order, ["old, high", "new, middle", "old, low"]);
    engine.shutdown().await.unwrap();
    client.shutdown().await.unwrap();
}

/// What a former build left in its queue ends there when its time is over, as what this build started does.
#[tokio::test]
async fn what_has_expired_under_other_code_is_not_executed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&file).unwrap());
    let gauge = Gauge::default();
    let client = builder(&store, &gauge).client().start().await.unwrap();
    let soon = Duration::from_millis(50);
    let short = client.start::<ticket>("short".into()).queue("q").expires(soon).await.unwrap();
    let long = client.start::<ticket>("long".into()).queue("q").expires(soon * 10_000).await.unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    assert_eq!(other.execute("UPDATE aether_runs SET code = 'of another build'", []).unwrap(), 2);
    sleep(2 * soon).await;
    let engine = builder(&store, &gauge).lease(Duration::from_millis(300)).start().await.unwrap();
    let ended = in_time(short.result()).await;
    assert!(matches!(ended, Err(RunError::Expired { .. })), "{ended:?}");
    assert_eq!(in_time(long.result()).await.unwrap(), "long");
    assert_eq!(gauge.order(), ["long", "long"]);
    engine.verify(short.id()).await.unwrap();
    engine.shutdown().await.unwrap();
    client.shutdown().await.unwrap();
}

#[tokio::test]
async fn open_runs_push_back() {
    on_both(async |store| {
        let engine = builder(&store, &Gauge::default()).start().await.unwrap();
        limit(&engine, "q/*", LimitKind::Open(1)).await;
        let first = engine.start::<patient>(()).queue("q").key("a").await.unwrap();
        let refused = engine.start::<patient>(()).queue("q").key("a").await;
        let Err(StartError::OverLimit { limit, open: 1, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(limit.to_string(), "q/*: 1 open");
        engine.signal(first.id(), "go", "s", &1_u64).await.unwrap();
        in_time(first.result()).await.unwrap();
        engine.start::<patient>(()).queue("q").key("a").await.unwrap();
        engine.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn options_without_a_queue_are_refused() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store, &Gauge::default()).start().await.unwrap();
    let refused = engine.start::<patient>(()).key("a").await;
    assert!(matches!(refused, Err(StartError::Queue { .. })), "{refused:?}");
    let refused = engine.start::<patient>(()).queue("a/b").await;
    assert!(matches!(refused, Err(StartError::Queue { .. })), "{refused:?}");
    let refused = engine.start::<patient>(()).once_per("", Singleton::Join).await;
    assert!(matches!(refused, Err(StartError::Key { .. })), "{refused:?}");
    let refused = engine.start::<patient>(()).dedup("k", Duration::ZERO).await;
    assert!(matches!(refused, Err(StartError::Key { .. })), "{refused:?}");
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn one_run_per_key_is_open() {
    on_both(async |store| {
        let engine = builder(&store, &Gauge::default()).start().await.unwrap();
        let other = builder(&store, &Gauge::default()).start().await.unwrap();
        // Sixteen starts at once, in two engines, are one run.
        let starts = (0..16).map(|no| {
            let engine = if no % 2 == 0 { engine.clone() } else { other.clone() };
            tokio::spawn(async move { engine.start::<patient>(()).once_per("k", Singleton::Join).await })
        });
        let starts: Vec<_> = starts.collect();
        let mut ids = BTreeSet::new();
        for start in starts {
            ids.insert(start.await.unwrap().unwrap().id().clone());
        }
        assert_eq!(ids.len(), 1, "{ids:?}");
        let first = ids.into_iter().next().unwrap();
        let refused = other.start::<patient>(()).once_per("k", Singleton::Reject).await;
        assert!(matches!(&refused, Err(StartError::Held { run, .. }) if *run == first), "{refused:?}");
        engine.start::<patient>(()).once_per("other", Singleton::Reject).await.unwrap();
        let second = engine.start::<patient>(()).once_per("k", Singleton::Replace).await.unwrap();
        assert_ne!(*second.id(), first);
        let first = engine.handle::<patient>(first.as_str()).await.unwrap();
        assert!(matches!(in_time(first.result()).await, Err(RunError::Cancelled { .. })));
        engine.signal(second.id(), "go", "s", &1_u64).await.unwrap();
        in_time(second.result()).await.unwrap();
        // The key is free again.
        let third = engine.start::<patient>(()).once_per("k", Singleton::Reject).await.unwrap();
        assert_ne!(third.id(), second.id());
        other.shutdown().await.unwrap();
        engine.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_window_holds_one_run() {
    on_both(async |store| {
        let engine = builder(&store, &Gauge::default()).start().await.unwrap();
        let window = Duration::from_secs(3_600);
        let first = engine.start::<last_word>("a".into()).dedup("k", window).await.unwrap();
        assert_eq!(in_time(first.result()).await.unwrap(), "a");
        let again = engine.start::<last_word>("b".into()).dedup("k", window).await.unwrap();
        assert_eq!((again.id(), in_time(again.result()).await.unwrap().as_str()), (first.id(), "a"));
        // One that is over.
        let short = Duration::from_millis(50);
        let former = engine.start::<last_word>("c".into()).dedup("short", short).await.unwrap();
        sleep(short).await;
        let later = engine.start::<last_word>("d".into()).dedup("short", short).await.unwrap();
        assert_ne!(later.id(), former.id());
        assert_eq!(in_time(later.result()).await.unwrap(), "d");
        engine.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_last_of_several_inputs_wins() {
    on_both(async |store| {
        let engine = builder(&store, &Gauge::default()).start().await.unwrap();
        // Longer than a slow machine takes from one start to the next.
        let (quiet, max) = (Duration::from_secs(3), Duration::from_secs(600));
        let mut runs = Vec::new();
        for word in ["a", "b", "c"] {
            let start = engine.start::<last_word>(word.into()).queue("q").debounce("k", quiet, max);
            runs.push(start.await.unwrap());
        }
        assert_eq!(runs[0].status().await.unwrap(), Status::Pending);
        for run in &runs {
            assert_eq!((run.id(), in_time(run.result()).await.unwrap().as_str()), (runs[0].id(), "c"));
        }
        let record = store.run(runs[0].id()).await.unwrap().unwrap();
        assert_eq!(record.terms.inputs, 3);
        assert_eq!(record.terms.queue.unwrap().queue, "q");
        let soon = Duration::from_millis(20);
        let next = engine.start::<last_word>("d".into()).debounce("k", soon, max).await.unwrap();
        assert_ne!(next.id(), runs[0].id());
        assert_eq!(in_time(next.result()).await.unwrap(), "d");
        engine.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn many_inputs_are_one_batch() {
    on_both(async |store| {
        let engine = builder(&store, &Gauge::default()).start().await.unwrap();
        let starts = (1..=10_u64).map(|no| {
            let engine = engine.clone();
            let start =
                async move { engine.start::<total>(vec![no]).collect("k", 5, Duration::from_secs(60)).await };
            tokio::spawn(start)
        });
        let mut runs = BTreeSet::new();
        for start in starts.collect::<Vec<_>>() {
            runs.insert(start.await.unwrap().unwrap().id().clone());
        }
        assert_eq!(runs.len(), 2, "{runs:?}");
        let mut sum = 0;
        for run in runs {
            sum += in_time(engine.handle::<total>(run.as_str()).await.unwrap().result()).await.unwrap();
        }
        assert_eq!(sum, 55);
        let soon = Duration::from_millis(50);
        let run = engine.start::<total>(vec![7]).collect("k", 5, soon).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 7);
        engine.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_was_gathered_survives_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let (quiet, max) = (Duration::from_millis(100), Duration::from_secs(60));
    let id = {
        let client = builder(&file(folder.path()), &Gauge::default()).client().start().await.unwrap();
        let run = client.start::<last_word>("a".into()).debounce("k", quiet, max).await.unwrap();
        run.id().clone()
    };
    let store = file(folder.path());
    let engine = builder(&store, &Gauge::default()).register::<last_word>().start().await.unwrap();
    let run = async {
        loop {
            match engine.handle::<last_word>(id.as_str()).await {
                Ok(run) => break run,
                Err(_) => sleep(Duration::from_millis(5)).await,
            }
        }
    };
    assert_eq!(in_time(async { run.await.result().await }).await.unwrap(), "a");
    let query = DueStarts {
        now: jiff::Timestamp::MAX,
        workflows: ["last_word".into()].into(),
        after: None,
        limit: 9,
    };
    assert_eq!(store.due_starts(query).await.unwrap(), []);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn dead_letters_are_listed_and_retried_in_their_queue() {
    on_both(async |store| {
        let engine = builder(&store, &Gauge::default()).start().await.unwrap();
        let run = engine.start::<hopeless>("no".into()).queue("q").key("a").await.unwrap();
        assert!(in_time(run.result()).await.is_err());
        engine.start::<hopeless>("no".into()).queue("p").await.unwrap();
        let letters = engine.dead_letters("q", 10).await.unwrap();
        assert_eq!(letters.len(), 1);
        assert_eq!((&letters[0].run.id, letters[0].cause), (run.id(), DeadLetterCause::Failed));
        let filter = RunFilter::new().queue("q").status(Status::Failed);
        let reports = engine.retry_all(filter, "ann", |plan| plan).await.unwrap();
        let fork = reports[0].fork.clone().unwrap();
        let record = store.run(&fork).await.unwrap().unwrap();
        assert_eq!(record.terms.queue.unwrap().key, "a");
        engine.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_run_can_be_started_for_later() {
    on_both(async |store| {
        let engine = builder(&store, &Gauge::default()).start().await.unwrap();
        let at = jiff::Timestamp::now() + Duration::from_secs(3);
        let run = engine.start::<last_word>("a".into()).at(at).await.unwrap();
        assert_eq!(run.status().await.unwrap(), Status::Pending);
        assert_eq!(in_time(run.result()).await.unwrap(), "a");
        assert!(jiff::Timestamp::now() >= at);
        engine.shutdown().await.unwrap();
    })
    .await;
}
