//! Heartbeats: a silent body is lost, and the next attempt begins where the last one said it was.

use std::sync::Arc;
use std::time::Duration;

use aether::StepError;
use aether::error::FailureClass;
use aether::prelude::*;
use aether::store::Store;
use aether_testing::crash::CrashStore;

use crate::seeds::kit::{Calls, Place, builder, in_time, run_id, stores, take_from_owner};

/// Counts to ten from where it was; the first attempts fall silent at three.
#[step(effect = "read", heartbeat = "2s", retry(max_retries = 50, delay = "1ms"))]
async fn count(cx: &mut StepCx) -> Result<u32> {
    Calls::note(cx)?;
    let from = cx.last_heartbeat::<u32>().unwrap_or(0);
    cx.dep::<Calls>()?.add("from", &from.to_string());
    for n in from..=10 {
        cx.heartbeat(n);
        tokio::time::sleep(Duration::from_millis(1)).await;
        if n == 3 && from < 3 {
            std::future::pending::<()>().await;
        }
    }
    Ok(from)
}

/// Changes the world, and falls silent.
#[step(effect = "tool", heartbeat = "50ms")]
async fn change(cx: &mut StepCx) -> Result<()> {
    Calls::note(cx)?;
    std::future::pending().await
}

/// Tells how far it is, and waits for ever the first time.
#[step(effect = "tool", idempotent, on_unknown = "retry", heartbeat = "5m", timeout = "none")]
async fn copy(cx: &mut StepCx) -> Result<String> {
    Calls::note(cx)?;
    match cx.last_heartbeat::<String>() {
        Some(page) => Ok(format!("went on at {page}")),
        None => {
            cx.heartbeat("page 7");
            std::future::pending().await
        }
    }
}

/// Speaks all the time, for longer than it may be silent.
#[step(effect = "tool", heartbeat = "6s", timeout = "none")]
async fn talk(cx: &mut StepCx) -> Result<u32> {
    for n in 0..140 {
        cx.heartbeat(n);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(60)
}

/// Count.
#[workflow]
async fn counting(cx: &mut Cx) -> Result<u32> {
    Ok(count(cx).await?)
}

/// Change.
#[workflow]
async fn changing(cx: &mut Cx) -> Result<String> {
    match change(cx).await {
        Err(StepError::InDoubt(failure)) => Ok(failure.to_string()),
        other => Err(Failure::with_class(FailureClass::Permanent, format!("{other:?}"))),
    }
}

/// Copy.
#[workflow]
async fn copying(cx: &mut Cx) -> Result<String> {
    Ok(copy(cx).await?)
}

/// Talk.
#[workflow]
async fn talking(cx: &mut Cx) -> Result<u32> {
    Ok(talk(cx).await?)
}

#[tokio::test]
async fn a_silent_read_is_tried_again_from_where_it_was() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<counting>(()).id("count").await.unwrap();
        let last = in_time(run.result()).await.unwrap();
        // A machine without time for it may lose bodies that are not silent, too.
        let from: Vec<u32> = calls.keys("from").iter().map(|from| from.parse().unwrap()).collect();
        assert!(from.len() > 1 && from.is_sorted(), "{from:?}");
        assert!(from[0] == 0 && last >= 3 && from.last() == Some(&last), "{from:?}, then {last}");
    }
}

#[tokio::test]
async fn a_silent_change_is_in_doubt() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<changing>(()).id("change").await.unwrap();
        let said = in_time(run.result()).await.unwrap();
        assert!(said.contains("no heartbeat within 50ms"), "{said}");
        assert_eq!(calls.of("change"), 1);
    }
}

#[tokio::test]
async fn a_body_that_speaks_is_not_lost() {
    let place = Place::memory();
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    let run = engine.start::<talking>(()).id("talk").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 60);
}

#[tokio::test]
async fn another_process_goes_on_where_the_dead_one_was() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let crashing = Arc::new(CrashStore::new(place.store.clone(), None));
        let store: Arc<dyn Store> = crashing.clone();
        let engine = builder(&store, &calls).start().await.unwrap();
        let run = engine.start::<copying>(()).id("copy").await.unwrap();
        let command = "0:copy".to_owned().into();
        in_time(async {
            while place.store.progress(run.id(), &command).await.unwrap().is_none() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        // The run's creation and its intent are written; nothing else is, as by a process that died.
        crashing.crash();
        let held = place.store.run(run.id()).await.unwrap().unwrap();
        take_from_owner(&place.store, &held, jiff::Timestamp::UNIX_EPOCH).await;
        let next = builder(&place.store, &calls).start().await.unwrap();
        let run = next.handle::<copying>("copy").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "went on at page 7");
        let mut keys = calls.keys("copy");
        keys.dedup();
        assert_eq!(keys.len(), 1, "one logical attempt");
        let left = place.store.progress(&run_id("copy"), &command).await.unwrap();
        assert_eq!(left, None, "forgotten at the run's end");
    }
}
