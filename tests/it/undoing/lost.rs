//! What a branch that lost a race had begun to undo.

use std::time::Duration;

use aether::prelude::*;

use super::{Stage, book_room, called, engine, recorded, take_money};
use crate::seeds::kit::{Calls, in_time, run_id, stores};

/// A branch that loses the race while it gives the room back; then everything is undone.
#[workflow]
async fn undo_in_a_lost_branch(cx: &mut Cx) -> Result<usize> {
    book_room(cx, 8).await?;
    cx.race((
        async |cx: &mut Cx| cx.compensate().await.len(),
        async |cx: &mut Cx| {
            let _word: () = cx.signal("go").await.unwrap_or_default();
            0
        },
    ))
    .await;
    Ok(cx.compensate().await.len())
}

#[tokio::test]
async fn what_a_lost_branch_began_to_undo_goes_on_under_its_key() {
    for place in stores() {
        let (place, calls, stage) = (place(), Calls::default(), Stage::new(0));
        let engine = engine(&place.store, &calls, &stage).await;
        let run = engine.start::<undo_in_a_lost_branch>(()).id("lost").await.unwrap();
        called(&calls, "give_room_back", 1).await;
        engine.signal(run.id(), "go", "1", &()).await.unwrap();
        called(&calls, "give_room_back", 2).await;
        stage.open();
        assert_eq!(in_time(run.result()).await.unwrap(), 0);
        let keys = calls.keys("give_room_back");
        assert_eq!(keys, [keys[0].clone(), keys[0].clone()], "one call, sent again under its key");
        engine.verify(run.id()).await.unwrap();
    }
}

/// A branch that loses the race while it gives the room back, and nobody goes on with it.
#[workflow]
async fn leave_what_a_lost_branch_began(cx: &mut Cx) -> Result<u32> {
    book_room(cx, 8).await?;
    cx.race((
        async |cx: &mut Cx| cx.compensate().await.len(),
        async |cx: &mut Cx| {
            let _word: () = cx.signal("go").await.unwrap_or_default();
            0
        },
    ))
    .await;
    Ok(cx.signal("more").await?)
}

#[tokio::test]
async fn what_a_lost_branch_began_to_undo_need_not_be_asked_for() {
    for place in stores() {
        let (place, calls, stage) = (place(), Calls::default(), Stage::new(0));
        let first = engine(&place.store, &calls, &stage).await;
        let run = first.start::<leave_what_a_lost_branch_began>(()).id("left").await.unwrap();
        called(&calls, "give_room_back", 1).await;
        first.signal(run.id(), "go", "1", &()).await.unwrap();
        recorded(&place, "left", "wait_started", "signal", 2).await;
        first.shutdown().await.unwrap();
        let second = engine(&place.store, &calls, &stage).await;
        second.signal(&run_id("left"), "more", "2", &7_u32).await.unwrap();
        let run = second.handle::<leave_what_a_lost_branch_began>("left").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 7);
        second.verify(run.id()).await.unwrap();
    }
}

/// A branch that loses the race between two attempts of paying back; then everything is undone.
#[workflow]
async fn refund_in_a_lost_branch(cx: &mut Cx) -> Result<usize> {
    take_money(cx, 8).await?;
    cx.race((
        async |cx: &mut Cx| cx.compensate().await.len(),
        async |cx: &mut Cx| {
            let _word: () = cx.signal("go").await.unwrap_or_default();
            0
        },
    ))
    .await;
    let _word: () = cx.signal("on").await?;
    Ok(cx.compensate().await.len())
}

#[tokio::test]
async fn what_a_lost_branch_began_to_undo_keeps_its_other_attempts() {
    for dies in [false, true] {
        for place in stores() {
            let (place, calls, stage) = (place(), Calls::default(), Stage::new(1));
            let mut engine = engine(&place.store, &calls, &stage).await;
            let run = engine.start::<refund_in_a_lost_branch>(()).id("attempts").await.unwrap();
            recorded(&place, "attempts", "step_retried", "refund", 1).await;
            engine.signal(run.id(), "go", "1", &()).await.unwrap();
            recorded(&place, "attempts", "race_decided", "race", 1).await;
            if dies {
                engine.shutdown().await.unwrap();
                engine = self::engine(&place.store, &calls, &stage).await;
            }
            engine.signal(&run_id("attempts"), "on", "2", &()).await.unwrap();
            let run = engine.handle::<refund_in_a_lost_branch>("attempts").await.unwrap();
            assert_eq!(in_time(run.result()).await.unwrap(), 0, "nothing is left, dies: {dies}");
            assert_eq!(calls.of("refund"), 2, "dies: {dies}");
            engine.verify(run.id()).await.unwrap();
        }
    }
}

/// A branch that undoes everything and loses; the one that waited for it wins.
#[workflow]
async fn undo_in_a_race(cx: &mut Cx) -> Result<usize> {
    book_room(cx, 8).await?;
    let undone = cx
        .race((
            async |cx: &mut Cx| {
                let left = cx.compensate().await.len();
                cx.sleep(Duration::from_secs(600)).await;
                left
            },
            async |cx: &mut Cx| cx.compensate().await.len(),
        ))
        .await;
    cx.now().await;
    Ok(undone)
}

#[tokio::test]
async fn who_waited_for_what_a_lost_branch_undid_replays() {
    for place in stores() {
        let (place, calls, stage) = (place(), Calls::default(), Stage::new(0));
        let engine = engine(&place.store, &calls, &stage).await;
        let run = engine.start::<undo_in_a_race>(()).id("raced").await.unwrap();
        recorded(&place, "raced", "node_started", "compensate", 2).await;
        stage.open();
        assert_eq!(in_time(run.result()).await.unwrap(), 0);
        assert_eq!(calls.of("give_room_back"), 1);
        engine.verify(run.id()).await.unwrap();
    }
}

/// What one lost branch began is finished by a branch that loses, too.
#[workflow]
async fn undo_in_two_lost_branches(cx: &mut Cx) -> Result<u32> {
    book_room(cx, 8).await?;
    cx.race((
        async |cx: &mut Cx| {
            cx.race((
                async |cx: &mut Cx| cx.compensate().await.len(),
                async |cx: &mut Cx| {
                    let _word: () = cx.signal("inner").await.unwrap_or_default();
                    0
                },
            ))
            .await;
            let left = cx.compensate().await.len();
            cx.sleep(Duration::from_secs(600)).await;
            left
        },
        async |cx: &mut Cx| {
            let _word: () = cx.signal("outer").await.unwrap_or_default();
            0
        },
    ))
    .await;
    Ok(cx.signal("more").await?)
}

#[tokio::test]
async fn what_two_lost_branches_undid_is_not_asked_for() {
    for place in stores() {
        let (place, calls, stage) = (place(), Calls::default(), Stage::new(0));
        let first = engine(&place.store, &calls, &stage).await;
        let run = first.start::<undo_in_two_lost_branches>(()).id("nested").await.unwrap();
        called(&calls, "give_room_back", 1).await;
        first.signal(run.id(), "inner", "1", &()).await.unwrap();
        called(&calls, "give_room_back", 2).await;
        stage.open();
        recorded(&place, "nested", "step_compensated", "give_room_back", 1).await;
        first.signal(run.id(), "outer", "2", &()).await.unwrap();
        recorded(&place, "nested", "race_decided", "race", 2).await;
        first.shutdown().await.unwrap();
        let second = engine(&place.store, &calls, &stage).await;
        second.signal(&run_id("nested"), "more", "3", &7_u32).await.unwrap();
        let run = second.handle::<undo_in_two_lost_branches>("nested").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 7);
        assert_eq!(calls.of("give_room_back"), 2);
        second.verify(run.id()).await.unwrap();
    }
}
