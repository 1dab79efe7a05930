//! Retries of runs in which a branch that lost a race had done something that was undone.

use std::sync::atomic::Ordering;
use std::time::Duration;

use aether::error::ForkError;
use aether::prelude::*;

use super::{Rates, bill, engine, rate, reserve};
use crate::seeds::kit::{Calls, Place, in_time, run_id, stores};

/// Keep money aside until there is a word.
#[workflow]
async fn reserve_for_a_while(cx: &mut Cx, cents: u32) -> Result<u32> {
    cx.race((
        async |cx: &mut Cx| {
            let _reserved = reserve(cx, cents).await;
            cx.sleep(Duration::from_secs(3_600)).await;
        },
        async |cx: &mut Cx| {
            let _word = cx.signal::<()>("enough").await;
        },
    ))
    .await;
    Ok(rate(cx, cents).await?)
}

/// Says that it was enough, once the reservation is recorded.
async fn enough(engine: &Engine, place: &Place, run: &str) {
    in_time(async {
        // A fork that nobody has claimed yet takes appends of epoch 0, by which the kit would wait for the others.
        let is_reserved = async || {
            let frames = place.store.load(&run_id(run), 0).await.unwrap();
            frames.iter().any(|frame| frame.text.contains("step_committed"))
        };
        while !is_reserved().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    engine.signal(&run_id(run), "enough", "1", &()).await.unwrap();
}

#[tokio::test]
async fn a_run_is_retried_from_before_the_race_in_which_an_undone_step_lost() {
    for place in stores() {
        let (place, calls, rates) = (place(), Calls::default(), Rates::default());
        let engine = engine(&place.store, &calls, &rates).await;
        let run = engine.start::<reserve_for_a_while>(5).id("stay").await.unwrap();
        enough(&engine, &place, "stay").await;
        assert!(in_time(run.result()).await.is_err());
        assert_eq!((calls.of("reserve"), calls.of("release")), (1, 1));
        let error = engine.fork(run.id()).before("1:rate").plan().await.unwrap_err();
        let ForkError::UndoneBefore { earliest, .. } = &error else { panic!("{error}") };
        assert_eq!(earliest.as_str(), "0:race");

        rates.0.store(true, Ordering::SeqCst);
        let plan = engine.retry(run.id()).plan().await.unwrap();
        assert_eq!(bill(&plan), ["0.b0.0:reserve undone"]);
        let retry = plan.start("ada").await.unwrap();
        enough(&engine, &place, retry.id().as_str()).await;
        let retry = engine.handle::<reserve_for_a_while>(retry.id().as_str()).await.unwrap();
        assert_eq!(in_time(retry.result()).await.unwrap(), 10);
        assert_eq!((calls.of("reserve"), calls.of("release")), (2, 1));
        engine.shutdown().await.unwrap();
    }
}
