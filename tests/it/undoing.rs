//! Undoing steps: by several who ask for it at once, and when it is cut off in the middle.

mod awaited;
mod exchanged;
mod generations;
mod lost;
mod parked;
mod unkept;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aether::people::{WaitFilter, Waiting};
use aether::prelude::*;
use aether::store::Store;
use aether::view::{RunView, Status};
use tokio::sync::Semaphore;

use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, in_time, run_id, stores};

/// What undoing steps do: some wait to be let go, some fail at first.
#[derive(Clone, Debug)]
struct Stage {
    gate: Arc<Semaphore>,
    failures: Arc<AtomicU32>,
}

impl Stage {
    fn new(failures: u32) -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), failures: Arc::new(AtomicU32::new(failures)) }
    }

    fn open(&self) {
        self.gate.add_permits(1000);
    }

    fn fails(&self) -> bool {
        let left = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.is_ok()
    }
}

async fn engine(store: &Arc<dyn Store>, calls: &Calls, stage: &Stage) -> Engine {
    builder(store, calls).provide(stage.clone()).cancel_grace(Duration::ZERO).start().await.unwrap()
}

async fn called(calls: &Calls, step: &str, times: usize) {
    in_time(async {
        while calls.of(step) < times {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Waits until the journal has so many events of this kind about commands of this name.
async fn recorded(place: &Place, run: &str, kind: &str, name: &str, times: usize) {
    in_time(async {
        while Journal::read(&place.store, run).await.count(kind, name) < times {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// The run, once it has ended.
async fn ended(engine: &Engine, run: &str) -> RunView {
    in_time(async {
        loop {
            let view = engine.view(&run_id(run)).await.unwrap();
            if view.status.is_terminal() {
                return view;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// Book a room.
#[step(effect = "tool", idempotent, on_unknown = "retry", compensate = give_room_back)]
async fn book_room(cx: &mut StepCx, room: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(room)
}

/// Give the room back, when let go.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn give_room_back(cx: &mut StepCx, room: u32, booked: Option<u32>) -> Result<()> {
    let _ = (room, booked);
    Calls::note(cx)?;
    cx.dep::<Stage>()?.gate.acquire().await?.forget();
    Ok(())
}

/// Take money.
#[step(effect = "tool", idempotent, on_unknown = "retry", compensate = refund)]
async fn take_money(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Pay it back; fails at first where the stage says so.
#[step(effect = "tool", idempotent, on_unknown = "retry", retry(max_retries = 5, delay = "800ms"))]
async fn refund(cx: &mut StepCx, cents: u32, taken: Option<u32>) -> Result<()> {
    let _ = (cents, taken);
    Calls::note(cx)?;
    if cx.dep::<Stage>()?.fails() { Err(Failure::retryable("503")) } else { Ok(()) }
}

/// Two branches that both undo what was done.
#[workflow]
async fn both_undo(cx: &mut Cx) -> Result<(usize, usize)> {
    take_money(cx, 7).await?;
    book_room(cx, 8).await?;
    let undone = cx
        .join((
            async |cx: &mut Cx| cx.compensate().await.len(),
            async |cx: &mut Cx| {
                cx.now().await;
                cx.compensate().await.len()
            },
        ))
        .await;
    cx.now().await;
    Ok(undone)
}

#[tokio::test]
async fn branches_that_undo_at_once_undo_each_step_once_and_replay() {
    for place in stores() {
        let (place, calls, stage) = (place(), Calls::default(), Stage::new(0));
        let engine = engine(&place.store, &calls, &stage).await;
        let run = engine.start::<both_undo>(()).id("both").await.unwrap();
        called(&calls, "give_room_back", 1).await;
        // Both have listed what they undo by then.
        recorded(&place, "both", "node_started", "compensate", 2).await;
        stage.open();
        assert_eq!(in_time(run.result()).await.unwrap(), (0, 0));
        assert_eq!((calls.of("give_room_back"), calls.of("refund")), (1, 1));
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn branches_that_undo_at_once_resume_from_every_prefix() {
    let (place, calls, stage) = (Place::memory(), Calls::default(), Stage::new(0));
    let whole = {
        let engine = engine(&place.store, &calls, &stage).await;
        let run = engine.start::<both_undo>(()).id("both").await.unwrap();
        recorded(&place, "both", "node_started", "compensate", 2).await;
        stage.open();
        in_time(run.result()).await.unwrap();
        Journal::read(&place.store, "both").await.open()
    };
    for count in 1..=whole.events.len() {
        let (place, calls, stage) = (Place::memory(), Calls::default(), Stage::new(0));
        stage.open();
        whole.first(count).plant(&place.store, Rows::Follow).await;
        let engine = engine(&place.store, &calls, &stage).await;
        let run = engine.handle::<both_undo>("both").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), (0, 0), "after {count} events");
        assert!(calls.of("give_room_back") <= 1 && calls.of("refund") <= 1, "after {count} events");
        engine.verify(run.id()).await.unwrap();
    }
}

/// Take money, and pay it back.
#[workflow]
async fn take_and_refund(cx: &mut Cx) -> Result<usize> {
    take_money(cx, 7).await?;
    Ok(cx.compensate().await.len())
}

#[tokio::test]
async fn an_undoing_call_that_a_cancellation_cuts_off_keeps_its_other_attempts() {
    for dies in [false, true] {
        for place in stores() {
            let (place, calls, stage) = (place(), Calls::default(), Stage::new(1));
            let mut first = engine(&place.store, &calls, &stage).await;
            let run = first.start::<take_and_refund>(()).id("refund").await.unwrap();
            called(&calls, "refund", 1).await;
            // While it waits for its second attempt.
            recorded(&place, "refund", "step_retried", "refund", 1).await;
            first.cancel(run.id(), "changed my mind", "ann").await.unwrap();
            if dies {
                first.shutdown().await.unwrap();
                first = engine(&place.store, &calls, &stage).await;
            }
            let view = ended(&first, "refund").await;
            assert_eq!(view.status, Status::Cancelled);
            assert_eq!(calls.of("refund"), 2, "the second attempt is made, dies: {dies}");
            first.verify(&run_id("refund")).await.unwrap();
            let journal = Journal::read(&place.store, "refund").await;
            assert_eq!(journal.kinds().iter().filter(|kind| *kind == "step_compensated").count(), 1);
        }
    }
}

/// Lend a car.
#[step(effect = "tool", compensate = take_car_back)]
async fn lend_car(cx: &mut StepCx, car: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(car)
}

/// Take it back, with somebody's consent; fails at first where the stage says so.
#[step(effect = "tool", idempotent, approval = "required", retry(max_retries = 5, delay = "800ms"))]
async fn take_car_back(cx: &mut StepCx, car: u32, lent: Option<u32>) -> Result<()> {
    let _ = (car, lent);
    Calls::note(cx)?;
    if cx.dep::<Stage>()?.fails() { Err(Failure::retryable("nobody at home")) } else { Ok(()) }
}

/// Lend a car, and take it back.
#[workflow]
async fn lend_and_take_back(cx: &mut Cx) -> Result<usize> {
    lend_car(cx, 7).await?;
    Ok(cx.compensate().await.len())
}

#[tokio::test]
async fn who_has_agreed_to_an_undoing_call_is_not_asked_again_when_it_is_cut_off() {
    for place in stores() {
        let (place, calls, stage) = (place(), Calls::default(), Stage::new(1));
        let engine = engine(&place.store, &calls, &stage).await;
        let run = engine.start::<lend_and_take_back>(()).id("car").await.unwrap();
        let wait = consent(&engine).await;
        engine.approve(run.id(), &wait.command, "ann").await.unwrap();
        recorded(&place, "car", "step_retried", "take_car_back", 1).await;
        engine.cancel(run.id(), "changed my mind", "ann").await.unwrap();
        called(&calls, "take_car_back", 2).await;
        ended(&engine, "car").await;
        let journal = Journal::read(&place.store, "car").await;
        assert_eq!(journal.count("approval_requested", "take_car_back"), 1);
        engine.verify(run.id()).await.unwrap();
    }
}

/// A branch that pays back, and another one that books a room meanwhile and waits.
#[workflow]
async fn undo_beside_work(cx: &mut Cx) -> Result<usize> {
    take_money(cx, 7).await?;
    let (undone, booked) = cx
        .join((
            async |cx: &mut Cx| cx.compensate().await.len(),
            async |cx: &mut Cx| {
                let _word: () = cx.signal("book").await?;
                book_room(cx, 8).await?;
                cx.signal::<()>("never").await
            },
        ))
        .await;
    booked?;
    Ok(undone)
}

#[tokio::test]
async fn an_undoing_call_that_is_cut_off_has_its_turn_behind_what_was_done_later() {
    for dies in [false, true] {
        for place in stores() {
            let (place, calls, stage) = (place(), Calls::default(), Stage::new(1));
            stage.open();
            let mut engine = engine(&place.store, &calls, &stage).await;
            let run = engine.start::<undo_beside_work>(()).id("beside").await.unwrap();
            called(&calls, "refund", 1).await;
            engine.signal(run.id(), "book", "1", &()).await.unwrap();
            recorded(&place, "beside", "step_committed", "book_room", 1).await;
            engine.cancel(run.id(), "changed my mind", "ann").await.unwrap();
            if dies {
                engine.shutdown_within(Duration::ZERO).await.unwrap();
                engine = self::engine(&place.store, &calls, &stage).await;
            }
            ended(&engine, "beside").await;
            // Whether or not its second attempt was made before the cancellation.
            assert_eq!((calls.of("give_room_back"), calls.of("refund")), (1, 2), "dies: {dies}");
            assert_eq!(engine.view(&run_id("beside")).await.unwrap().uncompensated, [], "dies: {dies}");
            engine.verify(&run_id("beside")).await.unwrap();
        }
    }
}

/// Two branches that undo the same; the first one begins later, when it is told to.
#[workflow]
async fn undo_when_told(cx: &mut Cx) -> Result<(usize, usize)> {
    book_room(cx, 8).await?;
    let undone = cx
        .join((
            async |cx: &mut Cx| {
                let _word: () = cx.signal("go").await.unwrap_or_default();
                cx.compensate().await.len()
            },
            async |cx: &mut Cx| cx.compensate().await.len(),
        ))
        .await;
    Ok(undone)
}

#[tokio::test]
async fn whoever_is_first_after_a_crash_goes_on_with_what_the_other_began() {
    for place in stores() {
        let (place, calls, stage) = (place(), Calls::default(), Stage::new(0));
        let first = engine(&place.store, &calls, &stage).await;
        let run = first.start::<undo_when_told>(()).id("told").await.unwrap();
        called(&calls, "give_room_back", 1).await;
        first.signal(run.id(), "go", "1", &()).await.unwrap();
        recorded(&place, "told", "node_started", "compensate", 2).await;
        first.shutdown_within(Duration::ZERO).await.unwrap();
        stage.open();
        let second = engine(&place.store, &calls, &stage).await;
        let run = second.handle::<undo_when_told>("told").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), (0, 0));
        let keys = calls.keys("give_room_back");
        assert_eq!(keys, [keys[0].clone(), keys[0].clone()]);
        second.verify(run.id()).await.unwrap();
    }
}

async fn consent(engine: &Engine) -> aether::people::Pending {
    in_time(async {
        loop {
            let filter = WaitFilter::default().kind(Waiting::Approval);
            if let Some(wait) = engine.all_pending(filter).await.unwrap().waits.pop() {
                return wait;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

#[tokio::test]
async fn consent_that_an_undoing_call_waits_for_is_asked_for_again_when_it_is_cut_off() {
    for dies in [false, true] {
        for place in stores() {
            let (place, calls, stage) = (place(), Calls::default(), Stage::new(0));
            let mut engine = engine(&place.store, &calls, &stage).await;
            let run = engine.start::<lend_and_take_back>(()).id("car").await.unwrap();
            consent(&engine).await;
            engine.cancel(run.id(), "changed my mind", "ann").await.unwrap();
            recorded(&place, "car", "approval_requested", "take_car_back", 2).await;
            if dies {
                engine.shutdown().await.unwrap();
                engine = self::engine(&place.store, &calls, &stage).await;
            }
            let wait = consent(&engine).await;
            engine.approve(&run_id("car"), &wait.command, "ann").await.unwrap();
            ended(&engine, "car").await;
            assert_eq!(calls.of("take_car_back"), 1, "dies: {dies}");
            assert_eq!(engine.view(&run_id("car")).await.unwrap().uncompensated, []);
            engine.verify(&run_id("car")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_was_undone_is_not_undone_again_where_a_crash_cut_off_that_it_was() {
    let whole = {
        let (place, calls, stage) = (Place::memory(), Calls::default(), Stage::new(0));
        let engine = engine(&place.store, &calls, &stage).await;
        in_time(engine.start::<take_and_refund>(()).id("refund").await.unwrap().result()).await.unwrap();
        Journal::read(&place.store, "refund").await
    };
    let cut = whole.through("command_committed", "refund");
    assert!(!cut.kinds().contains(&"step_compensated".to_owned()));
    for cancelled in [true, false] {
        for place in stores() {
            let (place, calls, stage) = (place(), Calls::default(), Stage::new(0));
            cut.plant(&place.store, Rows::Follow).await;
            let client = builder(&place.store, &calls).client().start().await.unwrap();
            if cancelled {
                client.cancel(&run_id("refund"), "changed my mind", "ann").await.unwrap();
            }
            client.shutdown().await.unwrap();
            let engine = engine(&place.store, &calls, &stage).await;
            ended(&engine, "refund").await;
            assert_eq!(calls.of("refund"), 0, "cancelled: {cancelled}");
            let journal = Journal::read(&place.store, "refund").await;
            assert_eq!(journal.kinds().iter().filter(|kind| *kind == "step_compensated").count(), 1);
            engine.verify(&run_id("refund")).await.unwrap();
        }
    }
}

/// Take money and pay it back, and then wait for a word.
#[workflow]
async fn refund_and_wait(cx: &mut Cx) -> Result<u32> {
    take_money(cx, 7).await?;
    let left = cx.compensate().await.len();
    assert_eq!(left, 0);
    Ok(cx.signal("more").await?)
}

#[tokio::test]
async fn a_fork_of_a_run_that_succeeded_finds_undone_what_was_undone_before_the_cut() {
    for place in stores() {
        let (place, calls, stage) = (place(), Calls::default(), Stage::new(0));
        let engine = engine(&place.store, &calls, &stage).await;
        let run = engine.start::<refund_and_wait>(()).id("origin").await.unwrap();
        engine.signal(run.id(), "more", "1", &7_u32).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 7);
        let plan = engine.fork(run.id()).before("2:signal").plan().await.unwrap().keep_all();
        let fork = plan.id("fork").start("ada").await.unwrap();
        engine.signal(fork.id(), "more", "2", &8_u32).await.unwrap();
        let fork = engine.handle::<refund_and_wait>("fork").await.unwrap();
        assert_eq!(in_time(fork.result()).await.unwrap(), 8);
        assert_eq!((calls.of("take_money"), calls.of("refund")), (1, 1));
        engine.verify(&run_id("fork")).await.unwrap();
    }
}
