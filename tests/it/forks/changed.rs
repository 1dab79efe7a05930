//! Forks under code that was changed since: kept outcomes, and steps that are to be undone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aether::engine::CallOutcome;
use aether::error::{ForkError, RunError};
use aether::prelude::*;
use aether::view::Status;
use serde::{Deserialize, Serialize};

use super::{Rates, bill, engine, rate, reserve};
use crate::seeds::kit::{Calls, builder, in_time, run_id, stores, until_waiting};

/// Whether the build with the new member runs.
static NEW_SHAPE: AtomicBool = AtomicBool::new(false);

/// What is to be done. The member was added.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ticket {
    id: u32,
    #[serde(default, skip_serializing_if = "is_old")]
    vip: Option<bool>,
}

fn is_old(_vip: &Option<bool>) -> bool {
    !NEW_SHAPE.load(Ordering::SeqCst)
}

/// Post a ticket.
#[step(effect = "tool", irreversible)]
async fn post(cx: &mut StepCx, ticket: Ticket) -> Result<u32> {
    Calls::note(cx)?;
    Ok(ticket.id)
}

/// Deliver a ticket.
#[workflow]
async fn delivery(cx: &mut Cx, ticket: Ticket) -> Result<u32> {
    Ok(post(cx, ticket).await?)
}

/// Post a ticket, and deliver another one.
#[workflow]
async fn posting(cx: &mut Cx, id: u32) -> Result<u32> {
    let posted = post(cx, Ticket { id, vip: None }).await?;
    Ok(posted + cx.child::<delivery>(Ticket { id: id + 1, vip: None }).await?)
}

#[tokio::test]
async fn a_kept_outcome_goes_to_the_same_arguments_in_a_newer_encoding() {
    for place in stores() {
        NEW_SHAPE.store(false, Ordering::SeqCst);
        let place = place();
        let calls = Calls::default();
        let engine = engine(&place.store, &calls, &Rates::default()).await;
        let run = engine.start::<posting>(3).id("posted").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 7);
        NEW_SHAPE.store(true, Ordering::SeqCst);
        for (origin, fork) in [("posted", "again"), ("again", "third")] {
            let plan = engine.fork(&run_id(origin)).from_start().plan().await.unwrap();
            plan.keep_all().id(fork).start("ada").await.unwrap();
            assert_eq!(in_time(engine.handle::<posting>(fork).await.unwrap().result()).await.unwrap(), 7);
            assert_eq!(calls.of("post"), 2, "nothing is made again");
            let verified = engine.verify(&run_id(fork)).await.unwrap();
            assert_eq!(verified.recorded, verified.matched);
        }
    }
}

/// Whether the build that also sends a text message runs.
#[derive(Clone, Debug, Default)]
struct Texts(Arc<AtomicBool>);

mod mail {
    use super::*;

    /// Send a mail.
    #[step(effect = "tool")]
    pub(super) async fn dispatch(cx: &mut StepCx, number: u32) -> Result<String> {
        cx.dep::<Calls>()?.add("mail", cx.idempotency_key().as_str());
        Ok(format!("mailed {number}"))
    }
}

mod sms {
    use super::*;

    /// Send a text message.
    #[step(effect = "tool")]
    pub(super) async fn dispatch(cx: &mut StepCx, number: u32) -> Result<String> {
        cx.dep::<Calls>()?.add("sms", cx.idempotency_key().as_str());
        Ok(format!("texted {number}"))
    }
}

/// Whether text messages are sent.
#[step(effect = "read")]
async fn texts(cx: &mut StepCx) -> Result<bool> {
    Ok(cx.dep::<Texts>()?.0.load(Ordering::SeqCst))
}

/// Send a mail, and in the newer build a text message before it.
#[workflow]
async fn telling(cx: &mut Cx, number: u32) -> Result<String> {
    let text = if texts(cx).await? { sms::dispatch(cx, number).await? } else { String::new() };
    Ok(text + &mail::dispatch(cx, number).await?)
}

#[tokio::test]
async fn a_kept_outcome_does_not_go_to_another_step_of_the_same_name() {
    for place in stores() {
        let place = place();
        let (calls, build) = (Calls::default(), Texts::default());
        let engine = builder(&place.store, &calls).provide(build.clone()).start().await.unwrap();
        let run = engine.start::<telling>(3).id("told").await.unwrap();
        in_time(run.result()).await.unwrap();
        build.0.store(true, Ordering::SeqCst);
        let plan = engine.fork(run.id()).from_start().plan().await.unwrap();
        plan.keep_all().id("again").start("ada").await.unwrap();
        let again = engine.handle::<telling>("again").await.unwrap();
        assert_eq!(in_time(again.result()).await.unwrap(), "texted 3mailed 3");
        assert_eq!((calls.of("mail"), calls.of("sms")), (1, 1));
    }
}

/// Whether the build runs that begins with another step.
static ELSEWHERE: AtomicBool = AtomicBool::new(false);

fn is_elsewhere() -> bool {
    ELSEWHERE.load(Ordering::SeqCst)
}

/// Send a message, and wait.
#[workflow]
async fn waiting(cx: &mut Cx, number: u32) -> Result<u32> {
    if is_elsewhere() {
        sms::dispatch(cx, number).await?
    } else {
        mail::dispatch(cx, number).await?
    };
    if is_elsewhere() { Ok(number) } else { Ok(cx.signal("more").await?) }
}

#[tokio::test]
async fn an_origin_that_the_code_does_not_fit_is_ended_and_forked() {
    for place in stores() {
        ELSEWHERE.store(false, Ordering::SeqCst);
        let place = place();
        let calls = Calls::default();
        let old = builder(&place.store, &calls).start().await.unwrap();
        let run = old.start::<waiting>(3).id("waiting").await.unwrap();
        in_time(until_waiting(&run)).await;
        old.shutdown().await.unwrap();
        ELSEWHERE.store(true, Ordering::SeqCst);
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let plan = engine.fork(&run_id("waiting")).from_start().plan().await.unwrap().keep_all();
        in_time(plan.end_origin("new code").id("instead").start("ada")).await.unwrap();
        let instead = engine.handle::<waiting>("instead").await.unwrap();
        assert_eq!(in_time(instead.result()).await.unwrap(), 3);
        assert_eq!(engine.find("waiting").await.unwrap().status().await.unwrap(), Status::Cancelled);
    }
}

/// Fail in the second generation.
#[workflow]
async fn renewed(cx: &mut Cx, generation: u32) -> Result<u32> {
    if generation == 0 {
        return cx.continue_as_new::<renewed>(1_u32).await;
    }
    let more: u32 = cx.signal("more").await?;
    Err(Failure::permanent(format!("generation {generation} got {more}")))
}

#[tokio::test]
async fn a_later_generation_is_neither_forked_nor_ended_for_it() {
    for place in stores() {
        let place = place();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<renewed>(0_u32).id("renewed").await.unwrap();
        let early = engine.fork(run.id()).from_start().plan().await;
        in_time(until_waiting(&run)).await;
        if let Ok(plan) = early {
            let error = plan.end_origin("too late").start("ada").await.unwrap_err();
            assert!(matches!(error, ForkError::LaterGeneration { generation: 1, .. }), "{error}");
            assert_eq!(run.status().await.unwrap(), Status::Waiting);
        }
        engine.signal(run.id(), "more", "m", &1_u32).await.unwrap();
        assert!(in_time(run.result()).await.is_err());
        for planned in [engine.retry(run.id()).plan().await, engine.fork(run.id()).from_start().plan().await]
        {
            let error = planned.unwrap_err();
            assert!(matches!(error, ForkError::LaterGeneration { generation: 1, .. }), "{error}");
        }
    }
}

/// Whether the build runs that reserves more.
static RAISED: AtomicBool = AtomicBool::new(false);

fn raise() -> u32 {
    if RAISED.load(Ordering::SeqCst) { 10 } else { 0 }
}

/// Reserve, wait, and fail for want of rates.
#[workflow]
async fn reserving(cx: &mut Cx, cents: u32) -> Result<u32> {
    let cents = reserve(cx, cents + raise()).await?;
    let _go: u32 = cx.signal("go").await?;
    Ok(rate(cx, cents).await?)
}

/// The first of these runs, and a fork of it that keeps its reservation; both wait.
async fn reserved_twice(engine: &Engine, first: &str, second: &str, raised: bool) {
    RAISED.store(false, Ordering::SeqCst);
    let run = engine.start::<reserving>(7).id(first).await.unwrap();
    in_time(until_waiting(&run)).await;
    RAISED.store(raised, Ordering::SeqCst);
    let plan = engine.fork(run.id()).from_start().plan().await.unwrap().keep_all();
    plan.end_origin("new code").id(second).start("ada").await.unwrap();
    in_time(until_waiting(&engine.find(second).await.unwrap())).await;
}

/// In one test: the builds are told apart by a static.
#[tokio::test]
async fn a_kept_reservation_is_undone_once_whether_or_not_it_was_asked_for() {
    for place in stores() {
        let place = place();
        let calls = Calls::default();
        let engine = engine(&place.store, &calls, &Rates::default()).await;
        for (second, raised, keys) in [
            ("taken", false, &["aether:taken:undo.0:release:0"][..]),
            ("left", true, &["aether:left:undo.0:release:0", "aether:left:undo.fork.0.0:release:0"]),
        ] {
            let before = calls.of("release");
            reserved_twice(&engine, &format!("before-{second}"), second, raised).await;
            engine.signal(&run_id(second), "go", "m", &1_u32).await.unwrap();
            let run = engine.handle::<reserving>(second).await.unwrap();
            assert!(matches!(in_time(run.result()).await, Err(RunError::Failed(_))));
            assert_eq!(calls.keys("release")[before..], *keys, "{second}");
            let verified = engine.verify(run.id()).await.unwrap();
            assert_eq!(verified.recorded, verified.matched);
            let plan = engine.fork(run.id()).from_start().plan().await.unwrap();
            assert!(plan.calls().iter().all(|call| call.outcome == CallOutcome::Compensated), "{plan}");
        }
        let before = calls.of("release");
        reserved_twice(&engine, "origin", "second", true).await;
        let plan = engine.fork(&run_id("second")).from_start().plan().await.unwrap();
        assert_eq!(bill(&plan), ["0:reserve done", "0:reserve done"]);
        let error = plan.clone().undo_first("0:reserve").start("ada").await.unwrap_err();
        let ForkError::Ambiguous { names, .. } = &error else { panic!("{error}") };
        assert_eq!(names, &["0:reserve#1", "0:reserve#2"]);
        let plan = plan.undo_first("0:reserve#1").undo_first("0:reserve#2").end_origin("again");
        plan.id("third").start("ada").await.unwrap();
        in_time(until_waiting(&engine.find("third").await.unwrap())).await;
        assert_eq!(
            calls.keys("release")[before..],
            ["aether:third:fork.1.undo.0:release:0", "aether:third:fork.0.undo.0:release:0"]
        );
        engine.terminate(&run_id("third"), "done", "ada").await.unwrap();
    }
}

/// Whether the build runs that does not wait for the child's end.
static STARTS_ONLY: AtomicBool = AtomicBool::new(false);

fn starts_only() -> bool {
    STARTS_ONLY.load(Ordering::SeqCst)
}

/// Say what was sent.
#[workflow]
async fn letter(cx: &mut Cx, number: u32) -> Result<String> {
    mail::dispatch(cx, number).await.map_err(Failure::from)
}

/// Send a letter, as a run of its own.
#[workflow]
async fn correspondence(cx: &mut Cx, number: u32) -> Result<String> {
    if starts_only() {
        let started = cx.start_child::<letter>(number).await?;
        let id = started.id().to_string();
        started.result(cx).await?;
        Ok(id)
    } else {
        Ok(cx.child::<letter>(number).await?)
    }
}

#[tokio::test]
async fn the_id_of_a_child_that_was_started_is_not_the_result_of_one_that_is_awaited() {
    for first in [true, false] {
        for place in stores() {
            STARTS_ONLY.store(first, Ordering::SeqCst);
            let (place, calls) = (place(), Calls::default());
            let engine = builder(&place.store, &calls).start().await.unwrap();
            let run = engine.start::<correspondence>(3).id("origin").await.unwrap();
            let expected = ["origin/0:letter", "mailed 3"];
            assert_eq!(in_time(run.result()).await.unwrap(), expected[usize::from(!first)]);
            STARTS_ONLY.store(!first, Ordering::SeqCst);
            let plan = engine.fork(run.id()).from_start().plan().await.unwrap().keep_all();
            plan.id("fork").start("ada").await.unwrap();
            let fork = engine.handle::<correspondence>("fork").await.unwrap();
            assert_eq!(in_time(fork.result()).await.unwrap(), expected[usize::from(first)]);
            assert_eq!(calls.of("mail"), 1, "the child of the origin is the fork's");
            engine.verify(&run_id("fork")).await.unwrap();
        }
    }
}

/// Whether the build runs that continues as new before it asks for anything.
static RENEWS: AtomicBool = AtomicBool::new(false);

fn renews() -> bool {
    RENEWS.load(Ordering::SeqCst)
}

/// Reserve and wait; in the newer build, continue as new first, and fail.
#[workflow]
async fn renewing(cx: &mut Cx, round: u32) -> Result<u32> {
    if renews() && round == 0 {
        return cx.continue_as_new::<renewing>(1_u32).await;
    }
    if renews() {
        reserve(cx, 8).await?;
        return Err(Failure::permanent("no use"));
    }
    reserve(cx, 5).await?;
    Ok(cx.signal("more").await?)
}

#[tokio::test]
async fn what_a_fork_kept_is_undone_once_also_when_it_has_continued_as_new() {
    for place in stores() {
        RENEWS.store(false, Ordering::SeqCst);
        let (place, calls) = (place(), Calls::default());
        let old = engine(&place.store, &calls, &Rates::default()).await;
        let run = old.start::<renewing>(0_u32).id("origin").await.unwrap();
        in_time(until_waiting(&run)).await;
        old.shutdown().await.unwrap();
        RENEWS.store(true, Ordering::SeqCst);
        let engine = engine(&place.store, &calls, &Rates::default()).await;
        let plan = engine.fork(&run_id("origin")).from_start().plan().await.unwrap().keep_all();
        in_time(plan.end_origin("new code").id("fork").start("ada")).await.unwrap();
        let fork = engine.handle::<renewing>("fork").await.unwrap();
        let error = in_time(fork.result()).await.unwrap_err();
        assert!(error.to_string().contains("no use"), "{error}");
        assert_eq!((calls.of("reserve"), calls.of("release")), (2, 2), "its own and the kept one");
        // The kept one was made first, so it is undone last.
        let events = super::journal(&place.store, "fork").await;
        let undone = events.iter().filter_map(|event| match event {
            aether::store::event::Event::StepCompensated(e) => Some(e.undoes.to_string()),
            _ => None,
        });
        let undone: Vec<_> = undone.collect();
        assert!(undone.len() == 2 && undone[0].starts_with("c1."), "{undone:?}");
    }
}

#[tokio::test]
async fn two_forks_that_are_decided_in_two_ways_are_two() {
    for place in stores() {
        let place = place();
        let (engine, _, _) = super::failed(&place.store).await;
        let plan = || async {
            let plan = engine.fork(&run_id("claim-7")).before("1:send").plan().await.unwrap();
            plan.keep("1:send")
        };
        let (one, other) = (plan().await.answer("0:assess", &9), plan().await.answer("0:assess", &11));
        let (one, other) = tokio::join!(one.start("ada"), other.start("bob"));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_ne!(one.id(), other.id());
        for (fork, cents) in [(&one, 9), (&other, 11)] {
            let fork = engine.handle::<super::claim>(fork.id().as_str()).await.unwrap();
            let letter = in_time(fork.result()).await.unwrap();
            assert!(letter.starts_with(&format!("letter about {cents},")), "{letter}");
        }
        // Under one id: the same again is found, and another one is refused.
        let named = |cents: u32| async move {
            plan().await.answer("0:assess", &cents).id("named").start("ada").await
        };
        assert_eq!(named(9).await.unwrap().id().as_str(), "named");
        assert_eq!(named(9).await.unwrap().id().as_str(), "named");
        let error = named(11).await.unwrap_err();
        assert!(matches!(error, ForkError::IdTaken { .. }), "{error}");
    }
}
