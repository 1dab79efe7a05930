//! Programs with several runtimes: a run lives in that in which its engine was started, whoever starts it, and ends with that
//! one alone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aether::definition::Workflow;
use aether::engine::EngineBuilder;
use aether::error::{BuildError, Fault, RunError, StartError};
use aether::prelude::*;
use aether::retention::Retention;
use aether::sqlite::SqliteStore;
use aether::store::Store;
use futures::FutureExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use crate::seeds::kit::{in_time, until_waiting};

/// Calls of bodies, each of which stands until it is let go.
#[derive(Clone)]
struct Stand {
    calls: Arc<AtomicU32>,
    living: Arc<AtomicU32>,
    begun: Arc<Semaphore>,
    goes_on: Arc<Semaphore>,
}

impl Default for Stand {
    fn default() -> Self {
        let semaphore = || Arc::new(Semaphore::new(0));
        Self { calls: Arc::default(), living: Arc::default(), begun: semaphore(), goes_on: semaphore() }
    }
}

impl Stand {
    async fn here(cx: &StepCx) -> Result<u32> {
        let stand = cx.dep::<Self>()?;
        let call = stand.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let _living = Living::new(&stand.living);
        stand.begun.add_permits(1);
        stand.goes_on.acquire().await.map_err(Failure::permanent)?.forget();
        Ok(call)
    }

    async fn begun(&self) {
        in_time(self.begun.acquire()).await.unwrap().forget();
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }

    /// How many bodies have begun and are neither over nor dropped.
    fn living(&self) -> u32 {
        self.living.load(Ordering::SeqCst)
    }
}

/// A body that is neither over nor dropped.
struct Living(Arc<AtomicU32>);

impl Living {
    fn new(count: &Arc<AtomicU32>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Bodies that hold their threads until they are let go.
#[derive(Clone, Default)]
struct Block {
    begun: Arc<AtomicBool>,
    goes_on: Arc<AtomicBool>,
}

impl Block {
    fn begun(&self) {
        let asked = Instant::now();
        while !self.begun.load(Ordering::SeqCst) {
            assert!(asked.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn hold(&self) {
        self.begun.store(true, Ordering::SeqCst);
        while !self.goes_on.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn go_on(&self) {
        self.goes_on.store(true, Ordering::SeqCst);
    }
}

/// Look at something in a way that lets nobody else have the thread.
#[step(effect = "read")]
async fn blocking_read(cx: &mut StepCx) -> Result<u32> {
    cx.dep::<Block>()?.hold();
    Ok(1)
}

#[workflow]
async fn reads_and_blocks(cx: &mut Cx) -> Result<u32> {
    Ok(blocking_read(cx).await?)
}

/// How often it was looked whether something had happened.
#[derive(Clone, Default)]
struct Looks(Arc<AtomicU32>);

async fn not_seen(cx: &mut StepCx) -> Result<Probe<u32>> {
    cx.dep::<Looks>()?.0.fetch_add(1, Ordering::SeqCst);
    Ok(Probe::DidNotHappen)
}

/// Change something, which takes a while and can be seen.
#[step(effect = "tool", on_unknown = "probe", probe = not_seen)]
async fn slow_tool_to_be_seen(cx: &mut StepCx) -> Result<u32> {
    Stand::here(cx).await
}

/// Change something that can be seen, in a way that lets nobody else have the thread.
#[step(effect = "tool", on_unknown = "probe", probe = not_seen)]
async fn blocking_tool_to_be_seen(cx: &mut StepCx) -> Result<u32> {
    let (stand, block) = (cx.dep::<Stand>()?, cx.dep::<Block>()?);
    let call = stand.calls.fetch_add(1, Ordering::SeqCst) + 1;
    let _living = Living::new(&stand.living);
    block.hold();
    Ok(call)
}

#[workflow]
async fn changes_slowly_and_looks(cx: &mut Cx) -> Result<u32> {
    Ok(slow_tool_to_be_seen(cx).await?)
}

#[workflow]
async fn blocks_and_looks(cx: &mut Cx) -> Result<u32> {
    Ok(blocking_tool_to_be_seen(cx).await?)
}

/// Look at something that takes a while.
#[step(effect = "read")]
async fn slow_read(cx: &mut StepCx) -> Result<u32> {
    Stand::here(cx).await
}

/// Change something, which takes a while.
#[step(effect = "tool", on_unknown = "ask")]
async fn slow_tool(cx: &mut StepCx) -> Result<u32> {
    Stand::here(cx).await
}

/// Say two words.
#[step(effect = "read")]
async fn two_words(cx: &mut StepCx) -> Result<String> {
    let reply = cx.stream("reply");
    reply.send(&"one");
    tokio::time::sleep(Duration::from_millis(1)).await;
    reply.send(&" two");
    Ok("one two".to_owned())
}

#[workflow]
async fn reads_slowly(cx: &mut Cx) -> Result<u32> {
    Ok(slow_read(cx).await?)
}

#[workflow]
async fn changes_slowly(cx: &mut Cx) -> Result<u32> {
    Ok(slow_tool(cx).await?)
}

#[workflow]
async fn talks(cx: &mut Cx) -> Result<String> {
    Ok(two_words(cx).await?)
}

#[workflow]
async fn waits_for_a_word(cx: &mut Cx) -> Result<u32> {
    Ok(cx.signal("word").await?)
}

/// A runtime with threads of its own.
fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A runtime that runs only while somebody waits in it.
fn undriven() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn on(folder: &Path, stand: &Stand) -> EngineBuilder {
    let poll = Duration::from_millis(20);
    let builder = Engine::builder().sqlite(folder.join("agent.db")).provide(stand.clone());
    builder.poll_interval(poll).eviction_grace(poll).lease(Duration::from_secs(1)).max_active(2)
}

/// Starts a run, and returns when its body has begun.
async fn started<W>(engine: &Engine, stand: &Stand, id: Option<&str>) -> RunHandle<W>
where
    W: Workflow<Input = (), Output = u32, Error = Failure>,
{
    let start = engine.start::<W>(());
    let run = match id {
        Some(id) => in_time(start.id(id).into_future()).await,
        None => in_time(start.into_future()).await,
    };
    stand.begun().await;
    run.unwrap()
}

/// Waits until the engine holds no run.
async fn holds_nothing(engine: &Engine) {
    in_time(async {
        while engine.health().await.active > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

fn outlives_its_caller<W>(id: Option<&str>)
where
    W: Workflow<Input = (), Output = u32, Error = Failure>,
{
    let (folder, stand) = (tempfile::tempdir().unwrap(), Stand::default());
    let (home, callers) = (threads(), threads());
    let engine = home.block_on(on(folder.path(), &stand).start()).unwrap();
    let run = callers.block_on(started::<W>(&engine, &stand, id));
    drop(callers);
    stand.goes_on.add_permits(1);
    home.block_on(async {
        assert_eq!(in_time(run.result()).await.unwrap(), 1);
        assert_eq!(stand.calls(), 1);
        holds_nothing(&engine).await;
        engine.shutdown().await.unwrap();
    });
}

#[test]
fn a_run_outlives_the_runtime_of_its_caller() {
    for id in [None, Some("named")] {
        outlives_its_caller::<reads_slowly>(id);
        outlives_its_caller::<changes_slowly>(id);
    }
}

#[test]
fn callers_whose_runtimes_end_take_no_places() {
    let (folder, stand) = (tempfile::tempdir().unwrap(), Stand::default());
    let home = threads();
    let engine = home.block_on(on(folder.path(), &stand).start()).unwrap();
    let run = home.block_on(async {
        let run = engine.start::<waits_for_a_word>(()).id("waits").await.unwrap();
        in_time(until_waiting(&run)).await;
        run
    });
    for pause in 0..20 {
        let callers = threads();
        let (engine, id) = (engine.clone(), run.id().to_string());
        callers.spawn(async move {
            // It may be read, or held by another of these calls.
            let _claimed_or_not =
                engine.handle::<waits_for_a_word>(id.as_str()).await.unwrap().advance().await;
        });
        std::thread::sleep(Duration::from_micros(200 * pause));
        drop(callers);
    }
    home.block_on(async {
        holds_nothing(&engine).await;
        in_time(engine.signal(run.id(), "word", "1", &7)).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 7);
        // There is room for as many runs as before.
        stand.goes_on.add_permits(2);
        let both =
            [started::<reads_slowly>(&engine, &stand, None).await, started(&engine, &stand, None).await];
        for run in both {
            in_time(run.result()).await.unwrap();
        }
        holds_nothing(&engine).await;
        engine.shutdown().await.unwrap();
    });
}

/// Starts a run that streams, and reads all of it.
async fn talk(engine: &Engine, id: &str) {
    let run = engine.start::<talks>(()).id(id).await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "one two");
    assert_eq!(in_time(run.stream::<String>("reply").text().whole()).await.unwrap(), "one two");
}

#[test]
fn streams_outlive_the_runtime_of_the_first_caller() {
    let (folder, home) = (tempfile::tempdir().unwrap(), threads());
    let engine = home.block_on(on(folder.path(), &Stand::default()).start()).unwrap();
    for id in ["first", "second"] {
        let callers = threads();
        callers.block_on(talk(&engine, id));
        drop(callers);
    }
    home.block_on(async {
        talk(&engine, "third").await;
        engine.shutdown().await.unwrap();
    });
}

#[test]
fn an_engine_ends_with_its_own_runtime_and_says_so() {
    let (folder, stand) = (tempfile::tempdir().unwrap(), Stand::default());
    let (home, callers) = (threads(), threads());
    let engine = home.block_on(on(folder.path(), &stand).start()).unwrap();
    let run = callers.block_on(started::<reads_slowly>(&engine, &stand, Some("cut")));
    drop(home);
    // None of the tasks of this one has ever run.
    let brief = undriven().block_on(on(folder.path(), &stand).start()).unwrap();
    callers.block_on(async {
        let refused = in_time(brief.start::<reads_slowly>(()).id("brief").into_future()).await;
        assert!(matches!(refused, Err(StartError::ShutDown { .. })), "{refused:?}");
        in_time(brief.shutdown()).await.unwrap();
        let stopped = in_time(run.result()).await;
        let Err(RunError::Stopped { fault, .. }) = &stopped else { panic!("{stopped:?}") };
        assert!(matches!(**fault, Fault::ShutDown { .. }), "{fault}");
        for start in [engine.start::<reads_slowly>(()), engine.start::<reads_slowly>(()).id("late")] {
            let refused = in_time(start.into_future()).await;
            assert!(matches!(refused, Err(StartError::ShutDown { .. })), "{refused:?}");
        }
        let health = engine.health().await;
        assert!(!health.is_live() && health.broken && health.active == 0, "{health:?}");
        // What it held is free at once.
        in_time(engine.shutdown()).await.unwrap();
        let next = on(folder.path(), &stand).start().await.unwrap();
        stand.begun().await;
        stand.goes_on.add_permits(1);
        let run = next.handle::<reads_slowly>("cut").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 2);
        next.shutdown().await.unwrap();
    });
}

/// An engine whose only thread is held by a body, while another body has begun.
struct Held {
    engine: Engine,
    stand: Stand,
    block: Block,
    run: RunHandle<changes_slowly>,
    home: Runtime,
    _folder: tempfile::TempDir,
}

impl Held {
    fn new() -> Self {
        let (folder, stand, block) = (tempfile::tempdir().unwrap(), Stand::default(), Block::default());
        let home = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let engine = home.block_on(on(folder.path(), &stand).provide(block.clone()).start()).unwrap();
        let run = home.block_on(started(&engine, &stand, Some("stands")));
        // Its answer needs the thread, too.
        let starting = engine.clone();
        home.spawn(async move { starting.start::<reads_and_blocks>(()).id("blocks").await });
        block.begun();
        Self { engine, stand, block, run, home, _folder: folder }
    }

    /// Asks in a runtime that ends while it waits for the answer.
    fn ask_in_vain<T>(&self, millis: u64, asked: impl Future<Output = T>) {
        drop(self.ask_and_leave(millis, asked));
    }

    /// Asks in a runtime that nobody drives once this returns.
    fn ask_and_leave<T>(&self, millis: u64, asked: impl Future<Output = T>) -> Runtime {
        let brief = Builder::new_current_thread().enable_all().build().unwrap();
        let limit = Duration::from_millis(millis);
        let answer = brief.block_on(async { tokio::time::timeout(limit, asked).await.ok() });
        assert!(answer.is_none(), "it was done in {millis} ms");
        brief
    }

    /// Waits until nobody owns the run; its body must be gone by then.
    async fn is_free(&self) {
        in_time(async {
            while self.engine.store().run(self.run.id()).await.unwrap().unwrap().owner.is_some() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        assert_eq!(self.stand.living(), 0, "a run is free while its body stands");
    }
}

#[test]
fn a_shutdown_whose_runtime_ends_is_continued_by_the_next() {
    for millis in [1_100, 1_600, 2_500] {
        let held = Held::new();
        held.ask_in_vain(millis, held.engine.clone().shutdown_within(Duration::from_secs(300)));
        held.block.go_on();
        let (callers, stand) = (threads(), &held.stand);
        callers.block_on(async {
            let again = tokio::spawn(held.engine.clone().shutdown());
            tokio::time::sleep(Duration::from_millis(500)).await;
            // The patience is that of the first call.
            assert!(!again.is_finished() && stand.living() == 1, "{} bodies", stand.living());
            held.engine.end_patience();
            in_time(again).await.unwrap().unwrap();
            assert_eq!(stand.living(), 0, "a body stands after the shutdown");
            let stopped = in_time(held.run.result()).await;
            assert!(matches!(stopped, Err(RunError::Stopped { .. })), "{stopped:?}");
        });
    }
}

#[test]
fn a_drain_whose_runtime_ends_or_is_left_is_done_by_the_engine() {
    for is_kept in [false, true] {
        let held = Held::new();
        let left = held.ask_and_leave(1_600, held.engine.drain(Duration::from_secs(300)));
        let _left = is_kept.then_some(left);
        held.block.go_on();
        held.home.block_on(async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(held.stand.living(), 1, "its patience is not over");
            held.engine.end_patience();
            held.is_free().await;
            in_time(held.engine.drain(Duration::ZERO)).await.unwrap();
            in_time(held.engine.clone().shutdown()).await.unwrap();
        });
    }
}

#[test]
fn a_runtime_that_ends_during_a_shutdown_leaves_no_handle_waiting() {
    for millis in [0, 1, 5, 50] {
        let (folder, stand) = (tempfile::tempdir().unwrap(), Stand::default());
        let (home, callers) = (threads(), threads());
        let engine = home.block_on(on(folder.path(), &stand).start()).unwrap();
        let run = home.block_on(started::<changes_slowly>(&engine, &stand, Some("cut")));
        home.spawn(engine.clone().shutdown_within(Duration::from_secs(300)));
        callers.block_on(async {
            in_time(async {
                while !engine.is_draining() {
                    tokio::time::sleep(Duration::from_micros(200)).await;
                }
            })
            .await;
            tokio::time::sleep(Duration::from_millis(millis)).await;
        });
        drop(home);
        assert_eq!(stand.living(), 0);
        callers.block_on(async {
            let stopped = in_time(run.result()).await;
            assert!(matches!(stopped, Err(RunError::Stopped { .. })), "{stopped:?}");
            let health = engine.health().await;
            assert!(!health.is_live() && health.active == 0, "{health:?}");
            in_time(engine.shutdown()).await.unwrap();
        });
    }
}

#[test]
fn a_body_that_outlives_its_runtime_and_a_shutdown_keeps_its_run_until_it_ends() {
    let held = Held::new();
    let callers = threads();
    let Held { engine, stand, block, home, .. } = held;
    callers.block_on(async {
        let created = async {
            loop {
                match engine.handle::<reads_and_blocks>("blocks").await {
                    Ok(run) => return run,
                    Err(_not_yet) => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            }
        };
        let blocks = in_time(created).await;
        // It cannot be cut off.
        let stuck = in_time(engine.clone().shutdown_within(Duration::ZERO)).await;
        assert!(stuck.is_err());
        home.shutdown_background();
        tokio::time::sleep(Duration::from_millis(200)).await;
        // The other one is dropped by the same thread.
        assert_eq!(stand.living(), 1);
        assert_eq!(engine.health().await.active, 2, "a run is free while its body stands");
        block.go_on();
        let stopped = in_time(blocks.result()).await;
        assert!(matches!(stopped, Err(RunError::Stopped { .. })), "{stopped:?}");
        holds_nothing(&engine).await;
        assert_eq!(stand.living(), 0);
    });
}

/// Two engines on one store of this process, of which the first ends with its runtime.
struct Shared {
    store: Arc<dyn Store>,
    stand: Stand,
    block: Block,
    looks: Looks,
    _folder: tempfile::TempDir,
}

impl Shared {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path().join("agent.db")).unwrap());
        let (stand, block, looks) = (Stand::default(), Block::default(), Looks::default());
        Self { store, stand, block, looks, _folder: folder }
    }

    async fn engine(&self) -> Engine {
        let poll = Duration::from_millis(20);
        let builder = Engine::builder().store(Arc::clone(&self.store)).lease(Duration::from_secs(1));
        let builder = builder.poll_interval(poll).eviction_grace(poll);
        let builder = builder.provide(self.stand.clone()).provide(self.block.clone());
        builder.provide(self.looks.clone()).start().await.unwrap()
    }

    fn looks(&self) -> u32 {
        self.looks.0.load(Ordering::SeqCst)
    }
}

#[test]
fn a_worker_whose_runtime_has_ended_keeps_no_probe_and_no_purge_waiting() {
    for is_held in [true, false] {
        let (shared, home, callers) = (Shared::new(), threads(), threads());
        let first = home.block_on(shared.engine());
        let run = home.block_on(async {
            first.start::<changes_slowly_and_looks>(()).id("cut").await.unwrap();
            shared.stand.begun().await;
            first.handle::<changes_slowly_and_looks>("cut").await.unwrap()
        });
        // With or without it, the store stays open.
        let first = is_held.then_some((first, run));
        drop(home);
        callers.block_on(async {
            let second = shared.engine().await;
            let run = second.handle::<changes_slowly_and_looks>("cut").await.unwrap();
            shared.stand.begun().await;
            assert_eq!((shared.stand.living(), shared.looks()), (1, 1));
            shared.stand.goes_on.add_permits(1);
            assert_eq!(in_time(run.result()).await.unwrap(), 2);
            let purged = second.purge(&Retention::new().completed(Duration::ZERO)).await.unwrap();
            assert_eq!((purged.deleted, purged.held), (1, 0));
            second.shutdown().await.unwrap();
        });
        drop(first);
    }
}

#[test]
fn a_body_that_outlives_its_runtime_keeps_a_probe_waiting_until_it_ends() {
    let (shared, home, callers) = (Shared::new(), threads(), threads());
    let first = home.block_on(shared.engine());
    home.block_on(async { first.start::<blocks_and_looks>(()).id("cut").await.unwrap() });
    shared.block.begun();
    home.shutdown_background();
    callers.block_on(async {
        let second = shared.engine().await;
        let run = second.handle::<blocks_and_looks>("cut").await.unwrap();
        in_time(async {
            while shared.looks() < 3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        assert_eq!(
            (shared.stand.calls(), shared.stand.living()),
            (1, 1),
            "a call is made beside another one"
        );
        shared.block.go_on();
        assert_eq!(in_time(run.result()).await.unwrap(), 2);
        assert_eq!(shared.stand.living(), 0);
        second.shutdown().await.unwrap();
    });
}

#[test]
fn an_engine_that_nobody_drives_keeps_no_caller_waiting() {
    let (folder, stand) = (tempfile::tempdir().unwrap(), Stand::default());
    let (home, callers) = (undriven(), threads());
    let engine = home.block_on(on(folder.path(), &stand).start()).unwrap();
    let asked = Instant::now();
    let run = callers.block_on(async { engine.start::<changes_slowly>(()).id("later").await.unwrap() });
    assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
    drop(callers);
    stand.goes_on.add_permits(1);
    home.block_on(async {
        assert_eq!(in_time(run.result()).await.unwrap(), 1);
        engine.shutdown().await.unwrap();
    });
    assert_eq!(stand.calls(), 1);
}

#[test]
fn a_start_outside_of_a_runtime_is_refused() {
    let started = Engine::builder().memory().start().now_or_never();
    assert!(matches!(started, Some(Err(BuildError::NoRuntime))), "{started:?}");
}
