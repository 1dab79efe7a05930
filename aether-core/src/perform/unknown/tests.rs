//! The rules for invocations of unknown outcome.

use std::time::Duration;

use super::*;
use crate::definition::def::StepOptions;
use crate::inbox::replies::{ExternalReply, Reply};
use crate::perform::tests::stage::{Act, Scene, Stage, command, in_doubt, json, key, row};
use crate::store::records::Sent;
use crate::vocabulary::outcome::{EffectClass, FailureClass};

fn tool(on_unknown: OnUnknown) -> StepOptions {
    StepOptions { on_unknown, idempotent: true, timeout: None, ..StepOptions::of(EffectClass::Tool) }
}

/// A stage on which the process died while the body ran.
fn take_stored_outcome(on_unknown: OnUnknown) -> Stage {
    let stage = Stage::new(tool(on_unknown)).acts([Act::Hangs]);
    assert!(stage.play().waits());
    stage
}

fn invocation() -> InvocationId {
    InvocationId::new(&command(), 0)
}

/// Every decision, with its actor.
fn decisions(stage: &Stage) -> Vec<(InvocationDecision, String)> {
    let decided = |event| match event {
        Event::InvocationResolved(e) => Some((e.decision, e.actor)),
        _ => None,
    };
    stage.events().into_iter().filter_map(decided).collect()
}

fn decided(decision: InvocationDecision, actor: &str) -> (InvocationDecision, String) {
    (decision, actor.to_owned())
}

fn resolve(stage: &Stage, resolution: Resolution) {
    let resolved = Resolved { resolution, actor: "ada".into() };
    stage.send(format!("resolve:{}", invocation()), Payload::encode(&resolved).unwrap());
}

// fail

#[test]
fn by_default_the_step_fails_as_in_doubt_and_the_body_is_not_called_again() {
    let stage = take_stored_outcome(OnUnknown::Fail);
    let why = in_doubt(stage.play());
    assert!(why.contains("it was started and never returned (invocation `0:send#0`)"), "{why}");
    assert_eq!(decisions(&stage), [decided(InvocationDecision::InDoubt, "policy: fail")]);
    assert_eq!(row(&stage, 0), (LedgerStatus::InDoubt, false));
    assert!(stage.row(0).error.is_some());
    assert_eq!(
        stage.kinds(),
        [
            "node_started",
            "tool_invocation_started",
            "invocation_resolved",
            "command_committed",
            "node_finished"
        ]
    );
    assert_eq!(in_doubt(stage.play()), why, "the same error every time");
    assert_eq!(stage.calls(), [key(0)]);
}

#[test]
fn a_body_that_does_not_know_is_in_doubt_for_the_reason_it_gave() {
    let stage = Stage::new(tool(OnUnknown::Fail)).acts([Act::Fails(FailureClass::Unknown)]);
    assert!(in_doubt(stage.play()).contains("happened: no (invocation"));
}

#[test]
fn an_error_in_doubt_may_be_large() {
    let mut stage = take_stored_outcome(OnUnknown::Fail);
    stage.limits.inline = 10;
    let why = in_doubt(stage.play());
    assert!(stage.text().contains("\"stored\":{\"error\"") && stage.row(0).error.is_none());
    assert_eq!(in_doubt(stage.play()), why);
}

// retry

#[test]
fn retry_sends_the_body_again_under_the_same_key_once_the_decision_is_durable() {
    let stage = take_stored_outcome(OnUnknown::Retry).acts([Act::Returns("\"sent\"")]);
    assert_eq!(stage.play().value(), "\"sent\"");
    assert_eq!(stage.calls(), [key(0), key(0)]);
    assert_eq!(decisions(&stage), [decided(InvocationDecision::Retry, "policy: retry")]);
    assert_eq!(row(&stage, 0), (LedgerStatus::Succeeded, true));
    assert_eq!(stage.slept(), [], "the first time without a pause");
}

#[test]
fn retry_pauses_longer_each_time_and_gives_up_after_four_sends() {
    let stage = take_stored_outcome(OnUnknown::Retry).acts(vec![Act::Fails(FailureClass::Unknown); 9]);
    let why = in_doubt(stage.play());
    assert!(why.contains("it was called several times without an answer"), "{why}");
    assert_eq!(stage.calls(), vec![key(0); 5]);
    let millis = Duration::from_millis;
    assert_eq!(stage.slept(), [millis(200), millis(400), millis(800)]);
    let last = decided(InvocationDecision::InDoubt, "policy: retry");
    assert_eq!(
        decisions(&stage),
        [vec![decided(InvocationDecision::Retry, "policy: retry"); 4], vec![last]].concat()
    );
}

// probe

#[test]
fn what_a_probe_found_is_the_outcome() {
    let stage = take_stored_outcome(OnUnknown::Probe).probes([Stage::happened("\"found\"")]);
    assert_eq!(stage.play().value(), "\"found\"");
    assert_eq!(decisions(&stage), [decided(InvocationDecision::Happened, "probe")]);
    assert_eq!(row(&stage, 0), (LedgerStatus::Succeeded, true));
    assert_eq!(stage.calls(), [key(0)]);
}

#[test]
fn a_probe_that_cannot_tell_or_fails_or_is_missing_leaves_the_call_in_doubt() {
    let broken = json("1").decode::<String>().unwrap_err();
    let found = [
        (Some(Ok(Ok(Probe::Unknown))), "its probe cannot tell", "probe"),
        (
            Some(Ok(Err(crate::vocabulary::failure::Failure::new("no line")))),
            "its probe failed: no line",
            "probe",
        ),
        (Some(Err(broken)), "its probe failed: ", "probe"),
        (None, "the step has no probe", "policy: probe"),
    ];
    for (found, expected, actor) in found {
        let stage = take_stored_outcome(OnUnknown::Probe).probes(found);
        let why = in_doubt(stage.play());
        assert!(why.contains(expected), "{why}");
        assert_eq!(decisions(&stage), [decided(InvocationDecision::InDoubt, actor)]);
    }
}

#[test]
fn a_probe_that_does_not_answer_in_time_leaves_the_call_in_doubt() {
    for (timeout, waited) in [(None, 30), (Some(Duration::from_secs(7)), 7)] {
        let mut stage = take_stored_outcome(OnUnknown::Probe).probe_hangs();
        stage.options.timeout = timeout;
        let why = in_doubt(stage.play());
        assert!(why.contains(&format!("its probe did not answer within {waited}s")), "{why}");
        assert_eq!(decisions(&stage), [decided(InvocationDecision::InDoubt, "probe")]);
        assert_eq!(stage.slept(), [Duration::from_secs(waited)]);
    }
}

#[test]
fn a_denied_attempt_is_made_again_under_a_new_key() {
    let stage = take_stored_outcome(OnUnknown::Probe).probes([Ok(Ok(Probe::DidNotHappen))]);
    let stage = stage.acts([Act::Returns("\"sent\"")]);
    assert_eq!(stage.play().value(), "\"sent\"");
    assert_eq!(stage.calls(), [key(0), key(1)]);
    assert_eq!(decisions(&stage), [decided(InvocationDecision::DidNotHappen, "probe")]);
    assert_eq!(
        (row(&stage, 0), row(&stage, 1)),
        ((LedgerStatus::Failed, true), (LedgerStatus::Succeeded, true))
    );
    assert_eq!(stage.slept(), [], "the first denial costs no pause");
}

#[test]
fn a_probe_that_denies_every_attempt_ends_after_five_with_growing_pauses() {
    let stage = take_stored_outcome(OnUnknown::Probe).acts(vec![Act::Fails(FailureClass::Unknown); 9]);
    let stage = stage.probes((0..9).map(|_| Ok(Ok(Probe::DidNotHappen))));
    let StepError::TimedOut(failure) = stage.play().error() else { panic!("not a definite failure") };
    assert!(failure.to_string().contains("5 attempts were made"), "{failure}");
    assert_eq!(stage.calls(), [0, 1, 2, 3, 4].map(key));
    let millis = Duration::from_millis;
    assert_eq!(stage.slept(), [millis(400), millis(800), millis(800)]);
    assert_eq!(decisions(&stage), vec![decided(InvocationDecision::DidNotHappen, "probe"); 5]);
    assert_eq!(row(&stage, 4), (LedgerStatus::Failed, true));
}

#[test]
fn a_step_that_may_retry_more_often_is_denied_as_often() {
    let mut stage = take_stored_outcome(OnUnknown::Probe).acts(vec![Act::Fails(FailureClass::Unknown); 9]);
    stage.options.retry = Some(Retry { max_retries: 5, ..Retry::NONE });
    let stage = stage.probes((0..9).map(|_| Ok(Ok(Probe::DidNotHappen))));
    stage.play().error();
    assert_eq!(stage.calls().len(), 6);
}

// ask

#[test]
fn ask_waits_for_an_operator_and_asks_once() {
    let stage = take_stored_outcome(OnUnknown::Ask);
    assert!(stage.play().waits());
    assert!(stage.play().waits());
    assert_eq!(decisions(&stage), [decided(InvocationDecision::Ask, "policy: ask")]);
    assert_eq!(row(&stage, 0), (LedgerStatus::InDoubt, false));
    assert_eq!(stage.calls(), [key(0)]);
}

#[test]
fn a_question_that_was_asked_stays_one_under_another_policy() {
    let mut stage = take_stored_outcome(OnUnknown::Ask);
    assert!(stage.play().waits());
    stage.options.on_unknown = OnUnknown::Retry;
    assert!(stage.play().waits());
    assert_eq!(stage.calls(), [key(0)]);
}

#[test]
fn what_an_operator_says_happened_is_the_outcome() {
    let stage = take_stored_outcome(OnUnknown::Ask);
    assert!(stage.play().waits());
    resolve(&stage, Resolution::Happened(json("\"by post\"")));
    assert_eq!(stage.play().value(), "\"by post\"");
    assert_eq!(
        decisions(&stage),
        [decided(InvocationDecision::Ask, "policy: ask"), decided(InvocationDecision::Happened, "ada")]
    );
    assert_eq!((row(&stage, 0), stage.unread()), ((LedgerStatus::Succeeded, true), 0));
}

#[test]
fn an_operator_who_spoke_before_the_question_is_not_asked() {
    let stage = take_stored_outcome(OnUnknown::Ask);
    resolve(&stage, Resolution::Happened(json("\"by post\"")));
    assert_eq!(stage.play().value(), "\"by post\"");
    assert_eq!(decisions(&stage), [decided(InvocationDecision::Happened, "ada")]);
}

#[test]
fn an_operators_value_that_does_not_fit_is_taken_in_and_the_run_waits_on() {
    let stage = take_stored_outcome(OnUnknown::Ask);
    resolve(&stage, Resolution::Happened(json("7")));
    assert!(stage.play().waits());
    assert_eq!(stage.unread(), 0);
    resolve(&stage, Resolution::Happened(json("\"by post\"")));
    assert_eq!(stage.play().value(), "\"by post\"");
}

#[test]
fn a_call_that_an_operator_denies_is_made_again_under_a_new_key() {
    let stage = take_stored_outcome(OnUnknown::Ask).acts([Act::Returns("\"sent\"")]);
    resolve(&stage, Resolution::DidNotHappen);
    assert_eq!(stage.play().value(), "\"sent\"");
    assert_eq!((stage.calls(), stage.unread()), (vec![key(0), key(1)], 0));
    assert_eq!(decisions(&stage), [decided(InvocationDecision::DidNotHappen, "ada")]);
    assert_eq!(row(&stage, 0), (LedgerStatus::Failed, true));
}

#[test]
fn a_call_that_an_operator_gives_up_is_in_doubt() {
    let stage = take_stored_outcome(OnUnknown::Ask);
    resolve(&stage, Resolution::Abandon);
    let why = in_doubt(stage.play());
    assert!(why.contains("an operator abandoned it"), "{why}");
    assert_eq!((decisions(&stage), stage.unread()), (vec![decided(InvocationDecision::InDoubt, "ada")], 0));
}

#[test]
fn a_resolution_that_cannot_be_read_leaves_the_call_in_doubt() {
    let stage = take_stored_outcome(OnUnknown::Ask);
    stage.send("resolve:0:send#0".into(), json("{}"));
    let why = in_doubt(stage.play());
    assert!(why.contains("the resolution is unreadable"), "{why}");
    assert_eq!(
        (decisions(&stage), stage.unread()),
        (vec![decided(InvocationDecision::InDoubt, "operator")], 0)
    );
}

#[test]
fn a_report_from_outside_answers_the_question_too() {
    let stage = take_stored_outcome(OnUnknown::Ask);
    let reply = |value| ExternalReply { reply: Reply::Value(json(value)), actor: "bank".into() };
    let send = |value| stage.send(callback_topic(&invocation()), Payload::encode(&reply(value)).unwrap());
    assert!(stage.play_on(|| send("7")).waits(), "a report that does not fit is refused");
    assert_eq!(stage.play_on(|| send("\"by wire\"")).value(), "\"by wire\"");
    assert_eq!((stage.unread(), row(&stage, 0)), (0, (LedgerStatus::Succeeded, true)));
    assert_eq!(decisions(&stage), [decided(InvocationDecision::Ask, "policy: ask")]);
}

#[test]
fn an_operator_answers_while_the_run_waits() {
    let stage = take_stored_outcome(OnUnknown::Ask);
    let resolved = || resolve(&stage, Resolution::Happened(json("\"by post\"")));
    assert_eq!(stage.play_on(resolved).value(), "\"by post\"");
}

// reports

fn rounds_begun(stage: &Stage) -> usize {
    stage.kinds().iter().filter(|kind| *kind == "answer_refused").count()
}

fn sent() -> Reply {
    Reply::Value(json("\"by wire\""))
}

/// A stage on which a body that was reported about does not know what it did.
fn reported_and_lost(on_unknown: OnUnknown) -> Stage {
    let stage =
        Stage::new(tool(on_unknown)).acts([Act::Fails(FailureClass::Unknown), Act::Returns("\"sent\"")]);
    assert_eq!(stage.report(0, sent(), "callback"), Sent::Delivered);
    stage
}

#[test]
fn a_report_that_came_before_the_body_was_lost_counts_before_any_policy() {
    for policy in [OnUnknown::Fail, OnUnknown::Retry, OnUnknown::Probe, OnUnknown::Ask] {
        let stage = reported_and_lost(policy).probes([Ok(Ok(Probe::DidNotHappen))]);
        assert_eq!(stage.play().value(), "\"by wire\"", "{policy:?}");
        assert_eq!(
            (stage.calls(), decisions(&stage), stage.unread()),
            (vec![key(0)], vec![], 0),
            "{policy:?}"
        );
        assert_eq!(row(&stage, 0), (LedgerStatus::Succeeded, true));
    }
}

/// The ends of a body that took its callback's token, beside those of unknown outcome.
fn ends_after_passing_on() -> Vec<Act> {
    let classes = [
        FailureClass::Unclassified,
        FailureClass::Retryable,
        FailureClass::Permanent,
        FailureClass::Compensatable,
    ];
    classes.into_iter().map(Act::PassesOn).chain([Act::PassesOnAndPanics]).collect()
}

fn retrying() -> StepOptions {
    StepOptions { retry: Some(Retry::times(3)), ..tool(OnUnknown::Fail) }
}

#[test]
fn a_report_counts_before_the_error_of_a_body_that_took_a_token() {
    for end in ends_after_passing_on() {
        let stage = Stage::new(retrying()).acts([end.clone(), Act::Returns("\"sent\"")]);
        assert_eq!(stage.report(0, sent(), "callback"), Sent::Delivered);
        assert_eq!(stage.play().value(), "\"by wire\"", "{end:?}");
        assert_eq!((stage.calls(), stage.unread()), (vec![key(0)], 0), "{end:?}");
        assert_eq!(row(&stage, 0), (LedgerStatus::Succeeded, true), "{end:?}");
    }
    // A failure that was reported is one like any other.
    let stage =
        Stage::new(retrying()).acts([Act::PassesOn(FailureClass::Permanent), Act::Returns("\"sent\"")]);
    let failure = crate::vocabulary::failure::Failure::retryable("out of paper");
    stage.report(0, Reply::Error(Payload::encode(&failure).unwrap()), "callback");
    assert_eq!((stage.play().value(), stage.calls()), ("\"sent\"".into(), vec![key(0), key(1)]));
}

#[test]
fn no_report_is_delivered_once_the_error_of_a_body_that_took_a_token_counts() {
    for end in ends_after_passing_on() {
        let stage = Stage::new(retrying()).acts([end.clone(), Act::Returns("\"sent\"")]);
        assert!(!stage.play().waits());
        assert_eq!((stage.report(0, sent(), "callback"), stage.unread()), (Sent::Duplicate, 0), "{end:?}");
    }
}

#[test]
fn a_report_that_comes_while_the_probe_looks_counts_before_what_it_finds() {
    let found = [Ok(Ok(Probe::DidNotHappen)), Stage::happened("\"found\""), Ok(Ok(Probe::Unknown))];
    for found in found {
        let stage = take_stored_outcome(OnUnknown::Probe).probes([found]).reports_while_probing(0, sent());
        assert_eq!(stage.play().value(), "\"by wire\"");
        assert_eq!((stage.calls(), decisions(&stage), stage.unread()), (vec![key(0)], vec![], 0));
    }
}

#[test]
fn a_report_that_does_not_fit_is_refused_and_the_one_behind_it_comes_too_late() {
    let stage = Stage::new(tool(OnUnknown::Fail)).acts([Act::Fails(FailureClass::Unknown)]);
    stage.report(0, Reply::Value(json("7")), "callback");
    in_doubt(stage.play());
    assert_eq!(rounds_begun(&stage), 1);
    assert_eq!((stage.report(1, sent(), "callback"), stage.unread()), (Sent::Duplicate, 0));
}

#[test]
fn once_a_policy_decides_no_report_is_delivered_any_more() {
    for (policy, found) in [(OnUnknown::Fail, None), (OnUnknown::Probe, Some(Ok(Ok(Probe::DidNotHappen))))] {
        let stage = take_stored_outcome(policy).probes(found).acts([Act::Returns("\"sent\"")]);
        assert!(!stage.play().waits());
        assert_eq!((stage.report(0, sent(), "callback"), stage.unread()), (Sent::Duplicate, 0), "{policy:?}");
    }
}

/// The process dies between the end of the reports and the decision, and the next one decides otherwise.
#[test]
fn reports_that_were_closed_without_a_decision_are_taken_again_in_another_round() {
    let closed = |policy| {
        let stage = take_stored_outcome(policy);
        assert_eq!(stage.report(0, Reply::Expired, "policy: fail"), Sent::Delivered);
        stage
    };
    assert!(in_doubt(closed(OnUnknown::Fail).play()).contains("it was started and never returned"));
    for policy in [OnUnknown::Retry, OnUnknown::Ask] {
        let stage = closed(policy).acts([Act::Awaits]);
        let report = || assert_eq!(stage.report(1, sent(), "callback"), Sent::Delivered);
        assert_eq!(stage.play_on(report).value(), "\"by wire\"", "{policy:?}");
        assert_eq!((stage.unread(), rounds_begun(&stage)), (0, 1));
    }
}

#[test]
fn a_report_that_the_outcome_is_unknown_leaves_room_for_another_one() {
    let stage = take_stored_outcome(OnUnknown::Retry).acts([Act::Awaits]);
    let unknown = crate::vocabulary::failure::Failure::unknown("no line");
    stage.report(0, Reply::Error(Payload::encode(&unknown).unwrap()), "callback");
    let report = || assert_eq!(stage.report(1, sent(), "callback"), Sent::Delivered);
    assert_eq!(stage.play_on(report).value(), "\"by wire\"");
    assert_eq!((stage.calls(), rounds_begun(&stage)), (vec![key(0), key(0)], 1));
}

#[test]
fn a_call_that_was_sent_again_and_handed_over_is_awaited_after_a_crash() {
    let stage = take_stored_outcome(OnUnknown::Retry).acts([Act::Awaits, Act::Awaits]);
    assert!(stage.play().waits());
    assert!(stage.play().waits());
    assert_eq!(stage.calls(), [key(0), key(0)], "once before the crash, and once again");
    let report = || assert_eq!(stage.report(0, sent(), "callback"), Sent::Delivered);
    assert_eq!(stage.play_on(report).value(), "\"by wire\"");
}

// a cancellation

#[test]
fn a_body_is_not_called_once_its_run_is_cancelled_and_is_known_not_to_have_been() {
    let stage = Stage::new(tool(OnUnknown::Retry)).acts([Act::Returns("\"sent\"")]).cancelled_at_admission(1);
    assert!(stage.play().waits());
    assert_eq!(stage.calls(), []);
    assert_eq!(decisions(&stage), [decided(InvocationDecision::DidNotHappen, "engine: cancelled")]);
    assert_eq!(row(&stage, 0), (LedgerStatus::Failed, true));
}

#[test]
fn a_body_is_not_called_again_once_its_run_is_cancelled_and_stays_unknown() {
    let acts = [Act::Fails(FailureClass::Unknown), Act::Returns("\"sent\"")];
    let stage = Stage::new(tool(OnUnknown::Retry)).acts(acts).cancelled_at_admission(2);
    assert!(stage.play().waits());
    assert_eq!(stage.calls(), [key(0)]);
    assert_eq!(decisions(&stage), [decided(InvocationDecision::Retry, "policy: retry")]);
    assert_eq!(row(&stage, 0), (LedgerStatus::Started, false));
}

// denied by the engine

#[test]
fn a_body_that_lacks_what_it_needs_did_not_happen_and_is_called_again_under_a_new_key() {
    let stage = Stage::new(tool(OnUnknown::Fail)).acts([Act::Lacks, Act::Returns("\"sent\"")]);
    let Scene::Stopped(fault) = stage.play() else { panic!("not stopped") };
    assert!(fault.contains("Script"), "{fault}");
    assert_eq!(decisions(&stage), [decided(InvocationDecision::DidNotHappen, "engine: not provided")]);
    assert_eq!(row(&stage, 0), (LedgerStatus::Failed, true));
    assert_eq!(stage.play().value(), "\"sent\"");
    assert_eq!(stage.calls(), [key(0), key(1)]);
}

#[test]
fn an_answer_that_is_lost_after_a_body_did_without_a_value_stays_unknown() {
    let acts = [Act::DoesWithout(FailureClass::Unknown), Act::Returns("\"sent\"")];
    let stage = Stage::new(tool(OnUnknown::Fail)).acts(acts);
    in_doubt(stage.play());
    assert_eq!(decisions(&stage), [decided(InvocationDecision::InDoubt, "policy: fail")]);
    in_doubt(stage.play());
    assert_eq!(stage.calls(), [key(0)]);
}

#[test]
fn what_a_body_fails_with_that_did_without_a_value_is_its_outcome() {
    let stage = Stage::new(tool(OnUnknown::Fail)).acts([Act::DoesWithout(FailureClass::Permanent)]);
    assert!(matches!(stage.play().error(), StepError::App(_)));
    assert_eq!((decisions(&stage), stage.calls()), (Vec::new(), vec![key(0)]));
}

#[test]
fn a_body_that_lacks_what_it_needs_after_it_may_have_acted_is_left_to_the_policy() {
    let acts = [
        Act::LacksAfter("{\"status\":201}"),
        Act::LacksAfterChange("a.txt"),
        Act::LacksAfterWait,
        Act::LacksAfterToken,
        Act::LacksAfterAnother,
    ];
    let lacks = |on_unknown, act: &Act| {
        let stage = Stage::new(tool(on_unknown)).acts([act.clone(), Act::Returns("\"sent\"")]);
        let Scene::Stopped(fault) = stage.play() else { panic!("not stopped: {act:?}") };
        assert!(fault.contains("Script"), "{fault}");
        assert_eq!((decisions(&stage), row(&stage, 0)), (Vec::new(), (LedgerStatus::Started, false)));
        stage
    };
    for act in acts {
        let stage = lacks(OnUnknown::Fail, &act);
        in_doubt(stage.play());
        assert_eq!(stage.calls(), [key(0)], "{act:?}");
        let stage = lacks(OnUnknown::Ask, &act);
        assert!(stage.play().waits());
        assert_eq!(stage.calls(), [key(0)], "{act:?}");
        let stage = lacks(OnUnknown::Probe, &act).probes([Stage::happened("\"found\"")]);
        assert_eq!((stage.play().value(), stage.calls()), ("\"found\"".into(), vec![key(0)]), "{act:?}");
        let stage = lacks(OnUnknown::Retry, &act);
        assert_eq!((stage.play().value(), stage.calls()), ("\"sent\"".into(), vec![key(0); 2]), "{act:?}");
    }
}

#[test]
fn a_body_that_does_without_a_value_may_hand_its_completion_over() {
    let stage = Stage::new(tool(OnUnknown::Fail)).acts([Act::AwaitsWithout]);
    assert!(stage.play().waits());
    assert_eq!((decisions(&stage), stage.calls()), (Vec::new(), vec![key(0)]));
    assert_eq!(row(&stage, 0), (LedgerStatus::Started, false));
}
