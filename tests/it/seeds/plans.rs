//! Plans as recorded values, made with `cx.plan`: row 42.

use std::sync::{Mutex, PoisonError};

use aether::engine::Fit;
use aether::error::{Fault, VerifyError};
use aether::id::CommandId;
use aether::prelude::*;
use aether::store::event::{Event, PlanGenerated};

use super::chain::look;
use super::kit::{Calls, Journal, Rows, builder, failed, in_time, json, resume, run_id, stores};

/// Who planned, in this process.
static PLANNED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Counted outside of the workflow, which may touch nothing.
fn count_planning(who: &str, plan: Vec<u32>) -> Vec<u32> {
    PLANNED.lock().unwrap_or_else(PoisonError::into_inner).push(who.to_owned());
    plan
}

fn planned(who: &str) -> usize {
    PLANNED.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|planner| *planner == who).count()
}

/// Think of steps to take.
#[step(effect = "llm")]
async fn draft(cx: &mut StepCx) -> Result<Vec<u32>> {
    Calls::note(cx)?;
    Ok(vec![3, 1, 2])
}

/// Plan, and take every step of the plan.
#[workflow]
async fn seed_planned(cx: &mut Cx, who: String) -> Result<Vec<u32>> {
    let plan: Vec<u32> = cx
        .plan("route", async |cx: &mut Cx| -> Result<_> { Ok(count_planning(&who, draft(cx).await?)) })
        .await?;
    let looked = cx.each(plan, async |cx: &mut Cx, n| look(cx, n).await.map(|_| n)).await;
    Ok(looked.into_iter().collect::<std::result::Result<_, _>>()?)
}

/// Fail to plan.
#[workflow]
async fn seed_planless(cx: &mut Cx) -> Result<u32> {
    cx.plan("none", async |cx: &mut Cx| -> Result<u32> {
        draft(cx).await?;
        Err(Failure::permanent("there is nothing to be done"))
    })
    .await
}

#[tokio::test]
async fn s042_a_plan_drives_the_run_and_its_planner_is_called_once() {
    const DRIVES: &str = "drives";
    let whole = Journal::record::<seed_planned>("planned", DRIVES.into()).await;
    assert_eq!(whole.count("plan_generated", "plan.route"), 1);
    let at = whole.events.iter().position(|event| matches!(event, Event::PlanGenerated(_))).unwrap();
    let command = CommandId::new("0", "plan.route");
    for place in stores() {
        // What the journal holds counts, whatever the planner of today would say.
        let mut other = whole.first(1);
        other.events.push(PlanGenerated { command: command.clone(), plan: json("[5,6]") }.into());
        for (cut, expected) in [(whole.first(at + 1), vec![3, 1, 2]), (other, vec![5, 6])] {
            let (place, calls, before) = (place(), Calls::default(), planned(DRIVES));
            cut.plant(&place.store, Rows::Follow).await;
            let (engine, result) = resume::<seed_planned>(&place.store, "planned", &calls).await;
            assert_eq!(result.unwrap(), expected);
            assert_eq!(
                (planned(DRIVES) - before, calls.of("draft"), calls.of("look")),
                (0, 0, expected.len())
            );
            engine.verify(&run_id("planned")).await.unwrap();
            let illegal = engine.view(&run_id("planned")).await.unwrap().illegal;
            assert!(illegal.is_empty(), "{illegal:?}");
            assert_eq!((planned(DRIVES) - before, calls.of("draft")), (0, 0));
        }
        // Before the plan is recorded, the planner goes on from what it did.
        let (place, calls, before) = (place(), Calls::default(), planned(DRIVES));
        whole.first(at).plant(&place.store, Rows::Follow).await;
        let (_engine, result) = resume::<seed_planned>(&place.store, "planned", &calls).await;
        assert_eq!((result.unwrap(), planned(DRIVES) - before, calls.of("draft")), (vec![3, 1, 2], 1, 0));
        let (plans, looks) = (whole.of("plan.route"), whole.of("look").len());
        let after = Journal::read(&place.store, "planned").await;
        assert_eq!((after.of("plan.route"), after.of("look").len()), (plans, looks));
    }
}

#[tokio::test]
async fn s042_a_missing_plan_fails_the_verify_run() {
    let whole = Journal::record::<seed_planned>("planned", "missing".into()).await;
    let at = whole.events.iter().position(|event| matches!(event, Event::PlanGenerated(_))).unwrap();
    for place in stores() {
        for (cut, missing) in [(1, "0.p0.0:draft"), (at, "0:plan.route")] {
            let (place, calls) = (place(), Calls::default());
            let hand = whole.first(cut).hold(&place.store, Rows::Follow).await;
            let engine = builder(&place.store, &calls).start().await.unwrap();
            let fit = engine.verify(&run_id("planned")).await.unwrap().fit;
            let Fit::SoFar { at: Some(requested) } = fit else { panic!("{fit:?}") };
            assert_eq!((requested.command.as_str(), calls.all()), (missing, 0));
            drop(hand);
        }
        let (place, calls) = (place(), Calls::default());
        let mut without = whole.clone();
        without.events.remove(at);
        without.plant(&place.store, Rows::Follow).await;
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let refused = engine.verify(&run_id("planned")).await;
        assert!(matches!(refused, Err(VerifyError::Fault(Fault::Diverged(_)))), "{refused:?}");
        assert_eq!(calls.all(), 0);
    }
}

#[tokio::test]
async fn s042_a_planner_that_fails_records_no_plan_and_fails_alike_on_replay() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<seed_planless>(()).id("none").await.unwrap();
        assert_eq!(failed(in_time(run.result()).await).to_string(), "there is nothing to be done");
        let journal = Journal::read(&place.store, "none").await;
        assert!(!journal.kinds().iter().any(|kind| kind == "plan_generated"));
        engine.verify(run.id()).await.unwrap();
        assert_eq!(calls.all(), 1);
    }
}
