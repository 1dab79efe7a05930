//! What a hostile reviewer tries: wake-ups, takeovers, shutdowns, cancellations and store errors at the worst moment.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use aether::Engine;
use aether::definition::Probe;
use aether::effect::Payload;
use aether::engine::{Consulted, ReplayPolicy, Verdict};
use aether::engine::{EngineBuilder, Environment, Limits, SystemEnvironment};
use aether::error::{Fault, RunError};
use aether::id::{RunId, WorkerId};
use aether::people::{DecideError, Resolution};
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::MemoryStore;
use aether::store::event::Event;
use aether::store::{ClaimRequest, Lease, Sent, SilentWorker, Store, StoreError};
use aether::view::Status;
use aether_testing::{CrashPoint, CrashStore, FailingStore};
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

mod clocks;
mod edges;
mod found;
mod inputs;
mod left_behind;
mod time;
mod timing;

const MS: Duration = Duration::from_millis(1);
/// So long that nobody loses a run to another engine because the machine had no time for it.
const LEASE: Duration = Duration::from_secs(2);

/// What the bodies of these tests do: they count, and wait where they are told to.
#[derive(Debug)]
struct Stage {
    calls: AtomicU32,
    entered: Semaphore,
    go: Semaphore,
    open: AtomicBool,
}

impl Stage {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            calls: AtomicU32::new(0),
            entered: Semaphore::new(0),
            go: Semaphore::new(0),
            open: AtomicBool::new(false),
        })
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }

    async fn enter(&self) -> u32 {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        self.entered.add_permits(1);
        if !self.open.load(Ordering::SeqCst) {
            self.go.acquire().await.unwrap().forget();
        }
        call
    }

    fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
        self.go.add_permits(1000);
    }

    async fn entered(&self) {
        soon(self.entered.acquire()).await.unwrap().forget();
    }
}

/// A test that hangs is a test that fails.
async fn soon<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_secs(120), future).await.expect("it hangs")
}

fn builder(store: Arc<dyn Store>, stage: &Arc<Stage>) -> EngineBuilder {
    Engine::builder().store(store).provide(Arc::clone(stage)).poll_interval(10 * MS).lease(LEASE)
}

fn sqlite(path: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(path).unwrap())
}

fn run_id(id: &str) -> RunId {
    RunId::new(id).unwrap()
}

async fn events(store: &dyn Store, run: &RunId) -> Vec<Event> {
    store.load(run, 0).await.unwrap().iter().flat_map(|frame| frame.events().unwrap()).collect()
}

async fn count(store: &dyn Store, run: &RunId, kind: &str) -> usize {
    events(store, run).await.iter().filter(|event| event.kind() == kind).count()
}

/// Claims a run from whoever holds it, as a worker that has seen the holder silent would.
async fn take_over(store: &dyn Store, run: &RunId) -> Lease {
    loop {
        let held = store.workers().await.unwrap().into_iter();
        let request = ClaimRequest {
            worker: WorkerId::from("thief".to_owned()),
            now: Timestamp::now(),
            silent: held.map(|worker| SilentWorker { id: worker.id, renewals: worker.renewals }).collect(),
            limit: 1,
            codes: Vec::new(),
            only: None,
            adopt: vec![run.clone()],
            serves: Default::default(),
            others_first: false,
            lapsed_first: false,
        };
        // The holder may renew between the two.
        if let Some(lease) = store.claim(request).await.unwrap().pop() {
            return lease;
        }
    }
}

/// Takes a run away from whoever holds it, and gives it back.
async fn steal(store: &dyn Store, run: &RunId) {
    let lease = take_over(store, run).await;
    store.release(&WorkerId::from("thief".to_owned()), run, lease.run.epoch, Timestamp::now()).await.unwrap();
}

/// Look at something, after a while.
#[step(effect = "read")]
async fn look(_cx: &mut StepCx, millis: u64) -> Result<u64> {
    sleep(Duration::from_millis(millis)).await;
    Ok(millis)
}

/// Change the world when let go.
#[step(effect = "tool", timeout = "7200s")]
async fn act(cx: &mut StepCx, what: &str) -> Result<String> {
    let call = cx.dep::<Arc<Stage>>()?.enter().await;
    Ok(format!("{what} {call}"))
}

/// Change the world when let go; an operator says what happened.
#[step(effect = "tool", on_unknown = "ask")]
async fn act_ask(cx: &mut StepCx, what: &str) -> Result<String> {
    let call = cx.dep::<Arc<Stage>>()?.enter().await;
    if call == 0 { Err(Failure::unknown("no idea")) } else { Ok(format!("{what} {call}")) }
}

/// Items of items, the last ones first.
#[workflow]
async fn nested_each(cx: &mut Cx) -> Result<Vec<Vec<u64>>> {
    let rows = cx
        .each(0..5u64, async |cx: &mut Cx, row| {
            let cells = cx
                .each([row * 3, row * 3 + 1], async |cx: &mut Cx, cell| look(cx, 60 - cell * 3).await)
                .await;
            let mut looked = Vec::new();
            for cell in cells {
                looked.push(cell?);
            }
            Ok(looked)
        })
        .await;
    rows.into_iter().collect()
}

#[tokio::test]
async fn nested_each_replays_in_the_order_of_the_first_run() {
    let store = Arc::new(MemoryStore::new());
    let stage = Stage::new();
    let engine = builder(store.clone(), &stage).start().await.unwrap();
    let run = engine.start::<nested_each>(()).id("nested").await.unwrap();
    let result = soon(run.result()).await.unwrap();
    let verified = soon(engine.verify(run.id())).await.unwrap();
    assert_eq!((verified.recorded, verified.matched), (10, 10));
    // And a recovery from every prefix of the journal.
    for cut in [2, 9, 16, 25, 30] {
        store.truncate(run.id(), cut).unwrap();
        let again = builder(store.clone(), &stage).start().await.unwrap();
        let handle = again.handle::<nested_each>("nested").await.unwrap();
        assert_eq!(soon(handle.result()).await.unwrap(), result, "cut at {cut}");
        again.shutdown().await.unwrap();
    }
}

/// One change of the world.
#[workflow]
async fn one_act(cx: &mut Cx, what: String) -> Result<String> {
    Ok(act(cx, &what).await?)
}

#[tokio::test]
async fn shutdown_waits_for_a_body_and_keeps_its_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let stage = Stage::new();
    let engine = builder(sqlite(&path), &stage).start().await.unwrap();
    engine.start::<one_act>("pay".into()).id("r").await.unwrap();
    stage.entered().await;
    let let_go = tokio::spawn({
        let stage = Arc::clone(&stage);
        async move {
            sleep(300 * MS).await;
            stage.open();
        }
    });
    soon(engine.shutdown()).await.unwrap();
    let_go.await.unwrap();
    let engine = builder(sqlite(&path), &stage).start().await.unwrap();
    let run = engine.handle::<one_act>("r").await.unwrap();
    assert_eq!(soon(run.result()).await.unwrap(), "pay 0");
    assert_eq!(stage.calls(), 1);
}

#[tokio::test]
async fn shutdown_cuts_a_body_off_after_its_patience_and_it_is_in_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let stage = Stage::new();
    let engine = builder(sqlite(&path), &stage).start().await.unwrap();
    engine.start::<one_act>("pay".into()).id("r").await.unwrap();
    stage.entered().await;
    soon(engine.shutdown_within(50 * MS)).await.unwrap();
    stage.open();
    let engine = builder(sqlite(&path), &stage).start().await.unwrap();
    let run = engine.handle::<one_act>("r").await.unwrap();
    let error = soon(run.result()).await.unwrap_err().to_string();
    assert!(error.contains("not known whether"), "{error}");
    assert_eq!(stage.calls(), 1);
}

#[tokio::test]
async fn two_shutdowns_at_once_both_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let stage = Stage::new();
    let engine = builder(sqlite(&path), &stage).start().await.unwrap();
    engine.start::<one_act>("pay".into()).id("r").await.unwrap();
    stage.entered().await;
    let other = tokio::spawn(engine.clone().shutdown());
    let mine = tokio::spawn(engine.shutdown());
    sleep(100 * MS).await;
    assert!(!mine.is_finished() && !other.is_finished());
    stage.open();
    soon(mine).await.unwrap().unwrap();
    soon(other).await.unwrap().unwrap();
    let engine = builder(sqlite(&path), &stage).start().await.unwrap();
    assert_eq!(soon(engine.handle::<one_act>("r").await.unwrap().result()).await.unwrap(), "pay 0");
}

#[tokio::test]
async fn an_engine_dropped_without_shutdown_gives_its_runs_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let stage = Stage::new();
    let engine = builder(sqlite(&path), &stage).lease(Duration::from_secs(60)).start().await.unwrap();
    let run = engine.start::<one_act>("pay".into()).id("r").await.unwrap();
    stage.entered().await;
    drop(engine);
    assert!(matches!(soon(run.result()).await, Err(RunError::Stopped { .. })));
    let engine = builder(sqlite(&path), &stage).start().await.unwrap();
    let error = soon(engine.handle::<one_act>("r").await.unwrap().result()).await.unwrap_err();
    assert!(error.to_string().contains("not known whether"), "{error}");
    assert_eq!(stage.calls(), 1);
}

/// Post something and keep nothing of the answer.
#[step(effect = "tool")]
async fn post(cx: &mut StepCx) -> Result<()> {
    let json = |text: &str| Payload::from_text(text.into());
    cx.note_http(json(r#"{"to":"x"}"#)?, json(r#"{"status":200}"#)?);
    Ok(())
}

/// Post something and keep the answer.
#[step(effect = "http")]
async fn fetch(cx: &mut StepCx) -> Result<BTreeMap<String, u32>> {
    let json = |text: &str| Payload::from_text(text.into());
    cx.note_http(json(r#"{"to":"x"}"#)?, json(r#"{"status":200}"#)?);
    Ok(BTreeMap::from([("status".to_owned(), 200)]))
}

/// Post twice.
#[workflow]
async fn posts(cx: &mut Cx) -> Result<u32> {
    post(cx).await?;
    let answer = fetch(cx).await?;
    Ok(answer["status"])
}

#[tokio::test]
async fn a_step_without_a_value_is_not_replayed_as_its_http_answer() {
    let store = Arc::new(MemoryStore::new());
    let engine = builder(store.clone(), &Stage::new()).start().await.unwrap();
    let run = engine.start::<posts>(()).id("r").await.unwrap();
    assert_eq!(soon(run.result()).await.unwrap(), 200);
    soon(engine.verify(run.id())).await.unwrap();
    let view = engine.view(run.id()).await.unwrap();
    let results: Vec<_> = view.steps.iter().map(|s| s.result.clone().unwrap().unwrap()).collect();
    assert_eq!(results[0].as_str(), "null");
    assert_eq!(results[1].as_str(), r#"{"status":200}"#);
}

/// One change of the world that an operator is asked about.
#[workflow]
async fn one_ask(cx: &mut Cx) -> Result<String> {
    Ok(act_ask(cx, "pay").await?)
}

async fn asked(point: CrashPoint, resolution: &Resolution) -> (String, u32, bool) {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let stage = Stage::new();
    stage.open();
    let crash = Arc::new(CrashStore::new(Arc::clone(&memory), Some(point)));
    let live = async |store: Arc<dyn Store>| {
        let engine = builder(store, &stage).start().await.unwrap();
        let run = engine.start::<one_ask>(()).id("r").await.unwrap();
        let operator = async {
            loop {
                let view = engine.view(run.id()).await.unwrap();
                for step in view.in_doubt() {
                    let invocation = step.invocation.clone().unwrap();
                    if count(&*memory, run.id(), "invocation_resolved").await > 0 {
                        match engine.resolve(run.id(), &invocation, resolution.clone(), "ann").await {
                            Ok(())
                            | Err(DecideError::AlreadyDecided { .. } | DecideError::RunEnded { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
                sleep(5 * MS).await;
            }
        };
        tokio::select! {
            result = run.result() => result.unwrap(),
            () = operator => unreachable!(),
        }
    };
    let died = tokio::select! {
        result = soon(live(crash.clone())) => Some(result),
        () = crash.crashed() => None,
    };
    let crashed = died.is_none();
    let result = match died {
        Some(result) => result,
        None => {
            steal_if_there(&*memory, &run_id("r")).await;
            timeout(Duration::from_secs(60), live(memory.clone()))
                .await
                .unwrap_or_else(|_| panic!("crash {point}: the operator's answer was lost"))
        }
    };
    (result, stage.calls(), crashed)
}

async fn steal_if_there(store: &dyn Store, run: &RunId) {
    if store.run(run).await.unwrap().is_some_and(|record| !record.status.is_terminal()) {
        steal(store, run).await;
    }
}

#[tokio::test]
async fn an_operators_answer_survives_a_crash_at_every_append() {
    let happened = Resolution::Happened(Payload::encode("paid").unwrap());
    let mut write = 1;
    loop {
        let (result, calls, crashed) = asked(CrashPoint::Before(write), &happened).await;
        assert!(result == "paid" && calls <= 1, "before {write}: {result}, {calls} calls");
        let (result, calls, _) = asked(CrashPoint::After(write), &happened).await;
        assert!(result == "paid" && calls <= 1, "after {write}: {result}, {calls} calls");
        if !crashed {
            break;
        }
        write += 1;
    }
    assert!(write > 4, "{write}");
}

#[tokio::test]
async fn an_operators_denial_survives_a_crash_at_every_append() {
    for write in 3..6 {
        let (result, calls, _) = asked(CrashPoint::Before(write), &Resolution::DidNotHappen).await;
        assert!(result == "pay 1" && calls == 2, "before {write}: {result}, {calls} calls");
    }
}

fn locked() -> StoreError {
    StoreError::Locked { store: "test".into(), reason: "somebody writes".into() }
}

#[tokio::test]
async fn a_run_whose_release_failed_is_taken_up_again_while_others_run() {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    // The first append of the second run fails, and so does giving it back.
    let store = FailingStore::new(memory).append_fails(2, StoreError::UnknownRun { run: run_id("x") });
    is_released_in_the_end(store.release_fails(2, locked())).await;
}

/// The second run on `store` stops, and is released while the first one is still in flight.
async fn is_released_in_the_end(store: FailingStore) {
    let store: Arc<dyn Store> = Arc::new(store);
    let stage = Stage::new();
    let engine = builder(store, &stage).start().await.unwrap();
    let busy = engine.start::<one_act>("long".into()).id("busy").await.unwrap();
    stage.entered().await;
    let run = engine.start::<one_act>("short".into()).id("r").await.unwrap();
    assert!(matches!(soon(run.result()).await, Err(RunError::Stopped { .. })));
    let owner = async {
        while engine.store().run(run.id()).await.unwrap().unwrap().owner.is_some() {
            sleep(10 * MS).await;
        }
    };
    timeout(Duration::from_secs(60), owner).await.expect("the run stays with a worker that left it");
    stage.open();
    assert_eq!(soon(busy.result()).await.unwrap(), "long 0");
}

#[tokio::test]
async fn a_start_that_is_given_up_leaves_no_run_that_nobody_advances() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new();
    let engine = builder(sqlite(&folder.path().join("a.db")), &stage).start().await.unwrap();
    let _busy = engine.start::<one_act>("long".into()).id("busy").await.unwrap();
    stage.entered().await;
    tokio::select! {
        biased;
        _ = async { engine.start::<quick>(4).id("r").await } => {}
        () = std::future::ready(()) => {}
    }
    sleep(50 * MS).await;
    let run = engine.start::<quick>(4).id("r").await.unwrap();
    let result = timeout(Duration::from_secs(60), run.result()).await.expect("nobody advances the run");
    assert_eq!(result.unwrap(), 8);
    stage.open();
}

/// Twice as much.
#[workflow]
async fn quick(cx: &mut Cx, n: u64) -> Result<u64> {
    Ok(look(cx, n).await? * 2)
}
