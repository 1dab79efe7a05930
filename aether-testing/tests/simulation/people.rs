//! People, signals and other systems in virtual time.

use std::time::Duration;

use aether::definition::Workflow;
use aether::people::{Approvals, Decision};
use aether::prelude::*;
use aether_testing::{Sim, SimError};

use super::{DAY, not_stubbed};

/// Pay somebody.
#[step(effect = "tool", approval = "required")]
async fn pay(_cx: &mut StepCx, to: &str, cents: u32) -> Result<String> {
    not_stubbed((to, cents))
}

/// Pay and tell.
#[workflow]
async fn payment(cx: &mut Cx, cents: u32) -> Result<String> {
    match pay(cx, "eve", cents).await {
        Err(StepError::Rejected(why)) => Ok(why.to_string()),
        Err(StepError::TimedOut(why)) => Ok(why.to_string()),
        paid => Ok(paid?),
    }
}

fn payments() -> Sim<payment> {
    Sim::new::<payment>().stub::<pay>(|(to, cents)| Ok(format!("{cents} to {to}")))
}

#[tokio::test]
async fn people_approve_edit_and_reject() {
    let report = payments().approves::<pay>("ann").people_take(3 * DAY).run(5).await;
    assert_eq!(report.assert_completed(), "5 to eve");
    report.assert_took(3 * DAY);
    assert!(report.journal().contains("actor=\"ann\""), "{}", report.journal());

    let report = payments().edits::<pay>(|(_, cents)| ("bob".into(), cents / 2)).run(8).await;
    assert_eq!(report.assert_completed(), "4 to bob");
    report.assert_called_with::<pay>(&[("bob".into(), 4)]);

    let report = payments().rejects::<pay>("too much").run(8).await;
    assert!(report.assert_completed().contains("too much"), "{:?}", report.result);
    report.assert_calls::<pay>(0);
}

#[tokio::test]
async fn silence_lets_a_request_expire_or_the_simulation_end() {
    let sim = payments().silent::<pay>().approvals(Approvals::new().expires(2 * DAY));
    let report = sim.run(5).await;
    assert!(report.assert_completed().contains("in time"), "{:?}", report.result);
    report.assert_took(2 * DAY);

    let error = payments().try_run(5).await.unwrap_err();
    assert!(matches!(&error, SimError::Unfinished { help, .. } if help.len() == 1), "{error}");
    let error = error.to_string();
    assert!(error.contains(".approves::<pay>(\"ann\")") && error.contains("0:pay"), "{error}");
}

#[tokio::test]
async fn consent_may_be_raised_for_any_step() {
    let sim =
        Sim::new::<rendering>().approvals(Approvals::new().step("render")).rejects::<render>("not today");
    assert!(sim.run(()).await.assert_failed().to_string().contains("not today"));
}

#[tokio::test]
async fn people_are_the_same_after_a_crash() {
    for sim in [payments().approves::<pay>("ann").people_take(DAY), payments().rejects::<pay>("no")] {
        let crashed = sim.crash_at_every_append(5).await;
        assert!(crashed.same.len() > 6, "{crashed:?}");
    }
}

/// Ask people.
#[workflow]
async fn party(cx: &mut Cx) -> Result<String> {
    let seats: u32 = cx.ask("How many are you?").await?;
    let name: String = cx.ask(serde_json::json!({ "field": "name" })).await?;
    let decision = cx.approval("refund over limit").details(&seats).await?;
    let by = match decision {
        Decision::Approved { by } => by,
        Decision::Rejected { reason, .. } => reason,
        Decision::Expired(_) => "nobody".into(),
    };
    Ok(format!("{seats} for {name}, {by}"))
}

#[tokio::test]
async fn questions_and_decisions_are_answered_by_what_they_ask() {
    let sim = Sim::new::<party>()
        .answer("How many are you?", 4)
        .answers(|question| (question["field"] == "name").then_some("Ann"));
    let granted = sim.clone().grants("refund over limit", "bob");
    assert_eq!(granted.run(()).await.assert_completed(), "4 for Ann, bob");
    let refused = sim.clone().refuses("refund over limit", "no");
    assert_eq!(refused.run(()).await.assert_completed(), "4 for Ann, no");
    granted.crash_at_every_append(()).await;

    let error = sim.try_run(()).await.unwrap_err().to_string();
    assert!(error.contains(".grants(\"refund over limit\", \"ann\")"), "{error}");
    let error = Sim::new::<party>().try_run(()).await.unwrap_err().to_string();
    assert!(error.contains(".answer(\"How many are you?\", its_answer)"), "{error}");
    let error = Sim::new::<party>().answer("How many are you?", "many").try_run(()).await.unwrap_err();
    assert!(matches!(error, SimError::Refused { .. }), "{error}");
}

/// Wait for signals.
#[workflow]
async fn signalled(cx: &mut Cx) -> Result<Vec<u32>> {
    Ok(vec![cx.signal("paid").await?, cx.signal("paid").await?])
}

#[tokio::test]
async fn signals_come_at_their_times() {
    let sim = Sim::new::<signalled>().signal_at(3 * DAY, "paid", 3).signal_at(DAY, "paid", 1);
    let report = sim.run(()).await;
    assert_eq!(report.assert_completed(), &[1, 3]);
    report.assert_took(3 * DAY);
    sim.crash_at_every_append(()).await;
    let error = Sim::new::<signalled>().signal_at(DAY, "paid", 1).try_run(()).await.unwrap_err().to_string();
    assert!(error.contains(".signal_at(Duration::from_secs(60), \"paid\", its_value)"), "{error}");
}

/// Have something rendered elsewhere.
#[step(effect = "external", timeout = "10s")]
async fn render(_cx: &mut StepCx, scene: u32) -> Result<String> {
    not_stubbed(scene)
}

/// Render.
#[workflow]
async fn rendering(cx: &mut Cx) -> Result<String> {
    Ok(render(cx, 7).await?)
}

#[tokio::test]
async fn other_systems_report_outcomes_later() {
    let hour = Duration::from_secs(3600);
    let sim = Sim::new::<rendering>().reports_after::<render>(hour, |scene| Ok(format!("image {scene}")));
    let report = sim.run(()).await;
    assert_eq!(report.assert_completed(), "image 7");
    report.assert_took(hour);
    assert!(report.journal().contains("callback_received"), "{}", report.journal());
    sim.crash_at_every_append(()).await;

    let failing =
        Sim::new::<rendering>().reports_after::<render>(hour, |_| Err(Failure::permanent("no light")));
    assert!(failing.run(()).await.assert_failed().to_string().contains("no light"));
}

/// A person has two days, and takes thirty hours of them.
#[workflow]
async fn slow_approval(cx: &mut Cx) -> Result<bool> {
    let asked = cx.approval("a new desk").expires(2 * DAY);
    Ok(matches!(asked.await?, Decision::Approved { .. }))
}

#[tokio::test]
async fn a_person_who_was_asked_before_a_crash_does_not_begin_anew() {
    let thirty_hours = Duration::from_secs(30 * 3600);
    let sim = Sim::new::<slow_approval>().grants("a new desk", "ann").people_take(thirty_hours);
    // A crash comes after half of the time limit: a person who began anew would be too late.
    let report = sim.crash_at_every_boundary(()).await;
    assert!(report.crashes() > 3, "{report}");
}

/// Waits for consent, unless an hour is over first.
#[workflow]
async fn impatient_approval(cx: &mut Cx) -> Result<bool> {
    cx.race((
        async |cx: &mut Cx| Ok::<_, Failure>(cx.approval("a new desk").await?.granted().is_ok()),
        async |cx: &mut Cx| {
            cx.sleep(Duration::from_secs(3600)).await;
            Ok(false)
        },
    ))
    .await
}

/// Asks once, for an hour.
#[workflow]
async fn short_question(cx: &mut Cx) -> Result<u32> {
    Ok(cx.ask("How many are you?").expires(Duration::from_secs(3600)).await.unwrap_or(0))
}

/// Leaves the question to a child.
#[workflow]
async fn asking_parent(cx: &mut Cx) -> Result<u32> {
    Ok(cx.child::<short_question>(()).await?)
}

/// What the failure of a simulation advises to add, with a simulation in which silence is meant.
async fn forgotten<W: Workflow>(sim: Sim<W>, input: fn() -> W::Input) -> String {
    let error = sim.try_run(input()).await.map(drop).unwrap_err();
    assert!(matches!(error, SimError::Unanswered { .. }), "{error}");
    assert!(error.to_string().contains(".nobody_answers()"), "{error}");
    sim.nobody_answers().try_run(input()).await.map(drop).unwrap();
    error.to_string()
}

#[tokio::test]
async fn a_person_who_was_forgotten_fails_the_test() {
    let said = forgotten(Sim::new::<slow_approval>(), || ()).await;
    assert!(said.contains(".grants(\"a new desk\", \"ann\")"), "{said}");
    let said = forgotten(Sim::new::<impatient_approval>(), || ()).await;
    assert!(said.contains(".grants(\"a new desk\", \"ann\")"), "{said}");
    let said = forgotten(Sim::new::<short_question>(), || ()).await;
    assert!(said.contains(".answer(\"How many are you?\", its_answer)"), "{said}");
    let said = forgotten(Sim::new::<asking_parent>(), || ()).await;
    assert!(said.contains(".answer(\"How many are you?\", its_answer)"), "{said}");
    let limited = payments().approvals(Approvals::new().expires(2 * DAY));
    let said = forgotten(limited.clone(), || 5).await;
    assert!(said.contains(".approves::<pay>(\"ann\")"), "{said}");
    // In a sweep, too.
    let error = limited.try_crash_at_every_boundary(5).await.unwrap_err();
    assert!(matches!(error, SimError::Unanswered { .. }), "{error}");
}

#[tokio::test]
async fn a_person_who_is_late_or_silent_was_not_forgotten() {
    let late = Sim::new::<slow_approval>().grants("a new desk", "ann").people_take(3 * DAY);
    assert!(!late.run(()).await.assert_completed());
    let loses = Sim::new::<impatient_approval>().refuses("a new desk", "no").people_take(DAY);
    assert!(!loses.run(()).await.assert_completed());
    let silent = payments().approvals(Approvals::new().expires(2 * DAY)).silent::<pay>();
    silent.run(5).await.assert_completed();
    let cancelled = Sim::new::<slow_approval>().cancel_at(DAY, "no longer needed", "ann");
    cancelled.run(()).await.assert_failed();
    let elsewhere = Sim::new::<slow_approval>().meanwhile(|live| async move {
        live.sleep(DAY).await;
        live.engine().approve(live.run_id(), "a new desk", "bob").await.unwrap();
    });
    assert!(elsewhere.run(()).await.assert_completed());
}

/// Wire money.
#[step(effect = "tool", on_unknown = "ask")]
async fn wire(_cx: &mut StepCx, cents: u32) -> Result<String> {
    not_stubbed(cents)
}

#[workflow]
async fn wiring(cx: &mut Cx, cents: u32) -> Result<String> {
    Ok(wire(cx, cents).await?)
}

#[tokio::test]
async fn an_operator_says_what_became_of_a_call_in_doubt() {
    let sim = Sim::new::<wiring>().in_doubt::<wire>().people_take(DAY);
    let happened = sim.clone().resolves::<wire>(|cents| Probe::Happened(format!("receipt for {cents}")));
    let report = happened.run(5).await;
    assert_eq!(report.assert_completed(), "receipt for 5");
    report.assert_took(DAY);
    report.assert_calls::<wire>(1);

    let abandoned = sim.clone().resolves::<wire>(|_| Probe::Unknown).run(5).await;
    abandoned.assert_failed();
    abandoned.assert_in_doubt::<wire>(1);

    let error = sim.clone().try_run(5).await.unwrap_err().to_string();
    assert!(error.contains(".resolves::<wire>(|args| Probe::Happened(its_value))"), "{error}");

    let error = sim.resolves::<wire>(|_| Probe::DidNotHappen).try_run(5).await.unwrap_err().to_string();
    assert!(error.contains("100 attempts were in doubt"), "{error}");
}

#[tokio::test]
async fn an_operator_resolves_what_a_crash_left_in_doubt() {
    let sim = Sim::new::<wiring>().stub::<wire>(|cents| Ok(format!("receipt for {cents}")));
    let sim = sim.resolves::<wire>(|cents| Probe::Happened(format!("receipt for {cents}")));
    assert!(sim.crash_at_every_boundary(5).await.crashes() > 3);
}
