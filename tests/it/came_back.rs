//! Bodies that have come back, while what they sent to a stream is not written yet: their outcome is known, and it counts,
//! however the call ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aether::engine::RunEnd;
use aether::prelude::*;
use aether::sqlite::rusqlite::Connection;
use tokio::sync::Notify;

use crate::seeds::kit::{Calls, Place, builder, in_time, run_id};

/// For so long the file is locked.
const LOCKED: Duration = Duration::from_millis(900);
/// Of what does not wait for it.
const SHORT: Duration = Duration::from_millis(100);

/// Says that the file is locked.
#[derive(Clone, Default)]
struct LockedNow(Arc<Notify>);

/// Says something, locks the file of the store for a while, as another process would, and is done.
fn say_and_lock(cx: &StepCx) -> Result<()> {
    Calls::note(cx)?;
    let db = Connection::open(&*cx.dep::<PathBuf>()?)?;
    db.busy_timeout(Duration::from_secs(10))?;
    db.execute_batch("BEGIN IMMEDIATE")?;
    cx.stream("progress").send("done");
    cx.dep::<LockedNow>()?.0.notify_one();
    std::thread::spawn(move || {
        std::thread::sleep(LOCKED);
        db.execute_batch("COMMIT").unwrap();
    });
    Ok(())
}

/// Rent a boat.
#[step(effect = "tool", compensate = return_boat)]
async fn rent_boat(cx: &mut StepCx, boat: u32) -> Result<u32> {
    say_and_lock(cx)?;
    Ok(boat)
}

/// Rent a boat, once the run is to end.
#[step(effect = "tool", compensate = return_boat)]
async fn rent_boat_late(cx: &mut StepCx, boat: u32) -> Result<u32> {
    cx.dep::<LockedNow>()?.0.notify_one();
    cx.cancelled().await;
    say_and_lock(cx)?;
    Ok(boat)
}

/// Find no boat the first time.
#[step(effect = "tool", idempotent, retry(max_retries = 1))]
async fn find_boat(cx: &mut StepCx, boat: u32) -> Result<u32> {
    if cx.attempt() > 0 {
        Calls::note(cx)?;
        return Ok(boat);
    }
    say_and_lock(cx)?;
    Err(Failure::retryable("no boat"))
}

/// Return the boat.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn return_boat(cx: &mut StepCx, boat: u32, rented: Option<u32>) -> Result<()> {
    assert_eq!(rented, Some(boat));
    Calls::note(cx)
}

/// Wait until the file is locked, and a little longer.
#[step(effect = "read")]
async fn watch_the_lock(cx: &mut StepCx) -> Result<()> {
    cx.dep::<LockedNow>()?.0.notified().await;
    tokio::time::sleep(SHORT).await;
    Ok(())
}

#[workflow]
async fn sail_or_walk(cx: &mut Cx) -> Result<()> {
    let sails = cx
        .race((
            async |cx: &mut Cx| rent_boat(cx, 7).await.is_ok(),
            async |cx: &mut Cx| watch_the_lock(cx).await.is_err(),
        ))
        .await;
    Err(Failure::permanent(if sails { "it was rented" } else { "too late" }))
}

#[workflow]
async fn sail_late(cx: &mut Cx) -> Result<u32> {
    Ok(rent_boat_late(cx, 7).await?)
}

#[workflow]
async fn sail_away(cx: &mut Cx) -> Result<u32> {
    Ok(rent_boat(cx, 7).await?)
}

#[workflow]
async fn look_for_boats(cx: &mut Cx) -> Result<u32> {
    Ok(find_boat(cx, 7).await?)
}

async fn engine(place: &Place, calls: &Calls, locked: &LockedNow) -> Engine {
    let builder = builder(&place.again(), calls).provide(place.file()).provide(locked.clone());
    builder.cancel_grace(SHORT).start().await.unwrap()
}

/// Nothing of the run is in doubt, and the boat that was rented was returned.
async fn assert_returned(engine: &Engine, calls: &Calls, run: &str, rented: &str) {
    let view = engine.view(&run_id(run)).await.unwrap();
    assert!(view.in_doubt().is_empty() && view.uncompensated.is_empty(), "{view:?}");
    assert!(engine.ledger(&run_id(run)).await.unwrap().iter().all(|row| row.committed));
    assert_eq!((calls.of(rented), calls.of("return_boat")), (1, 1));
    engine.verify(&run_id(run)).await.unwrap();
}

#[tokio::test]
async fn an_outcome_of_a_branch_that_lost_while_its_stream_was_written_is_undone() {
    let (place, calls, locked) = (Place::sqlite(), Calls::default(), LockedNow::default());
    let engine = engine(&place, &calls, &locked).await;
    let run = engine.start::<sail_or_walk>(()).id("lost").await.unwrap();
    match in_time(run.end()).await.unwrap() {
        RunEnd::Failed { message, .. } => assert!(message.contains("too late"), "{message}"),
        end => panic!("it did not fail: {end:?}"),
    }
    assert_returned(&engine, &calls, "lost", "rent_boat").await;
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_outcome_that_came_before_the_grace_of_a_cancellation_was_over_is_undone() {
    let (place, calls, locked) = (Place::sqlite(), Calls::default(), LockedNow::default());
    let engine = engine(&place, &calls, &locked).await;
    let run = engine.start::<sail_late>(()).id("cancelled").await.unwrap();
    in_time(locked.0.notified()).await;
    run.cancel("a storm", "ann").await.unwrap();
    assert!(matches!(in_time(run.end()).await.unwrap(), RunEnd::Cancelled { .. }));
    assert_returned(&engine, &calls, "cancelled", "rent_boat_late").await;
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_outcome_that_came_before_the_patience_of_a_shutdown_was_over_is_recorded() {
    let (place, calls, locked) = (Place::sqlite(), Calls::default(), LockedNow::default());
    let first = engine(&place, &calls, &locked).await;
    first.start::<sail_away>(()).id("value").await.unwrap();
    in_time(locked.0.notified()).await;
    first.shutdown_within(SHORT).await.unwrap();
    let second = engine(&place, &calls, &locked).await;
    let run = second.handle::<sail_away>("value").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 7);
    assert_eq!(calls.of("rent_boat"), 1);
    second.verify(&run_id("value")).await.unwrap();

    // A definite failure is one: the next attempt is made, under a key of its own.
    second.start::<look_for_boats>(()).id("error").await.unwrap();
    in_time(locked.0.notified()).await;
    second.shutdown_within(SHORT).await.unwrap();
    let third = engine(&place, &calls, &locked).await;
    let run = third.handle::<look_for_boats>("error").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 7);
    let keys = calls.keys("find_boat");
    assert!(keys.len() == 2 && keys[0] != keys[1], "{keys:?}");
    third.verify(&run_id("error")).await.unwrap();
    third.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_race_that_is_won_beside_a_shutdown_is_decided_with_what_its_loser_did() {
    // Before the race is won, while it is decided, and at both ends of that.
    for (pause, patience) in [(0, 0), (0, 200), (60, 80), (150, 0), (150, 100), (400, 0), (850, 100)] {
        let (place, calls, locked) = (Place::sqlite(), Calls::default(), LockedNow::default());
        let first = engine(&place, &calls, &locked).await;
        first.start::<sail_or_walk>(()).id("won").await.unwrap();
        let rented = async {
            while calls.of("rent_boat") == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        in_time(rented).await;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        first.shutdown_within(Duration::from_millis(patience)).await.unwrap();
        locked.0.notify_one();
        let second = engine(&place, &calls, &locked).await;
        let run = second.handle::<sail_or_walk>("won").await.unwrap();
        let end = in_time(run.end()).await.unwrap();
        assert!(matches!(end, RunEnd::Failed { .. }), "{pause} {patience}: {end:?}");
        assert_returned(&second, &calls, "won", "rent_boat").await;
        second.shutdown().await.unwrap();
    }
}
