//! Why a run does not move: each reason is brought about, and a client that only opens the file names it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aether::engine::{EngineBuilder, Hold};
use aether::id::RunId;
use aether::people::Waiting;
use aether::prelude::*;
use aether::store::{ClaimRequest, RunFilter};
use aether::view::Status;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use crate::seeds::kit::in_time;

const FOLDER: &str = "AETHER_WHY_FOLDER";
const LEASE: Duration = Duration::from_secs(2);

/// Takes for ever.
#[step(effect = "read")]
async fn stall(_cx: &mut StepCx) -> Result<()> {
    std::future::pending().await
}

/// Takes for ever, and may have done something.
#[step(effect = "tool", on_unknown = "ask")]
async fn stall_tool(_cx: &mut StepCx) -> Result<()> {
    std::future::pending().await
}

/// Fails, and is made again an hour later.
#[step(effect = "read", retry(max_retries = 9, delay = "1h", max_delay = "1h"))]
async fn fails(_cx: &mut StepCx) -> Result<()> {
    Err(Failure::retryable("the mine is flooded"))
}

/// Do one of the things for which runs wait.
#[workflow]
async fn held(cx: &mut Cx, what: String) -> Result<()> {
    match what.as_str() {
        "signal" => cx.signal("paid").await?,
        "timer" => cx.sleep(Duration::from_secs(86_400)).await,
        "approval" => drop(cx.approval("refund").await?),
        "retry" => fails(cx).await?,
        "tool" => stall_tool(cx).await?,
        "stall" => stall(cx).await?,
        _ => {}
    }
    Ok(())
}

/// Nothing that anyone waits for.
#[workflow]
async fn other(cx: &mut Cx) -> Result<()> {
    Ok(stall(cx).await?)
}

fn builder(folder: &Path) -> EngineBuilder {
    let short = Duration::from_millis(20);
    Engine::builder().sqlite(folder.join("agent.db")).poll_interval(short).eviction_grace(short).lease(LEASE)
}

/// Asks until the reason is as wanted.
async fn until(client: &Engine, run: &RunId, wanted: impl Fn(&Hold) -> bool) -> Hold {
    let mut last = None;
    let found = tokio::time::timeout(Duration::from_secs(120), async {
        loop {
            let hold = client.why(run).await.unwrap();
            if wanted(&hold) {
                return hold;
            }
            last = Some(hold);
            sleep(Duration::from_millis(20)).await;
        }
    });
    let found = found.await;
    found.unwrap_or_else(|_| panic!("{run}: {last:?}"))
}

async fn start(engine: &Engine, what: &str) -> RunId {
    engine.start::<held>(what.to_owned()).id(what).await.unwrap().id().clone()
}

#[tokio::test]
async fn a_client_names_what_each_run_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let worker = builder(folder.path()).start().await.unwrap();
    let client = builder(folder.path()).client().start().await.unwrap();
    let run = start(&worker, "signal").await;
    let hold = until(&client, &run, |hold| matches!(hold, Hold::Waiting { .. })).await;
    assert!(
        matches!(&hold, Hold::Waiting { on } if on[0].waiting == Waiting::Signal && on[0].name == "paid")
    );
    assert!(hold.to_string().starts_with("paid waits for a signal (`signal`) since "), "{hold}");
    let run = start(&worker, "timer").await;
    let hold = until(&client, &run, |hold| matches!(hold, Hold::Waiting { .. })).await;
    assert!(
        matches!(&hold, Hold::Waiting { on } if on[0].waiting == Waiting::Timer && on[0].until.is_some())
    );
    let run = start(&worker, "approval").await;
    let hold = until(&client, &run, |hold| matches!(hold, Hold::Waiting { .. })).await;
    assert!(matches!(&hold, Hold::Waiting { on } if on[0].name == "refund"), "{hold:?}");
    let run = start(&worker, "retry").await;
    let hold = until(&client, &run, |hold| matches!(hold, Hold::Retrying { .. })).await;
    let Hold::Retrying { step, attempt, error, next } = &hold else { panic!("{hold:?}") };
    assert_eq!((step.as_str(), *attempt), ("0:fails", 2));
    assert!(error.contains("the mine is flooded") && next.is_some(), "{hold}");
    let run = start(&worker, "stall").await;
    let hold = until(&client, &run, |hold| matches!(hold, Hold::Running { .. })).await;
    let me = client.workers().await.unwrap().into_iter().find(|worker| worker.known.runs > 0).unwrap();
    assert!(matches!(&hold, Hold::Running { worker, claim: 1, .. } if *worker == me.known.id), "{hold:?}");
    let run = start(&worker, "nothing").await;
    let hold = until(&client, &run, |hold| matches!(hold, Hold::Ended { .. })).await;
    assert!(matches!(hold, Hold::Ended { status: Status::Completed, .. }));
    // In a list, one for each.
    let holds = client.holds(RunFilter::new().open().limit(50)).await.unwrap();
    assert_eq!(holds.len(), 5);
    for (run, hold) in holds {
        assert_eq!(client.why(&run.id).await.unwrap(), hold);
        assert!(!hold.needs_operator(), "{hold}");
    }
    client.shutdown().await.unwrap();
    worker.shutdown_within(Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_call_in_doubt_needs_an_operator() {
    let folder = tempfile::tempdir().unwrap();
    let worker = builder(folder.path()).start().await.unwrap();
    let run = start(&worker, "tool").await;
    until(&worker, &run, |hold| matches!(hold, Hold::Running { .. })).await;
    worker.shutdown_within(Duration::ZERO).await.unwrap();
    let worker = builder(folder.path()).start().await.unwrap();
    let hold = until(&worker, &run, |hold| matches!(hold, Hold::InDoubt { .. })).await;
    assert!(hold.needs_operator() && hold.to_string().contains("0:stall_tool"), "{hold}");
    worker.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_due_run_says_whether_a_worker_can_take_it() {
    let folder = tempfile::tempdir().unwrap();
    let client = builder(folder.path()).client().start().await.unwrap();
    let run = start(&client, "signal").await;
    assert!(matches!(client.why(&run).await.unwrap(), Hold::NoWorker { .. }));
    // Two that have other code: one alone would park at once what nobody else is there to resume.
    let stranger = async || builder(folder.path()).without_workflow::<held>().start().await.unwrap();
    let strangers = [stranger().await, stranger().await];
    let foreign = start(&client, "approval").await;
    let hold = until(&client, &foreign, |hold| matches!(hold, Hold::NoCode { .. })).await;
    assert!(hold.needs_operator(), "{hold}");
    for stranger in strangers {
        stranger.shutdown().await.unwrap();
    }
    // One that has its code, and is full.
    let full = builder(folder.path()).max_active(1).without_workflow::<held>().start().await.unwrap();
    full.start::<other>(()).id("other").await.unwrap();
    until(&client, &RunId::new("other").unwrap(), |hold| matches!(hold, Hold::Running { .. })).await;
    let late = builder(folder.path()).max_active(1).without_workflow::<other>().start().await.unwrap();
    let hold = until(&client, &run, |hold| matches!(hold, Hold::Waiting { .. })).await;
    assert!(!hold.needs_operator());
    let stalls = start(&client, "stall").await;
    until(&client, &stalls, |hold| matches!(hold, Hold::Running { .. })).await;
    let due = client.start::<held>("timer".into()).id("due").await.unwrap();
    let hold = client.why(due.id()).await.unwrap();
    assert!(matches!(hold, Hold::Due { .. }), "{hold:?}");
    assert!(late.health().await.is_full());
    // Released until later, as after a fault. The worker that has other code is gone first: it would park what nobody is
    // left to resume.
    full.shutdown_within(Duration::ZERO).await.unwrap();
    late.shutdown_within(Duration::ZERO).await.unwrap();
    let store = client.store();
    let me = aether::id::WorkerId::from("by-hand".to_owned());
    let request = ClaimRequest {
        worker: me.clone(),
        now: jiff::Timestamp::now(),
        silent: Vec::new(),
        limit: 1,
        codes: Vec::new(),
        only: None,
        adopt: vec![due.id().clone()],
        serves: Default::default(),
        others_first: false,
        lapsed_first: false,
    };
    let mut leases = store.claim(request).await.unwrap();
    assert_eq!(leases.len(), 1, "{:?} {:?}", store.run(due.id()).await, client.workers().await);
    let lease = leases.remove(0);
    let later = jiff::Timestamp::now() + Duration::from_secs(60);
    store.release(&me, due.id(), lease.run.epoch, later).await.unwrap();
    let hold = client.why(due.id()).await.unwrap();
    assert!(matches!(hold, Hold::NotYet { .. }), "{hold:?} {:?}", store.run(due.id()).await);
    client.shutdown().await.unwrap();
}

/// Runs where the test below started this program, until it is killed; otherwise there is nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_another_test_started() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let engine = builder(&folder).start().await.unwrap();
    start(&engine, "stall").await;
    std::future::pending().await
}

fn worker(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["why::a_worker_that_another_test_started", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_is_silent_and_a_dead_one_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let client = builder(folder.path()).client().start().await.unwrap();
    let mut child = worker(folder.path());
    let run = RunId::new("stall").unwrap();
    in_time(async {
        while client.store().run(&run).await.unwrap().is_none() {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    until(&client, &run, |hold| matches!(hold, Hold::Running { .. })).await;
    let hold = loop {
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        let silent = until(&client, &run, |hold| matches!(hold, Hold::SilentWorker { .. }));
        if let Ok(hold) = tokio::time::timeout(LEASE * 10, silent).await {
            break hold;
        }
        // It was stopped while it had the file's lock: until it wakes, nobody renews, and nobody is compared.
        kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
        sleep(LEASE / 8).await;
    };
    let Hold::SilentWorker { silent, takeover_in, .. } = hold else { unreachable!() };
    // Of a client that had no processor itself, it may be long over.
    let is_right = takeover_in.is_zero() || silent + takeover_in <= LEASE * 2;
    assert!(silent >= LEASE / 2 && is_right, "{silent:?} {takeover_in:?}");
    until(
        &client,
        &run,
        |hold| matches!(hold, Hold::SilentWorker { takeover_in, .. } if takeover_in.is_zero()),
    )
    .await;
    // It wakes, and renews.
    kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
    until(&client, &run, |hold| matches!(hold, Hold::Running { .. })).await;
    child.kill().unwrap();
    child.wait().unwrap();
    until(&client, &run, |hold| matches!(hold, Hold::NoWorker { .. })).await;
    let dead = client.workers().await.unwrap().into_iter().find(|worker| worker.known.runs == 1).unwrap();
    assert!(dead.known.is_dead && !dead.is_me, "{dead:?}");
    client.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_writes_is_the_reason_and_makes_the_engine_unready() {
    let folder = tempfile::tempdir().unwrap();
    let worker = builder(folder.path()).lease(Duration::from_millis(400)).start().await.unwrap();
    let run = start(&worker, "stall").await;
    until(&worker, &run, |hold| matches!(hold, Hold::Running { .. })).await;
    in_time(async {
        while !worker.health().await.is_ready() {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let lock = rusqlite::Connection::open(folder.path().join("agent.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let hold = until(&worker, &run, |hold| matches!(hold, Hold::StoreRefuses { .. })).await;
    assert!(hold.needs_operator(), "{hold}");
    let health = worker.health().await;
    assert!(health.is_live() && !health.is_ready() && health.unreachable.is_none(), "{health:?}");
    let probe = worker.probe("/readyz").await.unwrap();
    assert_eq!(probe.status, 503);
    assert!(probe.body.contains("refused writes"), "{}", probe.body);
    lock.execute_batch("ROLLBACK").unwrap();
    until(&worker, &run, |hold| matches!(hold, Hold::Running { .. })).await;
    in_time(async {
        while !worker.health().await.is_ready() {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    worker.shutdown_within(Duration::ZERO).await.unwrap();
}
