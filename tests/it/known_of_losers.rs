//! Branches that lose a race while what they did is on its way to the store: it counts, and is undone with the rest.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aether::engine::RunEnd;
use aether::prelude::*;
use aether::sqlite::rusqlite::Connection;
use aether::store::{Store, StoreError};
use aether_testing::failing::FailingStore;
use tokio::sync::Notify;

use crate::seeds::kit::{Calls, Journal, Place, builder, in_time, run_id};

/// For so long the file is locked: much longer than the winner takes.
const LOCKED: Duration = Duration::from_millis(600);
/// For so long the winner waits, so that what the loser did is queued.
const AHEAD: Duration = Duration::from_millis(60);

/// Says that the file is locked.
#[derive(Clone, Default)]
struct Locked(Arc<Notify>);

/// Locks the file of the store for a while, as another process would.
fn lock(cx: &StepCx) -> Result<()> {
    let db = Connection::open(&*cx.dep::<PathBuf>()?)?;
    db.busy_timeout(Duration::from_secs(10))?;
    db.execute_batch("BEGIN IMMEDIATE")?;
    cx.dep::<Locked>()?.0.notify_one();
    std::thread::spawn(move || {
        std::thread::sleep(LOCKED);
        db.execute_batch("COMMIT").unwrap();
    });
    Ok(())
}

/// Lock the file.
#[step(effect = "read")]
async fn lock_the_file(cx: &mut StepCx) -> Result<()> {
    lock(cx)
}

/// Wait until the file is locked, and a little longer.
#[step(effect = "read")]
async fn wait_for_the_lock(cx: &mut StepCx) -> Result<()> {
    cx.dep::<Locked>()?.0.notified().await;
    tokio::time::sleep(AHEAD).await;
    Ok(())
}

/// Book a seat.
#[step(effect = "transaction", compensate = unbook)]
async fn book(cx: &mut StepCx, seat: u32) -> Result<u32> {
    Calls::note(cx)?;
    cx.sql(|db| db.execute("INSERT INTO seats(seat) VALUES(?1)", [seat]))?;
    Ok(seat)
}

/// Give the seat back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn unbook(cx: &mut StepCx, seat: u32, booked: Option<u32>) -> Result<()> {
    assert_eq!(booked, Some(seat));
    Calls::note(cx)
}

/// Book a seat, and do not wait for it.
#[workflow]
async fn book_in_a_hurry(cx: &mut Cx) -> Result<()> {
    lock_the_file(cx).await?;
    let booked = cx
        .race((
            async |cx: &mut Cx| book(cx, 7).await.is_ok(),
            async |cx: &mut Cx| wait_for_the_lock(cx).await.is_err(),
        ))
        .await;
    Err(Failure::permanent(if booked { "it was booked" } else { "too late" }))
}

/// Fetch something large; the file is locked when it is there.
#[step(effect = "tool", compensate = bring_back)]
async fn fetch(cx: &mut StepCx) -> Result<String> {
    Calls::note(cx)?;
    lock(cx)?;
    Ok("x".repeat(100_000))
}

/// Bring it back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn bring_back(cx: &mut StepCx, fetched: Option<String>) -> Result<()> {
    assert_eq!(fetched.map(|fetched| fetched.len()), Some(100_000));
    Calls::note(cx)
}

/// Fetch something, and do not wait for it.
#[workflow]
async fn fetch_in_a_hurry(cx: &mut Cx) -> Result<()> {
    let fetched = cx
        .race((
            async |cx: &mut Cx| fetch(cx).await.is_ok(),
            async |cx: &mut Cx| wait_for_the_lock(cx).await.is_err(),
        ))
        .await;
    Err(Failure::permanent(if fetched { "it was fetched" } else { "too late" }))
}

/// Take longer than the race.
#[step(effect = "tool")]
async fn take_longer(cx: &mut StepCx) -> Result<()> {
    Calls::note(cx)?;
    tokio::time::sleep(LOCKED * 4).await;
    Ok(())
}

/// Fetch something in a hurry, beside something else.
#[workflow]
async fn fetch_beside_another(cx: &mut Cx) -> Result<()> {
    let (fetched, longer) = cx
        .join((async |cx: &mut Cx| fetch_in_a_hurry(cx).await, async |cx: &mut Cx| take_longer(cx).await))
        .await;
    longer?;
    fetched
}

/// An engine on a file with seats.
async fn engine(place: &Place, calls: &Calls) -> Engine {
    engine_on(&place.store, place, calls).await
}

async fn engine_on(store: &Arc<dyn Store>, place: &Place, calls: &Calls) -> Engine {
    seats(place).execute_batch("CREATE TABLE seats(seat INTEGER)").unwrap();
    let builder = builder(store, calls).provide(place.file()).provide(Locked::default());
    builder.start().await.unwrap()
}

fn seats(place: &Place) -> Connection {
    let db = Connection::open(place.file()).unwrap();
    db.busy_timeout(Duration::from_secs(10)).unwrap();
    db
}

/// Waits for the end of a run whose race was lost.
async fn too_late(end: impl Future<Output = RunEnd>) {
    match in_time(end).await {
        RunEnd::Failed { message, .. } => assert!(message.contains("too late"), "{message}"),
        end => panic!("it did not fail: {end:?}"),
    }
}

#[tokio::test]
async fn a_transaction_of_a_branch_that_lost_is_undone() {
    let (place, calls) = (Place::sqlite(), Calls::default());
    let engine = engine(&place, &calls).await;
    let run = engine.start::<book_in_a_hurry>(()).id("trip").await.unwrap();
    too_late(async { run.end().await.unwrap() }).await;
    let booked: u32 = seats(&place).query_row("SELECT count(*) FROM seats", [], |row| row.get(0)).unwrap();
    assert_eq!((booked, calls.of("book"), calls.of("unbook")), (1, 1, 1));
    let journal = Journal::read(&place.store, "trip").await;
    let committed = ["compensation_recorded", "command_committed", "node_finished", "step_committed"];
    assert_eq!(journal.kinds_of("book")[2..6], committed);
    let at = |kind: &str| journal.kinds().iter().position(|found| found == kind).unwrap();
    assert!(at("compensation_recorded") < at("race_decided") && at("race_decided") < at("run_unwinding"));
    assert_eq!(engine.view(&run_id("trip")).await.unwrap().uncompensated, []);
    engine.verify(&run_id("trip")).await.unwrap();
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_large_outcome_of_a_branch_that_lost_is_undone() {
    let (place, calls) = (Place::sqlite(), Calls::default());
    let engine = engine(&place, &calls).await;
    let run = engine.start::<fetch_in_a_hurry>(()).id("errand").await.unwrap();
    too_late(async { run.end().await.unwrap() }).await;
    assert_eq!((calls.of("fetch"), calls.of("bring_back")), (1, 1));
    let journal = Journal::read(&place.store, "errand").await;
    assert_eq!(journal.count("invocation_abandoned", "fetch"), 0);
    let view = engine.view(&run_id("errand")).await.unwrap();
    assert!(view.in_doubt().is_empty() && view.uncompensated.is_empty(), "{view:?}");
    assert!(engine.ledger(&run_id("errand")).await.unwrap().iter().all(|row| row.committed));
    engine.verify(&run_id("errand")).await.unwrap();
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_store_that_is_away_while_a_race_is_decided_cuts_off_no_other_branch() {
    let (place, calls) = (Place::sqlite(), Calls::default());
    let store = Arc::new(FailingStore::new(Arc::clone(&place.store)));
    let away = StoreError::Unavailable { store: "test".into(), reason: "a failover".into() };
    store.next_blobs_fail(3, away);
    let store: Arc<dyn Store> = store;
    let engine = engine_on(&store, &place, &calls).await;
    let run = engine.start::<fetch_beside_another>(()).id("both").await.unwrap();
    too_late(async { run.end().await.unwrap() }).await;
    assert_eq!((calls.of("fetch"), calls.of("bring_back"), calls.of("take_longer")), (1, 1, 1));
    let view = engine.view(&run_id("both")).await.unwrap();
    assert!(view.in_doubt().is_empty(), "{view:?}");
    engine.verify(&run_id("both")).await.unwrap();
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_damaged_outcome_of_a_branch_that_lost_counts_when_it_is_restored() {
    let (place, calls) = (Place::sqlite(), Calls::default());
    let store = Arc::new(FailingStore::new(Arc::clone(&place.store)));
    let reason = "it is altered".into();
    store.next_blobs_fail(1, StoreError::Corrupt { store: "test".into(), reason });
    let store: Arc<dyn Store> = store;
    let first = engine_on(&store, &place, &calls).await;
    let run = first.start::<fetch_in_a_hurry>(()).id("restored").await.unwrap();
    let stopped = in_time(run.end()).await.unwrap();
    assert!(matches!(stopped, RunEnd::Stopped(_)), "{stopped:?}");
    first.shutdown().await.unwrap();
    let builder = builder(&place.store, &calls).provide(place.file()).provide(Locked::default());
    let engine = builder.start().await.unwrap();
    let run = engine.handle::<fetch_in_a_hurry>("restored").await.unwrap();
    too_late(async { run.end().await.unwrap() }).await;
    assert_eq!((calls.of("fetch"), calls.of("bring_back")), (1, 1));
    let view = engine.view(&run_id("restored")).await.unwrap();
    assert!(view.in_doubt().is_empty() && view.uncompensated.is_empty(), "{view:?}");
    engine.shutdown().await.unwrap();
}
