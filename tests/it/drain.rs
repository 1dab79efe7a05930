//! Draining: a worker takes no more runs and releases those that it has, while its engine serves on; health and probes
//! say so; and a process that is asked to stop by a signal drains.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aether::engine::EngineBuilder;
use aether::prelude::*;
use aether::store::RunFilter;
use aether::view::Status;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use crate::seeds::kit::in_time;

const FOLDER: &str = "AETHER_DRAIN_FOLDER";
/// Milliseconds of a call in which a slow machine comes from seeing that it has begun to asking for the drain.
const LONG: u64 = 3_000;

/// Take some milliseconds, and leave a line.
#[step(effect = "tool", on_unknown = "ask")]
async fn take(cx: &mut StepCx, ms: u64) -> Result<()> {
    cx.dep::<Lines>()?.add("begin");
    sleep(Duration::from_millis(ms)).await;
    cx.dep::<Lines>()?.add("end");
    Ok(())
}

/// Two calls after each other.
#[workflow]
async fn drained_calls(cx: &mut Cx, ms: u64) -> Result<()> {
    take(cx, ms).await?;
    Ok(take(cx, ms).await?)
}

struct Lines(PathBuf);

impl Lines {
    fn of(folder: &Path) -> Self {
        Self(folder.join("lines"))
    }

    fn add(&self, line: &str) {
        use std::io::Write as _;
        let mut file = std::fs::File::options().create(true).append(true).open(&self.0).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn count(&self, line: &str) -> usize {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().filter(|written| *written == line).count()
    }
}

fn builder(folder: &Path) -> EngineBuilder {
    Engine::builder()
        .sqlite(folder.join("agent.db"))
        .provide(Lines::of(folder))
        .poll_interval(Duration::from_millis(20))
}

async fn begun(lines: &Lines, count: usize) {
    in_time(async {
        while lines.count("begin") < count {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_drained_engine_finishes_calls_releases_runs_and_serves_on() {
    let folder = tempfile::tempdir().unwrap();
    let lines = Lines::of(folder.path());
    let old = builder(folder.path()).start().await.unwrap();
    in_time(async {
        while !old.health().await.is_ready() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let run = old.start::<drained_calls>(LONG).id("first").await.unwrap();
    begun(&lines, 1).await;
    let drained = old.drain(Duration::from_secs(60)).await.unwrap();
    assert_eq!((drained.in_time, drained.cut_off), (1, 0));
    // The call was finished, and the next one was not begun.
    assert_eq!((lines.count("begin"), lines.count("end")), (1, 1));
    let record = old.store().run(run.id()).await.unwrap().unwrap();
    assert_eq!((record.status.is_terminal(), record.owner), (false, None));
    let health = old.health().await;
    assert!(health.is_live() && !health.is_ready() && health.draining && health.active == 0, "{health:?}");
    assert_eq!(old.probe("/healthz").await.unwrap().status, 200);
    assert_eq!(old.probe("/readyz").await.unwrap().status, 503);
    // What it starts, others advance.
    let second = old.start::<drained_calls>(1).id("second").await.unwrap();
    sleep(Duration::from_millis(200)).await;
    assert_eq!(second.status().await.unwrap(), Status::Pending);
    assert_eq!(old.drain(Duration::ZERO).await.unwrap(), drained, "there is one drain");

    let new = builder(folder.path()).start().await.unwrap();
    in_time(async { run.result().await.unwrap() }).await;
    in_time(async { second.result().await.unwrap() }).await;
    assert_eq!((lines.count("begin"), lines.count("end")), (4, 4), "no call was made twice");
    old.shutdown().await.unwrap();
    new.shutdown().await.unwrap();
}

#[tokio::test]
async fn patience_ends_when_it_is_over_or_somebody_wants_it_to() {
    for hurry in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let lines = Lines::of(folder.path());
        let engine = builder(folder.path()).start().await.unwrap();
        let run = engine.start::<drained_calls>(600_000).id("slow").await.unwrap();
        begun(&lines, 1).await;
        let began = Instant::now();
        let patience = if hurry { Duration::from_secs(500) } else { Duration::from_secs(2) };
        let draining = {
            let engine = engine.clone();
            tokio::spawn(async move { engine.drain(patience).await })
        };
        sleep(Duration::from_millis(150)).await;
        assert!(!draining.is_finished() || began.elapsed() >= patience);
        assert!(engine.is_draining());
        if hurry {
            engine.end_patience();
        }
        let drained = draining.await.unwrap().unwrap();
        assert_eq!((drained.in_time, drained.cut_off), (0, 1));
        assert!(began.elapsed() < Duration::from_secs(120));
        assert_eq!(engine.store().run(run.id()).await.unwrap().unwrap().owner, None);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn the_drain_probe_waits_for_the_drain() {
    let folder = tempfile::tempdir().unwrap();
    let lines = Lines::of(folder.path());
    let engine = builder(folder.path()).start().await.unwrap();
    engine.start::<drained_calls>(LONG).id("first").await.unwrap();
    begun(&lines, 1).await;
    let probe = engine.probe("/drain?seconds=60").await.unwrap();
    let body: serde_json::Value = serde_json::from_str(&probe.body).unwrap();
    assert_eq!((probe.status, body), (200, serde_json::json!({ "cut_off": 0, "in_time": 1 })));
    assert_eq!(lines.count("end"), 1);
    assert_eq!(engine.probe("/anything").await, None);
    engine.shutdown().await.unwrap();
}

/// A client is ready at once; of a run that nobody takes, it says for how long it has been due.
#[tokio::test]
async fn health_says_for_how_long_a_run_waits_for_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    let client = builder(folder.path()).client().start().await.unwrap();
    let health = client.health().await;
    assert!(health.is_ready() && health.client && health.lag.is_none(), "{health:?}");
    client.start::<drained_calls>(1).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    let lag = client.health().await.lag.unwrap();
    assert!(lag >= Duration::from_millis(100), "{lag:?}");
    client.shutdown().await.unwrap();
}

/// Runs where the test below started this program: as a service does, until a signal; otherwise there is nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_another_test_started() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let engine = builder(&folder).start().await.unwrap();
    Lines::of(&folder).add("up");
    aether::signals::run_until_stopped(engine, Duration::from_secs(300)).await.unwrap();
    Lines::of(&folder).add("down");
}

fn service(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["drain::a_service_that_another_test_started", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

async fn exited(mut child: Child) -> std::process::ExitStatus {
    tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_drains_a_service_and_a_second_one_cuts_it_off() {
    for (ms, signals) in [(LONG, 1), (600_000, 2)] {
        let folder = tempfile::tempdir().unwrap();
        let lines = Lines::of(folder.path());
        let child = service(folder.path());
        let pid = Pid::from_child(&child);
        let client = builder(folder.path()).client().start().await.unwrap();
        let run = client.start::<drained_calls>(ms).id("first").await.unwrap();
        begun(&lines, 1).await;
        let began = Instant::now();
        kill_process(pid, Signal::TERM).unwrap();
        if signals == 2 {
            sleep(Duration::from_millis(500)).await;
            assert_eq!(lines.count("down"), 0, "it waits for the call");
            kill_process(pid, Signal::INT).unwrap();
        }
        assert!(exited(child).await.success());
        assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
        assert_eq!((lines.count("down"), lines.count("begin")), (1, 1));
        assert_eq!(lines.count("end"), usize::from(signals == 1));
        let record = client.store().run(run.id()).await.unwrap().unwrap();
        assert_eq!(record.owner, None, "it was released");
        assert_eq!(client.count(RunFilter::new().open()).await.unwrap(), 1);
        client.shutdown().await.unwrap();
    }
}
