//! The rules for what is appended when a step call has ended, and for what a crash cuts off from it.

use crate::journal::event::ToolInvocationFinished;
use crate::perform::call::recorded_outcome;
use crate::store::ledger::LedgerEntry;
use std::time::Duration;

use super::*;
use crate::definition::def::{Retry, StepOptions};
use crate::inbox::replies::{ExternalReply, Reply};
use crate::inbox::topics::callback_topic;
use crate::perform::tests::stage::{Act, Stage, command, json, key, now, run_id};
use crate::store::api::Store;
use crate::vocabulary::id::InvocationId;
use crate::vocabulary::outcome::{EffectClass, FailureClass};

fn options(class: EffectClass) -> StepOptions {
    StepOptions { timeout: None, ..StepOptions::of(class) }
}

fn retrying(class: EffectClass) -> StepOptions {
    StepOptions { retry: Some(Retry { jitter: 0.0, ..Retry::times(2) }), ..options(class) }
}

fn stage(class: EffectClass, acts: impl IntoIterator<Item = Act>) -> Stage {
    Stage::new(options(class)).acts(acts)
}

/// A stage whose outcomes all go to the effect store first.
fn large_stage(options: StepOptions, acts: impl IntoIterator<Item = Act>) -> Stage {
    let mut stage = Stage::new(options).acts(acts);
    stage.limits.inline = 10;
    stage
}

/// The commit of the call.
fn committed(stage: &Stage) -> CommandCommitted {
    let commits = stage.events().into_iter().filter_map(|event| match event {
        Event::CommandCommitted(e) => Some(e),
        _ => None,
    });
    let commits: Vec<_> = commits.collect();
    let [commit] = commits.as_slice() else { panic!("{commits:?}") };
    commit.clone()
}

/// The end of the newest invocation.
fn finished(stage: &Stage) -> ToolInvocationFinished {
    let finished = stage.events().into_iter().filter_map(|event| match event {
        Event::ToolInvocationFinished(e) => Some(e),
        _ => None,
    });
    finished.last().unwrap()
}

/// An append of the body's end alone, as a process that died wrote it.
fn append_finished(stage: &Stage, outcome: Outcome, result: Option<&str>, error: Option<&str>) {
    let (result, error) = (result.map(json), error.map(json));
    let invocation = InvocationId::new(&command(), 0);
    let finished =
        ToolInvocationFinished { command: command(), invocation, outcome, result, error, caught_up: false };
    stage.take_up().append(vec![finished.into()], AppendExtras::default());
}

const LARGE: &str = "\"a value that is large here\"";

// One atomic append at the end.

#[test]
fn a_read_leaves_its_value_once() {
    let stage = stage(EffectClass::Read, [Act::Returns("7")]);
    assert_eq!(stage.play().value(), "7");
    assert_eq!(stage.kinds(), ["node_started", "command_committed", "node_finished", "step_committed"]);
    let commit = committed(&stage);
    assert_eq!((commit.outcome, commit.result, commit.caught_up), (Outcome::Success, Some(json("7")), false));
    assert_eq!(now(stage.store.effects(&run_id())).unwrap(), [], "it is small");
}

#[test]
fn a_world_change_leaves_its_value_with_the_invocation_and_in_the_ledger() {
    let stage = stage(EffectClass::Tool, [Act::Returns("7")]);
    assert_eq!(stage.play().value(), "7");
    assert_eq!(
        stage.kinds(),
        [
            "node_started",
            "tool_invocation_started",
            "tool_invocation_finished",
            "command_committed",
            "node_finished",
            "step_committed"
        ]
    );
    assert_eq!((committed(&stage).result, finished(&stage).result), (None, Some(json("7"))));
    let Some(Event::StepCommitted(last)) = stage.events().pop() else { panic!("no step_committed") };
    assert_eq!((last.step.as_str(), last.key), ("send", Some(key(0))));
    let row = stage.row(0);
    assert_eq!((row.status, row.result, row.committed), (LedgerStatus::Succeeded, Some(json("7")), true));
}

#[test]
fn an_http_answer_that_is_the_whole_value_is_not_repeated() {
    let whole = stage(EffectClass::Read, [Act::Fetches("7", "7")]);
    assert_eq!((whole.play().value(), committed(&whole).result), ("7".into(), None));
    assert_eq!(whole.play().value(), "7");
    let part = stage(EffectClass::Read, [Act::Fetches("[7]", "7")]);
    assert_eq!((part.play().value(), committed(&part).result), ("7".into(), Some(json("7"))));
}

#[test]
fn a_final_failure_is_no_step_committed_and_stands_once() {
    let read = stage(EffectClass::Read, [Act::Fails(FailureClass::Permanent)]);
    assert_eq!(read.play().error(), StepError::App(json("\"no\"")));
    assert_eq!(read.kinds(), ["node_started", "command_committed", "node_finished"]);
    assert!(committed(&read).error.is_some());

    let tool = stage(EffectClass::Tool, [Act::Fails(FailureClass::Permanent)]);
    assert_eq!(tool.play().error(), StepError::App(json("\"no\"")));
    assert_eq!(tool.kinds()[2..], ["tool_invocation_finished", "command_committed", "node_finished"]);
    assert_eq!((committed(&tool).error, finished(&tool).error.is_some()), (None, true));
    let row = tool.row(0);
    assert_eq!((row.status, row.committed, row.error), (LedgerStatus::Failed, true, finished(&tool).error));
}

#[test]
fn the_messages_that_completed_a_call_are_taken_in_with_its_outcome() {
    let stage = stage(EffectClass::Tool, [Act::Hangs]);
    assert!(stage.play().waits());
    let reply = ExternalReply { reply: Reply::Value(json("\"paid\"")), actor: "bank".into() };
    stage.send(callback_topic(&InvocationId::new(&command(), 0)), Payload::encode(&reply).unwrap());
    assert_eq!((stage.play().value(), stage.unread()), ("\"paid\"".into(), 0));
}

// Large values.

#[test]
fn a_large_value_is_in_the_effect_store_before_its_outcome_is_appended() {
    let stage = large_stage(options(EffectClass::Tool), [Act::Returns(LARGE)]);
    assert_eq!(stage.play().value(), LARGE);
    assert!(!stage.text().contains(LARGE) && stage.row(0).result.is_none(), "it is kept in one place");
    assert_eq!(finished(&stage).result, Some(json(LARGE)));
    assert_eq!(stage.play().value(), LARGE);
}

#[test]
fn what_is_large_before_the_body_ran_is_kept_too() {
    let mut asked = large_stage(options(EffectClass::Llm), [Act::Returns("7")]);
    asked.args = LARGE;
    assert_eq!(asked.play().value(), "7");
    assert_eq!(asked.kinds()[..2], ["node_started", "command_emitted"]);
    assert!(!asked.text().contains(LARGE));

    let mut sent = large_stage(options(EffectClass::Tool), [Act::Returns("7")]);
    sent.args = LARGE;
    assert_eq!(sent.play().value(), "7");
    assert!(!sent.text().contains(LARGE));

    let handed_over = large_stage(options(EffectClass::Tool), [Act::HandsOver(LARGE)]);
    assert!(handed_over.play().waits());
    assert_eq!(handed_over.kinds()[2..], ["http_recorded", "callback_awaited"]);
    assert!(!handed_over.text().contains(LARGE));
}

#[test]
fn a_verification_writes_no_value() {
    let mut stage = large_stage(options(EffectClass::Read), []);
    stage.mode = Mode::Verify;
    let emitted = crate::journal::event::CommandEmitted {
        command: command(),
        attempt: 0,
        input: Some(json(LARGE)),
        reserved: None,
    };
    let events = [emitted.into()];
    assert_eq!(now(stage.take_up().store_large(&events)), []);
    let [kept] = &large(&events, 10)[..] else { panic!("it is large") };
    assert_eq!(now(stage.store.blob(&run_id(), &kept.at.sha256)).unwrap(), None);
}

// A crash between the effect store and the journal.

#[test]
fn an_outcome_that_reached_the_effect_store_is_taken_over_without_the_body() {
    let stage = large_stage(options(EffectClass::Tool), [Act::Returns(LARGE)]);
    stage.play();
    let before = stage.kinds();
    stage.cut_before("tool_invocation_finished");
    stage.store.put_entry(LedgerEntry { status: LedgerStatus::Started, committed: false, ..stage.row(0) });
    assert_eq!(stage.play().value(), LARGE);
    assert_eq!((stage.kinds(), stage.calls()), (before, vec![key(0)]));
    assert!(finished(&stage).caught_up && committed(&stage).caught_up);
    assert!(!stage.text().contains(LARGE), "the value stays in the effect store");
    let row = stage.row(0);
    assert_eq!((row.status, row.committed, row.result), (LedgerStatus::Succeeded, true, None));
}

#[test]
fn a_read_that_reached_the_effect_store_is_taken_over_with_its_start() {
    let stage = large_stage(options(EffectClass::Read), [Act::Returns(LARGE)]);
    stage.play();
    let before = stage.kinds();
    stage.cut_before("node_started");
    assert_eq!(stage.play().value(), LARGE);
    assert_eq!((stage.kinds(), stage.calls().len()), (before, 1));
}

#[test]
fn an_outcome_of_another_call_is_not_taken_over() {
    let another: [fn(&mut Stage); 2] =
        [|stage| stage.args = "[2]", |stage| stage.options = options(EffectClass::Llm)];
    for change in another {
        let mut stage = large_stage(options(EffectClass::Read), [Act::Returns(LARGE), Act::Returns("7")]);
        stage.play();
        stage.cut_before("node_started");
        change(&mut stage);
        assert_eq!((stage.play().value(), stage.calls().len()), ("7".into(), 2));
    }
}

#[test]
fn a_retried_attempt_that_reached_the_effect_store_waits_until_the_next_is_due() {
    let acts = [Act::Fails(FailureClass::Retryable), Act::Hangs, Act::Returns("7")];
    let stage = large_stage(retrying(EffectClass::Tool), acts);
    assert!(stage.play().waits(), "the second attempt hangs");
    stage.cut_before("tool_invocation_finished");
    assert_eq!(stage.slept(), [Duration::from_millis(200)]);
    assert_eq!(now(stage.store.effects(&run_id())).unwrap().len(), 1);
    stage.play();
    assert_eq!(stage.calls(), [key(0), key(1)], "the row of the second attempt is still there");
}

#[test]
fn a_retried_read_that_reached_the_effect_store_is_the_next_attempt_when_it_is_due() {
    let acts = [Act::Fails(FailureClass::Retryable), Act::Hangs, Act::Returns("7")];
    let stage = large_stage(retrying(EffectClass::Read), acts);
    assert!(stage.play().waits(), "the second attempt hangs");
    stage.cut_before("node_started");
    stage.rewind();
    assert_eq!(stage.play().value(), "7");
    let attempts = stage.calls();
    assert_eq!(attempts, [key(0), key(1), key(1)]);
    let retried = stage.kinds().iter().filter(|kind| *kind == "step_retried").count();
    assert_eq!((retried, stage.slept()), (1, vec![Duration::from_millis(200)]));
}

// An outcome that is known already.

#[test]
fn a_row_that_lags_behind_the_journal_follows_it() {
    for (outcome, result, error, status) in [
        (Outcome::SideEffectCommitted, Some("7"), None, LedgerStatus::Succeeded),
        (Outcome::PermanentFailure, None, Some("\"no\""), LedgerStatus::Failed),
    ] {
        let stage = stage(EffectClass::Tool, [Act::Hangs]);
        assert!(stage.play().waits());
        append_finished(&stage, outcome, result, error);
        stage.play();
        let row = stage.row(0);
        assert_eq!((row.status, row.committed), (status, true));
        assert_eq!((row.result, row.error), (result.map(json), error.map(json)));
        let ends = stage.kinds().iter().filter(|kind| *kind == "tool_invocation_finished").count();
        assert_eq!((ends, stage.calls().len()), (1, 1));
        let complete = stage.kinds().iter().any(|kind| kind == "step_committed");
        assert_eq!(complete, result.is_some(), "only a success is complete");
        assert!(committed(&stage).caught_up);
    }
}

#[test]
fn a_journal_that_lags_behind_the_row_follows_it() {
    let stage = stage(EffectClass::Tool, [Act::Returns("7")]);
    stage.play();
    let (before, row) = (stage.kinds(), stage.row(0));
    stage.cut_before("tool_invocation_finished");
    stage.wait(Duration::from_secs(1));
    assert_eq!(stage.play().value(), "7");
    assert_eq!((stage.kinds(), stage.calls().len()), (before, 1));
    assert!(finished(&stage).caught_up && committed(&stage).caught_up);
    assert_eq!(stage.row(0), row, "the row is left as it is");
}

#[test]
fn a_value_that_only_the_effect_store_holds_is_found_under_the_rows_key() {
    let mut stage = large_stage(options(EffectClass::Tool), [Act::Returns(LARGE)]);
    stage.play();
    let row = stage.row(0);
    assert_eq!((row.committed, row.result), (true, None));
    stage.cut_before("tool_invocation_finished");
    stage.limits.inline = 64 << 10;
    let performed = stage.play().value();
    assert_eq!((performed.as_str(), stage.calls().len()), (LARGE, 1));
}

#[test]
fn a_row_tells_success_from_failure_by_its_status_and_then_by_what_it_holds() {
    let stage = stage(EffectClass::Tool, [Act::Returns("7")]);
    stage.play();
    let row = |status, result: Option<&str>, error: Option<&str>| LedgerEntry {
        status,
        result: result.map(json),
        error: error.map(json),
        ..stage.row(0)
    };
    let success = |value| (Outcome::SideEffectCommitted, Ok(json(value)));
    let failure = |error| (Outcome::PermanentFailure, Err(json(error)));
    use LedgerStatus::{Confirmed, Failed, Succeeded};
    assert_eq!(recorded_outcome(row(Succeeded, Some("7"), None)), success("7"));
    assert_eq!(recorded_outcome(row(Confirmed, Some("7"), Some("\"no\""))), success("7"));
    assert_eq!(recorded_outcome(row(Succeeded, None, None)), success("null"));
    assert_eq!(recorded_outcome(row(Succeeded, None, Some("\"no\""))), failure("\"no\""));
    assert_eq!(recorded_outcome(row(Failed, Some("7"), Some("\"no\""))), failure("\"no\""));
    assert_eq!(recorded_outcome(row(Failed, None, None)), failure("null"));
}

// A look at the world before a recovered outcome is believed.

fn writing(class: EffectClass) -> StepOptions {
    StepOptions { changes: &["file"], ..options(class) }
}

/// The change of a file and the end of the body alone, as a process that died wrote them.
fn append_written(stage: &Stage) {
    let change = crate::journal::event::StateChanged {
        command: command(),
        resource: "file".into(),
        id: "a.txt".into(),
        operation: "write".into(),
        version: None,
        etag: None,
        external_ref: None,
    };
    stage.take_up().append(vec![change.into()], AppendExtras::default());
    append_finished(stage, Outcome::SideEffectCommitted, Some("true"), None);
}

#[test]
fn a_recovered_change_that_is_as_it_was_left_is_confirmed_in_the_ledger() {
    use LedgerStatus::{Confirmed, Started, Succeeded};
    for (status, committed) in [(Started, false), (Succeeded, true), (Confirmed, true)] {
        let stage = Stage::new(writing(EffectClass::Tool));
        assert!(stage.play().waits());
        append_written(&stage);
        let before = LedgerEntry { status, committed, ..stage.row(0) };
        stage.store.put_entry(before.clone());
        stage.wait(Duration::from_secs(1));
        assert_eq!((stage.play().value(), stage.calls().len()), ("true".into(), 1));
        let row = stage.row(0);
        assert_eq!((row.status, row.committed), (Confirmed, true));
        assert_eq!(row == before, status == Confirmed, "a row that says so already is left as it is");
        let looks = stage.kinds().iter().filter(|kind| *kind == "state_confirmed").count();
        assert_eq!(looks, 1);
    }
}

#[test]
fn a_recovered_change_that_is_not_as_it_was_left_is_not_handed_out() {
    let mut stage = Stage::new(writing(EffectClass::Tool));
    assert!(stage.play().waits());
    append_written(&stage);
    let row = stage.row(0);
    stage.as_left = false;
    assert!(stage.play().waits(), "the run is permanent_failure");
    assert_eq!((stage.row(0), stage.calls().len()), (row, 1));
    assert!(!stage.kinds().contains(&"command_committed".to_owned()));
}

#[test]
fn a_change_of_which_only_the_effect_store_knows_is_looked_at_too() {
    let mut stage = Stage::new(writing(EffectClass::Tool)).acts([Act::Writes("a.txt")]);
    stage.limits.inline = 0;
    stage.play();
    stage.cut_before("state_changed");
    assert_eq!((stage.play().value(), stage.calls().len()), ("true".into(), 1));
    assert_eq!((stage.row(0).status, stage.row(0).committed), (LedgerStatus::Confirmed, true));
}

// what cannot be recorded

/// Its class counts, and not that it cannot be recorded: here, of an error of any class that is too long or not JSON.
#[test]
fn an_error_that_cannot_be_recorded_has_the_class_that_it_had() {
    let too_long = |class| Act::FailsAtLength(class, 5_000);
    let unsaid = |class| Act::FailsUnsaid(class);
    for fails in [too_long, unsaid] {
        let limited = |mut stage: Stage| {
            stage.limits.error = 1_000;
            stage
        };
        let stage = |act, options| limited(Stage::new(options).acts([act, Act::Returns("\"sent\"")]));
        let tool = retrying(EffectClass::Tool);

        let retried = stage(fails(FailureClass::Retryable), tool);
        assert_eq!((retried.play().value(), retried.calls()), ("\"sent\"".into(), vec![key(0), key(1)]));

        let unknown = stage(fails(FailureClass::Unknown), tool);
        assert!(matches!(unknown.play().error(), StepError::InDoubt(_)));
        assert_eq!((unknown.calls(), unknown.row(0).committed), (vec![key(0)], false));

        let half_way = stage(fails(FailureClass::Compensatable), tool);
        assert!(matches!(half_way.play().error(), StepError::Unrecordable(_)));
        assert_eq!(committed(&half_way).outcome, Outcome::CompensatableFailure);

        let failed = stage(fails(FailureClass::Permanent), tool);
        assert!(matches!(failed.play().error(), StepError::Unrecordable(_)));
        assert_eq!((failed.row(0).status, failed.row(0).committed), (LedgerStatus::Failed, true));
    }
}

#[test]
fn a_value_that_cannot_be_recorded_was_made_and_is_to_be_undone() {
    let undone = StepOptions { compensated: true, ..options(EffectClass::Tool) };
    for (options, outcome) in [
        (options(EffectClass::Tool), Outcome::PermanentFailure),
        (undone, Outcome::CompensatableFailure),
        (StepOptions { compensated: true, ..options(EffectClass::Read) }, Outcome::PermanentFailure),
    ] {
        let stage = Stage::new(options).acts([Act::ReturnsUnsaid]);
        assert!(matches!(stage.play().error(), StepError::Unrecordable(_)));
        assert_eq!(committed(&stage).outcome, outcome);
        if options.class.changes_world() {
            assert_eq!((stage.row(0).status, stage.row(0).committed), (LedgerStatus::InDoubt, false));
        }
    }
}
