//! Budgets over processes that die at every write: what was really asked never exceeds what a budget allows.

use std::sync::Arc;
use std::time::Duration;

use aether::prelude::*;
use aether::store::Store;
use aether_testing::crash::{CrashPoint, CrashStore};

use super::asks;
use super::meter::{Meter, TAKEN};
use crate::seeds::kit::{Calls, Place, builder, in_time, run_id, stores_at};

/// What the whole run may take.
const WHOLE: u64 = 400;
/// What one of its parts may take.
const PART: u64 = 120;

/// A part with a budget of its own, nested parallel questions, a child, all at the same time.
#[workflow]
async fn spender(cx: &mut Cx) -> Result<u32> {
    let (part, open, child) = cx
        .join((
            async |cx: &mut Cx| both(cx.budget(Budget::new().named("part").tokens(PART))).await,
            async |cx: &mut Cx| asks(cx, 3).await,
            async |cx: &mut Cx| cx.child::<asks>(3).budget(Budget::new().tokens(100)).await,
        ))
        .await;
    let child = child.map_or(0, |(answered, _)| answered);
    Ok(part? + open?.0 + child + asks(cx, 3).await?.0)
}

#[workflow]
async fn both(cx: &mut Cx) -> Result<u32> {
    let (one, other) =
        cx.join((async |cx: &mut Cx| asks(cx, 2).await, async |cx: &mut Cx| asks(cx, 2).await)).await;
    Ok(one?.0 + other?.0)
}

async fn engine(store: &Arc<dyn Store>, meter: &Meter) -> Engine {
    let builder = builder(store, &Calls::default()).model(meter.clone());
    builder.lease(Duration::from_millis(100)).start().await.unwrap()
}

/// What the store holds of the budgets, once the run has ended, against what was really asked.
async fn judge(engine: &Engine, meter: &Meter, point: impl std::fmt::Display) {
    let used = engine.view(&run_id("spends")).await.unwrap().budgets();
    let tokens = |scope: &str| {
        used.iter().find(|used| used.scope == scope).map(|used| (used.spent.tokens, used.reserved.tokens))
    };
    let (whole, left) = tokens("run").unwrap();
    assert!(meter.tokens() <= whole, "{point}: {} tokens were taken, and {whole} counted", meter.tokens());
    assert!(whole + left <= WHOLE, "{point}: {used:?}");
    let part = tokens("0.b0.0");
    assert!(part.is_none_or(|(spent, open)| spent <= PART && open == 0), "{point}: {used:?}");
    engine.verify(&run_id("spends")).await.unwrap();
}

#[tokio::test]
async fn a_process_that_dies_at_any_write_leaves_no_budget_exceeded() {
    let (place, meter) = (Place::memory(), Meter::default());
    let counted = Arc::new(CrashStore::new(place.store.clone(), None));
    let store: Arc<dyn Store> = counted.clone();
    let whole = engine(&store, &meter).await;
    let run = whole.start::<spender>(()).id("spends").budget(Budget::new().tokens(WHOLE)).await.unwrap();
    in_time(run.result()).await.unwrap();
    judge(&whole, &meter, "no crash").await;
    let mut lost = 0;
    for write in 1..=counted.writes() {
        for point in [CrashPoint::Before(write), CrashPoint::After(write)] {
            for place in stores_at(usize::try_from(write).unwrap()) {
                lost += dies_at(place(), point).await;
            }
        }
    }
    assert!(lost > 5, "questions that were asked again: {lost}");
}

/// The number of questions that were asked and whose answer was lost.
async fn dies_at(place: Place, point: CrashPoint) -> u64 {
    let meter = Meter::default();
    let crashing = Arc::new(CrashStore::new(place.store.clone(), Some(point)));
    let store: Arc<dyn Store> = crashing.clone();
    let dying = engine(&store, &meter).await;
    let starting = tokio::spawn(async move {
        let budget = Budget::new().tokens(WHOLE);
        let _never_answered = dying.start::<spender>(()).id("spends").budget(budget).await;
        std::future::pending::<()>().await;
    });
    in_time(crashing.crashed()).await;
    starting.abort();
    let engine = engine(&place.store, &meter).await;
    let run = engine.start::<spender>(()).id("spends").budget(Budget::new().tokens(WHOLE)).await.unwrap();
    let answered = u64::from(in_time(run.result()).await.unwrap());
    judge(&engine, &meter, point).await;
    (meter.tokens() / TAKEN).saturating_sub(answered)
}

/// The same process is stopped while questions are out, again and again.
#[tokio::test]
async fn an_engine_that_is_dropped_in_the_middle_of_questions_leaves_no_budget_exceeded() {
    for place in stores_at(1) {
        let (place, meter) = (place(), Meter::slow(Duration::from_millis(15)));
        let mut ended = false;
        for life in 0..40_u64 {
            let engine = engine(&place.again(), &meter).await;
            let budget = Budget::new().tokens(WHOLE);
            let run = engine.start::<spender>(()).id("spends").budget(budget).await.unwrap();
            ended = tokio::time::timeout(Duration::from_millis(10 + life * 5), run.result()).await.is_ok();
            drop((run, engine));
            if ended {
                break;
            }
        }
        let engine = engine(&place.again(), &meter).await;
        if !ended {
            let run = engine.start::<spender>(()).id("spends").await.unwrap();
            in_time(run.result()).await.unwrap();
        }
        judge(&engine, &meter, "dropped").await;
    }
}
