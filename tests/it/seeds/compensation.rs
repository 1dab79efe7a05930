//! Row 61: retry and compensation are optional; a compensation runs once and writes `step_compensated`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aether::effect::Outcome;
use aether::engine::RunEnd;
use aether::engine::{Consulted, ReplayPolicy, Verdict};
use aether::error::RunError;
use aether::id::CommandId;
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::Store;
use aether::store::event::{Event, Uncompensated};
use aether_testing::crash::{CrashPoint, CrashStore};

use super::kit::{Calls, Journal, Place, Rows, builder, in_time, resume, run_id, stores, stores_at};

/// Reserve a seat.
#[step(effect = "tool", idempotent, on_unknown = "retry", compensate = release)]
async fn reserve(cx: &mut StepCx, seat: u32) -> Result<String> {
    Calls::note(cx)?;
    Ok(format!("seat {seat}"))
}

/// Give a seat back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn release(cx: &mut StepCx, seat: u32, reserved: Option<String>) -> Result<()> {
    Calls::note(cx)?;
    cx.dep::<Calls>()?.add("undone", &format!("release {seat} {reserved:?}"));
    Ok(())
}

/// Pay.
#[step(effect = "tool", idempotent, on_unknown = "retry", compensate = refund)]
async fn pay(cx: &mut StepCx, cents: u32, to: &str) -> Result<u32> {
    let _ = to;
    Calls::note(cx)?;
    Ok(cents)
}

/// Pay back. Odd sums are not paid back, and of a round sum nobody knows.
#[step(effect = "tool", idempotent)]
async fn refund(cx: &mut StepCx, cents: u32, to: &str, paid: Option<u32>) -> Result<()> {
    Calls::note(cx)?;
    cx.dep::<Calls>()?.add("undone", &format!("refund {cents} {to} {paid:?}"));
    match cents {
        7 => Err(Failure::permanent("odd sums are not paid back")),
        100 => Err(Failure::unknown("the line went dead")),
        _ => Ok(()),
    }
}

/// Ship, half of it.
#[step(effect = "tool", idempotent, on_unknown = "retry", compensate = recall)]
async fn ship(cx: &mut StepCx) -> Result<()> {
    Calls::note(cx)?;
    Err(Failure::compensatable("half of it fell off"))
}

/// Call a shipment back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn recall(cx: &mut StepCx, shipped: Option<()>) -> Result<()> {
    Calls::note(cx)?;
    cx.dep::<Calls>()?.add("undone", &format!("recall {shipped:?}"));
    Ok(())
}

/// Notes which commands are asked for.
#[derive(Clone, Debug, Default)]
struct Asked(Calls);

impl ReplayPolicy for Asked {
    fn consult(&self, consulted: &Consulted<'_>) -> Verdict {
        self.0.add("asked", consulted.command.as_str());
        Verdict::Default
    }
}

impl Asked {
    /// Whether the workflow's code ran, and not only what undoes its steps.
    fn by_the_workflow(&self) -> bool {
        self.0.keys("asked").iter().any(|command| !command.starts_with("undo."))
    }
}

/// Reserve, pay, and fail to ship.
#[workflow]
async fn seed_trip(cx: &mut Cx, cents: u32) -> Result<()> {
    reserve(cx, 12).await?;
    pay(cx, cents, "ann").await?;
    Ok(ship(cx).await?)
}

/// Reserve, pay, and wait.
#[workflow]
async fn seed_long_trip(cx: &mut Cx) -> Result<()> {
    reserve(cx, 12).await?;
    pay(cx, 5, "ann").await?;
    let _never: u32 = cx.signal("go").await?;
    Ok(())
}

/// Ship half of it, and do without.
#[workflow]
async fn seed_without_shipping(cx: &mut Cx) -> Result<String> {
    reserve(cx, 1).await?;
    Ok(ship(cx).await.map_or("picked up".into(), |()| "shipped".into()))
}

/// Undo in code, and go on.
#[workflow]
async fn seed_second_try(cx: &mut Cx, cents: u32) -> Result<usize> {
    reserve(cx, 1).await?;
    pay(cx, cents, "ann").await?;
    let left = cx.compensate().await;
    reserve(cx, 2).await?;
    if left.is_empty() { Ok(0) } else { Err(Failure::permanent("something is left")) }
}

/// Panic after a payment.
#[workflow]
async fn seed_panicking_trip(cx: &mut Cx) -> Result<()> {
    pay(cx, 5, "ann").await?;
    panic!("lost the map")
}

const UNDONE: [&str; 3] = ["recall None", "refund 5 ann Some(5)", r#"release 12 Some("seat 12")"#];

fn undone(journal: &Journal) -> Vec<(String, String)> {
    let undone = journal.events.iter().filter_map(|event| match event {
        Event::StepCompensated(e) => Some((e.command.to_string(), e.undoes.to_string())),
        _ => None,
    });
    undone.collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(command, undoes)| ((*command).to_owned(), (*undoes).to_owned())).collect()
}

fn all_undone() -> Vec<(String, String)> {
    pairs(&[("undo.2:recall", "2:ship"), ("undo.1:refund", "1:pay"), ("undo.0:release", "0:reserve")])
}

#[tokio::test]
async fn s061_a_failed_run_is_undone_in_reverse_order_and_each_step_once() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<seed_trip>(5).id("trip").await.unwrap();
        let failed = in_time(run.result()).await.unwrap_err();
        assert!(
            matches!(&failed, RunError::Failed(failure) if failure.message().contains("fell off")),
            "{failed:?}"
        );
        assert_eq!(calls.keys("undone"), UNDONE);
        assert_eq!(calls.keys("refund"), ["aether:trip:undo.1:refund:0"]);

        let journal = Journal::read(&place.store, "trip").await;
        assert_eq!(undone(&journal), all_undone());
        assert_eq!(
            journal.kinds_of("refund"),
            [
                "node_started",
                "tool_invocation_started",
                "tool_invocation_finished",
                "command_committed",
                "node_finished",
                "step_committed",
                "step_compensated"
            ]
        );
        let view = engine.view(&run_id("trip")).await.unwrap();
        for step in ["0:reserve", "1:pay", "2:ship"] {
            let step = view.step(&CommandId::from(step.to_owned())).unwrap();
            assert_eq!(step.outcome, Some(Outcome::Compensated));
            assert!(!step.world_changed() && !step.in_doubt);
        }
        assert!(view.illegal.is_empty() && view.uncompensated.is_empty(), "{:?}", view.illegal);
        let verified = engine.verify(&run_id("trip")).await.unwrap();
        assert_eq!((verified.recorded, verified.matched), (6, 6));
        assert_eq!(calls.keys("undone").len(), 3, "verification calls nothing");
    }
}

#[tokio::test]
async fn s061_a_panic_is_undone_too() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<seed_panicking_trip>(()).id("trip").await.unwrap();
        let failed = in_time(run.result()).await.unwrap_err();
        assert!(failed.to_string().contains("lost the map"), "{failed}");
        assert_eq!(calls.keys("undone"), ["refund 5 ann Some(5)"]);
        engine.verify(run.id()).await.unwrap();
    }
}

/// The process dies after every single event of a run that is undone.
#[tokio::test]
async fn s061_a_crash_at_any_event_goes_on_undoing_and_undoes_once() {
    let whole = Journal::record::<seed_trip>("trip", 5).await;
    let over = whole.events.iter().position(|event| matches!(event, Event::RunUnwinding(_))).unwrap();
    for cut in 1..whole.events.len() {
        for place in stores_at(cut) {
            let (place, calls) = (place(), Calls::default());
            let left = whole.first(cut);
            left.plant(&place.store, Rows::Follow).await;
            let asked = Asked::default();
            let engine = builder(&place.store, &calls).policy(asked.clone()).start().await.unwrap();
            let run = engine.handle::<seed_trip>("trip").await.unwrap();
            let error = in_time(run.result()).await.unwrap_err();
            assert_eq!(asked.by_the_workflow(), cut <= over, "cut at {cut}");
            let after = Journal::read(&place.store, "trip").await;
            let at = format!("cut at {cut}: {error}; {:?}", after.kinds());
            // Where the intent of a refund stands alone, its policy says that it stays in doubt.
            let in_doubt = left.count("tool_invocation_started", "refund")
                > left.count("tool_invocation_finished", "refund");
            let expected: Vec<_> = all_undone()
                .into_iter()
                .filter(|(command, _)| !(in_doubt && command.contains("refund")))
                .collect();
            assert_eq!(undone(&after), expected, "{at}");
            assert_eq!(matches!(error, RunError::Uncompensated { .. }), in_doubt, "{at}");
            for name in ["reserve", "pay", "ship", "release", "refund", "recall"] {
                let finished = left.count("tool_invocation_finished", name);
                let expected = if in_doubt && name == "refund" { 0 } else { 1 - finished };
                assert_eq!(calls.of(name), expected, "{name}, {at}");
            }
            engine.verify(&run_id("trip")).await.unwrap_or_else(|error| panic!("{error}, {at}"));
        }
    }
}

#[tokio::test]
async fn s061_a_compensation_that_fails_is_named_and_stops_no_other() {
    for (cents, in_doubt) in [(7, false), (100, true)] {
        for place in stores() {
            let (place, calls) = (place(), Calls::default());
            let engine = builder(&place.store, &calls).start().await.unwrap();
            let run = engine.start::<seed_trip>(cents).id("trip").await.unwrap();
            let failed = in_time(run.result()).await.unwrap_err();
            let RunError::Uncompensated { error, steps, .. } = &failed else { panic!("{failed:?}") };
            assert!(error.message().contains("fell off"), "{error}");
            let [Uncompensated { step, compensation, in_doubt: doubt, message }] = steps.as_slice() else {
                panic!("{steps:?}")
            };
            assert_eq!((step.as_str(), compensation.as_str()), ("1:pay", "undo.1:refund"));
            assert_eq!(*doubt, in_doubt, "{message}");
            assert!(failed.to_string().contains("`1:pay` was not undone"), "{failed}");
            assert_eq!(calls.keys("undone").len(), 3, "the others are undone");
            let view = engine.view(run.id()).await.unwrap();
            assert_eq!(view.uncompensated, *steps);
            assert_eq!(view.step(step).unwrap().outcome, Some(Outcome::SideEffectCommitted));
            engine.verify(run.id()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn s061_a_step_that_failed_half_way_is_undone_in_a_run_that_completes() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<seed_without_shipping>(()).id("trip").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "picked up");
        assert_eq!(calls.keys("undone"), ["recall None"], "and nothing else");
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn s061_a_cancelled_run_is_undone_from_its_journal_after_any_crash() {
    let recording = Place::memory();
    let calls = Calls::default();
    let engine = builder(&recording.store, &calls).start().await.unwrap();
    let run = engine.start::<seed_long_trip>(()).id("trip").await.unwrap();
    until(|| calls.of("pay") == 1).await;
    engine.cancel(run.id(), "too late", "ann").await.unwrap();
    let cancelled = in_time(run.result()).await.unwrap_err();
    assert!(matches!(&cancelled, RunError::Cancelled { actor, .. } if actor == "ann"), "{cancelled:?}");
    assert_eq!(calls.keys("undone"), UNDONE[1..]);
    let whole = Journal::read(&recording.store, "trip").await;
    engine.verify(run.id()).await.unwrap();
    let over = whole.events.iter().position(|event| matches!(event, Event::RunUnwinding(_))).unwrap();
    for cut in over + 1..whole.events.len() {
        for place in stores_at(cut) {
            let (place, calls) = (place(), Calls::default());
            let left = whole.first(cut);
            left.plant(&place.store, Rows::Follow).await;
            let (engine, result) = resume::<seed_long_trip>(&place.store, "trip", &calls).await;
            let error = result.unwrap_err();
            let RunError::Cancelled { actor, uncompensated, .. } = &error else { panic!("{error:?}") };
            let in_doubt = left.count("tool_invocation_started", "refund")
                > left.count("tool_invocation_finished", "refund");
            assert_eq!((actor.as_str(), uncompensated.len()), ("ann", usize::from(in_doubt)), "cut at {cut}");
            assert_eq!(calls.of("reserve") + calls.of("pay"), 0, "cut at {cut}");
            let done = left.count("tool_invocation_finished", "release");
            assert_eq!(calls.of("release"), 1 - done, "cut at {cut}");
            engine.verify(&run_id("trip")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn s061_a_workflow_undoes_in_code_and_goes_on() {
    let whole = Journal::record::<seed_second_try>("trip", 5).await;
    assert_eq!(undone(&whole), pairs(&[("2.undo.1:refund", "1:pay"), ("2.undo.0:release", "0:reserve")]));
    for cut in 1..whole.events.len() {
        for place in stores_at(cut) {
            let (place, calls) = (place(), Calls::default());
            let left = whole.first(cut);
            left.plant(&place.store, Rows::Follow).await;
            let (engine, result) = resume::<seed_second_try>(&place.store, "trip", &calls).await;
            let at = format!("cut at {cut}");
            let in_doubt = left.count("tool_invocation_started", "refund")
                > left.count("tool_invocation_finished", "refund");
            match result {
                Ok(0) => assert!(!in_doubt, "{at}"),
                // The first seat was undone in code; the second one is when the run fails.
                Err(RunError::Uncompensated { steps, .. }) => {
                    assert!(in_doubt && steps.len() == 1 && steps[0].in_doubt, "{at}: {steps:?}");
                }
                other => panic!("{at}: {other:?}"),
            }
            let releases = 1 + usize::from(in_doubt) - left.count("tool_invocation_finished", "release");
            assert_eq!(calls.of("release"), releases, "{at}");
            engine.verify(&run_id("trip")).await.unwrap_or_else(|error| panic!("{at}: {error}"));
        }
    }
}

#[tokio::test]
async fn s061_termination_undoes_nothing_and_says_so() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<seed_long_trip>(()).id("trip").await.unwrap();
        until(|| calls.of("pay") == 1).await;
        engine.terminate(run.id(), "now", "ann").await.unwrap();
        let end = in_time(run.end()).await.unwrap();
        assert_eq!(end, RunEnd::Terminated { reason: "now".into(), actor: "ann".into() });
        assert!(calls.keys("undone").is_empty());
        assert_eq!(Journal::read(&place.store, "trip").await.kinds().last().unwrap(), "run_terminated");
        engine.verify(run.id()).await.unwrap();
    }
}

async fn until(reached: impl Fn() -> bool) {
    in_time(async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Where a started process works, and the write at which it kills itself.
const FOLDER: &str = "AETHER_UNDO_FOLDER";
const WRITE: &str = "AETHER_UNDO_WRITE";

/// Leaves a line for each call.
#[derive(Debug)]
struct Lines(PathBuf);

impl Lines {
    fn note(cx: &StepCx) -> Result<()> {
        let path = &cx.dep::<Self>()?.0;
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        Ok(writeln!(file, "{}", cx.idempotency_key())?)
    }

    fn read(folder: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(folder.join("calls.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// Open a gate.
#[step(effect = "tool", idempotent, on_unknown = "retry", compensate = close)]
async fn open(cx: &mut StepCx, gate: u32) -> Result<u32> {
    Lines::note(cx)?;
    Ok(gate)
}

/// Close a gate.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn close(cx: &mut StepCx, gate: u32, opened: Option<u32>) -> Result<()> {
    let _ = (gate, opened);
    Lines::note(cx)
}

/// Open two gates, and fail.
#[workflow]
async fn seed_gates(cx: &mut Cx) -> Result<()> {
    open(cx, 1).await?;
    open(cx, 2).await?;
    Err(Failure::permanent("there is no third gate"))
}

async fn gates_engine(folder: &Path, point: Option<CrashPoint>) -> (Engine, Arc<CrashStore>, Arc<dyn Store>) {
    let inner: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.join("agent.db")).unwrap());
    let store = Arc::new(CrashStore::new(inner.clone(), point));
    let poll = Duration::from_millis(10);
    let lines = Lines(folder.join("calls.txt"));
    let builder = Engine::builder().store(store.clone()).provide(lines).poll_interval(poll);
    (builder.start().await.unwrap(), store, inner)
}

/// Runs where the test below started this program: dies of `kill -9` at the write it was told.
#[tokio::test]
async fn a_process_started_by_another_test_dies_while_undoing() {
    let (Some(folder), Ok(write)) = (std::env::var_os(FOLDER), std::env::var(WRITE)) else { return };
    let number: u64 = write[1..].parse().unwrap();
    let point = if write.starts_with('a') { CrashPoint::After(number) } else { CrashPoint::Before(number) };
    let (engine, store, inner) = gates_engine(Path::new(&folder), Some(point)).await;
    let run = tokio::spawn(async move {
        let run = engine.start::<seed_gates>(()).id("gates").await.unwrap();
        run.end().await
    });
    in_time(store.crashed()).await;
    // What was written before is durable now.
    inner.delete_snapshots().await.unwrap();
    let pid = std::process::id().to_string();
    Command::new("kill").args(["-9", &pid]).status().unwrap();
    run.await.unwrap().unwrap();
}

#[tokio::test]
async fn s061_kill_9_at_every_write_of_an_unwinding() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, store, _) = gates_engine(folder.path(), None).await;
    let run = engine.start::<seed_gates>(()).id("gates").await.unwrap();
    let expected = in_time(run.end()).await.unwrap();
    let (writes, calls) = (store.writes(), Lines::read(folder.path()));
    assert_eq!(calls.len(), 4, "{calls:?}");
    // The creation of the run, and two appends for each gate, come before.
    let points = (6..=writes).flat_map(|write| [format!("b{write}"), format!("a{write}")]);
    for point in points {
        let folder = tempfile::tempdir().unwrap();
        let name = "seeds::compensation::a_process_started_by_another_test_dies_while_undoing";
        let status = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact"])
            .env(FOLDER, folder.path())
            .env(WRITE, &point)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{point}");
        let before = Lines::read(folder.path());
        let (engine, ..) = gates_engine(folder.path(), None).await;
        let run = engine.handle::<seed_gates>("gates").await.unwrap();
        assert_eq!(in_time(run.end()).await.unwrap(), expected, "{point}");
        let mut after = Lines::read(folder.path());
        // What was in flight may be sent again, under its key; nothing else is.
        if after.len() == 5 {
            assert_eq!(after.get(before.len()), before.last(), "{point}: {after:?}");
            after.remove(before.len());
        }
        assert_eq!(after, calls, "{point}");
        engine.verify(run.id()).await.unwrap();
        let journal = Journal::read(engine.store(), "gates").await;
        assert_eq!(
            undone(&journal),
            pairs(&[("undo.1:close", "1:open"), ("undo.0:close", "0:open")]),
            "{point}"
        );
    }
}
