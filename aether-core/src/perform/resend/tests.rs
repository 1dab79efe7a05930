//! What an invocation that is sent again says about the sending before, and how often and when it is sent.

use super::*;
use crate::definition::def::{OnUnknown, StepOptions};
use crate::inbox::replies::Reply;
use crate::journal::event::Event;
use crate::perform::tests::stage::{Act, Scene, Stage, in_doubt, key, row};
use crate::store::ledger::LedgerStatus;
use crate::store::records::Sent;
use crate::vocabulary::failure::{Failure, StepError};
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::Payload;

const HOUR: Duration = Duration::from_secs(60 * 60);

fn options(retry: Option<Retry>) -> StepOptions {
    let on_unknown = OnUnknown::Retry;
    StepOptions { on_unknown, retry, idempotent: true, timeout: None, ..StepOptions::of(EffectClass::Tool) }
}

/// Retries that do not wait.
fn at_once(max_retries: u32) -> Option<Retry> {
    Some(Retry { delay: Duration::ZERO, ..Retry::times(max_retries) })
}

/// A stage on which the process died while the body ran.
fn cut_off(retry: Option<Retry>) -> Stage {
    let stage = Stage::new(options(retry)).acts([Act::Hangs]);
    assert!(stage.play().waits());
    stage
}

/// Every resend, where it is not the first one.
fn resends(stage: &Stage) -> Vec<Option<u32>> {
    let resent = |event| match event {
        Event::InvocationResolved(e) if e.decision == InvocationDecision::Retry => {
            Some(e.resend.map(|resend| resend.number))
        }
        _ => None,
    };
    stage.events().into_iter().filter_map(resent).collect()
}

#[test]
fn a_resend_that_fails_keeps_the_key_and_is_made_again() {
    for class in [FailureClass::Retryable, FailureClass::Unclassified] {
        let stage =
            cut_off(at_once(3)).acts([Act::Fails(class), Act::Fails(class), Act::Returns("\"sent\"")]);
        assert_eq!(stage.play().value(), "\"sent\"", "{class:?}");
        assert_eq!(stage.calls(), vec![key(0); 4], "{class:?}");
        assert_eq!(row(&stage, 0), (LedgerStatus::Succeeded, true));
        assert!(!stage.kinds().contains(&"step_retried".to_owned()));
        assert_eq!(resends(&stage), [None, Some(2), Some(3)]);
    }
}

#[test]
fn so_it_is_of_a_call_that_was_lost_without_a_crash() {
    let acts =
        [Act::Fails(FailureClass::Unknown), Act::Fails(FailureClass::Retryable), Act::Returns("\"sent\"")];
    let stage = Stage::new(options(at_once(3))).acts(acts);
    assert_eq!(stage.play().value(), "\"sent\"");
    assert_eq!(stage.calls(), vec![key(0); 3]);
}

#[test]
fn a_call_that_never_gets_through_again_is_in_doubt() {
    let stage = cut_off(None).acts(vec![Act::Fails(FailureClass::Retryable); 9]);
    let why = in_doubt(stage.play());
    assert!(why.contains("it was called several times without an answer; the last time: no"), "{why}");
    assert_eq!((stage.calls(), row(&stage, 0)), (vec![key(0); 5], (LedgerStatus::InDoubt, false)));
    assert_eq!(in_doubt(stage.play()), why, "the same error every time");
}

#[test]
fn a_resend_that_is_refused_for_good_is_in_doubt_at_once() {
    for (act, why) in
        [(Act::Fails(FailureClass::Permanent), "before: no"), (Act::Panics, "it panicked: bang")]
    {
        let stage = cut_off(at_once(3)).acts([act.clone()]);
        let told = in_doubt(stage.play());
        assert!(told.contains("says nothing about the sending before") && told.contains(why), "{told}");
        assert_eq!((stage.calls(), row(&stage, 0)), (vec![key(0); 2], (LedgerStatus::InDoubt, false)));
        assert_eq!(in_doubt(stage.play()), told);
    }
}

#[test]
fn what_a_resend_says_was_done_half_way_is_undone_and_holds_its_key() {
    let stage = cut_off(None).acts([Act::Fails(FailureClass::Compensatable)]);
    let StepError::App(_) = stage.play().error() else { panic!("in doubt") };
    let outcome = stage.events().into_iter().find_map(|event| match event {
        Event::CommandCommitted(e) => Some(e.outcome),
        _ => None,
    });
    assert_eq!((outcome, row(&stage, 0).0), (Some(Outcome::CompensatableFailure), LedgerStatus::InDoubt));
}

#[test]
fn a_resend_that_lacks_what_it_needs_keeps_the_key() {
    let stage = cut_off(None).acts([Act::Lacks, Act::Returns("\"sent\"")]);
    assert!(matches!(stage.play(), Scene::Stopped(_)));
    assert_eq!((row(&stage, 0), resends(&stage)), ((LedgerStatus::Started, false), vec![None]));
    assert_eq!(stage.play().value(), "\"sent\"");
    assert_eq!(stage.calls(), vec![key(0); 3]);
}

#[test]
fn a_report_speaks_of_all_sendings_and_those_of_a_new_attempt_are_counted_anew() {
    let stage = cut_off(at_once(1)).acts(vec![Act::Fails(FailureClass::Unknown); 3]).acts([Act::Awaits]);
    let stage = stage.acts(vec![Act::Fails(FailureClass::Unknown); 4]).acts([Act::Returns("\"sent\"")]);
    let busy = Reply::Error(Payload::encode(&Failure::retryable("busy")).unwrap());
    assert_eq!(
        stage.play_on(|| assert_eq!(stage.report(0, busy, "callback"), Sent::Delivered)).value(),
        "\"sent\""
    );
    assert_eq!(stage.calls(), [vec![key(0); 5], vec![key(1); 5]].concat());
    assert_eq!((row(&stage, 0).0, row(&stage, 1).0), (LedgerStatus::Failed, LedgerStatus::Succeeded));
}

#[test]
fn a_step_that_may_retry_more_often_is_sent_as_often() {
    let stage = cut_off(at_once(7)).acts(vec![Act::Fails(FailureClass::Retryable); 20]);
    in_doubt(stage.play());
    assert_eq!(stage.calls(), vec![key(0); 8]);
}

#[test]
fn a_step_with_patience_is_sent_until_it_ends() {
    let stage = cut_off(Some(Retry::within(HOUR))).acts(vec![Act::Fails(FailureClass::Retryable); 200]);
    in_doubt(stage.play());
    let slept: Duration = stage.slept().iter().sum();
    assert!((HOUR..HOUR + Duration::from_secs(60)).contains(&slept), "{slept:?}");
    assert!(stage.calls().iter().all(|sent| *sent == key(0)));
}

#[test]
fn the_other_side_is_left_alone_for_as_long_as_it_asks() {
    let asks = |class| Act::FailsFor(class, HOUR);
    let acts = [asks(FailureClass::Unknown), asks(FailureClass::Retryable), Act::Returns("\"sent\"")];
    let stage = Stage::new(options(None)).acts(acts);
    assert_eq!(stage.play().value(), "\"sent\"");
    assert_eq!((stage.slept(), resends(&stage)), (vec![HOUR; 2], vec![Some(1), Some(2)]));
}

/// As after a crash, and where a run leaves the memory while it waits.
#[test]
fn a_wait_that_a_restart_cuts_off_goes_on_where_it_was() {
    let stage = cut_off(None).acts([Act::FailsFor(FailureClass::Retryable, HOUR), Act::Hangs]);
    assert!(stage.play().waits());
    stage.rewind();
    stage.wait(HOUR / 4);
    let stage = stage.acts([Act::Returns("\"sent\"")]);
    assert_eq!(stage.play().value(), "\"sent\"");
    assert_eq!(
        (stage.slept(), resends(&stage)),
        (vec![HOUR / 4, HOUR / 4 * 3], vec![None, Some(2), Some(2)])
    );
    assert_eq!(stage.calls(), vec![key(0); 4]);
}

#[test]
fn resends_that_came_back_count_in_the_next_process_too() {
    let stage = cut_off(None).acts([Act::Fails(FailureClass::Retryable), Act::Hangs]);
    assert!(stage.play().waits());
    let stage = stage.acts(vec![Act::Fails(FailureClass::Retryable); 9]);
    in_doubt(stage.play());
    assert_eq!(resends(&stage), [None, Some(2), Some(2), Some(3), Some(4)]);
    assert_eq!(stage.calls(), vec![key(0); 6]);
}

#[test]
fn a_failure_that_is_not_of_a_resend_is_definite() {
    let acts = [Act::Fails(FailureClass::Retryable), Act::Returns("\"sent\"")];
    let stage = Stage::new(options(at_once(3))).acts(acts);
    assert_eq!(stage.play().value(), "\"sent\"");
    assert_eq!((stage.calls(), row(&stage, 0)), (vec![key(0), key(1)], (LedgerStatus::Failed, true)));
}
