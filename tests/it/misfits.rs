//! Runs whose code cannot go on in one branch, while others are in the middle of calls: these come to their ends first, and what
//! they did is known to whoever goes on.

use std::path::PathBuf;
use std::time::Duration;

use aether::engine::RunEnd;
use aether::error::{Fault, RunError};
use aether::prelude::*;
use aether::sqlite::rusqlite::Connection;

use crate::seeds::kit::{Calls, Place, builder, in_time, run_id};

const MS: Duration = Duration::from_millis(1);

/// What the first program does not provide.
#[derive(Clone, Default)]
struct Plane;

/// For so long the file is locked.
#[derive(Clone, Copy)]
struct LockFor(Duration);

/// Locks the file of the store for a while, as another process would.
fn lock(cx: &StepCx) -> Result<()> {
    let (file, time) = (cx.dep::<PathBuf>()?, cx.dep::<LockFor>()?.0);
    let db = Connection::open(&*file)?;
    db.busy_timeout(Duration::from_secs(10))?;
    db.execute_batch("BEGIN IMMEDIATE")?;
    Calls::note(cx)?;
    std::thread::spawn(move || {
        std::thread::sleep(time);
        db.execute_batch("COMMIT").unwrap();
    });
    Ok(())
}

/// Lacks a plane, after a while.
#[step(effect = "read", retry(max_retries = 0))]
async fn take_off(cx: &mut StepCx, after: u32) -> Result<()> {
    tokio::time::sleep(after * MS).await;
    cx.dep::<Plane>()?;
    Ok(())
}

/// Changes the world.
#[step(effect = "tool")]
async fn load_cargo(cx: &mut StepCx, lasts: u32) -> Result<u32> {
    Calls::note(cx)?;
    tokio::time::sleep(lasts * MS).await;
    Ok(lasts)
}

/// Finds the store's file locked from now on.
#[step(effect = "read")]
async fn lock_file(cx: &mut StepCx) -> Result<()> {
    lock(cx)
}

#[workflow]
async fn load_and_take_off(cx: &mut Cx, after: u32, lasts: u32) -> Result<u32> {
    let (flies, loaded) = cx
        .join((
            async move |cx: &mut Cx| take_off(cx, after).await,
            async move |cx: &mut Cx| load_cargo(cx, lasts).await,
        ))
        .await;
    flies?;
    Ok(loaded?)
}

/// The branch with what is lacking may lose.
#[workflow]
async fn load_or_take_off(cx: &mut Cx, after: u32, lasts: u32) -> Result<u32> {
    let loaded = cx
        .race((
            async move |cx: &mut Cx| {
                let flies = take_off(cx, after).await;
                flies.map(|()| 0)
            },
            async move |cx: &mut Cx| load_cargo(cx, lasts).await,
        ))
        .await;
    Ok(loaded?)
}

/// As [`load_and_take_off`], on a file that is locked for all others.
#[workflow]
async fn load_behind_a_lock(cx: &mut Cx, after: u32) -> Result<u32> {
    lock_file(cx).await?;
    let (flies, loaded) = cx
        .join((
            async move |cx: &mut Cx| take_off(cx, after).await,
            async move |cx: &mut Cx| load_cargo(cx, 20).await,
        ))
        .await;
    flies?;
    Ok(loaded?)
}

/// Awaits where the compiler does not see it.
macro_rules! hidden {
    ($future:ident) => {
        $future.await
    };
}

async fn never() {
    std::future::pending::<()>().await;
}

#[workflow(macros(hidden))]
async fn wait_for_nothing(cx: &mut Cx) -> Result<()> {
    cx.uuid().await;
    let never = never();
    hidden!(never);
    Ok(())
}

#[workflow]
async fn load_and_wait_for_nothing(cx: &mut Cx, lasts: u32) -> Result<u32> {
    let (_, loaded) = cx
        .join((
            async |cx: &mut Cx| wait_for_nothing(cx).await,
            async move |cx: &mut Cx| load_cargo(cx, lasts).await,
        ))
        .await;
    Ok(loaded?)
}

fn poor(place: &Place, calls: &Calls, lock: Duration) -> aether::engine::EngineBuilder {
    builder(&place.again(), calls).provide(place.file()).provide(LockFor(lock))
}

fn assert_lacks<T: std::fmt::Debug, E: std::fmt::Debug>(result: std::result::Result<T, RunError<E>>) {
    match result {
        Err(RunError::Stopped { fault, .. }) => {
            assert!(matches!(&*fault, Fault::NotProvided { .. } | Fault::Parked { .. }), "{fault}");
        }
        other => panic!("it did not stop: {other:?}"),
    }
}

/// Nothing of the run is in doubt.
async fn assert_known(engine: &Engine, run: &str) {
    let view = engine.view(&run_id(run)).await.unwrap();
    assert!(view.in_doubt().is_empty(), "{view:?}");
    assert!(engine.ledger(&run_id(run)).await.unwrap().iter().all(|row| row.committed));
    engine.verify(&run_id(run)).await.unwrap();
}

/// A program that lacks nothing ends the run, and its call was made once.
async fn assert_goes_on(place: &Place, calls: &Calls) {
    let engine = poor(place, calls, MS).provide(Plane).start().await.unwrap();
    let run = engine.handle::<load_behind_a_lock>("locked").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 20);
    assert_eq!(calls.of("load_cargo"), 1);
    assert_known(&engine, "locked").await;
    engine.shutdown().await.unwrap();
}

/// Varied: how long the lack takes to be found, and how long what is beside it takes. Held still: one call beside it, no
/// other worker.
#[tokio::test]
async fn what_is_in_flight_beside_a_lack_comes_to_its_end() {
    let times = [0, 1, 3, 10, 40, 150];
    let pairs = || times.into_iter().flat_map(|after| times.into_iter().map(move |lasts| (after, lasts)));
    let (place, calls) = (Place::sqlite(), Calls::default());
    let first = poor(&place, &calls, MS).start().await.unwrap();
    for (after, lasts) in pairs() {
        first.start::<load_and_take_off>((after, lasts)).id(format!("and-{after}-{lasts}")).await.unwrap();
        first.start::<load_or_take_off>((after, lasts)).id(format!("or-{after}-{lasts}")).await.unwrap();
    }
    let mut called = Vec::new();
    for (after, lasts) in pairs() {
        let run = first.handle::<load_and_take_off>(&format!("and-{after}-{lasts}")).await.unwrap();
        assert_lacks(in_time(run.result()).await);
        let ledger = first.ledger(run.id()).await.unwrap();
        assert!(ledger.iter().all(|row| row.committed), "{after} {lasts}: {ledger:?}");
        called.push(ledger.len());
        let run = first.handle::<load_or_take_off>(&format!("or-{after}-{lasts}")).await.unwrap();
        match in_time(run.result()).await {
            Ok(loaded) => assert_eq!(loaded, lasts),
            stopped => assert_lacks(stopped),
        }
        let ledger = first.ledger(run.id()).await.unwrap();
        assert!(ledger.iter().all(|row| row.committed), "{after} {lasts}: {ledger:?}");
    }
    assert!(called.contains(&1), "none was in flight");
    first.shutdown().await.unwrap();
    let second = poor(&place, &calls, MS).provide(Plane).start().await.unwrap();
    for (after, lasts) in pairs() {
        let run = second.handle::<load_and_take_off>(&format!("and-{after}-{lasts}")).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), lasts);
        assert_known(&second, run.id().as_str()).await;
        let run = second.handle::<load_or_take_off>(&format!("or-{after}-{lasts}")).await.unwrap();
        in_time(run.result()).await.unwrap();
        assert_known(&second, run.id().as_str()).await;
    }
    let keys = calls.keys("load_cargo");
    let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(keys.len(), distinct.len(), "one was called twice");
    assert!(keys.len() <= 2 * times.len() * times.len());
    second.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_call_whose_intent_is_on_its_way_is_made() {
    for after in [0, 60, 250] {
        let (place, calls) = (Place::sqlite(), Calls::default());
        let first = poor(&place, &calls, 200 * MS).start().await.unwrap();
        let run = first.start::<load_behind_a_lock>(after).id("locked").await.unwrap();
        assert_lacks(in_time(run.result()).await);
        let ledger = first.ledger(run.id()).await.unwrap();
        assert!(ledger.iter().all(|row| row.committed), "{after}: {ledger:?}");
        first.shutdown().await.unwrap();
        assert_goes_on(&place, &calls).await;
    }
}

/// The intent is written after the run was cut off: nobody called the body, and that is known.
#[tokio::test]
async fn a_call_that_a_shutdown_cut_off_before_its_body_was_not_made() {
    let (place, calls) = (Place::sqlite(), Calls::default());
    let first = poor(&place, &calls, 700 * MS).provide(Plane).start().await.unwrap();
    first.start::<load_behind_a_lock>(0).id("locked").await.unwrap();
    let began = async {
        while calls.of("lock_file") == 0 {
            tokio::time::sleep(MS).await;
        }
    };
    in_time(began).await;
    tokio::time::sleep(200 * MS).await;
    first.shutdown_within(20 * MS).await.unwrap();
    assert_eq!(calls.of("load_cargo"), 0, "its intent was durable too soon for this test");
    assert_goes_on(&place, &calls).await;
}

#[tokio::test]
async fn a_run_that_cannot_go_on_can_be_cancelled_and_drained_while_something_is_in_flight() {
    let (place, calls) = (Place::sqlite(), Calls::default());
    let first = poor(&place, &calls, MS).cancel_grace(20 * MS).start().await.unwrap();
    let cancelled = first.start::<load_and_take_off>((0, 60_000)).id("cancelled").await.unwrap();
    let drained = first.start::<load_and_take_off>((0, 400)).id("drained").await.unwrap();
    let begun = async {
        while calls.of("load_cargo") < 2 {
            tokio::time::sleep(MS).await;
        }
    };
    in_time(begun).await;
    tokio::time::sleep(50 * MS).await;
    cancelled.cancel("fog", "ann").await.unwrap();
    let end = in_time(cancelled.end()).await.unwrap();
    assert!(matches!(end, RunEnd::Cancelled { .. }), "{end:?}");
    first.shutdown_within(Duration::from_secs(20)).await.unwrap();
    let second = poor(&place, &calls, MS).provide(Plane).start().await.unwrap();
    let run = second.handle::<load_and_take_off>(drained.id().as_str()).await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 400);
    assert_eq!(calls.of("load_cargo"), 2);
    assert_known(&second, "drained").await;
    second.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_wait_for_what_is_no_effect_cuts_nothing_off() {
    for lasts in [0, 20, 100] {
        let (place, calls) = (Place::sqlite(), Calls::default());
        let engine = poor(&place, &calls, MS).start().await.unwrap();
        let run = engine.start::<load_and_wait_for_nothing>(lasts).id("stray").await.unwrap();
        match in_time(run.result()).await {
            Err(RunError::Stopped { fault, .. }) => {
                assert!(matches!(&*fault, Fault::StrayAwait { .. }), "{fault}");
            }
            other => panic!("it did not stop: {other:?}"),
        }
        let ledger = engine.ledger(run.id()).await.unwrap();
        assert!(ledger.iter().all(|row| row.committed), "{ledger:?}");
        assert_eq!(ledger.len(), calls.of("load_cargo"));
        engine.shutdown().await.unwrap();
    }
}
