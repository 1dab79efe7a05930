//! Forks and retries: what the plan lists, what is decided about it, and what the fork does then.

mod changed;
mod edited;
mod lost;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aether::effect::EffectClass;
use aether::engine::{CallOutcome, ForkDecision, ForkPlan};
use aether::error::{Fault, ForkError, RunError};
use aether::id::CommandId;
use aether::prelude::*;
use aether::store::event::Event;
use aether::store::{RunFilter, Store};
use aether::view::Status;
use aether_testing::crash::{CrashPoint, CrashStore};

use crate::seeds::histories::write_where_missing;
use crate::seeds::kit::{Calls, Place, builder, flushed, in_time, run_id, stores, until_waiting};

/// Whether the rates are reachable.
#[derive(Clone, Debug, Default)]
struct Rates(Arc<AtomicBool>);

/// What a model said about a claim.
#[step(effect = "read")]
async fn assess(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Put money aside.
#[step(effect = "tool", idempotent, on_unknown = "retry", compensate = release)]
async fn reserve(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Give it free.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn release(cx: &mut StepCx, cents: u32, reserved: Option<u32>) -> Result<()> {
    let _ = reserved;
    Calls::note(cx)?;
    if cents == 13 { Err(Failure::permanent("the reservation is gone")) } else { Ok(()) }
}

/// Send a letter.
#[step(effect = "tool", irreversible)]
async fn send(cx: &mut StepCx, cents: u32) -> Result<String> {
    Calls::note(cx)?;
    Ok(format!("letter about {cents}"))
}

/// Look a rate up.
#[step(effect = "read")]
async fn rate(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    match cx.dep::<Rates>()?.0.load(Ordering::SeqCst) {
        true => Ok(cents * 2),
        false => Err(Failure::permanent("the rates are down")),
    }
}

/// Pay.
#[step(effect = "tool")]
async fn pay(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Handle a claim.
#[workflow]
async fn claim(cx: &mut Cx, cents: u32) -> Result<String> {
    let cents = assess(cx, cents).await?;
    let letter = send(cx, cents).await?;
    let there = rate(cx, cents).await?;
    let paid = pay(cx, there).await?;
    Ok(format!("{letter}, paid {paid}"))
}

/// Send a letter; with the rates at hand, in the second generation.
#[workflow]
async fn renewed(cx: &mut Cx, cents: u32, again: bool) -> Result<u32> {
    if !again && rate(cx, cents).await.is_ok() {
        return cx.continue_as_new::<renewed>((cents, true)).await;
    }
    send(cx, cents).await?;
    Ok(rate(cx, cents).await?)
}

/// Handle a claim with a reservation, which is undone if it fails.
#[workflow]
async fn careful(cx: &mut Cx, cents: u32) -> Result<u32> {
    let cents = assess(cx, cents).await?;
    let reserved = reserve(cx, cents).await?;
    let letter = send(cx, cents).await?;
    let there = rate(cx, reserved).await?;
    assert!(!letter.is_empty());
    Ok(pay(cx, there).await?)
}

/// Send the same letter twice.
#[workflow]
async fn letters(cx: &mut Cx, cents: u32) -> Result<String> {
    let first = send(cx, cents).await?;
    assess(cx, cents).await?;
    match send(cx, cents).await {
        Err(aether::StepError::Taken(_)) => Ok(first),
        other => Err(Failure::new(format!("{other:?}"))),
    }
}

/// A reservation in one branch, a signal and a payment in the other.
#[workflow]
async fn branches(cx: &mut Cx, cents: u32) -> Result<u32> {
    let (a, b) = cx
        .join((
            async |cx: &mut Cx| reserve(cx, cents).await,
            async |cx: &mut Cx| {
                let more: u32 = cx.signal("more").await?;
                pay(cx, cents + more).await
            },
        ))
        .await;
    Ok(a? + b?)
}

/// Pay in the faster of two branches.
#[workflow]
async fn contest(cx: &mut Cx, cents: u32) -> Result<u32> {
    cx.race((
        async |cx: &mut Cx| {
            cx.sleep(Duration::from_secs(3600)).await;
            Ok(pay(cx, cents).await?)
        },
        async |cx: &mut Cx| Ok(assess(cx, cents).await?),
    ))
    .await
}

/// A claim of its own, and a payment.
#[workflow]
async fn parent(cx: &mut Cx, cents: u32) -> Result<u32> {
    let first = cx.child::<paying>(cents).await?;
    let second = cx.child::<paying>(cents + 1).await?;
    Ok(first + second + pay(cx, cents).await?)
}

/// Pay when it is time.
#[workflow]
async fn paying(cx: &mut Cx, cents: u32) -> Result<u32> {
    let more: u32 = if cents % 2 == 1 { cx.signal("more").await? } else { 0 };
    Ok(pay(cx, cents + more).await?)
}

async fn engine(store: &Arc<dyn Store>, calls: &Calls, rates: &Rates) -> Engine {
    builder(store, calls)
        .provide(rates.clone())
        .eviction_grace(Duration::from_millis(5))
        .start()
        .await
        .unwrap()
}

async fn journal(store: &Arc<dyn Store>, run: &str) -> Vec<Event> {
    let frames = store.load(&run_id(run), 0).await.unwrap();
    aether::store::read::events(&**store, &run_id(run), &frames).await.unwrap()
}

/// Each call on the bill as text.
fn bill(plan: &ForkPlan) -> Vec<String> {
    plan.calls().iter().map(|call| format!("{} {}", call.command, call.outcome)).collect()
}

fn command(text: &str) -> CommandId {
    CommandId::from(text.to_owned())
}

/// A claim that has failed for want of rates.
async fn failed(store: &Arc<dyn Store>) -> (Engine, Calls, Rates) {
    let (calls, rates) = (Calls::default(), Rates::default());
    let engine = engine(store, &calls, &rates).await;
    let run = engine.start::<claim>(7).id("claim-7").await.unwrap();
    assert!(matches!(in_time(run.result()).await, Err(RunError::Failed(_))));
    rates.0.store(true, Ordering::SeqCst);
    (engine, calls, rates)
}

#[tokio::test]
async fn a_run_that_failed_is_retried_once_and_its_latest_try_is_found() {
    for place in stores() {
        let place = place();
        let (engine, calls, _) = failed(&place.store).await;
        let plan = engine.retry(&run_id("claim-7")).plan().await.unwrap();
        assert!(bill(&plan).is_empty(), "{plan}");
        let again = plan.start("ada").await.unwrap();
        assert_eq!(again.id().as_str(), "claim-7~2");
        let handle = engine.handle::<claim>("claim-7~2").await.unwrap();
        assert_eq!(in_time(handle.result()).await.unwrap(), "letter about 7, paid 14");
        // What was done before the failure was not done again.
        assert_eq!((calls.of("assess"), calls.of("send"), calls.of("rate"), calls.of("pay")), (1, 1, 2, 1));
        let second = engine.retry(&run_id("claim-7")).plan().await.unwrap().start("ada").await.unwrap();
        assert_eq!(second.id().as_str(), "claim-7~2", "one retry");
        assert_eq!(engine.latest("claim-7").await.unwrap().id().as_str(), "claim-7~2");
        assert_eq!(engine.latest("claim-7~2").await.unwrap().id().as_str(), "claim-7~2");
        let verified = engine.verify(&run_id("claim-7~2")).await.unwrap();
        assert_eq!(verified.recorded, verified.matched);
        let Event::RunCreated(created) = journal(&place.store, "claim-7~2").await.remove(0) else { panic!() };
        let from = created.forked_from.unwrap();
        assert_eq!((from.run.as_str(), from.actor.as_str()), ("claim-7", "ada"));
        assert_eq!(engine.find("claim-7").await.unwrap().status().await.unwrap(), Status::Failed);
        let error = engine.retry(&run_id("claim-7~2")).plan().await.unwrap_err();
        assert!(matches!(error, ForkError::NotFailed { status: Status::Completed, .. }), "{error}");
    }
}

#[tokio::test]
async fn a_retry_makes_again_what_was_undone_when_the_run_failed() {
    for place in stores() {
        let place = place();
        let (calls, rates) = (Calls::default(), Rates::default());
        let engine = engine(&place.store, &calls, &rates).await;
        let run = engine.start::<careful>(7).id("careful-7").await.unwrap();
        assert!(in_time(run.result()).await.is_err());
        assert_eq!(calls.of("release"), 1);
        rates.0.store(true, Ordering::SeqCst);
        let error = engine.fork(run.id()).before("3:rate").plan().await.unwrap_err();
        let ForkError::UndoneBefore { earliest, .. } = &error else { panic!("{error}") };
        assert_eq!(earliest.as_str(), "1:reserve");
        let plan = engine.retry(run.id()).plan().await.unwrap();
        assert_eq!(bill(&plan), ["1:reserve undone", "2:send done"]);
        let undecided = plan.clone().start("ada").await.unwrap_err();
        let ForkError::Undecided { calls: open, .. } = &undecided else { panic!("{undecided}") };
        assert_eq!(open.len(), 1);
        assert_eq!((open[0].command.as_str(), open[0].irreversible), ("2:send", true));
        assert!(plan.clone().again_all().start("ada").await.is_err(), "an irreversible call is named");
        let again = plan.keep("2:send").start("ada").await.unwrap();
        let handle = engine.handle::<careful>(again.id().as_str()).await.unwrap();
        assert_eq!(in_time(handle.result()).await.unwrap(), 14);
        assert_eq!((calls.of("reserve"), calls.of("send"), calls.of("pay")), (2, 1, 1));
        let verified = engine.verify(again.id()).await.unwrap();
        assert_eq!(verified.recorded, verified.matched);
    }
}

#[tokio::test]
async fn a_plan_lists_the_calls_behind_the_cut_and_executes_nothing() {
    for place in stores() {
        let place = place();
        let (engine, calls, _) = failed(&place.store).await;
        engine.retry(&run_id("claim-7")).plan().await.unwrap().start("ada").await.unwrap();
        in_time(engine.handle::<claim>("claim-7~2").await.unwrap().result()).await.unwrap();
        let (before, made) = (journal(&place.store, "claim-7~2").await, calls.all());
        let run = run_id("claim-7~2");
        for (cut, wanted) in [
            ("0:assess", &["1:send done", "3:pay done"][..]),
            ("1:send", &["1:send done", "3:pay done"]),
            ("2:rate", &["3:pay done"]),
            ("3:pay", &["3:pay done"]),
        ] {
            let plan = engine.fork(&run).before(cut).plan().await.unwrap();
            assert_eq!(bill(&plan), wanted, "{cut}");
        }
        assert!(engine.fork(&run).at_end().plan().await.unwrap().calls().is_empty());
        let plan = engine.fork(&run).from_start().plan().await.unwrap();
        let sent = &plan.calls()[0];
        assert_eq!((sent.class, sent.outcome, sent.step()), (EffectClass::Tool, CallOutcome::Done, "send"));
        assert!(sent.irreversible && sent.args.is_some() && sent.site.is_some());
        assert_eq!(sent.result.as_ref().unwrap().as_str(), "\"letter about 7\"");
        assert_eq!(sent.key.as_ref().unwrap().as_str(), "aether:claim-7:1:send:0");
        assert_eq!((journal(&place.store, "claim-7~2").await, calls.all()), (before, made));
    }
}

#[tokio::test]
async fn a_kept_outcome_goes_to_the_same_call_and_an_irreversible_one_is_still_refused_twice() {
    for place in stores() {
        let place = place();
        let (calls, rates) = (Calls::default(), Rates::default());
        let engine = engine(&place.store, &calls, &rates).await;
        let run = engine.start::<letters>(5).id("l").await.unwrap();
        in_time(run.result()).await.unwrap();
        // Before the cut, and behind it and kept.
        for (id, plan) in [
            ("copied", engine.fork(run.id()).before("1:assess").plan().await.unwrap()),
            ("kept", engine.fork(run.id()).from_start().plan().await.unwrap().keep("0:send")),
        ] {
            let fork = plan.id(id).start("ada").await.unwrap();
            let handle = engine.handle::<letters>(fork.id().as_str()).await.unwrap();
            assert_eq!(in_time(handle.result()).await.unwrap(), "letter about 5", "{id}");
            assert_eq!(calls.of("send"), 1, "{id}");
            assert_eq!(engine.verify(fork.id()).await.unwrap().recorded, 3, "{id}");
        }
        let kept = journal(&place.store, "kept").await;
        assert!(kept.iter().any(|event| matches!(event, Event::OutcomeKept(_))));
        // A fork of the fork still knows.
        let plan = engine.fork(&run_id("kept")).before("2:send").plan().await.unwrap();
        let fork = plan.id("third").start("ada").await.unwrap();
        in_time(engine.handle::<letters>("third").await.unwrap().result()).await.unwrap();
        assert_eq!((fork.id().as_str(), calls.of("send")), ("third", 1));
        // Named, it is made again, under a key of its own.
        let plan = engine.fork(run.id()).from_start().plan().await.unwrap().again("0:send");
        let fork = plan.start("ada").await.unwrap();
        assert_eq!(fork.id().as_str(), "l~fork-1");
        in_time(engine.handle::<letters>("l~fork-1").await.unwrap().result()).await.unwrap();
        assert_eq!(calls.keys("send"), ["aether:l:0:send:0", "aether:l~fork-1:0:send:0"]);
    }
}

#[tokio::test]
async fn a_fork_that_continues_as_new_is_still_a_fork_and_keeps_what_was_decided() {
    for place in stores() {
        let place = place();
        let (calls, rates) = (Calls::default(), Rates::default());
        let engine = engine(&place.store, &calls, &rates).await;
        let run = engine.start::<renewed>((5, false)).id("r").await.unwrap();
        in_time(run.result()).await.unwrap_err();
        rates.0.store(true, Ordering::SeqCst);
        let plan = engine.fork(run.id()).from_start().plan().await.unwrap().keep_all();
        plan.id("r~2").start("ada").await.unwrap();
        let fork = engine.handle::<renewed>("r~2").await.unwrap();
        assert_eq!(in_time(fork.result()).await.unwrap(), 10);
        assert_eq!(calls.of("send"), 1);
        let journal = journal(&place.store, "r~2").await;
        assert!(matches!(&journal[1], Event::RunContinued(_)));
        assert!(journal.iter().any(|event| matches!(event, Event::OutcomeKept(_))), "{journal:?}");
        assert_eq!(engine.latest("r").await.unwrap().id(), fork.id());
        engine.verify(fork.id()).await.unwrap();
    }
}

#[tokio::test]
async fn a_call_is_undone_before_the_fork_begins() {
    for place in stores() {
        let place = place();
        let (calls, rates) = (Calls::default(), Rates(Arc::new(AtomicBool::new(true))));
        let engine = engine(&place.store, &calls, &rates).await;
        let run = engine.start::<careful>(7).id("c").await.unwrap();
        in_time(run.result()).await.unwrap();
        let plan = engine.fork(run.id()).before("1:reserve").plan().await.unwrap();
        assert_eq!(bill(&plan), ["1:reserve done", "2:send done", "4:pay done"]);
        let plan = plan.undo_first("1:reserve").keep("2:send").keep("4:pay");
        let fork = plan.start("ada").await.unwrap();
        let handle = engine.handle::<careful>(fork.id().as_str()).await.unwrap();
        assert_eq!(in_time(handle.result()).await.unwrap(), 14);
        assert_eq!((calls.of("release"), calls.of("reserve"), calls.of("pay")), (1, 2, 1));
        let events = journal(&place.store, fork.id().as_str()).await;
        let at = |wanted: &str, kind: fn(&Event) -> bool| {
            let found = |event: &Event| event.command() == Some(&command(wanted)) && kind(event);
            events.iter().position(found).unwrap()
        };
        let undone = at("fork.0.undo.1:release", |event| matches!(event, Event::StepCompensated(_)));
        assert!(undone < at("1:reserve", |event| matches!(event, Event::NodeStarted(_))));
        let verified = engine.verify(fork.id()).await.unwrap();
        assert_eq!(verified.recorded, verified.matched);
        // One that cannot be undone keeps the fork from beginning.
        let run = engine.start::<careful>(13).id("d").await.unwrap();
        in_time(run.result()).await.unwrap();
        let plan = engine.fork(run.id()).before("1:reserve").plan().await.unwrap();
        let fork = plan.undo_first("1:reserve").keep_all().start("ada").await.unwrap();
        let error = in_time(engine.handle::<careful>(fork.id().as_str()).await.unwrap().result()).await;
        let Err(RunError::Failed(failure)) = error else { panic!("{error:?}") };
        assert!(failure.message().contains("`1:reserve` of the origin could not be undone"), "{failure}");
        assert_eq!(calls.of("reserve"), 3);
        // It is still on the bill of a fork of the fork.
        let plan = engine.fork(fork.id()).from_start().plan().await.unwrap();
        assert_eq!(bill(&plan)[0], "1:reserve done");
    }
}

#[tokio::test]
async fn what_is_not_possible_is_a_typed_error() {
    let place = Place::memory();
    let (engine, _, _) = failed(&place.store).await;
    let run = run_id("claim-7");
    let plan = |cut: &'static str| engine.fork(&run).before(cut).plan();
    let error = engine.fork(&run).plan().await.unwrap_err();
    assert!(matches!(error, ForkError::NoCut { .. }), "{error}");
    let error = plan("9:send").await.unwrap_err();
    let ForkError::NoSuchCommand { near, .. } = &error else { panic!("{error}") };
    assert_eq!(near, &[command("1:send")]);
    let error = plan("1:sent").await.unwrap_err();
    assert!(
        matches!(&error, ForkError::NoSuchCommand { near, .. } if near[0].as_str() == "1:send"),
        "{error}"
    );
    let error = engine.fork(&run_id("nobody")).from_start().plan().await.unwrap_err();
    assert!(matches!(error, ForkError::Store(_)), "{error}");
    let start = async |plan: ForkPlan| plan.start("ada").await.unwrap_err();
    let open = || async { plan("1:send").await.unwrap() };
    let error = start(open().await.keep("7:nothing")).await;
    assert!(matches!(&error, ForkError::NotBilled { calls, .. } if calls.len() == 1), "{error}");
    let error = start(open().await.undo_first("1:send")).await;
    assert!(matches!(&error, ForkError::CannotDecide { decision: ForkDecision::UndoFirst, .. }), "{error}");
    let error = start(open().await).await;
    assert!(matches!(&error, ForkError::Undecided { calls, .. } if calls.len() == 1), "{error}");
    assert!(error.to_string().contains("`1:send` (done, irreversible)"), "{error}");
    let error = open().await.keep_all().start(" ").await.unwrap_err();
    assert!(matches!(error, ForkError::NoActor { .. }), "{error}");
    let error = start(open().await.keep_all().id("claim-7")).await;
    assert!(matches!(error, ForkError::IdTaken { .. }), "{error}");
    for wrong in ["1:send", "5:nothing"] {
        let error = start(open().await.keep_all().answer(wrong, &1)).await;
        assert!(matches!(error, ForkError::NoAnswer { .. }), "{wrong}: {error}");
    }
    let run = engine.start::<contest>(5).id("race").await.unwrap();
    in_time(run.result()).await.unwrap();
    let error = engine.fork(run.id()).before("0.b0.0:sleep").plan().await.unwrap_err();
    assert!(matches!(&error, ForkError::LostRace { race, .. } if race.as_str() == "0:race"), "{error}");
    let run = engine.start::<careful>(7).id("undone").await.unwrap();
    let _ended = in_time(run.result()).await;
    let error = engine.fork(run.id()).before("undo.1:release").plan().await.unwrap_err();
    assert!(matches!(error, ForkError::Compensation { .. }), "{error}");
    let none = engine.runs(RunFilter { id_contains: Some("~".into()), ..RunFilter::new() }).await.unwrap();
    assert!(none.is_empty(), "{none:?}");
}

#[tokio::test]
async fn an_answer_before_the_cut_is_replaced() {
    for place in stores() {
        let place = place();
        let (engine, calls, _) = failed(&place.store).await;
        let plan = engine.fork(&run_id("claim-7")).before("1:send").plan().await.unwrap();
        let fork = plan.keep("1:send").answer("0:assess", &9).start("ada").await.unwrap();
        let handle = engine.handle::<claim>(fork.id().as_str()).await.unwrap();
        // Another letter: the kept one is not for these arguments.
        assert_eq!(in_time(handle.result()).await.unwrap(), "letter about 9, paid 18");
        assert_eq!((calls.of("assess"), calls.of("send")), (1, 2));
        let events = journal(&place.store, fork.id().as_str()).await;
        let replaced =
            |event: &Event| matches!(event, Event::AnswerReplaced(e) if e.origin.as_str() == "0:assess");
        assert!(events.iter().any(replaced));
        // The letter that was kept and not used is still known to a fork of the fork.
        let plan = engine.fork(fork.id()).before("3:pay").plan().await.unwrap();
        assert_eq!(bill(&plan), ["1:send done", "3:pay done"]);
    }
}

#[tokio::test]
async fn other_branches_keep_what_they_had_got_and_begin_again_what_they_had_not() {
    for place in stores() {
        let place = place();
        let (calls, rates) = (Calls::default(), Rates::default());
        let engine = engine(&place.store, &calls, &rates).await;
        let run = engine.start::<branches>(5).id("b").await.unwrap();
        until_waiting(&run).await;
        let error = engine.fork(run.id()).at_end().plan().await.unwrap().start("ada").await.unwrap_err();
        assert!(matches!(error, ForkError::StillOpen { .. }), "{error}");
        // The wait is not answered: it begins again in the fork, beside the origin.
        let plan = engine.fork(run.id()).at_end().plan().await.unwrap().leave_origin_running();
        let beside =
            engine.handle::<branches>(plan.id("beside").start("ada").await.unwrap().id().as_str()).await;
        let beside = beside.unwrap();
        engine.signal(beside.id(), "more", "m", &1_u32).await.unwrap();
        assert_eq!(in_time(beside.result()).await.unwrap(), 11);
        assert_eq!(run.status().await.unwrap(), Status::Waiting);
        // A fork that is refused ends nothing.
        let plan = engine.fork(run.id()).from_start().plan().await.unwrap();
        let error = plan.end_origin("wrong amount").start("ada").await.unwrap_err();
        assert!(matches!(error, ForkError::Undecided { .. }), "{error}");
        let plan = engine.fork(run.id()).at_end().plan().await.unwrap();
        let error = plan.end_origin("wrong amount").id("b").start("ada").await.unwrap_err();
        assert!(matches!(error, ForkError::IdTaken { .. }), "{error}");
        assert_eq!(run.status().await.unwrap(), Status::Waiting);
        // Ended first, it is not undone, and the fork answers for its steps.
        let plan = engine.fork(run.id()).before("0.b1.0:signal").plan().await.unwrap();
        // If it was answered after the wait had begun.
        let plan = plan.keep_all();
        let fork = plan.end_origin("wrong amount").id("instead").start("ada").await.unwrap();
        assert_eq!(run.status().await.unwrap(), Status::Cancelled);
        let fork = engine.handle::<branches>(fork.id().as_str()).await.unwrap();
        engine.signal(fork.id(), "more", "m", &2_u32).await.unwrap();
        assert_eq!(in_time(fork.result()).await.unwrap(), 12);
        assert_eq!((calls.of("reserve"), calls.of("pay"), calls.of("release")), (1, 2, 0));
    }
}

#[tokio::test]
async fn children_are_taken_over_and_not_started_again() {
    for place in stores() {
        let place = place();
        let (calls, rates) = (Calls::default(), Rates::default());
        let engine = engine(&place.store, &calls, &rates).await;
        let run = engine.start::<parent>(4).id("p").await.unwrap();
        until_waiting(&run).await;
        let child = run_id("p/1:paying");
        in_time(async {
            while engine.find(child.as_str()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let plan = engine.fork(run.id()).before("1:paying").plan().await.unwrap();
        assert_eq!(bill(&plan), ["1:paying waiting"]);
        assert_eq!(plan.calls()[0].child.as_ref(), Some(&child));
        // The first child is copied; the second one is open, and both wait for it.
        let fork = plan.keep("1:paying").leave_origin_running().id("f").start("ada").await.unwrap();
        let fork = engine.handle::<parent>(fork.id().as_str()).await.unwrap();
        in_time(until_waiting(&fork)).await;
        engine.signal(&child, "more", "m", &1_u32).await.unwrap();
        assert_eq!(in_time(fork.result()).await.unwrap(), 4 + 6 + 4);
        assert_eq!(in_time(run.result()).await.unwrap(), 4 + 6 + 4);
        let runs = engine.count(RunFilter::new()).await.unwrap();
        assert_eq!((calls.of("pay"), runs), (4, 4));
        // Behind the cut and ended, their ends are kept.
        let plan = engine.fork(run.id()).from_start().plan().await.unwrap().keep_all().id("g");
        plan.start("ada").await.unwrap();
        assert_eq!(in_time(engine.handle::<parent>("g").await.unwrap().result()).await.unwrap(), 14);
        assert_eq!((calls.of("pay"), engine.count(RunFilter::new()).await.unwrap()), (4, 5));
        for fork in ["f", "g"] {
            let verified = engine.verify(&run_id(fork)).await.unwrap();
            assert_eq!(verified.recorded, verified.matched, "{fork}");
        }
        // Made again, they are runs of the fork's own.
        let plan = engine.fork(run.id()).from_start().plan().await.unwrap();
        plan.again("0:paying").keep_all().id("h").start("ada").await.unwrap();
        in_time(engine.handle::<parent>("h").await.unwrap().result()).await.unwrap();
        assert!(engine.find("h/0:paying").await.is_ok());
    }
}

#[tokio::test]
async fn many_runs_are_retried_with_a_report_for_each() {
    let place = Place::sqlite();
    let (calls, rates) = (Calls::default(), Rates::default());
    let engine = engine(&place.store, &calls, &rates).await;
    for number in [1, 2, 3] {
        let run = engine.start::<careful>(number).id(format!("c{number}")).await.unwrap();
        assert!(in_time(run.result()).await.is_err());
    }
    rates.0.store(true, Ordering::SeqCst);
    let failed = RunFilter::new().status(Status::Failed);
    let plans = engine.plan_forks(failed.clone(), |run| run.before_failure()).await.unwrap();
    assert_eq!(plans.iter().filter(|planned| planned.plan.is_ok()).count(), 3);
    let undecided = engine.retry_all(failed.clone(), "ada", |plan| plan).await.unwrap();
    assert!(undecided.iter().all(|report| matches!(report.fork, Err(ForkError::Undecided { .. }))));
    let reports = engine.retry_all(failed, "ada", |plan| plan.keep_all()).await.unwrap();
    assert_eq!(reports.len(), 3);
    for report in reports {
        let fork = report.fork.unwrap();
        assert_eq!(fork.as_str(), format!("{}~2", report.run));
        in_time(engine.handle::<careful>(fork.as_str()).await.unwrap().result()).await.unwrap();
    }
    assert_eq!((calls.of("send"), calls.of("pay")), (3, 3));
}

#[tokio::test]
async fn a_process_that_dies_while_a_fork_starts_leaves_none_or_a_whole_one() {
    for place in stores() {
        let place = place();
        let (engine, _, rates) = failed(&place.store).await;
        engine.shutdown().await.unwrap();
        for (number, whole) in [(0, false), (1, true)] {
            let store = place.again();
            let point = if whole { CrashPoint::After(1) } else { CrashPoint::Before(1) };
            let dying = Arc::new(CrashStore::new(store.clone(), Some(point)));
            let calls = Calls::default();
            let engine = builder(&(dying.clone() as Arc<dyn Store>), &calls).provide(rates.clone());
            let engine = engine.start().await.unwrap();
            let plan = engine.fork(&run_id("claim-7")).before("1:send").plan().await.unwrap();
            let plan = plan.keep("1:send").id(format!("f{number}"));
            tokio::select! {
                _ = plan.start("ada") => panic!("it did not die"),
                () = dying.crashed() => {}
            }
            // What was queued is written, and nobody knows.
            flushed(&place.store).await;
            drop(engine);
            let store = place.again();
            let found = store.run(&run_id(&format!("f{number}"))).await.unwrap();
            assert_eq!(found.is_some(), whole);
            if whole {
                let rows = store.entries(&run_id("f1")).await.unwrap();
                assert_eq!(rows.len(), 1, "the letter's business key is held in the fork");
                let calls = Calls::default();
                let engine = self::engine(&store, &calls, &rates).await;
                let handle = engine.handle::<claim>("f1").await.unwrap();
                assert_eq!(in_time(handle.result()).await.unwrap(), "letter about 7, paid 14");
                assert_eq!(calls.of("send"), 0);
            }
        }
    }
}

#[tokio::test]
async fn code_that_does_not_replay_what_is_copied_is_told_before_anything_is_written() {
    let place = Place::sqlite();
    let (engine, _, _) = failed(&place.store).await;
    // An answer that leads elsewhere than history: the copied letter was about 7.
    let plan = engine.fork(&run_id("claim-7")).before("2:rate").plan().await.unwrap();
    let error = plan.answer("0:assess", &9).id("misfit").start("ada").await.unwrap_err();
    let ForkError::DoesNotFit { fault, .. } = &error else { panic!("{error}") };
    assert!(matches!(**fault, Fault::Diverged(_)), "{error}");
    assert!(engine.find("misfit").await.is_err());
}

#[tokio::test]
async fn what_a_fork_writes_is_a_history_for_ever() {
    let place = Place::sqlite();
    let (engine, calls, _) = failed(&place.store).await;
    engine.retry(&run_id("claim-7")).plan().await.unwrap().start("ada").await.unwrap();
    in_time(engine.handle::<claim>("claim-7~2").await.unwrap().result()).await.unwrap();
    let plan = engine.fork(&run_id("claim-7~2")).before("3:pay").plan().await.unwrap();
    let fork = plan.keep("3:pay").answer("2:rate", &14).id("claim-7-again").start("ada").await.unwrap();
    let handle = engine.handle::<claim>(fork.id().as_str()).await.unwrap();
    assert_eq!(in_time(handle.result()).await.unwrap(), "letter about 7, paid 14");
    assert_eq!(calls.of("pay"), 1);
    let kinds: Vec<_> = journal(&place.store, "claim-7-again").await.iter().map(Event::kind).collect();
    for kind in ["fork_decided", "outcome_kept", "answer_replaced"] {
        assert!(kinds.iter().any(|found| found == kind), "{kinds:?}");
    }
    write_where_missing("forked", "claim-7-again", &place).await;
}
