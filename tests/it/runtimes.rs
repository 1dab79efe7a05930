//! Programs with several runtimes: a run lives in that in which its engine was started, whoever starts it, and ends with that
//! one alone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aether::definition::Workflow;
use aether::engine::EngineBuilder;
use aether::error::{BuildError, Fault, RunError, StartError};
use aether::prelude::*;
use futures::FutureExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use crate::seeds::kit::{in_time, until_waiting};

/// Calls of bodies, each of which stands until it is let go.
#[derive(Clone)]
struct Stand {
    calls: Arc<AtomicU32>,
    begun: Arc<Semaphore>,
    goes_on: Arc<Semaphore>,
}

impl Default for Stand {
    fn default() -> Self {
        let semaphore = || Arc::new(Semaphore::new(0));
        Self { calls: Arc::default(), begun: semaphore(), goes_on: semaphore() }
    }
}

impl Stand {
    async fn here(cx: &StepCx) -> Result<u32> {
        let stand = cx.dep::<Self>()?;
        let call = stand.calls.fetch_add(1, Ordering::SeqCst) + 1;
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
