//! Execution contracts: rows 77 to 91 of the seeds, as far as they need no person.

use std::time::Duration;

use aether::effect::Payload;
use aether::engine::RunEnd;
use aether::error::{FailureClass, RunError};
use aether::prelude::*;
use aether::store::event::Event;
use aether::store::ledger::LedgerStatus;
use aether::view::{IllegalTransition, Status, Trigger};
use aether_core::payload::Digest;

use super::kit::{Calls, Journal, builder, failed, in_time, json, run_id, stores};

#[test]
fn s077_there_are_exactly_seven_statuses() {
    let names = Status::ALL.map(Status::as_str);
    assert_eq!(names, ["pending", "running", "waiting", "completed", "failed", "rejected", "cancelled"]);
    for status in Status::ALL {
        assert_eq!(Status::parse(status.as_str()), Some(status));
        // A new status does not compile here before it is thought about.
        match status {
            Status::Pending | Status::Running | Status::Waiting | Status::Completed => {}
            Status::Failed | Status::Rejected | Status::Cancelled => {}
        }
    }
    assert_eq!(Status::parse("Running"), None);
}

#[test]
fn s078_only_the_tables_moves_are_possible() {
    use Status::{Cancelled, Completed, Failed, Pending, Rejected, Running, Waiting};
    let table = [
        (Pending, Trigger::Start, Running),
        (Running, Trigger::Succeed, Completed),
        (Running, Trigger::Fail, Failed),
        (Running, Trigger::Reject, Rejected),
        (Running, Trigger::Cancel, Cancelled),
        (Running, Trigger::Suspend, Waiting),
        (Waiting, Trigger::Resume, Running),
        (Waiting, Trigger::Cancel, Cancelled),
        (Waiting, Trigger::Timeout, Cancelled),
        // What the seeds leave out, so that a refused action does not stay pending for ever.
        (Pending, Trigger::Cancel, Cancelled),
        (Pending, Trigger::Reject, Rejected),
        (Waiting, Trigger::Reject, Rejected),
    ];
    let mut possible = 0;
    for from in Status::ALL {
        for trigger in Trigger::ALL {
            let expected =
                table.iter().find(|(at, by, _)| (*at, *by) == (from, trigger)).map(|(_, _, to)| *to);
            let moved = from.after(trigger);
            assert_eq!(moved, expected.ok_or(IllegalTransition { from, trigger }), "{from} {trigger:?}");
            possible += usize::from(moved.is_ok());
        }
    }
    assert_eq!(possible, table.len());
    let mut edges: Vec<_> = table.iter().map(|(from, _, to)| (from.as_str(), to.as_str())).collect();
    edges.sort_unstable();
    edges.dedup();
    assert_eq!(edges.len(), 11, "two triggers lead from waiting to cancelled");
    let refused = Completed.after(Trigger::Start).unwrap_err().to_string();
    assert!(refused.contains("completed") && refused.contains("Start"), "{refused}");
}

#[test]
fn s079_a_terminal_status_has_no_exit() {
    for status in Status::ALL {
        let exits = Trigger::ALL.iter().filter(|trigger| status.after(**trigger).is_ok()).count();
        assert_eq!(exits == 0, status.is_terminal(), "{status}");
    }
    let terminal = Status::ALL.into_iter().filter(|status| status.is_terminal()).count();
    assert_eq!(terminal, 4);
    assert!(Status::Waiting.after(Trigger::Succeed).is_err(), "waiting is not completed without running");
}

/// Do as told.
#[step(effect = "tool")]
async fn end_as(cx: &mut StepCx, way: u32) -> Result<u32> {
    Calls::note(cx)?;
    match way {
        0 => Ok(42),
        1 => Err(Failure::permanent("SMTP connection refused")),
        _ => panic!("the printer is on fire"),
    }
}

/// Do as told.
#[workflow]
async fn seed_end(cx: &mut Cx, way: u32) -> Result<u32> {
    Ok(end_as(cx, way).await?)
}

#[tokio::test]
async fn s083_success_sets_the_result_and_an_error_or_a_panic_the_message() {
    for place in stores() {
        for (way, expected) in [(0, "42"), (1, "SMTP connection refused"), (2, "the printer is on fire")] {
            let place = place();
            let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
            let run = engine.start::<seed_end>(way).id("end").await.unwrap();
            let result = in_time(run.result()).await;
            let view = engine.view(run.id()).await.unwrap();
            let (step, status) = (&view.steps[0], run.status().await.unwrap());
            let text = |payload: &std::result::Result<Payload, Payload>| match payload {
                Ok(value) | Err(value) => value.as_str().to_owned(),
            };
            let recorded = step.result.as_ref().unwrap();
            assert!(text(recorded).contains(expected), "{recorded:?}");
            if way == 0 {
                assert_eq!(
                    (result.unwrap(), step.status, status),
                    (42, Status::Completed, Status::Completed)
                );
                assert!(recorded.is_ok());
            } else {
                assert!(failed(result).to_string().contains(expected));
                assert_eq!((step.status, status, recorded.is_err()), (Status::Failed, Status::Failed, true));
            }
        }
    }
}

/// Do a thing that must not be done twice.
#[step(effect = "tool", irreversible, key = |order| order)]
async fn ship(cx: &mut StepCx, order: &str, fail: bool) -> Result<String> {
    Calls::note(cx)?;
    if fail { Err(Failure::permanent("no stock")) } else { Ok(format!("shipped {order}")) }
}

/// What became of two calls, typed.
#[workflow]
async fn seed_ship(cx: &mut Cx, first_fails: bool) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for fail in [first_fails, false, false] {
        said.push(match ship(cx, "order 12", fail).await {
            Ok(shipped) => shipped,
            Err(StepError::Taken(holder)) => format!("rejected: {holder}"),
            Err(StepError::App(why)) => format!("failed: {why}"),
            Err(other) => format!("other: {other}"),
        });
    }
    Ok(said)
}

#[tokio::test]
async fn s084_failed_rejected_and_cancelled_are_distinct_typed_values() {
    /// Sleep long.
    #[workflow]
    async fn seed_sleep(cx: &mut Cx) -> Result<()> {
        cx.sleep(Duration::from_secs(3600)).await;
        Ok(())
    }
    for place in stores() {
        let place = place();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<seed_end>(1).await.unwrap();
        assert!(matches!(in_time(run.result()).await, Err(RunError::Failed(_))));
        assert!(matches!(in_time(run.end()).await, Ok(RunEnd::Failed { .. })));

        let run = engine.start::<seed_sleep>(()).await.unwrap();
        engine.cancel(run.id(), "not needed", "ann").await.unwrap();
        let end = in_time(run.result()).await;
        let Err(RunError::Cancelled { reason, actor, .. }) = end else { panic!("{end:?}") };
        assert_eq!(
            (&*reason, &*actor, run.status().await.unwrap()),
            ("not needed", "ann", Status::Cancelled)
        );

        let run = engine.start::<seed_ship>(false).id("ship").await.unwrap();
        let said = in_time(run.result()).await.unwrap();
        assert!(said[1].starts_with("rejected: "), "{said:?}");
        let statuses: Vec<_> =
            engine.view(run.id()).await.unwrap().steps.iter().map(|step| step.status).collect();
        assert_eq!(statuses, [Status::Completed, Status::Rejected, Status::Rejected]);
    }
}

#[tokio::test]
async fn s089_a_completed_irreversible_action_with_the_same_key_is_refused() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<seed_ship>(false).id("ship").await.unwrap();
        let said = in_time(run.result()).await.unwrap();
        assert_eq!((said[0].as_str(), calls.of("ship")), ("shipped order 12", 1));
        assert!(said[1].contains("same business key, as `0:ship` of run `ship`"), "{said:?}");
        let journal = Journal::read(&place.store, "ship").await;
        assert_eq!(journal.kinds().iter().filter(|kind| *kind == "tool_invocation_refused").count(), 2);
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn s090_a_definite_failure_frees_the_key_for_a_new_execution() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<seed_ship>(true).id("ship").await.unwrap();
        let said = in_time(run.result()).await.unwrap();
        assert_eq!((said[0].as_str(), said[1].as_str()), ("failed: no stock", "shipped order 12"));
        assert!(said[2].starts_with("rejected"), "{said:?}");
        assert_eq!(calls.keys("ship"), ["aether:ship:0:ship:0", "aether:ship:1:ship:0"]);
    }
}

/// Do a thing that must not be done twice, and never know.
#[step(effect = "tool", irreversible)]
async fn lose(cx: &mut StepCx, what: Payload) -> Result<()> {
    Calls::note(cx)?;
    let _ = what;
    Err(Failure::unknown("the line went dead"))
}

/// Lose one thing, written in two ways.
#[workflow]
async fn seed_lose(cx: &mut Cx, ways: Vec<Payload>) -> Result<Vec<FailureClass>> {
    let mut classes = Vec::new();
    for way in ways {
        let class = lose(cx, way).await.map_err(|error| aether::error::Classify::class(&error)).unwrap_err();
        classes.push(class);
    }
    Ok(classes)
}

#[tokio::test]
async fn s090_an_unknown_outcome_does_not_free_the_key() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<seed_lose>(vec![json("1"), json("1")]).id("lose").await.unwrap();
        let classes = in_time(run.result()).await.unwrap();
        assert_eq!(classes, [FailureClass::Unknown, FailureClass::Permanent]);
        assert_eq!(calls.of("lose"), 1);
        let rows = engine.ledger(run.id()).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.status).collect::<Vec<_>>(), [LedgerStatus::InDoubt]);
    }
}

#[tokio::test]
async fn s091_the_order_of_arguments_is_irrelevant_to_the_business_key() {
    let (one, two) =
        (r#"{"a":1,"b":{"d":[{"y":2,"x":1}],"c":"é"}}"#, r#"{"b":{"c":"\u00e9","d":[{"x":1,"y":2}]},"a":1}"#);
    let other = r#"{"a":1,"b":{"d":[{"y":1,"x":2}],"c":"é"}}"#;
    let digest = |text: &str| Digest::of(&json(text)).unwrap();
    assert_eq!(digest(one), digest(two));
    assert_ne!(digest(one), digest(other));
    assert_ne!(digest("[1,2]"), digest("[2,1]"));
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let ways = [one, two, other].map(json).to_vec();
        let run = engine.start::<seed_lose>(ways).id("lose").await.unwrap();
        in_time(run.result()).await.unwrap();
        assert_eq!(calls.of("lose"), 2, "the second is the first in another order");
        let keys: Vec<_> =
            engine.ledger(run.id()).await.unwrap().into_iter().filter_map(|row| row.business_key).collect();
        assert_eq!(keys.len(), 2);
        // Service, method, and the digest of the canonical arguments.
        let canonical = digest(&format!("{{\"what\":{one}}}"));
        assert!(keys[0].contains("lose") && keys[0].ends_with(canonical.as_str()), "{keys:?}");
    }
}

#[tokio::test]
async fn s080_waiting_persists_across_restarts() {
    /// Wait to be woken.
    #[workflow]
    async fn seed_nap(cx: &mut Cx) -> Result<String> {
        let before = cx.now().await;
        let by: String = cx.signal("wake").await?;
        Ok(format!("{before}, woken by {by}"))
    }
    for place in stores() {
        let place = place();
        let grace = Duration::from_millis(1);
        {
            let engine =
                builder(&place.store, &Calls::default()).eviction_grace(grace).start().await.unwrap();
            let run = engine.start::<seed_nap>(()).id("nap").await.unwrap();
            in_time(async {
                while run.status().await.unwrap() != Status::Waiting {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
        }
        let record = place.store.run(&run_id("nap")).await.unwrap().unwrap();
        assert_eq!((record.status, record.owner), (Status::Waiting, None));
        let engine = builder(&place.store, &Calls::default()).eviction_grace(grace).start().await.unwrap();
        let run = engine.handle::<seed_nap>("nap").await.unwrap();
        assert_eq!(run.status().await.unwrap(), Status::Waiting);
        engine.signal(run.id(), "wake", "1", &"ann").await.unwrap();
        assert!(in_time(run.result()).await.unwrap().ends_with("woken by ann"));
        let journal = Journal::read(&place.store, "nap").await;
        let waits = journal.events.iter().filter(|event| matches!(event, Event::WaitStarted(_))).count();
        assert_eq!(waits, 1, "the restart did not begin the wait again");
        assert!(engine.view(run.id()).await.unwrap().illegal.is_empty());
    }
}

/// The compile-fail cases that two rows consist of.
fn refused(case: &str, messages: &[&str]) {
    let ui = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui/contract/fail").join(case);
    let said = std::fs::read_to_string(ui.with_extension("stderr")).unwrap();
    for message in messages {
        assert!(said.contains(message), "{case}: {said}");
    }
    assert!(ui.with_extension("rs").exists());
}

#[test]
fn s074_a_contracts_identity_and_constraints_do_not_change() {
    let fields = [
        "`irreversible` of struct `aether::view::Contract` is private",
        "`timeout` of struct `aether::view::Contract` is private",
        "`execution` of struct `aether::view::Contract` is private",
    ];
    refused("s074_identity_and_constraints_do_not_change", &fields);
}

#[test]
fn s081_what_workflow_code_sees_has_no_mutators() {
    refused(
        "s081_workflow_code_has_no_mutators",
        &["no method named `transition`", "no method named `set_status`"],
    );
}
