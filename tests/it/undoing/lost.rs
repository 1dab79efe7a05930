//! What a branch that lost a race had begun to undo.

use std::time::Duration;

use aether::prelude::*;

use aether::store::ledger::LedgerStatus;
use rusqlite::Connection;

use super::{Stage, book_room, called, consent, engine, lend_car, recorded, take_money};
use crate::seeds::kit::{Calls, Journal, Place, in_time, run_id, stores};

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

/// Hand a key out.
#[step(effect = "tool", compensate = take_key_back)]
async fn hand_key_out(cx: &mut StepCx, key: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(key)
}

/// Take it back with somebody's consent, when let go.
#[step(effect = "tool", approval = "required")]
async fn take_key_back(cx: &mut StepCx, key: u32, handed_out: Option<u32>) -> Result<()> {
    let _ = (key, handed_out);
    Calls::note(cx)?;
    cx.dep::<Stage>()?.gate.acquire().await?.forget();
    Ok(())
}

/// Two branches lose, one after the other: one while it waits to be allowed to take the key back, one while it does.
#[workflow]
async fn lose_two_races(cx: &mut Cx) -> Result<u32> {
    hand_key_out(cx, 8).await?;
    for go in ["first", "second"] {
        cx.race((
            async |cx: &mut Cx| cx.compensate().await.len(),
            async |cx: &mut Cx| {
                let _word: () = cx.signal(go).await.unwrap_or_default();
                0
            },
        ))
        .await;
    }
    Ok(cx.signal("more").await?)
}

#[tokio::test]
async fn what_a_second_lost_branch_went_on_with_is_abandoned_by_its_race() {
    for place in stores() {
        let (place, calls, stage) = (place(), Calls::default(), Stage::new(0));
        let engine = engine(&place.store, &calls, &stage).await;
        let run = engine.start::<lose_two_races>(()).id("two").await.unwrap();
        consent(&engine).await;
        engine.signal(run.id(), "first", "1", &()).await.unwrap();
        recorded(&place, "two", "approval_requested", "take_key_back", 2).await;
        let wait = consent(&engine).await;
        engine.approve(run.id(), &wait.command, "ann").await.unwrap();
        called(&calls, "take_key_back", 1).await;
        engine.signal(run.id(), "second", "2", &()).await.unwrap();
        recorded(&place, "two", "race_decided", "race", 2).await;
        let journal = Journal::read(&place.store, "two").await;
        assert_eq!(journal.count("invocation_abandoned", "take_key_back"), 1);
        let rows = place.store.entries(run.id()).await.unwrap();
        let row = rows.iter().find(|row| row.tool == "take_key_back").unwrap();
        assert_eq!(row.status, LedgerStatus::InDoubt);
        engine.signal(run.id(), "more", "3", &7_u32).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 7);
        engine.verify(run.id()).await.unwrap();
    }
}

/// A branch loses while it takes the car back, and another one that went on with that; then the car is taken back.
#[workflow]
async fn lose_two_races_for_a_car(cx: &mut Cx) -> Result<usize> {
    lend_car(cx, 8).await?;
    cx.race((
        async |cx: &mut Cx| cx.compensate().await.len(),
        async |cx: &mut Cx| {
            let _word: () = cx.signal("go").await.unwrap_or_default();
            0
        },
    ))
    .await;
    cx.race((
        async |cx: &mut Cx| cx.compensate().await.len(),
        async |cx: &mut Cx| {
            cx.sleep(Duration::from_millis(1500)).await;
            0
        },
    ))
    .await;
    Ok(cx.compensate().await.len())
}

/// A call is dropped between its intent and its body: the file is locked while the intent is on its way.
#[tokio::test]
async fn a_call_that_a_second_lost_branch_did_not_make_is_made() {
    let (place, calls, stage) = (Place::sqlite(), Calls::default(), Stage::new(1));
    let engine = engine(&place.store, &calls, &stage).await;
    let run = engine.start::<lose_two_races_for_a_car>(()).id("car").await.unwrap();
    let wait = consent(&engine).await;
    engine.approve(run.id(), &wait.command, "ann").await.unwrap();
    recorded(&place, "car", "step_retried", "take_car_back", 1).await;
    engine.signal(run.id(), "go", "1", &()).await.unwrap();
    recorded(&place, "car", "timer_scheduled", "sleep", 1).await;
    let other = Connection::open(place.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The second attempt is due after 0.8 s, and the branch that waits wins after 1.5 s.
    tokio::time::sleep(Duration::from_millis(2200)).await;
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 0, "nothing is left");
    assert_eq!(calls.of("take_car_back"), 2);
    engine.verify(run.id()).await.unwrap();
}

/// A branch loses while it takes the car back, and another one, beside the race, goes on with that.
#[workflow]
async fn lose_beside_another(cx: &mut Cx) -> Result<(usize, usize)> {
    lend_car(cx, 8).await?;
    let left = cx
        .join((
            async |cx: &mut Cx| {
                cx.race((
                    async |cx: &mut Cx| cx.compensate().await.len(),
                    async |cx: &mut Cx| {
                        let _word: () = cx.signal("go").await.unwrap_or_default();
                        cx.sleep(Duration::from_millis(1500)).await;
                        0
                    },
                ))
                .await
            },
            async |cx: &mut Cx| cx.compensate().await.len(),
        ))
        .await;
    Ok(left)
}

#[tokio::test]
async fn who_goes_on_with_a_call_that_was_not_made_makes_it() {
    let (place, calls, stage) = (Place::sqlite(), Calls::default(), Stage::new(1));
    let engine = engine(&place.store, &calls, &stage).await;
    let run = engine.start::<lose_beside_another>(()).id("beside").await.unwrap();
    let wait = consent(&engine).await;
    engine.approve(run.id(), &wait.command, "ann").await.unwrap();
    recorded(&place, "beside", "step_retried", "take_car_back", 1).await;
    engine.signal(run.id(), "go", "1", &()).await.unwrap();
    recorded(&place, "beside", "timer_scheduled", "sleep", 1).await;
    let other = Connection::open(place.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    tokio::time::sleep(Duration::from_millis(2200)).await;
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), (0, 0), "nothing is left");
    assert_eq!(calls.of("take_car_back"), 2);
    let journal = Journal::read(&place.store, "beside").await;
    let resolved = journal.count("invocation_resolved", "take_car_back");
    assert_eq!(resolved, 1, "{:?}", journal.kinds_of("take_car_back"));
    engine.verify(run.id()).await.unwrap();
}
