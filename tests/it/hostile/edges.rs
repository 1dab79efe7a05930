//! Odd clocks, odd sizes, failing stores, and runs that are wide or have children.

use super::*;

/// The system's clock, set by hand.
#[derive(Clone, Debug, Default)]
struct Shifted(Arc<AtomicI64>);

impl Environment for Shifted {
    fn now(&self) -> Timestamp {
        let millis = self.0.load(Ordering::SeqCst);
        Timestamp::now().checked_add(jiff::SignedDuration::from_millis(millis)).unwrap()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        SystemEnvironment.fill_random(bytes);
    }

    fn sleep_until(&self, until: Timestamp) -> aether_futures::BoxFuture<'static, ()> {
        let world = self.clone();
        Box::pin(async move {
            while world.now() < until {
                sleep(2 * MS).await;
            }
        })
    }
}

mod aether_futures {
    pub(super) type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
}

#[tokio::test]
async fn a_computer_that_slept_does_not_take_its_own_runs_away_from_itself() {
    for _ in 0..5 {
        let store = Arc::new(MemoryStore::new());
        let (stage, world) = (Stage::new(), Shifted::default());
        let engine = Engine::builder()
            .environment(Arc::new(world.clone()))
            .store(store.clone())
            .provide(Arc::clone(&stage))
            .poll_interval(5 * MS)
            .lease(Duration::from_secs(15))
            .start()
            .await
            .unwrap();
        let run = engine.start::<one_act>("pay".into()).id("r").await.unwrap();
        stage.entered().await;
        world.0.store(3_600_000, Ordering::SeqCst);
        sleep(50 * MS).await;
        stage.open();
        assert_eq!(soon(run.result()).await.unwrap(), "pay 0");
        assert_eq!(count(&*store, run.id(), "run_requeued").await, 0);
    }
}

#[tokio::test]
async fn a_clock_that_goes_backwards_stops_nothing() {
    let store = Arc::new(MemoryStore::new());
    let (stage, world) = (Stage::new(), Shifted::default());
    let engine = Engine::builder()
        .environment(Arc::new(world.clone()))
        .store(store)
        .provide(Arc::clone(&stage))
        .poll_interval(5 * MS)
        .start()
        .await
        .unwrap();
    let run = engine.start::<one_act>("pay".into()).id("r").await.unwrap();
    stage.entered().await;
    world.0.store(-3_600_000, Ordering::SeqCst);
    stage.open();
    assert_eq!(soon(run.result()).await.unwrap(), "pay 0");
    soon(engine.verify(run.id())).await.unwrap();
}

#[tokio::test]
async fn the_outcome_of_an_owner_that_was_taken_over_is_refused() {
    let store = Arc::new(MemoryStore::new());
    let stage = Stage::new();
    let engine = builder(store.clone(), &stage).start().await.unwrap();
    let run = engine.start::<one_act>("pay".into()).id("r").await.unwrap();
    stage.entered().await;
    steal(&*store, run.id()).await;
    let error = soon(run.result()).await.unwrap_err().to_string();
    assert!(error.contains("not known whether"), "{error}");
    stage.open();
    sleep(30 * MS).await;
    assert_eq!(stage.calls(), 1);
    assert_eq!(count(&*store, run.id(), "tool_invocation_finished").await, 0);
    assert!(soon(run.result()).await.is_err(), "the end stays the end");
    soon(engine.verify(run.id())).await.unwrap();
    soon(engine.shutdown()).await.unwrap();
}

#[tokio::test]
async fn two_engines_on_one_file_start_one_run_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let stage = Stage::new();
    stage.open();
    let one = builder(sqlite(&path), &stage).start().await.unwrap();
    let two = builder(sqlite(&path), &stage).start().await.unwrap();
    for round in 0..5 {
        let id = format!("r{round}");
        let (a, b) =
            tokio::join!(async { one.start::<one_act>("pay".into()).id(&id).await.unwrap() }, async {
                two.start::<one_act>("pay".into()).id(&id).await.unwrap()
            });
        let (a, b) = (soon(a.result()).await.unwrap(), soon(b.result()).await.unwrap());
        assert_eq!(a, b);
    }
    assert_eq!(stage.calls(), 5);
}

static EXTRA: AtomicBool = AtomicBool::new(false);

/// A workflow whose code was changed under a run.
#[workflow(allow(static, reason = "stands for a change of the code"))]
async fn changed(cx: &mut Cx) -> Result<u64> {
    if EXTRA.load(Ordering::SeqCst) {
        cx.random().await;
    }
    let now = cx.now().await;
    cx.sleep(Duration::from_secs(3600)).await;
    Ok(now.as_second() as u64)
}

#[tokio::test]
async fn a_run_that_diverged_can_be_cancelled() {
    let store = Arc::new(MemoryStore::new());
    let stage = Stage::new();
    let engine = builder(store.clone(), &stage).eviction_grace(MS).start().await.unwrap();
    let run = engine.start::<changed>(()).id("r").await.unwrap();
    while run.status().await.unwrap() != Status::Waiting {
        sleep(5 * MS).await;
    }
    EXTRA.store(true, Ordering::SeqCst);
    run.advance().await.unwrap();
    assert!(
        matches!(soon(run.result()).await, Err(RunError::Stopped { fault, .. }) if matches!(*fault, Fault::Diverged(_)))
    );
    assert_eq!(run.cancel("useless", "ann").await.unwrap(), Sent::Delivered);
    let cancelled = async {
        while run.status().await.unwrap() != Status::Cancelled {
            let _busy = run.advance().await;
            sleep(5 * MS).await;
        }
    };
    timeout(Duration::from_secs(60), cancelled).await.expect("it cannot be cancelled");
    EXTRA.store(false, Ordering::SeqCst);
    soon(engine.verify(run.id())).await.unwrap();
}

/// Reads the clock for ever.
#[workflow]
async fn clock_watcher(cx: &mut Cx) -> Result<()> {
    loop {
        cx.now().await;
    }
}

#[tokio::test]
async fn draws_too_stop_at_the_limit_of_the_journal() {
    let store = Arc::new(MemoryStore::new());
    let limits = Limits { history: 200, ..Limits::default() };
    let engine = tokio::spawn({
        let store = store.clone();
        async move {
            let engine = builder(store, &Stage::new()).limits(limits).start().await.unwrap();
            let run = engine.start::<clock_watcher>(()).id("r").await.unwrap();
            run.result().await.unwrap_err().to_string()
        }
    });
    // On a thread of its own it could be stopped; here it must stop by itself.
    let error = soon(engine).await.unwrap();
    assert!(error.contains("limit of 200 (`Limits::history`)"), "{error}");
}

#[derive(Debug)]
struct AlwaysExecute;

impl ReplayPolicy for AlwaysExecute {
    fn consult(&self, _: &Consulted<'_>) -> Verdict {
        Verdict::Execute
    }
}

/// Every kind of recorded draw, a race, a timer and a child.
#[workflow]
async fn hostile_draws(cx: &mut Cx) -> Result<String> {
    let now = cx.now().await;
    let uuid = cx.uuid().await;
    let random = cx.random().await;
    cx.sleep(MS).await;
    let first =
        cx.race((async |cx: &mut Cx| look(cx, 1).await, async |cx: &mut Cx| look(cx, 500).await)).await?;
    let child = cx.child::<quick>(4).await?;
    Ok(format!("{now} {uuid} {random} {first} {child}"))
}

#[tokio::test]
async fn a_policy_that_executes_gets_recorded_draws_all_the_same() {
    let store = Arc::new(MemoryStore::new());
    let stage = Stage::new();
    let engine = builder(store.clone(), &stage).policy(AlwaysExecute).start().await.unwrap();
    let run = engine.start::<hostile_draws>(()).id("r").await.unwrap();
    let result = soon(run.result()).await.unwrap();
    soon(engine.verify(run.id())).await.unwrap();
    engine.shutdown().await.unwrap();
    for cut in 2..count_all(&*store, run.id()).await {
        store.truncate(run.id(), cut).unwrap();
        let engine = builder(store.clone(), &stage).policy(AlwaysExecute).start().await.unwrap();
        let again = engine.handle::<hostile_draws>("r").await.unwrap();
        let again = soon(again.result()).await.unwrap();
        let now = |text: &str| text.split(' ').next().map(str::to_owned);
        assert_eq!(now(&again), now(&result), "cut at {cut}: {again} is not {result}");
        engine.shutdown().await.unwrap();
    }
}

async fn count_all(store: &dyn Store, run: &RunId) -> u64 {
    events(store, run).await.len() as u64
}

/// It never happened.
async fn never_happened(_cx: &mut StepCx) -> Result<Probe<()>> {
    Ok(Probe::DidNotHappen)
}

/// Nobody knows, each time.
#[step(effect = "tool", probe = never_happened, on_unknown = "probe")]
async fn lost(cx: &mut StepCx) -> Result<()> {
    cx.dep::<Arc<Stage>>()?.enter().await;
    Err(Failure::unknown("lost"))
}

/// Loses something.
#[workflow]
async fn loses(cx: &mut Cx) -> Result<()> {
    Ok(lost(cx).await?)
}

#[tokio::test]
async fn a_probe_that_always_says_no_does_not_send_for_ever() {
    let store = Arc::new(MemoryStore::new());
    let stage = Stage::new();
    stage.open();
    let engine = builder(store.clone(), &stage)
        .limits(Limits { history: 5_000, ..Limits::default() })
        .start()
        .await
        .unwrap();
    let run = engine.start::<loses>(()).id("r").await.unwrap();
    sleep(100 * MS).await;
    assert!(stage.calls() < 20, "{} calls", stage.calls());
    let error = soon(run.result()).await.unwrap_err();
    assert!(matches!(error, RunError::Failed(_)), "{error}");
    assert!(stage.calls() < 20, "{} calls", stage.calls());
    soon(engine.verify(run.id())).await.unwrap();
}

/// Ten thousand at once.
#[workflow]
async fn crowd(cx: &mut Cx, n: u64) -> Result<u64> {
    let drawn = cx.each(0..n, async |cx: &mut Cx, i| look(cx, i % 2).await).await;
    let mut sum = 0;
    for looked in drawn {
        sum += looked?;
    }
    Ok(sum)
}

#[tokio::test]
async fn ten_thousand_items_at_once_run_replay_and_recover() {
    let store = Arc::new(MemoryStore::new());
    let engine = builder(store.clone(), &Stage::new()).start().await.unwrap();
    let run = engine.start::<crowd>(10_000).id("r").await.unwrap();
    assert_eq!(soon(run.result()).await.unwrap(), 5_000);
    let verified = soon(engine.verify(run.id())).await.unwrap();
    assert_eq!(verified.matched, 10_000);
    engine.shutdown().await.unwrap();
    store.truncate(&run_id("r"), 20_000).unwrap();
    let engine = builder(store, &Stage::new()).start().await.unwrap();
    assert_eq!(soon(engine.handle::<crowd>("r").await.unwrap().result()).await.unwrap(), 5_000);
}

/// Timers in the past, and one that nobody lives to see.
#[workflow]
async fn timers(cx: &mut Cx) -> Result<u64> {
    cx.sleep_until(Timestamp::MIN).await;
    cx.sleep(Duration::ZERO).await;
    cx.race((
        async |cx: &mut Cx| {
            cx.sleep(Duration::MAX).await;
            0
        },
        async |cx: &mut Cx| {
            cx.sleep(5 * MS).await;
            1
        },
    ))
    .await;
    cx.sleep_until(Timestamp::MAX).await;
    Ok(1)
}

#[tokio::test]
async fn timers_at_the_ends_of_time_wait_without_noise_and_can_be_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new();
    let engine =
        builder(sqlite(&folder.path().join("a.db")), &stage).eviction_grace(MS).start().await.unwrap();
    let run = engine.start::<timers>(()).id("r").await.unwrap();
    soon(async {
        while run.status().await.unwrap() != Status::Waiting
            || count(&**engine.store(), run.id(), "timer_scheduled").await < 5
        {
            sleep(5 * MS).await;
        }
    })
    .await;
    sleep(100 * MS).await;
    let waits = count(&**engine.store(), run.id(), "run_waiting").await;
    assert!(waits <= 3, "{waits}");
    run.cancel("enough", "ann").await.unwrap();
    assert!(matches!(soon(run.result()).await, Err(RunError::Cancelled { .. })));
    soon(engine.verify(run.id())).await.unwrap();
    assert_eq!(run.cancel("again", "bob").await.unwrap(), Sent::Duplicate);
}

/// A change of the world that loses a race.
#[workflow]
async fn lost_race(cx: &mut Cx) -> Result<u64> {
    cx.race((
        async |cx: &mut Cx| act(cx, "slow").await.map(|_| 0).map_err(Failure::from),
        async |cx: &mut Cx| look(cx, 30).await.map_err(Failure::from),
    ))
    .await
}

#[tokio::test]
async fn a_call_that_loses_a_race_is_surfaced_and_replay_does_not_miss_it() {
    let store = Arc::new(MemoryStore::new());
    let stage = Stage::new();
    let engine = builder(store.clone(), &stage).start().await.unwrap();
    let run = engine.start::<lost_race>(()).id("r").await.unwrap();
    assert_eq!(soon(run.result()).await.unwrap(), 30);
    assert_eq!(count(&*store, run.id(), "invocation_abandoned").await, 1);
    assert_eq!(engine.view(run.id()).await.unwrap().in_doubt().len(), 1);
    soon(engine.verify(run.id())).await.unwrap();
    for cut in [2, 3, 4, 5, 6, 7] {
        store.truncate(run.id(), cut).unwrap();
        let again = builder(store.clone(), &stage).start().await.unwrap();
        let handle = again.handle::<lost_race>("r").await.unwrap();
        let end = soon(handle.result()).await;
        assert!(end.as_ref().is_ok_and(|v| *v == 30) || end.is_err(), "{end:?}");
        soon(again.verify(run.id())).await.unwrap();
        again.shutdown().await.unwrap();
    }
    assert!(stage.calls() <= 2, "{}", stage.calls());
}

/// Says that nobody knows, and leaves it to a probe that never answers.
#[step(effect = "tool", on_unknown = "probe", probe = look_for_ever)]
async fn doubtful(_cx: &mut StepCx) -> Result<u64> {
    Err(Failure::unknown("the line went dead"))
}

async fn look_for_ever(cx: &mut StepCx) -> Result<Probe<u64>> {
    cx.dep::<Arc<tokio::sync::Notify>>()?.notify_one();
    std::future::pending().await
}

/// Ends when the probe is at work.
#[step(effect = "read")]
async fn until_probed(cx: &mut StepCx) -> Result<u64> {
    cx.dep::<Arc<tokio::sync::Notify>>()?.notified().await;
    Ok(1)
}

/// A probe that loses a race.
#[workflow]
async fn lost_probe(cx: &mut Cx) -> Result<u64> {
    cx.race((
        async |cx: &mut Cx| doubtful(cx).await.map_err(Failure::from),
        async |cx: &mut Cx| until_probed(cx).await.map_err(Failure::from),
    ))
    .await
}

#[tokio::test]
async fn a_call_whose_probe_loses_a_race_is_in_doubt_in_journal_and_ledger() {
    let store = Arc::new(MemoryStore::new());
    let probing = Arc::new(tokio::sync::Notify::new());
    let engine = Engine::builder().store(store.clone()).provide(probing).start().await.unwrap();
    let run = engine.start::<lost_probe>(()).id("r").await.unwrap();
    assert_eq!(soon(run.result()).await.unwrap(), 1);
    assert_eq!(count(&*store, run.id(), "invocation_abandoned").await, 1);
    let rows: Vec<_> = engine.ledger(run.id()).await.unwrap().into_iter().map(|row| row.status).collect();
    assert_eq!(rows, [aether::store::ledger::LedgerStatus::InDoubt]);
    soon(engine.verify(run.id())).await.unwrap();
}

#[tokio::test]
async fn a_cancelled_run_names_what_was_in_flight_and_verifies() {
    let store = Arc::new(MemoryStore::new());
    let stage = Stage::new();
    let engine = builder(store.clone(), &stage).start().await.unwrap();
    let run = engine.start::<one_act>("pay".into()).id("r").await.unwrap();
    stage.entered().await;
    run.cancel("stop", "ann").await.unwrap();
    assert!(matches!(soon(run.result()).await, Err(RunError::Cancelled { actor, .. }) if actor == "ann"));
    assert_eq!(count(&*store, run.id(), "invocation_abandoned").await, 1);
    soon(engine.verify(run.id())).await.unwrap();
}

#[tokio::test]
async fn an_observer_that_lags_holds_nobody_up() {
    let store = Arc::new(MemoryStore::new());
    let engine = builder(store, &Stage::new()).start().await.unwrap();
    let mut watch = engine.watch();
    let run = engine.start::<crowd>(5_000).id("r").await.unwrap();
    assert_eq!(soon(run.result()).await.unwrap(), 2_500);
    assert!(matches!(watch.recv().await, Err(tokio::sync::broadcast::error::RecvError::Lagged(_))));
}

#[tokio::test]
async fn transient_store_errors_at_claim_load_and_create_lose_nothing() {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let stage = Stage::new();
    let store = FailingStore::new(Arc::clone(&memory)).create_fails(1, locked()).claim_fails(3, locked());
    let engine = builder(Arc::new(store), &stage).start().await.unwrap();
    assert!(engine.start::<quick>(1).id("r").await.is_err());
    let run = engine.start::<one_act>("pay".into()).id("r").await.unwrap();
    stage.entered().await;
    soon(engine.shutdown_within(Duration::ZERO)).await.unwrap();
    assert!(matches!(soon(run.result()).await, Err(RunError::Stopped { .. })));
    let engine = builder(Arc::new(FailingStore::new(memory).claim_fails(3, locked())), &stage);
    let engine = engine.start().await.unwrap();
    let error = soon(engine.handle::<one_act>("r").await.unwrap().result()).await.unwrap_err();
    assert!(error.to_string().contains("not known whether"), "{error}");
}

/// A child for each item, and one that fails.
#[workflow]
async fn family(cx: &mut Cx) -> Result<u64> {
    let ends = cx.each(1..6u64, async |cx: &mut Cx, n| cx.child::<quick>(n).await).await;
    let mut sum = 0;
    for end in ends {
        sum += end?;
    }
    Ok(sum)
}

#[tokio::test]
async fn children_are_found_again_from_every_prefix_of_the_parent() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new();
    let engine =
        builder(sqlite(&folder.path().join("a.db")), &stage).max_active(1).eviction_grace(MS).start();
    let engine = engine.await.unwrap();
    let run = engine.start::<family>(()).id("r").await.unwrap();
    assert_eq!(soon(run.result()).await.unwrap(), 30);
    soon(engine.verify(run.id())).await.unwrap();
    engine.shutdown().await.unwrap();

    let store = Arc::new(MemoryStore::new());
    let engine = builder(store.clone(), &stage).start().await.unwrap();
    let run = engine.start::<family>(()).id("r").await.unwrap();
    soon(run.result()).await.unwrap();
    engine.shutdown().await.unwrap();
    for cut in [2, 5, 11, 13, 17, 20] {
        store.truncate(&run_id("r"), cut).unwrap();
        let again = builder(store.clone(), &stage).start().await.unwrap();
        assert_eq!(soon(again.handle::<family>("r").await.unwrap().result()).await.unwrap(), 30, "{cut}");
        assert_eq!(again.runs(aether::store::RunFilter::default()).await.unwrap().len(), 6);
        again.shutdown().await.unwrap();
    }
}
