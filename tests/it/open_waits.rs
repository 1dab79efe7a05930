//! What runs wait for: every kind is listed with name, time and place, over all runs without reading a journal, and a
//! reply finds its wait by name.

use std::time::Duration;

use aether::engine::Fit;
use aether::error::TimeLimit;
use aether::id::{CommandId, RunId};
use aether::people::{Approvals, DecideError, Decision, Pending, WaitFilter, WaitRef, Waiting};
use aether::prelude::*;
use aether::recording::{Masking, Recording};
use aether::store::{MemoryStore, WaitPlace};
use rusqlite::Connection;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Refund an order.
#[step(effect = "tool", approval = "required")]
async fn refund(_cx: &mut StepCx, order: u32) -> Result<u32> {
    Ok(order)
}

/// Look, in vain.
#[step(effect = "read", retry(max_retries = 3, delay = "2h", max_delay = "3h"))]
async fn look(_cx: &mut StepCx) -> Result<u32> {
    Err(Failure::retryable("nobody there"))
}

/// Wait for a letter.
#[workflow]
async fn letter(cx: &mut Cx) -> Result<u32> {
    Ok(cx.signal("letter").await?)
}

/// Wait for everything at once.
#[workflow]
async fn everything(cx: &mut Cx) -> Result<u32> {
    let (signal, timer, question, matter, call, child, retry) = cx
        .join((
            async |cx: &mut Cx| cx.signal::<u32>("paid").timeout(DAY).await,
            async |cx: &mut Cx| {
                cx.sleep(DAY).await;
                Ok::<u32, StepError>(1)
            },
            async |cx: &mut Cx| cx.ask::<u32>("How many?").expires(DAY).await,
            async |cx: &mut Cx| cx.approval("discount").details(&7).await.map(|_| 2),
            async |cx: &mut Cx| refund(cx, 17).await,
            async |cx: &mut Cx| cx.child::<letter>(()).await,
            async |cx: &mut Cx| look(cx).await,
        ))
        .await;
    Ok(signal? + timer? + question? + matter? + call? + child? + retry?)
}

async fn memory() -> Engine {
    let poll = Duration::from_millis(10);
    Engine::builder().memory().poll_interval(poll).eviction_grace(poll).start().await.unwrap()
}

async fn on_file(path: &std::path::Path) -> Engine {
    let poll = Duration::from_millis(10);
    Engine::builder().sqlite(path).poll_interval(poll).eviction_grace(poll).start().await.unwrap()
}

/// The waits of a run, when there are as many as expected.
async fn open(engine: &Engine, run: &RunId, count: usize) -> Vec<Pending> {
    let looks = async {
        loop {
            let open = engine.pending(run).await.unwrap();
            if open.len() == count {
                return open;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), looks).await.expect("the run waits")
}

#[tokio::test]
async fn every_wait_is_listed_with_kind_name_time_and_place() {
    let engine = memory().await;
    let run = engine.start::<everything>(()).id("all").await.unwrap();
    let open = open(&engine, run.id(), 7).await;
    let of = |kind: Waiting| -> Vec<&Pending> { open.iter().filter(|wait| wait.waiting == kind).collect() };
    for (kind, name, has_due) in [
        (Waiting::Signal, "paid", true),
        (Waiting::Timer, "sleep", true),
        (Waiting::Question, "How many?", true),
        (Waiting::Child, "letter", false),
        (Waiting::Retry, "look", true),
    ] {
        let found = of(kind);
        assert_eq!(found.len(), 1, "{kind}: {open:#?}");
        assert_eq!((found[0].name.as_str(), found[0].until.is_some()), (name, has_due), "{kind}");
    }
    let mut approvals: Vec<_> = of(Waiting::Approval).iter().map(|wait| wait.name.as_str()).collect();
    approvals.sort_unstable();
    assert_eq!(approvals, ["discount", "refund"]);
    assert!(
        open.iter().all(|wait| wait.site.as_ref().is_some_and(|site| site.contains("open_waits.rs:"))),
        "{open:#?}"
    );
    assert_eq!(of(Waiting::Child)[0].child.as_ref().map(RunId::as_str), Some("all/0.b5.0:letter"));
    let (attempt, error) = of(Waiting::Retry)[0].retry.as_ref().unwrap();
    assert!(*attempt == 1 && error.as_str().contains("nobody there"), "{attempt} {error:?}");

    // Over all runs: the same, and what the child waits for.
    let all = engine.all_pending(WaitFilter::default()).await.unwrap().waits;
    let (own, other): (Vec<_>, Vec<_>) = all.into_iter().partition(|wait| wait.run == *run.id());
    let by_command = |mut waits: Vec<Pending>| {
        waits.sort_by(|a, b| a.command.cmp(&b.command));
        waits
    };
    assert_eq!(by_command(own), by_command(open));
    assert_eq!(
        other.iter().map(|wait| (wait.waiting, wait.name.as_str())).collect::<Vec<_>>(),
        [(Waiting::Signal, "letter")]
    );
    let named = WaitFilter { name: Some("letter".into()), ..WaitFilter::for_reply() };
    assert_eq!(engine.all_pending(named).await.unwrap().waits, other);
    let timers = WaitFilter {
        kinds: vec![Waiting::Timer],
        workflow: Some("everything".into()),
        ..WaitFilter::default()
    };
    assert_eq!(engine.all_pending(timers).await.unwrap().waits.len(), 1);

    run.cancel("enough", "ann").await.unwrap();
    let _cancelled = run.result().await;
    let ended = async {
        while !engine.all_pending(WaitFilter::default()).await.unwrap().waits.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), ended).await.expect("the end of a run closes its waits");
}

#[tokio::test]
async fn the_list_comes_in_pages() {
    let engine = memory().await;
    for number in 0..7 {
        let run = engine.start::<letter>(()).id(format!("r{number}")).await.unwrap();
        open(&engine, run.id(), 1).await;
    }
    let (mut filter, mut runs, mut pages) = (WaitFilter { limit: 3, ..WaitFilter::default() }, Vec::new(), 0);
    loop {
        let page = engine.all_pending(filter.clone()).await.unwrap();
        runs.extend(page.waits.into_iter().map(|wait| wait.run.to_string()));
        pages += 1;
        // As a cursor in a link.
        let Some(next) = page.next else { break };
        filter.after = Some(next.to_string().parse().unwrap());
    }
    assert_eq!((pages, runs), (3, (0..7).map(|number| format!("r{number}")).collect()));
}

/// Decide twice about matters of one name, and about two of them at once.
#[workflow]
async fn matters(cx: &mut Cx) -> Result<Vec<String>> {
    let mut by = vec![cx.approval("pay").details(&1).await?.granted()?];
    by.push(cx.approval("pay").details(&2).await?.granted()?);
    let (one, two, seats) = cx
        .join((
            async |cx: &mut Cx| cx.approval("both").await,
            async |cx: &mut Cx| cx.approval("both").await,
            async |cx: &mut Cx| cx.ask::<u32>("How many are you, please?").named("seats").await,
        ))
        .await;
    by.extend([one?.granted()?, two?.granted()?, seats?.to_string()]);
    Ok(by)
}

#[tokio::test]
async fn a_reply_finds_its_wait_by_name() {
    let engine = memory().await;
    let run = engine.start::<matters>(()).id("m").await.unwrap();
    let id = run.id().clone();
    let first = open(&engine, &id, 1).await.remove(0);
    let unknown = engine.approve(&id, "payment", "ann").await.unwrap_err();
    let DecideError::UnknownWait { name, wanted, open: listed, .. } = &unknown else { panic!("{unknown}") };
    assert_eq!((name.as_str(), *wanted, listed.len()), ("payment", Waiting::Approval, 1));
    assert_eq!((listed[0].name.as_str(), &listed[0].command), ("pay", &first.command));
    assert!(unknown.to_string().contains("open are: approval `pay`"), "{unknown}");
    assert!(matches!(engine.answer(&id, "pay", &1, "ann").await, Err(DecideError::NotWaiting { .. })));
    engine.approve(&id, "pay", "ann").await.unwrap();

    // The form was loaded for the first; by now the second is open, under the same name.
    let second = async {
        loop {
            match engine.pending(&id).await.unwrap().pop() {
                Some(second) if second.command != first.command => return second,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let second = tokio::time::timeout(Duration::from_secs(120), second).await.unwrap();
    let stale = WaitRef::from("pay").shown(first.shown());
    assert_eq!(
        engine.approve(&id, stale, "ann").await,
        Err(DecideError::Changed { run: id.clone(), command: second.command.clone() })
    );
    assert!(matches!(engine.approve(&id, &first, "ann").await, Err(DecideError::AlreadyDecided { .. })));
    engine.approve(&id, WaitRef::from("pay").shown(second.shown()), "bob").await.unwrap();
    assert!(matches!(engine.approve(&id, &second, "eve").await, Err(DecideError::AlreadyDecided { .. })));

    let both = open(&engine, &id, 3).await;
    let ambiguous = engine.approve(&id, "both", "ann").await.unwrap_err();
    let DecideError::AmbiguousWait { open: listed, .. } = &ambiguous else { panic!("{ambiguous}") };
    assert_eq!(listed.len(), 2);
    // A form that holds the name and what it showed is about one of the two.
    let seen = both.iter().find(|wait| wait.command == listed[0].command).unwrap();
    let stale = WaitRef::from("both").shown(first.shown());
    assert!(matches!(engine.approve(&id, stale, "ann").await, Err(DecideError::Changed { .. })));
    engine.approve(&id, WaitRef::from("both").shown(seen.shown()), "cyd").await.unwrap();
    let text: String = listed[1].command.to_string();
    engine.approve(&id, text.as_str(), "dan").await.unwrap();
    assert!(both.iter().any(|wait| wait.name == "seats"));
    engine.answer(&id, "seats", &4, "ann").await.unwrap();
    let again = engine.answer(&id, "seats", &5, "ann").await.unwrap_err();
    assert!(matches!(again, DecideError::AlreadyDecided { .. } | DecideError::RunEnded { .. }), "{again}");
    assert_eq!(run.result().await.unwrap(), ["ann", "bob", "cyd", "dan", "4"]);
}

/// Say how each wait ended that has a limit.
#[workflow]
async fn limited(cx: &mut Cx, unit: u64) -> Result<Vec<String>> {
    let limit = Duration::from_millis(unit);
    let said = |error: StepError| match error {
        StepError::TimedOut(why) => match why.time_limit() {
            Some(TimeLimit { waiting: Some(waiting), name, limit_ms }) => {
                format!("{} {name} {limit_ms}", waiting.as_str())
            }
            other => format!("timed out: {other:?}"),
        },
        StepError::Cancelled(_) => "cancelled".to_owned(),
        other => format!("other: {other}"),
    };
    let signal = cx.signal::<u32>("paid").timeout(limit).await.map_err(said);
    let question = cx.ask::<u32>("How many?").expires(limit).await.map_err(said);
    let decision = cx.approval("discount").expires(limit).await?;
    let expired = matches!(&decision, Decision::Expired(_));
    let matter = decision.granted().map_err(said);
    Ok(vec![signal.unwrap_err(), question.unwrap_err(), matter.unwrap_err(), expired.to_string()])
}

#[tokio::test]
async fn a_wait_that_reaches_its_limit_has_timed_out_and_older_journals_replay_as_they_were() {
    let engine = memory().await;
    let run = engine.start::<limited>(20).id("l").await.unwrap();
    assert_eq!(
        run.result().await.unwrap(),
        ["signal paid 20", "question How many? 20", "approval discount 20", "true"]
    );
    engine.verify(run.id()).await.unwrap();

    // As an older build recorded it: without the limit, and the waits were cancelled.
    let recorded = engine.export_with(run.id(), &Masking::off()).await.unwrap().to_text();
    let older = recorded.replace(",\"limit_ms\":20", "");
    let older = ["signal paid 20", "question How many? 20", "approval discount 20"]
        .iter()
        .fold(older, |text, said| text.replace(&format!("\"{said}\""), "\"cancelled\""));
    assert_eq!(older.matches("\"cancelled\"").count(), 3, "{older}");
    assert!(!older.contains("limit_ms"), "{older}");
    let second = Engine::builder().store(std::sync::Arc::new(MemoryStore::new())).start().await.unwrap();
    second.import(&Recording::parse(&older).unwrap()).await.unwrap();
    let verified = second.verify(run.id()).await.unwrap();
    assert_eq!((verified.matched, verified.fit), (3, Fit::ToItsEnd));
}

/// Say under which limit the approval of a call expired.
#[workflow]
async fn refunding(cx: &mut Cx) -> Result<Option<u64>> {
    let expired = refund(cx, 17).await.unwrap_err();
    Ok(expired.time_limit().map(|limit| limit.limit_ms))
}

#[tokio::test]
async fn the_limit_that_passed_is_told_and_not_todays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let limited = |limit| Engine::builder().sqlite(&path).approvals(Approvals::new().expires(limit)).start();
    let engine = limited(Duration::from_secs(3)).await.unwrap();
    let run = engine.start::<refunding>(()).id("r").await.unwrap();
    open(&engine, run.id(), 1).await;
    engine.shutdown().await.unwrap();
    let engine = limited(DAY).await.unwrap();
    let run = engine.handle::<refunding>("r").await.unwrap();
    assert_eq!(run.result().await.unwrap(), Some(3_000));
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_healthy_run_that_waits_fits_so_far() {
    let engine = memory().await;
    let run = engine.start::<matters>(()).id("m").await.unwrap();
    let first = open(&engine, run.id(), 1).await.remove(0);
    let verified = engine.verify(run.id()).await.unwrap();
    let Fit::SoFar { at: Some(at) } = &verified.fit else { panic!("{verified:?}") };
    assert_eq!((&at.command, verified.recorded), (&first.command, 0));
    assert!(verified.to_string().contains("the run stands at `0:approval`"), "{verified}");
    engine.approve(run.id(), &first, "ann").await.unwrap();
    let moved = async {
        while engine.verify(run.id()).await.unwrap().matched == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), moved).await.unwrap();
}

#[tokio::test]
async fn nothing_is_missing_after_an_update_from_a_file_without_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let engine = on_file(&path).await;
    let all = engine.start::<everything>(()).id("all").await.unwrap();
    open(&engine, all.id(), 7).await;
    let waits = engine.start::<letter>(()).id("early").await.unwrap();
    open(&engine, waits.id(), 1).await;
    // With that of the child, which may not wait yet.
    let listed = async {
        loop {
            let before = engine.all_pending(WaitFilter::default()).await.unwrap().waits;
            if before.len() == 9 {
                return before;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let before = tokio::time::timeout(Duration::from_secs(120), listed).await.expect("nine waits");
    engine.shutdown().await.unwrap();

    // The file as the version before left it.
    let db = Connection::open(&path).unwrap();
    db.execute_batch(
        "DROP TABLE aether_blob_owners; DROP TABLE aether_waits; DROP TABLE aether_streams; DROP TABLE aether_unlisted; DROP TABLE aether_schedules; DROP TABLE aether_counters;
         DROP TABLE aether_worker_codes; DROP TABLE aether_definitions; ALTER TABLE aether_workers DROP COLUMN serves;
         DROP TABLE aether_lanes; DROP TABLE aether_queues; DROP TABLE aether_limits; DROP TABLE aether_starts;
         DROP TABLE aether_keyed_starts; DROP INDEX aether_runs_queue_due; DROP INDEX aether_runs_lapses;
         DROP INDEX aether_runs_ready; DROP INDEX aether_runs_slots; DROP INDEX aether_runs_queue_open;
         DROP INDEX aether_runs_queue_status; DROP INDEX aether_runs_due;
         ALTER TABLE aether_runs DROP COLUMN terms; ALTER TABLE aether_runs DROP COLUMN queue;
         ALTER TABLE aether_runs DROP COLUMN queue_key; ALTER TABLE aether_runs DROP COLUMN rank;
         ALTER TABLE aether_runs DROP COLUMN begun; ALTER TABLE aether_runs DROP COLUMN first_taken_at;
         ALTER TABLE aether_runs DROP COLUMN ready; ALTER TABLE aether_runs DROP COLUMN lapses_at;
         ALTER TABLE aether_runs DROP COLUMN slot; ALTER TABLE aether_runs DROP COLUMN traceparent;
         DROP TABLE aether_reservations; DROP INDEX aether_ledger_business;
         CREATE UNIQUE INDEX aether_ledger_business ON aether_ledger(business_key) WHERE business_key IS NOT NULL;
         CREATE TABLE aether_tombstones(
             business_key TEXT PRIMARY KEY, key TEXT NOT NULL, run TEXT NOT NULL, command TEXT NOT NULL,
             invocation TEXT NOT NULL, tool TEXT NOT NULL, digest TEXT NOT NULL, status TEXT NOT NULL,
             committed INTEGER NOT NULL, epoch INTEGER NOT NULL, started_at INTEGER NOT NULL, finished_at INTEGER
         ) STRICT, WITHOUT ROWID;
         DROP INDEX aether_runs_code; DROP INDEX aether_runs_parked;
         ALTER TABLE aether_runs DROP COLUMN code; ALTER TABLE aether_runs DROP COLUMN parked;
         CREATE INDEX aether_runs_due ON aether_runs(wake_at) WHERE owner IS NULL AND wake_at IS NOT NULL;
         UPDATE aether_schema SET version = 7",
    )
    .unwrap();
    drop(db);
    let engine = on_file(&path).await;
    let by_command = |mut waits: Vec<Pending>| {
        waits.sort_by(|a, b| (&a.run, &a.command).cmp(&(&b.run, &b.command)));
        waits
    };
    let after = engine.all_pending(WaitFilter::default()).await.unwrap().waits;
    assert_eq!(by_command(after), by_command(before));
    // What changes from here on changes the list, too.
    engine.signal(waits.id(), "letter", "1", &3).await.unwrap();
    let handle = engine.handle::<letter>("early").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 3);
    assert_eq!(engine.all_pending(WaitFilter::default()).await.unwrap().waits.len(), 8);
    let left: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM aether_unlisted", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0, "the journals are read once");
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_damaged_run_of_an_older_file_is_read_once_and_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let engine = on_file(&path).await;
    for id in ["damaged", "sound"] {
        let run = engine.start::<letter>(()).id(id).await.unwrap();
        open(&engine, run.id(), 1).await;
    }
    engine.shutdown().await.unwrap();
    let db = Connection::open(&path).unwrap();
    db.execute_batch(
        "DELETE FROM aether_waits; INSERT INTO aether_unlisted SELECT no FROM aether_runs;
         UPDATE aether_journal SET events = '[{}' WHERE run_no = (SELECT no FROM aether_runs WHERE id = 'damaged')",
    )
    .unwrap();
    let engine = on_file(&path).await;
    for _ in 0..2 {
        let waits = engine.all_pending(WaitFilter::default()).await.unwrap().waits;
        assert_eq!(waits.iter().map(|wait| wait.run.as_str()).collect::<Vec<_>>(), ["sound"]);
        let left: i64 = db.query_row("SELECT count(*) FROM aether_unlisted", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "its journal is not read again");
    }
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_place_is_never_used_again_whatever_the_program_does_to_its_own_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let mut cursor = None;
    for (number, sql) in [
        "CREATE TABLE mine(x INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO mine VALUES(7)",
        "DELETE FROM sqlite_sequence",
        "INSERT OR REPLACE INTO sqlite_sequence VALUES('aether_waits', 9223372036854775807)",
        "UPDATE sqlite_sequence SET seq = 9223372036854775807",
    ]
    .into_iter()
    .enumerate()
    {
        let prepare = move |db: &mut Connection| db.execute_batch(sql);
        let poll = Duration::from_millis(10);
        let builder = Engine::builder().sqlite(&path).prepare(prepare).poll_interval(poll);
        let engine = builder.start().await.unwrap();
        let run = engine.start::<letter>(()).id(format!("r{number}")).await.unwrap();
        open(&engine, run.id(), 1).await;
        let filter = WaitFilter { after: cursor, limit: 1, ..WaitFilter::default() };
        let page = engine.all_pending(filter).await.unwrap();
        assert_eq!(page.waits.iter().map(|wait| &wait.run).collect::<Vec<_>>(), [run.id()], "{sql}");
        // The only one: no row is left that the next number could be counted from.
        engine.signal(run.id(), "letter", "1", &3).await.unwrap();
        run.result().await.unwrap();
        engine.shutdown().await.unwrap();
        let last = "SELECT last FROM aether_counters WHERE name = 'waits'";
        let last: i64 = Connection::open(&path).unwrap().query_row(last, [], |row| row.get(0)).unwrap();
        assert_eq!(page.waits.len() + number, usize::try_from(last).unwrap(), "{sql}");
        cursor = Some(WaitPlace::new(last.unsigned_abs()));
    }
}

#[test]
fn a_command_id_is_read_from_its_text() {
    for id in ["0:ask", "3.b0.1:search", "0.b5.0:llm.chat", "2.n3:a:b"] {
        assert_eq!(id.parse::<CommandId>().unwrap().as_str(), id);
    }
    for text in ["", "search", ":search", "3:", "3..1:x", "3 b:x"] {
        let error = text.parse::<CommandId>().unwrap_err().to_string();
        assert!(error.contains("expected a place, a colon and a name"), "{error}");
    }
}

/// Take a while, whatever is asked.
#[step(effect = "tool")]
async fn dawdle(_cx: &mut StepCx) -> Result<u32> {
    tokio::time::sleep(Duration::from_secs(600)).await;
    Ok(1)
}

/// Take a while.
#[workflow]
async fn slow(cx: &mut Cx) -> Result<u32> {
    Ok(dawdle(cx).await?)
}

#[tokio::test]
async fn a_run_in_its_grace_says_that_it_is_ending() {
    let engine = Engine::builder().memory().cancel_grace(Duration::from_secs(3)).start().await.unwrap();
    let run = engine.start::<slow>(()).id("slow").await.unwrap();
    while engine.view(run.id()).await.unwrap().steps.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(engine.view(run.id()).await.unwrap().ending, None);
    run.cancel("withdrawn", "ann").await.unwrap();
    let view = engine.view(run.id()).await.unwrap();
    let ending = view.ending.clone().expect("in its grace");
    assert_eq!((ending.reason.as_str(), ending.actor.as_str(), ending.at_once), ("withdrawn", "ann", false));
    assert_eq!(view.for_people().ending_since, Some(ending.since));
    let _cancelled = run.result().await;
    assert_eq!(engine.view(run.id()).await.unwrap().ending, None);
}
