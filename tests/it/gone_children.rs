//! Children that are not in the store: never started, or deleted. Whoever still has to do with them goes on.

use std::time::Duration;

use aether::prelude::*;
use aether::store::Purged;

use crate::seeds::kit::{Calls, builder, in_time, run_id, stores};

/// Is a child.
#[workflow]
async fn gone_leaf(_cx: &mut Cx) -> Result<u32> {
    Ok(1)
}

/// Has a child begun by the loser of a race that is decided in the same moment, and continues as new.
#[workflow]
async fn gone_racing(cx: &mut Cx, is_second: bool) -> Result<bool> {
    if is_second {
        return Ok(is_second);
    }
    cx.signal::<u32>("go").await?;
    cx.race((
        async |cx: &mut Cx| Ok::<_, Failure>(cx.child::<gone_leaf>(()).await?),
        async |cx: &mut Cx| Ok(cx.signal::<u32>("stop").await?),
    ))
    .await?;
    cx.continue_as_new::<gone_racing>(true).await
}

#[tokio::test]
async fn a_run_continues_as_new_after_a_race_whose_loser_had_just_begun_a_child() {
    for place in stores() {
        let place = place();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<gone_racing>(false).id("racing").await.unwrap();
        engine.signal(run.id(), "stop", "s", &1_u32).await.unwrap();
        engine.signal(run.id(), "go", "g", &1_u32).await.unwrap();
        assert!(in_time(run.result()).await.unwrap());
        engine.verify(run.id()).await.unwrap();
    }
}

/// Starts a child and fails before it has its end, unless it is a fork.
#[workflow]
async fn gone_parent(cx: &mut Cx) -> Result<String> {
    let child = cx.start_child::<gone_leaf>(()).await?;
    tried(cx).await?;
    match child.result(cx).await {
        Err(StepError::Rejected(why)) => Ok(why.to_string()),
        other => Err(Failure::permanent(format!("{other:?}"))),
    }
}

/// Works the second time.
#[step(effect = "read")]
async fn tried(cx: &mut StepCx) -> Result<()> {
    Calls::note(cx)?;
    match cx.dep::<Calls>()?.of("tried") {
        1 => Err(Failure::permanent("not yet")),
        _ => Ok(()),
    }
}

#[tokio::test]
async fn a_fork_whose_origins_child_was_deleted_gets_an_error() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<gone_parent>(()).id("origin").await.unwrap();
        in_time(run.result()).await.unwrap_err();
        let child = run_id("origin/0:gone_leaf");
        in_time(engine.find(child.as_str()).await.unwrap().end()).await.unwrap();
        in_time(async {
            while place.store.purge(&child, None).await.unwrap() != Purged::Deleted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let fork = engine.retry(run.id()).plan().await.unwrap().start("ada").await.unwrap();
        let fork = engine.handle::<gone_parent>(fork.id().as_str()).await.unwrap();
        let why = in_time(fork.result()).await.unwrap();
        assert!(why.contains("child run `origin/0:gone_leaf` is not there"), "{why}");
        engine.verify(fork.id()).await.unwrap();
    }
}
