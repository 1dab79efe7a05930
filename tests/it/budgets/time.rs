//! The time of a budget: it begins with its first call, whatever becomes of that, and no call begins behind its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aether::StepError;
use aether::budget::BudgetKind;
use aether::prelude::*;
use aether::sqlite::rusqlite::Connection;
use aether::store::ledger::LedgerStatus;
use aether::store::memory::MemoryStore;
use aether_testing::SimEnvironment;

use crate::seeds::kit::{Calls, Journal, Place, builder, in_time, run_id, until_waiting};

const MINUTE: Duration = Duration::from_secs(60);

/// Ship an order, once in a run.
#[step(effect = "tool", irreversible)]
async fn ship_parcel(cx: &mut StepCx, order: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(order)
}

/// Ship an order, once in all runs.
#[step(effect = "tool", irreversible, scope = "store")]
async fn ship_crate(cx: &mut StepCx, order: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(order)
}

/// Look for an order.
#[step(effect = "read")]
async fn look_up(cx: &mut StepCx, order: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(order)
}

/// A first call that is refused, a second one, and a third one an hour later.
#[workflow]
async fn hurried(cx: &mut Cx, in_all_runs: bool) -> Result<bool> {
    let refused = match in_all_runs {
        true => ship_crate(cx, 1).await,
        false => ship_parcel(cx, 1).await,
    };
    assert!(matches!(refused, Err(StepError::Taken(_))), "{refused:?}");
    look_up(cx, 1).await?;
    cx.sleep(60 * MINUTE).await;
    Ok(is_over_time(look_up(cx, 2).await))
}

fn is_over_time<T>(called: std::result::Result<T, StepError<Failure>>) -> bool {
    matches!(called, Err(StepError::OverBudget(over)) if over.kind == BudgetKind::Time)
}

#[workflow]
async fn ship_twice(cx: &mut Cx, in_all_runs: bool) -> Result<bool> {
    match in_all_runs {
        true => ship_crate(cx, 1).await?,
        false => ship_parcel(cx, 1).await?,
    };
    hurried(cx.budget(Budget::new().time(10 * MINUTE)), in_all_runs).await
}

fn world() -> SimEnvironment {
    SimEnvironment::new("2026-01-02T03:04:05Z".parse().unwrap(), 7)
}

async fn simulated(store: &MemoryStore, world: &SimEnvironment, calls: &Calls) -> Engine {
    let builder = Engine::builder().environment(Arc::new(world.clone())).store(Arc::new(store.clone()));
    builder.provide(calls.clone()).start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_budget_begins_with_a_call_that_is_refused_also_for_the_process_that_goes_on() {
    for in_all_runs in [false, true] {
        let (store, world, calls) = (MemoryStore::new(), world(), Calls::default());
        let engine = simulated(&store, &world, &calls).await;
        let run = engine.start::<ship_twice>(in_all_runs).id("ships").await.unwrap();
        until_waiting(&run).await;
        engine.shutdown().await.unwrap();
        let engine = simulated(&store, &world, &calls).await;
        let run = engine.handle::<ship_twice>("ships").await.unwrap();
        assert!(run.result().await.unwrap(), "the time of the budget began anew");
        assert_eq!(calls.of("look_up"), 1);
        engine.verify(&run_id("ships")).await.unwrap();
        engine.shutdown().await.unwrap();
    }
}

/// Collect a debt; the bank wants to be left alone.
#[step(effect = "tool", idempotent, on_unknown = "retry", retry(max_retries = 9))]
async fn collect(cx: &mut StepCx) -> Result<u32> {
    Calls::note(cx)?;
    Err(Failure::unknown("too much at once").not_before(60 * MINUTE))
}

#[workflow]
async fn collecting(cx: &mut Cx) -> Result<String> {
    match collect(cx.budget(Budget::new().time(5 * MINUTE))).await {
        Err(StepError::InDoubt(why)) => Ok(why.to_string()),
        other => Err(Failure::permanent(format!("{other:?}"))),
    }
}

#[tokio::test(start_paused = true)]
async fn no_call_is_made_again_behind_the_end_of_a_budget_also_after_a_restart() {
    for restarts in [false, true] {
        let (store, world, calls) = (MemoryStore::new(), world(), Calls::default());
        let mut engine = simulated(&store, &world, &calls).await;
        let began = tokio::time::Instant::now();
        let mut run = engine.start::<collecting>(()).id("collects").await.unwrap();
        if restarts {
            until_waiting(&run).await;
            engine.shutdown().await.unwrap();
            engine = simulated(&store, &world, &calls).await;
            run = engine.handle::<collecting>("collects").await.unwrap();
        }
        // Sent again at the end of the time it would be later than that.
        let why = run.result().await.unwrap();
        assert!(why.contains("the time of a budget was over"), "{why}");
        assert!(began.elapsed() < 6 * MINUTE, "{:?}", began.elapsed());
        assert_eq!(calls.of("collect"), 1);
        engine.verify(&run_id("collects")).await.unwrap();
        engine.shutdown().await.unwrap();
    }
}

/// Hold the file of the store for longer than the budget lasts.
#[step(effect = "read")]
async fn hold_up(cx: &mut StepCx) -> Result<()> {
    let db = Connection::open(&*cx.dep::<PathBuf>()?)?;
    db.busy_timeout(Duration::from_secs(10))?;
    db.execute_batch("BEGIN IMMEDIATE")?;
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(2_500));
        db.execute_batch("COMMIT").unwrap();
    });
    Ok(())
}

/// Pay the toll.
#[step(effect = "tool")]
async fn pay_toll(cx: &mut StepCx) -> Result<()> {
    Calls::note(cx)
}

/// Whether a call whose intent waits for the file is refused by then.
#[workflow]
async fn held_up(cx: &mut Cx, pays: bool) -> Result<bool> {
    hold_up(cx).await?;
    Ok(match pays {
        true => is_over_time(pay_toll(cx).await),
        false => is_over_time(look_up(cx, 1).await),
    })
}

#[workflow]
async fn on_the_way(cx: &mut Cx, pays: bool) -> Result<bool> {
    held_up(cx.budget(Budget::new().time(Duration::from_millis(1_500))), pays).await
}

#[tokio::test]
async fn no_call_begins_that_had_to_wait_for_the_store_until_the_time_was_over() {
    for pays in [true, false] {
        let (place, calls) = (Place::sqlite(), Calls::default());
        let engine = builder(&place.store, &calls).provide(place.file()).start().await.unwrap();
        let run = engine.start::<on_the_way>(pays).id("held").await.unwrap();
        assert!(in_time(run.result()).await.unwrap(), "it was made");
        assert_eq!(calls.all(), 0);
        let rows = engine.ledger(&run_id("held")).await.unwrap();
        assert_eq!(rows.len(), usize::from(pays));
        assert!(rows.iter().all(|row| row.committed && row.status == LedgerStatus::Failed), "{rows:?}");
        let journal = Journal::read(&place.store, "held").await;
        assert_eq!(journal.count("invocation_resolved", "pay_toll"), usize::from(pays));
        // What it had reserved came back: nothing was sent.
        let used = engine.view(&run_id("held")).await.unwrap().budgets();
        assert!(used.iter().all(|used| used.spent.calls == 1 && used.reserved.calls == 0), "{used:?}");
        engine.verify(&run_id("held")).await.unwrap();
        engine.shutdown().await.unwrap();
    }
}
