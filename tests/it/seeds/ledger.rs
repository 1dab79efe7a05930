//! Ledger, outcomes, confirmation: rows 16 to 27 of the seeds, as far as nothing is confirmed.

use std::sync::Arc;

use aether::effect::Outcome;
use aether::error::BuildError;
use aether::id::{CommandId, IdempotencyKey, InvocationId, WorkerId};
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::event::{CommandCommitted, Event, RunRequeued};
use aether::store::journal::Frame;
use aether::store::ledger::{LedgerEntry, LedgerStatus, LedgerUpdate};
use aether::store::{Durability, Store};
use aether::view::RunView;
use aether::view::Status;

use super::chain::{act, links, recorded, result_of, seed_chain};
use super::kit::{
    Calls, Hand, Journal, Rows, builder, created, failed, in_time, json, resume, run_id, stores,
};

/// Use a tool once.
#[workflow]
async fn seed_once(cx: &mut Cx, n: u32) -> Result<aether::effect::Payload> {
    Ok(act(cx, n).await?)
}

#[tokio::test]
async fn s016_a_committed_ledger_row_alone_is_enough() {
    let whole = Journal::record::<seed_once>("once", 7).await;
    let started = whole.of("act")[1].clone();
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        // The row comes with an event that says nothing of the tool.
        let mut hand = Hand::create(&place.store, "once", &whole.events[0]).await;
        let silent = [RunRequeued { worker: WorkerId::from("w".to_owned()), reason: "row".into() }.into()];
        let acquire = whole.acquire(&started).unwrap();
        let row = acquire.entry.clone();
        hand.append(&silent, Some(acquire), Vec::new()).await;
        let update = LedgerUpdate {
            key: row.key.clone(),
            status: LedgerStatus::Succeeded,
            result: Some(json("[\"from the ledger\"]")),
            error: None,
            committed: true,
        };
        hand.append(&silent, None, vec![update]).await;
        hand.let_go().await;
        let (engine, result) = resume::<seed_once>(&place.store, "once", &calls).await;
        assert_eq!((result.unwrap(), calls.all()), (json("[\"from the ledger\"]"), 0));
        let journal = Journal::read(&place.store, "once").await;
        assert_eq!(journal.count("tool_invocation_started", "act"), 0);
        assert!(matches!(&journal.of("act")[2], Event::ToolInvocationFinished(e) if e.caught_up));
        engine.verify(&run_id("once")).await.unwrap();
    }
}

#[tokio::test]
async fn s017_a_finished_invocation_in_the_journal_alone_is_enough() {
    let whole = recorded().await;
    for link in links().iter().filter(|link| matches!(link.name, "act" | "call_out" | "post")) {
        let cut = whole.through("tool_invocation_finished", link.name);
        for place in stores() {
            for rows in [Rows::Absent, Rows::Follow] {
                let (place, calls) = (place(), Calls::default());
                cut.plant(&place.store, rows).await;
                let (_engine, result) = resume::<seed_chain>(&place.store, "chain", &calls).await;
                assert_eq!((result.unwrap(), calls.of(link.body)), (result_of(&whole), 0), "{}", link.name);
            }
        }
    }
}

#[tokio::test]
async fn s018_a_ledger_record_keeps_all_its_fields() {
    let whole = Journal::record::<seed_once>("once", 7).await;
    for place in stores() {
        let place = place();
        let mut hand = Hand::create(&place.store, "once", &whole.events[0]).await;
        let mut acquire = whole.acquire(&whole.of("act")[1]).unwrap();
        acquire.entry.business_key = Some("once/mail:send:12".into());
        acquire.entry.tool = "send \"mail\" \u{1f4e7}".into();
        let started = acquire.entry.clone();
        hand.append(&whole.of("act")[..2], Some(with_two(acquire)), Vec::new()).await;
        let get = async || place.store.entry(&run_id("once"), &started.key).await.unwrap().unwrap();
        assert_eq!(get().await, started);
        assert_eq!(place.store.entries(&run_id("once")).await.unwrap(), std::slice::from_ref(&started));
        let update = LedgerUpdate {
            key: started.key.clone(),
            status: LedgerStatus::Succeeded,
            result: Some(json(r#"{"b": 1.50,  "a":"é"}"#)),
            error: Some(json("\"and a warning\"")),
            committed: true,
        };
        hand.append(&whole.of("act")[2..3], None, vec![update.clone()]).await;
        let LedgerUpdate { status, result, error, committed, .. } = update;
        let finished_at = get().await.finished_at;
        assert_eq!(finished_at, Some(super::kit::past()));
        assert_eq!(get().await, LedgerEntry { status, result, error, committed, finished_at, ..started });
        for status in ["started", "succeeded", "failed", "in_doubt", "confirmed"] {
            assert_eq!(LedgerStatus::parse(status).map(LedgerStatus::as_str), Some(status));
        }
        assert_eq!(LedgerStatus::parse("finished"), None);
    }
}

/// A refusal must hold as many events as the frame it replaces.
fn with_two(mut acquire: aether::store::ledger::Acquire) -> aether::store::ledger::Acquire {
    let silent: Event = RunRequeued { worker: WorkerId::from("w".to_owned()), reason: "taken".into() }.into();
    acquire.otherwise = Frame::encode(&[silent.clone(), silent]).unwrap();
    acquire
}

/// Look at the own ledger row from inside.
#[step(effect = "tool")]
async fn look_at_row(cx: &mut StepCx) -> Result<(String, bool, bool)> {
    Calls::note(cx)?;
    let row = cx.dep::<Arc<dyn Store>>()?.entry(cx.run_id(), &cx.idempotency_key()).await?;
    let row = row.ok_or_else(|| Failure::permanent("no row"))?;
    Ok((row.status.as_str().into(), row.committed, row.finished_at.is_some()))
}

/// Look at the own ledger row from inside.
#[workflow]
async fn seed_row(cx: &mut Cx) -> Result<(String, bool, bool)> {
    Ok(look_at_row(cx).await?)
}

#[tokio::test]
async fn s019_without_a_row_it_is_set_started_called_once_and_set_finished() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<seed_row>(()).id("row").await.unwrap();
        let seen = in_time(run.result()).await.unwrap();
        assert_eq!(seen, ("started".into(), false, false), "what the body saw");
        assert_eq!(calls.of("look_at_row"), 1);
        let rows = engine.ledger(run.id()).await.unwrap();
        let after: Vec<_> =
            rows.iter().map(|row| (row.status, row.committed, row.finished_at.is_some())).collect();
        assert_eq!(after, [(LedgerStatus::Succeeded, true, true)]);
        assert_eq!(rows[0].result, Some(aether::effect::Payload::encode(&seen).unwrap()));
    }
}

#[tokio::test]
async fn s021_the_ledger_is_as_durable_as_the_journal() {
    let refused = Engine::builder().memory().production().start().await;
    assert!(matches!(refused, Err(BuildError::NotDurable { .. })), "{refused:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
        let engine = builder(&store, &Calls::default()).production().start().await.unwrap();
        let run = engine.start::<seed_once>(7).id("once").await.unwrap();
        in_time(run.result()).await.unwrap();
        engine.shutdown().await.unwrap();
    }
    let store = SqliteStore::open(&path).unwrap();
    assert!(store.durability() > Durability::Volatile);
    let rows = store.entries(&run_id("once")).await.unwrap();
    assert_eq!((rows.len(), rows[0].status, rows[0].committed), (1, LedgerStatus::Succeeded, true));
}

const OUTCOMES: [(&str, Outcome, bool); 7] = [
    ("pure", Outcome::Pure, true),
    ("success", Outcome::Success, true),
    ("side_effect_committed", Outcome::SideEffectCommitted, true),
    ("compensated", Outcome::Compensated, true),
    ("retryable_failure", Outcome::RetryableFailure, false),
    ("permanent_failure", Outcome::PermanentFailure, false),
    ("compensatable_failure", Outcome::CompensatableFailure, false),
];

#[test]
fn s023_outcome_strings_round_trip() {
    for (text, outcome, _) in OUTCOMES {
        assert_eq!(outcome.as_str(), text);
        assert_eq!(serde_json::to_string(&outcome).unwrap(), format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<Outcome>(&format!("\"{text}\"")).unwrap(), outcome);
    }
    for wrong in ["Success", "SUCCESS", "done", " success"] {
        assert!(serde_json::from_str::<Outcome>(&format!("\"{wrong}\"")).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn s024_tool_success_says_that_the_world_changed_and_other_success_does_not() {
    for place in stores() {
        let place = place();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<seed_chain>(7).id("chain").await.unwrap();
        in_time(run.result()).await.unwrap();
        let view = engine.view(run.id()).await.unwrap();
        let outcomes: Vec<_> =
            view.steps.iter().map(|step| (step.command.name().to_owned(), step.outcome.unwrap())).collect();
        let changed = |name: &str| matches!(name, "act" | "call_out" | "post");
        assert_eq!(outcomes.len(), 6);
        for (name, outcome) in outcomes {
            let expected = if changed(&name) { Outcome::SideEffectCommitted } else { Outcome::Success };
            assert_eq!(outcome, expected, "{name}");
        }
    }
}

#[tokio::test]
async fn s025_every_outcome_that_counts_as_complete_folds_so() {
    let texts = OUTCOMES.iter().map(|(text, _, complete)| (*text, *complete)).chain([("", true)]);
    for (text, complete) in texts {
        for place in stores() {
            let (place, command) = (place(), CommandId::new("0", "act"));
            let mut hand = Hand::create(&place.store, "once", &created("seed_once", "{\"n\":7}")).await;
            let (outcome, result, error) = (Outcome::Success, Some(json("1")), None);
            let event = CommandCommitted { command, outcome, result, error, caught_up: false, spent: None };
            let Frame { text: frame, count } = Frame::encode(&[event.into()]).unwrap();
            let frame = Frame { text: frame.replace("\"success\"", &format!("\"{text}\"")), count };
            hand.append_frame(frame, None, Vec::new()).await;
            let view = RunView::load(&*place.store, &run_id("once")).await.unwrap();
            assert_eq!(view.completed().len(), usize::from(complete), "{text:?}");
        }
    }
}

/// Fail as told, again and again.
#[step(effect = "tool", idempotent, on_unknown = "retry", retry(max_retries = 2, delay = "1ms"))]
async fn fail_again(cx: &mut StepCx, class: aether::error::FailureClass) -> Result<()> {
    Calls::note(cx)?;
    Err(Failure::with_class(class, "no"))
}

/// Fail as told.
#[workflow]
async fn seed_fail(cx: &mut Cx, class: aether::error::FailureClass) -> Result<()> {
    Ok(fail_again(cx, class).await?)
}

#[tokio::test]
async fn s026_only_a_retryable_failure_is_tried_again() {
    for (_, outcome, _) in OUTCOMES {
        assert_eq!(outcome.may_requeue(), outcome == Outcome::RetryableFailure);
    }
    use aether::error::FailureClass::{Compensatable, Permanent, Retryable};
    for (class, calls_made) in [(Retryable, 3), (Permanent, 1), (Compensatable, 1)] {
        for place in stores() {
            let (place, calls) = (place(), Calls::default());
            let engine = builder(&place.store, &calls).start().await.unwrap();
            let run = engine.start::<seed_fail>(class).id("fail").await.unwrap();
            failed(in_time(run.result()).await);
            assert_eq!(calls.of("fail_again"), calls_made, "{class:?}");
            let journal = Journal::read(&place.store, "fail").await;
            assert_eq!(journal.count("step_retried", "fail_again"), calls_made - 1);
            // A failed run is over: nothing of it is queued again.
            assert_eq!(run.status().await.unwrap(), Status::Failed);
            assert!(!run.advance().await.unwrap());
        }
    }
}

#[tokio::test]
async fn s027_the_trace_marks_what_changed_the_world() {
    let whole = recorded().await;
    for place in stores() {
        let place = place();
        whole.plant(&place.store, Rows::Follow).await;
        let view = RunView::load(&*place.store, &run_id("chain")).await.unwrap();
        let marked: Vec<_> = view.steps.iter().filter(|step| step.world_changed()).collect();
        let marked: Vec<_> = marked.iter().map(|step| step.command.name()).collect();
        assert_eq!(marked, ["act", "call_out", "post"]);
    }
}

#[test]
fn s059_the_external_key_has_the_seeds_form() {
    let (run, command) = (run_id("ticket-42"), CommandId::new("3.b0.1", "send"));
    assert_eq!(IdempotencyKey::new(&run, &command, 2).as_str(), "aether:ticket-42:3.b0.1:send:2");
    assert_eq!(InvocationId::new(&command, 2).as_str(), "3.b0.1:send#2");
}
