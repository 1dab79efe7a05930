//! A clock that is set back, or forward by years, while runs wait, sleep, try again and hold leases.
//!
//! What is due by the clock comes when the clock says so; what the engine does again and again, and the time limits of
//! bodies, do not depend on the clock; nothing is called twice and nothing is lost.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use aether::Engine;
use aether::engine::{EngineBuilder, Environment, SystemEnvironment};
use aether::people::{DecideError, Waiting};
use aether::prelude::*;
use aether::store::RunFilter;
use aether::view::Status;
use jiff::Timestamp;

use super::inputs::{Token, in_ask, in_paying, serves_another, waits};
use crate::seeds::kit::{Calls, Place, in_time, run_id, stores};

const MS: Duration = Duration::from_millis(1);
const YEARS: i64 = 3 * 365 * 24 * 3600 * 1_000_000;

/// The system's clock, set by hand.
#[derive(Clone, Debug, Default)]
struct SetClock(Arc<AtomicI64>);

impl SetClock {
    /// By so many microseconds ahead of the system's.
    fn set(&self, micros: i64) {
        self.0.store(micros, Ordering::SeqCst);
    }
}

impl Environment for SetClock {
    fn now(&self) -> Timestamp {
        let now = SystemEnvironment.now().as_microsecond() + self.0.load(Ordering::SeqCst);
        Timestamp::from_microsecond(now).unwrap()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        SystemEnvironment.fill_random(bytes);
    }

    fn sleep_until(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.clone();
        Box::pin(async move {
            while clock.now() < until {
                tokio::time::sleep(2 * MS).await;
            }
        })
    }

    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        SystemEnvironment.sleep(span)
    }
}

/// What bodies tell the tests.
#[derive(Clone, Debug, Default)]
struct Inspection(Arc<AtomicU32>);

impl Inspection {
    async fn at_least(&self, count: u32) {
        in_time(async {
            while self.0.load(Ordering::SeqCst) < count {
                tokio::time::sleep(MS).await;
            }
        })
        .await;
    }
}

fn set_by_hand(place: &Place, clock: &SetClock, seen: &Inspection) -> EngineBuilder {
    Engine::builder()
        .environment(Arc::new(clock.clone()))
        .store(place.store.clone())
        .provide(Calls::default())
        .provide(Token::default())
        .provide(seen.clone())
        .poll_interval(10 * MS)
        .eviction_grace(MS)
}

#[workflow]
async fn clock_listening(cx: &mut Cx) -> Result<u32> {
    Ok(cx.signal::<u32>("go").await?)
}

#[workflow]
async fn clock_sleeping(cx: &mut Cx, hours: u64) -> Result<u32> {
    cx.sleep(Duration::from_secs(hours * 3600)).await;
    Ok(1)
}

#[workflow]
async fn clock_expiring(cx: &mut Cx) -> Result<String> {
    let decision = cx.approval("anything").expires(Duration::from_secs(3600)).await?;
    Ok(format!("{decision:?}"))
}

/// Hang.
#[step(effect = "read", timeout = "50ms", retry(max_retries = 2, delay = "1ms"))]
async fn clock_hang(cx: &mut StepCx) -> Result<u32> {
    cx.dep::<Inspection>()?.0.fetch_add(1, Ordering::SeqCst);
    std::future::pending().await
}

#[workflow]
async fn clock_hanging(cx: &mut Cx) -> Result<u32> {
    Ok(clock_hang(cx).await?)
}

/// Beat for a while.
#[step(effect = "tool", heartbeat = "5s", timeout = "1h")]
async fn clock_beat(cx: &mut StepCx) -> Result<u32> {
    let seen = cx.dep::<Inspection>()?;
    for beat in 0..60 {
        cx.heartbeat(beat);
        seen.0.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(2 * MS).await;
    }
    Ok(60)
}

#[workflow]
async fn clock_beating(cx: &mut Cx) -> Result<u32> {
    Ok(clock_beat(cx).await?)
}

/// Fail once, after a clock that somebody has corrected in the meantime.
#[step(effect = "read")]
async fn clock_late(cx: &mut StepCx) -> Result<u32> {
    let call = cx.dep::<Inspection>()?.0.fetch_add(1, Ordering::SeqCst);
    cx.dep::<SetClock>()?.set(YEARS);
    if call == 0 { Err(Failure::retryable("not yet")) } else { Ok(call) }
}

#[workflow]
async fn clock_late_once(cx: &mut Cx) -> Result<u32> {
    Ok(clock_late(cx).await?)
}

/// Stand at the first call.
#[step(effect = "read", timeout = "1h")]
async fn clock_stand(cx: &mut StepCx) -> Result<u32> {
    match cx.dep::<Inspection>()?.0.fetch_add(1, Ordering::SeqCst) {
        0 => std::future::pending().await,
        call => Ok(call),
    }
}

#[workflow]
async fn clock_standing(cx: &mut Cx) -> Result<u32> {
    Ok(clock_stand(cx).await?)
}

async fn suspended(engine: &Engine, run: &str) {
    in_time(async {
        while engine.find(run).await.unwrap().status().await.unwrap() != Status::Waiting {
            tokio::time::sleep(MS).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_clock_that_is_set_back_does_not_deafen_an_engine() {
    for place in stores() {
        let (place, clock, seen) = (place(), SetClock::default(), Inspection::default());
        clock.set(YEARS);
        let engine = set_by_hand(&place, &clock, &seen).start().await.unwrap();
        let listening = engine.start::<clock_listening>(()).id("listening").await.unwrap();
        let asking = engine.start::<in_ask>(()).id("asking").await.unwrap();
        let sleeping = engine.start::<clock_sleeping>(1).id("sleeping").await.unwrap();
        suspended(&engine, "listening").await;
        waits(&engine, "asking", Waiting::Question).await;
        suspended(&engine, "sleeping").await;
        clock.set(0);
        // From another process, so that nothing but the engine's own polls can find it.
        let other = Engine::builder().environment(Arc::new(clock.clone())).store(place.again()).max_active(1);
        let other = other.start().await.unwrap();
        other.signal(listening.id(), "go", "1", &7).await.unwrap();
        assert_eq!(in_time(listening.result()).await.unwrap(), 7);
        let open = waits(&engine, "asking", Waiting::Question).await;
        other.answer(&open.run, &open.command, &8, "ann").await.unwrap();
        assert_eq!(in_time(asking.result()).await.unwrap(), 8);
        // A body that hangs is cut off all the same.
        let hanging = engine.start::<clock_hanging>(()).id("hanging").await.unwrap();
        seen.at_least(1).await;
        clock.set(-YEARS);
        assert!(in_time(hanging.result()).await.unwrap_err().to_string().contains("no answer within 50ms"));
        // What was to happen at a time happens at that time.
        assert_eq!(sleeping.status().await.unwrap(), Status::Waiting);
        clock.set(YEARS + 2 * 3600 * 1_000_000);
        assert_eq!(in_time(sleeping.result()).await.unwrap(), 1);
        serves_another(&engine).await;
    }
}

#[tokio::test]
async fn a_clock_that_leaps_ahead_during_an_attempt_uses_up_no_patience() {
    for place in stores() {
        let (place, clock, seen) = (place(), SetClock::default(), Inspection::default());
        let engine = set_by_hand(&place, &clock, &seen).provide(clock.clone()).start().await.unwrap();
        let run = engine.start::<clock_late_once>(()).id("late").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_clock_that_leaps_years_ahead_costs_no_body_its_lease_and_ends_what_is_due() {
    for place in stores() {
        let (place, clock, seen) = (place(), SetClock::default(), Inspection::default());
        let engine = set_by_hand(&place, &clock, &seen).start().await.unwrap();
        let beating = engine.start::<clock_beating>(()).id("beating").await.unwrap();
        let expiring = engine.start::<clock_expiring>(()).id("expiring").await.unwrap();
        let sleeping = engine.start::<clock_sleeping>(24 * 365).id("sleeping").await.unwrap();
        let paying = engine.start::<in_paying>(()).id("paying").await.unwrap();
        let due = waits(&engine, "expiring", Waiting::Approval).await;
        let open = waits(&engine, "paying", Waiting::Approval).await;
        suspended(&engine, "sleeping").await;
        seen.at_least(2).await;
        clock.set(YEARS);
        let late = engine.approve(&due.run, &due.command, "ann").await;
        let late = matches!(late, Err(DecideError::Expired { .. } | DecideError::RunEnded { .. }));
        assert!(late || expiring.status().await.unwrap().is_terminal());
        assert!(in_time(expiring.result()).await.unwrap().starts_with("Expired"));
        assert_eq!(in_time(sleeping.result()).await.unwrap(), 1);
        assert_eq!(in_time(beating.result()).await.unwrap(), 60);
        assert_eq!(seen.0.load(Ordering::SeqCst), 60, "one call");
        engine.approve(&open.run, &open.command, "ann").await.unwrap();
        assert_eq!(in_time(paying.result()).await.unwrap(), 3);
        for run in ["beating", "expiring", "sleeping", "paying"] {
            engine.verify(&run_id(run)).await.unwrap();
        }
        serves_another(&engine).await;
    }
}

#[tokio::test]
async fn a_worker_whose_clock_is_behind_that_of_the_sender_finds_the_message() {
    for place in stores() {
        let (place, clock, seen) = (place(), SetClock::default(), Inspection::default());
        let engine =
            set_by_hand(&place, &clock, &seen).lease(Duration::from_millis(900)).start().await.unwrap();
        let listening = engine.start::<clock_listening>(()).id("listening").await.unwrap();
        suspended(&engine, "listening").await;
        clock.set(-YEARS);
        // The message makes the run due now, which for the worker is in three years.
        let sender = Engine::builder().store(place.again()).client().start().await.unwrap();
        sender.signal(listening.id(), "go", "1", &7).await.unwrap();
        assert_eq!(in_time(listening.result()).await.unwrap(), 7);
        serves_another(&engine).await;
    }
}

#[tokio::test]
async fn what_a_clock_that_was_ahead_left_for_later_goes_on_when_it_is_set_right() {
    for place in stores() {
        let (place, clock, seen) = (place(), SetClock::default(), Inspection::default());
        clock.set(YEARS);
        // One run is released in the middle of its work, and one is created for others to advance.
        let engine = set_by_hand(&place, &clock, &seen).start().await.unwrap();
        engine.start::<clock_standing>(()).id("standing").await.unwrap();
        seen.at_least(1).await;
        engine.drain(Duration::ZERO).await.unwrap();
        engine.start::<clock_standing>(()).id("created").await.unwrap();
        engine.shutdown().await.unwrap();
        let records = place.store.runs(RunFilter::new()).await.unwrap();
        let now = SystemEnvironment.now();
        assert!(records.iter().all(|run| run.wake_at.is_some_and(|due| due > now)), "{records:?}");

        clock.set(0);
        let lease = Duration::from_millis(900);
        let engine = set_by_hand(&place, &clock, &seen).lease(lease).start().await.unwrap();
        for run in ["standing", "created"] {
            let run = engine.handle::<clock_standing>(run).await.unwrap();
            in_time(run.result()).await.unwrap();
        }
        serves_another(&engine).await;
    }
}

#[tokio::test]
async fn an_approval_stays_open_when_the_clock_is_set_back() {
    for place in stores() {
        let (place, clock, seen) = (place(), SetClock::default(), Inspection::default());
        let engine = set_by_hand(&place, &clock, &seen).start().await.unwrap();
        let run = engine.start::<clock_expiring>(()).id("expiring").await.unwrap();
        let open = waits(&engine, "expiring", Waiting::Approval).await;
        clock.set(-YEARS);
        engine.approve(&open.run, &open.command, "ann").await.unwrap();
        assert!(in_time(run.result()).await.unwrap().contains("ann"));
        let view = engine.view(run.id()).await.unwrap();
        assert_eq!(view.status, Status::Completed);
        engine.verify(run.id()).await.unwrap();
    }
}
