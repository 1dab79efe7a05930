//! Workflows that continue as new: nothing is lost, doubled or forgotten at the change of generation, and the store stays
//! small.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aether::engine::{Limits, RunEnd};
use aether::error::{ContinueError, Fault};
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::event::Event;
use aether::store::journal::read_verified;
use aether::store::{MemoryStore, Sent, Store};
use aether::view::Status;
use aether_testing::Sim;
use aether_testing::crash::{CrashPoint, CrashStore};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::seeds::kit::{Calls, Journal, Place, builder, in_time, run_id, stores, until_waiting};

/// Count.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn count(cx: &mut StepCx, round: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(round)
}

/// Add up the rounds, a journal for each.
#[workflow]
async fn rn_sum(cx: &mut Cx, left: u32, sum: u32) -> Result<u32> {
    if left == 0 {
        return Ok(sum);
    }
    let sum = sum + count(cx, left).await?;
    cx.continue_as_new::<rn_sum>((left - 1, sum)).await
}

/// Take messages, three to a journal, until there are enough.
#[workflow]
async fn rn_collect(cx: &mut Cx, mut taken: Vec<u32>, enough: usize) -> Result<Vec<u32>> {
    for _ in 0..3 {
        if taken.len() == enough {
            return Ok(taken);
        }
        taken.push(cx.signal("item").await?);
    }
    cx.continue_as_new::<rn_collect>((taken, enough)).await
}

#[tokio::test]
async fn a_workflow_continues_under_its_id() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<rn_sum>((3, 0)).id("sum").label("of", "three").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 6);
        assert_eq!(
            calls.keys("count"),
            ["aether:sum:0:count:0", "aether:sum:c1.0:count:0", "aether:sum:c2.0:count:0"]
        );

        let journal = Journal::read(&place.store, "sum").await;
        let [Event::RunCreated(created), Event::RunContinued(continued), ..] = &journal.events[..] else {
            panic!("{:?}", journal.events)
        };
        assert_eq!(
            (created.input.as_str(), created.labels.get("of")),
            (r#"{"left":0,"sum":6}"#, Some("three"))
        );
        assert_eq!((continued.generation, continued.carried.as_ref()), (3, None));
        let view = engine.view(&run_id("sum")).await.unwrap();
        assert_eq!((view.generation, view.status, view.illegal.len()), (3, Status::Completed, 0));
        assert_eq!(
            view.position - view.history.events,
            place.store.load(&run_id("sum"), 0).await.unwrap()[0].position
        );
        assert_eq!(
            view.lifecycle.created.at,
            place.store.run(&run_id("sum")).await.unwrap().unwrap().created_at
        );
        engine.verify(run.id()).await.unwrap();

        // Another start with the same input is the same run, and one with another input is refused as ever.
        let again = engine.start::<rn_sum>((3, 0)).id("sum").await.unwrap();
        assert_eq!(in_time(again.result()).await.unwrap(), 6);
        engine.start::<rn_sum>((0, 6)).id("sum").await.unwrap_err();
        assert_eq!(calls.of("count"), 3);
    }
}

/// A process that dies before, at and after every write, on a real file.
#[tokio::test]
async fn a_crash_at_every_write_around_a_renewal_repeats_and_loses_nothing() {
    let counted = Arc::new(CrashStore::new(Arc::new(MemoryStore::new()), None));
    let store: Arc<dyn Store> = counted.clone();
    let engine = builder(&store, &Calls::default()).start().await.unwrap();
    in_time(engine.start::<rn_sum>((2, 0)).id("sum").await.unwrap().end()).await.unwrap();
    let renewals = counted.boundaries().iter().filter(|it| it.what.contains("run_continued")).count();
    assert_eq!((renewals, counted.writes() > 8), (6, true), "{:?}", counted.boundaries());
    for write in 1..=counted.writes() {
        for point in [CrashPoint::Before(write), CrashPoint::After(write)] {
            let (place, calls) = (Place::sqlite(), Calls::default());
            let crashing = Arc::new(CrashStore::new(place.store.clone(), Some(point)));
            let store: Arc<dyn Store> = crashing.clone();
            let engine = builder(&store, &calls).lease(Duration::from_millis(100)).start().await.unwrap();
            let starting = tokio::spawn(async move {
                let _never_answered = engine.start::<rn_sum>((2, 0)).id("sum").await;
                std::future::pending::<()>().await;
            });
            in_time(crashing.crashed()).await;
            starting.abort();
            let engine = builder(&place.store, &calls).start().await.unwrap();
            let run = engine.start::<rn_sum>((2, 0)).id("sum").await.unwrap();
            assert_eq!(in_time(run.result()).await.unwrap(), 3, "{point}");
            // An interrupted call is made again under its own key; no key is used by another round.
            let mut keys = calls.keys("count");
            assert!(keys.len() <= 3, "{point}: {keys:?}");
            keys.dedup();
            assert_eq!(keys, ["aether:sum:0:count:0", "aether:sum:c1.0:count:0"], "{point}");
            engine.verify(run.id()).await.unwrap();
            let frames = place.store.load(&run_id("sum"), 0).await.unwrap();
            assert!(read_verified(&frames).unwrap().len() < 8, "{point}: an old journal is left");
        }
    }
}

/// Messages arrive all the time, each twice, also when a generation is about to end.
#[tokio::test]
async fn messages_at_the_moment_of_renewal_are_neither_lost_nor_doubled() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let grace = Duration::from_millis(1);
        let engine = builder(&place.store, &calls).eviction_grace(grace).start().await.unwrap();
        let run = engine.start::<rn_collect>((Vec::new(), 60)).id("items").await.unwrap();
        let mut retried = None;
        for n in 0..60_u32 {
            let id = format!("item-{n}");
            assert_eq!(engine.signal(run.id(), "item", &id, &n).await, Ok(Sent::Delivered), "{n}");
            // A sender that did not hear the answer sends again, one message later.
            if let Some((id, n)) = retried.replace((id, n)) {
                assert_eq!(engine.signal(run.id(), "item", &id, &n).await, Ok(Sent::Duplicate), "{n}");
            }
            if n % 7 == 0 {
                tokio::time::sleep(Duration::from_millis(8)).await;
            }
        }
        assert_eq!(in_time(run.result()).await.unwrap(), (0..60).collect::<Vec<_>>());
        let view = engine.view(run.id()).await.unwrap();
        assert_eq!((view.generation, view.illegal.len()), (20, 0));
    }
}

/// An id counts as a duplicate in the generation that took the message and in the one after.
#[tokio::test]
async fn ids_of_messages_are_remembered_for_one_generation_more() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<rn_collect>((Vec::new(), 20)).id("items").await.unwrap();
        let generation = async |wanted: u32| {
            while engine.view(run.id()).await.unwrap().generation < wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        for n in 0..6_u32 {
            engine.signal(run.id(), "item", &n.to_string(), &n).await.unwrap();
            in_time(generation((n + 1) / 3)).await;
            assert_eq!(engine.signal(run.id(), "item", &n.to_string(), &n).await, Ok(Sent::Duplicate));
        }
        let again = async |n: u32| engine.signal(run.id(), "item", &n.to_string(), &n).await.unwrap();
        assert_eq!(again(5).await, Sent::Duplicate, "taken by the generation before");
        assert_eq!(again(0).await, Sent::Delivered, "taken by an earlier one");
    }
}

/// Pay an invoice, once.
#[step(effect = "tool", irreversible, key = |invoice| invoice)]
async fn pay_invoice(cx: &mut StepCx, invoice: &str) -> Result<String> {
    Calls::note(cx)?;
    Ok("x".repeat(200_000) + invoice)
}

/// Pay the same invoice in each of two generations.
#[workflow]
async fn rn_pay(cx: &mut Cx, round: u32) -> Result<String> {
    match pay_invoice(cx, "42").await {
        Ok(_) if round == 0 => cx.continue_as_new::<rn_pay>(1_u32).await,
        Ok(_) => Ok("paid twice".into()),
        Err(StepError::Taken(holder)) => Ok(format!("taken by {}", holder.command)),
        Err(other) => Err(Failure::permanent(other)),
    }
}

#[tokio::test]
async fn business_keys_stay_taken() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<rn_pay>(0).id("pay").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "taken by 0:pay_invoice");
        assert_eq!(calls.of("pay_invoice"), 1);
        // The row of the first generation keeps its large result.
        let rows = engine.ledger(run.id()).await.unwrap();
        assert_eq!(rows.len(), 1);
        assert!(rows[0].result.as_ref().is_some_and(|result| result.as_str().len() > 200_000));

        let recording = engine.export(run.id()).await.unwrap();
        let other = Place::memory();
        recording.import(&*other.store).await.unwrap();
        let imported = builder(&other.store, &calls).start().await.unwrap();
        imported.verify(run.id()).await.unwrap();
        assert_eq!(imported.view(run.id()).await.unwrap().generation, 1);
        assert_eq!(imported.ledger(run.id()).await.unwrap()[0].status, rows[0].status);
    }
}

/// Reserve a seat.
#[step(effect = "tool", idempotent, on_unknown = "retry", compensate = rn_release)]
async fn rn_reserve(cx: &mut StepCx, seat: String) -> Result<()> {
    let _ = seat;
    Calls::note(cx)
}

/// Give a seat back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn rn_release(cx: &mut StepCx, seat: String, reserved: Option<()>) -> Result<()> {
    let _ = reserved;
    Calls::note(cx)?;
    let name: String = seat.chars().take(3).collect();
    cx.dep::<Calls>()?.add("undone", &format!("{name} by {}", cx.command_id()));
    Ok(())
}

/// Reserve two seats a generation, and end in the third.
#[workflow]
async fn rn_trip(cx: &mut Cx, round: u32, large: usize) -> Result<()> {
    for seat in ["a", "b"] {
        rn_reserve(cx, format!("{round}-{seat}{}", "x".repeat(large))).await?;
    }
    match round {
        1 => Err(Failure::permanent("no hotel")),
        2 => {
            let _never: u32 = cx.signal("never").await?;
            Ok(())
        }
        _ => cx.continue_as_new::<rn_trip>((round + 1, large)).await,
    }
}

const UNDONE: [&str; 4] = [
    "1-b by undo.c1.1:rn_release",
    "1-a by undo.c1.0:rn_release",
    "0-b by undo.1:rn_release",
    "0-a by undo.0:rn_release",
];

#[tokio::test]
async fn what_an_earlier_generation_did_is_undone_when_a_later_one_fails() {
    for large in [0, 100_000] {
        for place in stores() {
            let (place, calls) = (place(), Calls::default());
            let engine = builder(&place.store, &calls).start().await.unwrap();
            let run = engine.start::<rn_trip>((0, large)).id("trip").await.unwrap();
            in_time(run.result()).await.unwrap_err();
            assert_eq!(calls.keys("undone"), UNDONE);
            engine.verify(run.id()).await.unwrap();
        }
    }
}

/// The process dies at every write, while the stack is carried and while it is undone.
#[tokio::test]
async fn a_carried_stack_is_undone_once_whatever_crashes() {
    let counted = Arc::new(CrashStore::new(Arc::new(MemoryStore::new()), None));
    let store: Arc<dyn Store> = counted.clone();
    let engine = builder(&store, &Calls::default()).start().await.unwrap();
    in_time(engine.start::<rn_trip>((0, 0)).id("trip").await.unwrap().end()).await.unwrap();
    for write in 1..=counted.writes() {
        let (place, calls) = (Place::memory(), Calls::default());
        let crashing = Arc::new(CrashStore::new(place.store.clone(), Some(CrashPoint::After(write))));
        let store: Arc<dyn Store> = crashing.clone();
        let engine = builder(&store, &calls).lease(Duration::from_millis(100)).start().await.unwrap();
        let starting = tokio::spawn(async move {
            let _never_answered = engine.start::<rn_trip>((0, 0)).id("trip").await;
            std::future::pending::<()>().await;
        });
        in_time(crashing.crashed()).await;
        starting.abort();
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<rn_trip>((0, 0)).id("trip").await.unwrap();
        assert!(matches!(in_time(run.end()).await.unwrap(), RunEnd::Failed { .. }), "{write}");
        let mut undone = calls.keys("undone");
        undone.dedup();
        assert_eq!(undone, UNDONE, "{write}");
    }
}

#[tokio::test]
async fn a_cancelled_run_undoes_what_its_earlier_generations_did() {
    let (place, calls) = (Place::sqlite(), Calls::default());
    let engine = builder(&place.store, &calls).start().await.unwrap();
    let run = engine.start::<rn_cancelled>(0).id("trip").await.unwrap();
    in_time(until_waiting(&run)).await;
    engine.cancel(run.id(), "enough", "ann").await.unwrap();
    in_time(run.result()).await.unwrap_err();
    assert_eq!(calls.keys("undone"), ["one by undo.0:rn_release"]);
}

/// Reserve, continue, wait.
#[workflow]
async fn rn_cancelled(cx: &mut Cx, round: u32) -> Result<()> {
    if round == 0 {
        rn_reserve(cx, "one".into()).await?;
        return cx.continue_as_new::<rn_cancelled>(1_u32).await;
    }
    let _never: u32 = cx.signal("never").await?;
    Ok(())
}

/// Continue in a branch.
#[workflow]
async fn rn_in_a_branch(cx: &mut Cx) -> Result<()> {
    let (one, other) =
        cx.join((async |cx: &mut Cx| rn_inside(cx).await, async |cx: &mut Cx| rn_inside(cx).await)).await;
    one.and(other)
}

/// Continue as somebody's inline workflow.
#[workflow]
async fn rn_inside(cx: &mut Cx) -> Result<()> {
    cx.continue_as_new::<rn_inside>(()).await
}

/// Call a workflow inline that continues.
#[workflow]
async fn rn_inline(cx: &mut Cx) -> Result<()> {
    rn_inside(cx).await
}

#[tokio::test]
async fn only_the_root_of_a_run_continues_as_new() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let inline = engine.start::<rn_inline>(()).id("inline").await.unwrap();
        let branch = engine.start::<rn_in_a_branch>(()).id("branch").await.unwrap();
        for (end, scope) in [(in_time(inline.end()).await, "0"), (in_time(branch.end()).await, "0.b0.0")] {
            let RunEnd::Stopped(Fault::NotContinued {
                reason: ContinueError::NotInRoot { scope: found },
                ..
            }) = end.unwrap()
            else {
                panic!("not refused in {scope}")
            };
            assert_eq!(found, scope);
        }
        for run in ["inline", "branch"] {
            let events = Journal::read(&place.store, run).await.events;
            assert!(events[1..].iter().all(|event| matches!(event, Event::RunParked(_))), "{events:?}");
            assert!(!place.store.run(&run_id(run)).await.unwrap().unwrap().status.is_terminal());
        }
    }
}

/// What the first version keeps.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    total: u32,
}

/// What the second version keeps.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptAlsoNames {
    total: u32,
    names: Vec<String>,
}

impl From<Kept> for KeptAlsoNames {
    fn from(old: Kept) -> Self {
        Self { total: old.total, names: Vec::new() }
    }
}

/// Count, and hand over to the second version.
#[workflow]
async fn rn_old(cx: &mut Cx, kept: Kept) -> Result<u32> {
    let total = kept.total + count(cx, 1).await?;
    cx.continue_as_new::<rn_new>(Kept { total }).await
}

/// Count with names.
#[workflow]
async fn rn_new(cx: &mut Cx, mut kept: KeptAlsoNames) -> Result<u32> {
    kept.names.push(cx.signal("name").await?);
    Ok(kept.total + u32::try_from(kept.names.len()).unwrap_or(0))
}

/// Wait for a child that continues as new.
#[workflow]
async fn rn_parent(cx: &mut Cx) -> Result<u32> {
    let sum = cx.child::<rn_sum>((3, 0)).await?;
    let _alone = cx.start_child::<rn_collect>((Vec::new(), 1)).id("open").await?;
    cx.continue_as_new::<rn_then>(sum).await
}

/// Wait in a second generation, with a child that is open.
#[workflow]
async fn rn_then(cx: &mut Cx, sum: u32) -> Result<u32> {
    let more: u32 = cx.signal("more").await?;
    Ok(sum + more)
}

#[tokio::test]
async fn the_state_of_another_version_is_converted() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<rn_old>(Kept { total: 4 }).id("v").await.unwrap();
        engine.signal(run.id(), "name", "1", &"ann").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 6);
        assert_eq!(place.store.run(run.id()).await.unwrap().unwrap().workflow, "rn_new");
        assert_eq!(engine.view(run.id()).await.unwrap().workflow, "rn_new");
        // Started again, it is the same run, by the handle of either version.
        let again = engine.start::<rn_old>(Kept { total: 4 }).id("v").await.unwrap();
        assert_eq!(in_time(again.result()).await.unwrap(), 6);
        let later = engine.handle::<rn_new>("v").await.unwrap();
        assert_eq!(in_time(later.result()).await.unwrap(), 6);
        engine.handle::<rn_sum>("v").await.unwrap_err();
        engine.start::<rn_old>(Kept { total: 5 }).id("v").await.unwrap_err();
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn parents_and_children_outlast_generations() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<rn_parent>(()).id("parent").await.unwrap();
        in_time(async {
            while engine.view(run.id()).await.unwrap().generation == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let open = place.store.run(&run_id("open")).await.unwrap().unwrap();
        assert!(!open.status.is_terminal(), "an open child goes along");
        engine.signal(run.id(), "more", "1", &10).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 16);
        let open = engine.handle::<rn_collect>("open").await.unwrap();
        assert!(
            matches!(in_time(open.end()).await.unwrap(), RunEnd::Cancelled { .. }),
            "it ends with the run"
        );
    }
}

/// Work until the journal is long.
#[workflow]
async fn rn_until_long(cx: &mut Cx, mut lengths: Vec<u64>) -> Result<Vec<u64>> {
    loop {
        cx.random().await;
        if cx.should_continue_as_new().await {
            lengths.push(cx.history_len().await);
            if lengths.len() == 2 {
                return Ok(lengths);
            }
            return cx.continue_as_new::<rn_until_long>(lengths).await;
        }
    }
}

/// Work without an end.
#[workflow]
async fn rn_too_long(cx: &mut Cx) -> Result<()> {
    loop {
        cx.random().await;
        if cx.history_len().await >= 90 {
            let _go: u32 = cx.signal("go").await?;
        }
    }
}

#[tokio::test]
async fn a_long_journal_is_seen_coming() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let limits = Limits { history: 100, ..Limits::default() };
        let engine = builder(&place.store, &calls).limits(limits).start().await.unwrap();
        let run = engine.start::<rn_until_long>(Vec::new()).id("long").await.unwrap();
        let lengths = in_time(run.result()).await.unwrap();
        assert!(lengths.iter().all(|length| (80..90).contains(length)), "{lengths:?}");
        engine.verify(run.id()).await.unwrap();
        let view = engine.view(run.id()).await.unwrap();
        assert!(view.illegal.is_empty(), "{:?}", view.illegal);

        let run = engine.start::<rn_too_long>(()).id("too-long").await.unwrap();
        in_time(until_waiting(&run)).await;
        let warning = engine.view(run.id()).await.unwrap().history.warning().unwrap();
        assert!(
            warning.contains("of at most 100 events") && warning.contains("continue_as_new"),
            "{warning}"
        );
        for n in 0..10 {
            engine.signal(run.id(), "go", &n.to_string(), &1).await.unwrap();
        }
        let RunEnd::Stopped(fault) = in_time(run.end()).await.unwrap() else { panic!("it did not stop") };
        assert!(fault.to_string().contains("continue_as_new"), "{fault}");
    }
}

/// One recorded step, one message and one large state a generation.
#[workflow]
async fn rn_year(cx: &mut Cx, left: u32, ballast: String) -> Result<u32> {
    if left == 0 {
        return Ok(0);
    }
    count(cx, left).await?;
    cx.now().await;
    cx.continue_as_new::<rn_year>((left - 1, ballast)).await
}

fn rows(file: &Path) -> BTreeMap<&'static str, i64> {
    let db = Connection::open(file).unwrap();
    let tables = ["journal", "ledger", "inbox", "effects", "snapshots", "progress", "waits", "runs"];
    let count =
        |table| db.query_row(&format!("SELECT count(*) FROM aether_{table}"), (), |row| row.get(0)).unwrap();
    tables.into_iter().map(|table| (table, count(table))).collect()
}

/// A thousand generations leave what one leaves.
#[tokio::test]
async fn a_thousand_generations_leave_no_more_than_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    let mut sizes = Vec::new();
    for generations in [1, 1_000] {
        let file = folder.path().join(format!("{generations}.db"));
        let calls = Calls::default();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&file).unwrap());
        let engine = builder(&store, &calls).start().await.unwrap();
        let ballast = "x".repeat(1_000);
        let run = engine.start::<rn_year>((generations, ballast)).id("year").await.unwrap();
        // Thousands of writes that reach the disk take any time on a busy machine, but there is always progress.
        let (mut result, mut counted) = (std::pin::pin!(run.result()), 0);
        let result = loop {
            match tokio::time::timeout(Duration::from_secs(60), &mut result).await {
                Ok(result) => break result,
                Err(_) => assert!(calls.of("count") > counted, "no progress after {counted} generations"),
            }
            counted = calls.of("count");
        };
        assert_eq!(result.unwrap(), 0);
        assert_eq!(calls.of("count"), generations as usize);
        let since = Instant::now();
        engine.verify(run.id()).await.unwrap();
        let replayed = since.elapsed();
        engine.shutdown().await.unwrap();
        drop(store);
        seen.push(rows(&file));
        let db = Connection::open(&file).unwrap();
        let size: i64 = db
            .query_row("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", (), |row| {
                row.get(0)
            })
            .unwrap();
        sizes.push(size);
        println!("{generations} generations: {size} bytes, replayed in {replayed:?}, rows {:?}", rows(&file));
    }
    assert_eq!(seen[0], seen[1]);
    // Beside the definitions of this program's workflows.
    assert!(sizes[1] < sizes[0] + 100_000, "{sizes:?}");
}

/// The chain of a generation continues that of the one before, which an export keeps.
#[tokio::test]
async fn an_auditor_can_tie_the_generations_together() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<rn_collect>((Vec::new(), 4)).id("items").await.unwrap();
        for n in 0..2 {
            engine.signal(run.id(), "item", &n.to_string(), &n).await.unwrap();
        }
        in_time(until_waiting(&run)).await;
        engine.signal(run.id(), "item", "2", &2).await.unwrap();
        in_time(async {
            while engine.view(run.id()).await.unwrap().generation == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        engine.signal(run.id(), "item", "3", &3).await.unwrap();
        in_time(run.result()).await.unwrap();
        let frames = place.store.load(run.id(), 0).await.unwrap();
        let events = read_verified(&frames).unwrap();
        let Event::RunContinued(continued) = &events[1] else { panic!("{events:?}") };
        assert!(frames[0].position > 5 && continued.previous.len() == 64);
        // One that is altered, and one whose beginning is gone, are no journals.
        let mut altered = frames.clone();
        altered[0].text = altered[0].text.replacen(&continued.previous[..4], "0000", 1);
        read_verified(&altered).unwrap_err();
        read_verified(&frames[1..]).unwrap_err();
    }
}

#[tokio::test]
async fn a_simulation_continues_as_new_whatever_crashes() {
    let sim = Sim::new::<rn_sum>().stub::<count>(Ok);
    let report = sim.run((3, 0)).await;
    assert_eq!(*report.assert_completed(), 6);
    assert!(matches!(report.verified, Some(Ok(_))), "{:?}", report.verified);
    sim.crash_at_every_append((2, 0)).await;
}

/// Where a started process works.
const FOLDER: &str = "AETHER_RENEWAL_FOLDER";

/// Leave a line.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn leave_line(cx: &mut StepCx, round: u32) -> Result<u32> {
    let path = cx.dep::<std::path::PathBuf>()?;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&*path)?;
    writeln!(file, "{}", cx.idempotency_key())?;
    Ok(round)
}

/// Leave a line a generation.
#[workflow]
async fn rn_lines(cx: &mut Cx, left: u32) -> Result<u32> {
    match leave_line(cx, left).await? {
        0 => Ok(0),
        round => cx.continue_as_new::<rn_lines>(round - 1).await,
    }
}

/// Runs where the test below started this program: works until it is killed, or done.
#[tokio::test]
async fn a_process_started_by_another_test_continues_as_new() {
    let Some(folder) = std::env::var_os(FOLDER).map(std::path::PathBuf::from) else { return };
    let poll = Duration::from_millis(10);
    let builder = Engine::builder().sqlite(folder.join("agent.db")).poll_interval(poll);
    let engine = builder.provide(folder.join("lines.txt")).start().await.unwrap();
    let run = engine.start::<rn_lines>(60).id("lines").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 0);
    std::fs::write(folder.join("done"), "").unwrap();
}

/// `SIGKILL`, again and again, at whatever instant: of two processes, one may be killed while it starts, and the other one after
/// it has come further.
#[test]
fn killed_processes_repeat_no_finished_generation() {
    let folder = tempfile::tempdir().unwrap();
    let length = || std::fs::metadata(folder.path().join("lines.txt")).map_or(0, |file| file.len());
    let mut killed = 0;
    for lived in 0.. {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "renewal::a_process_started_by_another_test_continues_as_new"]);
        let output = std::process::Stdio::null;
        let before = length();
        let mut child = command.env(FOLDER, folder.path()).stdout(output()).stderr(output()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(120);
        while lived % 2 == 1 && length() == before && child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "no progress");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(37 * lived % 200));
        killed += usize::from(child.try_wait().unwrap().is_none());
        // Fails where it has ended by itself.
        let _killed = child.kill();
        child.wait().unwrap();
        if folder.path().join("done").exists() {
            break;
        }
    }
    let text = std::fs::read_to_string(folder.path().join("lines.txt")).unwrap();
    let mut keys: Vec<_> = text.lines().collect();
    let calls = keys.len();
    keys.dedup();
    let scope = |n: u32| if n == 0 { String::new() } else { format!("c{n}.") };
    let expected: Vec<_> = (0..=60).map(|n| format!("aether:lines:{}0:leave_line:0", scope(n))).collect();
    assert_eq!(keys, expected);
    assert!(calls - keys.len() <= killed, "{calls} calls, {killed} processes killed");
    // A frame for each process that took over the last generation, and no former journal.
    let frames = rows(&folder.path().join("agent.db"))["journal"];
    assert!((3..20).contains(&frames), "{frames}");
}
