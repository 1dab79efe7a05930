//! Consent of people to calls of steps: row 92.

use std::time::Duration;

use aether::effect::EffectClass;
use aether::engine::RunEnd;
use aether::id::RunId;
use aether::people::{Approvals, DecideError, WaitFilter, Waiting};
use aether::prelude::*;
use aether::store::event::Event;
use aether::view::Status;
use aether_testing::{Live, Sim};

use super::human::{
    peek, pending, prompt, remit, seed_decide, seed_paid, seed_question, seed_remit, seed_remit_small,
    suspended,
};
use super::kit::{Calls, Journal, Place, Rows, builder, in_time, json, run_id, stores, stores_at};

const APPROVED: [&str; 8] = [
    "node_started",
    "approval_requested",
    "approval_decided",
    "tool_invocation_started",
    "tool_invocation_finished",
    "command_committed",
    "node_finished",
    "step_committed",
];

#[tokio::test]
async fn s092_no_call_before_a_person_agrees_and_one_after() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = prompt(&place, &calls).start().await.unwrap();
        let run = engine.start::<seed_remit>(500).id("pay").await.unwrap();
        let waits = pending(&engine, run.id()).await;
        suspended(&engine, run.id()).await;
        assert_eq!((calls.all(), engine.ledger(run.id()).await.unwrap().len()), (0, 0));
        assert_eq!(Journal::read(&place.store, "pay").await.kinds_of("remit"), APPROVED[..2]);
        assert_eq!((waits.waiting, waits.class, waits.until), (Waiting::Approval, EffectClass::Tool, None));
        assert_eq!(waits.args, Some(json(r#"{"to":"bob","cents":500}"#)));
        assert!(waits.question.as_ref().unwrap().as_str().contains(r#""irreversible":true"#), "{waits:?}");
        let view = engine.view(run.id()).await.unwrap();
        assert_eq!(view.steps[0].status, Status::Waiting);
        let listed = engine.all_pending(WaitFilter::default()).await.unwrap();
        assert_eq!(listed.waits, std::slice::from_ref(&waits));

        engine.approve(run.id(), &waits.command, "ann").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "paid 500 to bob; 1");
        assert_eq!(calls.of("remit"), 1);
        let journal = Journal::read(&place.store, "pay").await;
        assert_eq!(journal.kinds_of("remit"), APPROVED);
        let decided = journal.of("remit").remove(2);
        assert!(matches!(decided, Event::ApprovalDecided(e) if e.actor == "ann"));
        let view = engine.view(run.id()).await.unwrap();
        assert_eq!((view.steps[0].status, view.illegal.len()), (Status::Completed, 0), "{:?}", view.illegal);
        assert!(engine.all_pending(WaitFilter::default()).await.unwrap().waits.is_empty());
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn s092_a_refusal_gives_rejected_and_closes_the_action() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = prompt(&place, &calls).start().await.unwrap();
        let run = engine.start::<seed_remit>(500).id("pay").await.unwrap();
        let command = pending(&engine, run.id()).await.command;
        engine.reject(run.id(), &command, "too much", "ann").await.unwrap();
        let said = in_time(run.result()).await.unwrap();
        assert!(said.starts_with("rejected: ann rejected") && said.contains("too much"), "{said}");
        assert_eq!((calls.of("remit"), engine.ledger(run.id()).await.unwrap().len()), (0, 0));
        let journal = Journal::read(&place.store, "pay").await;
        let closed =
            ["node_started", "approval_requested", "approval_decided", "command_committed", "node_finished"];
        assert_eq!(journal.kinds_of("remit"), closed);
        let view = engine.view(run.id()).await.unwrap();
        assert_eq!((view.steps[0].status, view.illegal.len()), (Status::Rejected, 0), "{:?}", view.illegal);
        let ended: Vec<_> = view.executions.iter().map(|execution| execution.lifecycle.status).collect();
        assert_eq!(ended, [Status::Rejected, Status::Rejected, Status::Completed], "nothing stays open");
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn s092_edited_arguments_must_fit_and_are_recorded_beside_the_original_ones() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = prompt(&place, &calls).start().await.unwrap();
        let run = engine.start::<seed_remit>(500).id("pay").await.unwrap();
        let command = pending(&engine, run.id()).await.command;
        let wrong = serde_json::json!({"to": "bob", "cents": "many"});
        let refused = engine.approve_with(run.id(), &command, &wrong, "ann").await.unwrap_err();
        assert!(matches!(&refused, DecideError::Misfit { .. }), "{refused}");
        assert!(
            refused.to_string().contains("cents") && refused.to_string().contains("0:remit"),
            "{refused}"
        );
        assert_eq!((pending(&engine, run.id()).await.command, calls.all()), (command.clone(), 0));

        let edited = serde_json::json!({"to": "eve", "cents": 7});
        engine.approve_with(run.id(), &command, &edited, "ann").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "paid 7 to eve; 1");
        let view = engine.view(run.id()).await.unwrap();
        assert_eq!(view.steps[0].input, Some(json(r#"{"to":"bob","cents":500}"#)));
        let now = view.steps[0].edited.as_ref().unwrap().decode::<serde_json::Value>().unwrap();
        assert_eq!(now, edited);
        let row = engine.ledger(run.id()).await.unwrap().remove(0);
        let digest = aether_core::payload::Digest::of(&json(r#"{"cents":7,"to":"eve"}"#)).unwrap();
        assert_eq!(row.digest, digest, "the ledger holds what was done");
        engine.verify(run.id()).await.unwrap();
    }
}

/// A build that does not take what a person gave to the one before leaves the call to a build that does.
#[tokio::test]
async fn s092_edited_arguments_that_another_build_recorded_park_the_run_where_they_do_not_fit() {
    let place = Place::memory();
    let engine = prompt(&place, &Calls::default()).start().await.unwrap();
    let run = engine.start::<seed_remit>(500).id("pay").await.unwrap();
    let command = pending(&engine, run.id()).await.command;
    let edited = serde_json::json!({"to": "eve", "cents": 7});
    engine.approve_with(run.id(), &command, &edited, "ann").await.unwrap();
    in_time(run.result()).await.unwrap();
    let journal = Journal::read(&place.store, "pay").await;
    for last in ["approval_decided", "tool_invocation_started"] {
        let mut planted = journal.through(last, "remit");
        for event in &mut planted.events {
            let text = serde_json::to_string(event).unwrap();
            *event = serde_json::from_str(
                &text.replace(r#"\"cents\":7"#, r#"\"dollars\":7"#).replace(r#""cents":7"#, r#""dollars":7"#),
            )
            .unwrap();
        }
        assert_ne!(planted, journal.through(last, "remit"));
        let (place, calls) = (Place::sqlite(), Calls::default());
        planted.plant(&place.store, Rows::Follow).await;
        let engine = prompt(&place, &calls).start().await.unwrap();
        let run = engine.handle::<seed_remit>("pay").await.unwrap();
        let error = in_time(run.result()).await.unwrap_err().to_string();
        assert!(
            error.contains("edited arguments") && error.contains("nothing of the run was lost"),
            "{error}"
        );
        // Whoever waits for it is told just before.
        in_time(async {
            while !place.store.run(run.id()).await.unwrap().unwrap().parked {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        assert_eq!(calls.all(), 0);
        let after = Journal::read(&place.store, "pay").await;
        let added = &after.events[planted.events.len()..];
        assert!(
            added.iter().all(|event| matches!(event, Event::RunRequeued(_) | Event::RunParked(_))),
            "{added:?}"
        );
    }
}

/// Edited arguments that reach the run past the check of the API are refused by the run itself, on the record.
#[tokio::test]
async fn s092_a_decision_that_does_not_fit_is_refused_by_the_run_and_the_wait_goes_on() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = prompt(&place, &calls).start().await.unwrap();
        let run = engine.start::<seed_remit>(500).id("pay").await.unwrap();
        let command = pending(&engine, run.id()).await.command;
        let misfits = [r#"{"reply":{"value":{"approved_with":{"to":1}}},"actor":"eve"}"#, r#""nonsense""#];
        for (number, text) in misfits.into_iter().enumerate() {
            let topic = format!("decide:{command}");
            let id = format!("{topic}#{number}");
            let at = jiff::Timestamp::now();
            let message = aether::store::Message { seq: 0, id, topic, payload: json(text), at };
            place.store.send(run.id(), message).await.unwrap();
            in_time(async {
                while pending(&engine, run.id()).await.refused.len() <= number {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            })
            .await;
        }
        let refused = pending(&engine, run.id()).await.refused;
        assert_eq!(refused[0].0, "eve");
        assert!(refused[0].1.contains("`to`"), "{refused:?}");
        engine.approve(run.id(), &command, "ann").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "paid 500 to bob; 1");
        assert_eq!(Journal::read(&place.store, "pay").await.count("answer_refused", "remit"), 2);
        engine.verify(run.id()).await.unwrap();
    }
}

/// Approves whatever waits, until the run is over.
async fn finished(engine: &Engine, run: &RunId) -> (RunEnd, usize) {
    let handle = engine.find(run.as_str()).await.unwrap();
    let (end, approved) = in_time(async {
        let mut approved = 0;
        loop {
            if let Some(waits) = engine.pending(run).await.unwrap().pop()
                && engine.approve(run, &waits.command, "bob").await.is_ok()
            {
                approved += 1;
            }
            if handle.status().await.unwrap().is_terminal() {
                return (handle.end().await.unwrap(), approved);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    (end, approved)
}

#[tokio::test]
async fn s092_a_decision_survives_a_crash_at_every_event() {
    let place = Place::memory();
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    let run = engine.start::<seed_remit>(500).id("pay").await.unwrap();
    let command = pending(&engine, run.id()).await.command;
    let edited = serde_json::json!({"to": "eve", "cents": 7});
    engine.approve_with(run.id(), &command, &edited, "ann").await.unwrap();
    in_time(run.result()).await.unwrap();
    let whole = Journal::read(&place.store, "pay").await;
    for cut in 1..whole.events.len() {
        for place in stores_at(cut) {
            let (place, calls) = (place(), Calls::default());
            let left = whole.first(cut);
            left.plant(&place.store, Rows::Follow).await;
            let engine = builder(&place.store, &calls).start().await.unwrap();
            let (end, approved) = finished(&engine, &run_id("pay")).await;
            let (decided, started) =
                (left.count("approval_decided", "remit"), left.count("tool_invocation_started", "remit"));
            assert_eq!(approved, 1 - decided, "asked again only where the decision was lost, cut at {cut}");
            assert_eq!(calls.of("remit"), 1 - started, "cut at {cut}");
            let RunEnd::Completed(value) = end else { panic!("cut at {cut}: {end:?}") };
            let expected = match (decided, started, left.count("tool_invocation_finished", "remit")) {
                (0, ..) => "paid 500 to bob",
                (_, 1, 0) => "other: in doubt",
                _ => "paid 7 to eve",
            };
            assert!(value.as_str().contains(expected), "cut at {cut}: {value:?}");
            engine.verify(&run_id("pay")).await.unwrap();
        }
    }
}

/// Says something to whatever waits, until the process dies or the run is over.
async fn answer_everything(live: Live) {
    loop {
        for waits in live.engine().pending(live.run_id()).await.unwrap_or_default() {
            let (engine, run, command) = (live.engine(), live.run_id(), &waits.command);
            let said = match waits.waiting {
                Waiting::Question => engine.answer(run, command, &4, "ann").await,
                _ if command.name() == "remit" => {
                    let edited = serde_json::json!({"to": "eve", "cents": 7});
                    engine.approve_with(run, command, &edited, "ann").await
                }
                _ => engine.reject(run, command, "no", "ann").await,
            };
            // Said before the crash, perhaps.
            assert!(matches!(said, Ok(()) | Err(DecideError::AlreadyDecided { .. })), "{said:?}");
        }
        live.sleep(Duration::from_secs(60)).await;
    }
}

/// Process deaths at every write and every acknowledgement: the decision that was taken stands.
#[tokio::test]
async fn s092_words_of_people_survive_a_crash_at_every_write() {
    let remitted = |to: String, cents| Ok(format!("paid {cents} to {to}"));
    let sim = Sim::new::<seed_remit>().stub::<remit>(move |(to, cents)| remitted(to, cents)).stub::<peek>(Ok);
    let sim = sim.meanwhile(answer_everything);
    assert_eq!(sim.run(500).await.assert_completed(), "paid 7 to eve; 1");
    let report = sim.crash_at_every_append(500).await;
    assert!(report.same.len() >= 8, "{report:?}");
    let sim = Sim::new::<seed_decide>().meanwhile(answer_everything);
    sim.crash_at_every_append(None).await;
    let sim = Sim::new::<seed_question>().stub::<peek>(Ok).meanwhile(answer_everything);
    sim.crash_at_every_append(None).await;
    // Nobody answers, and the process dies around the time limit.
    for limit in [Some(1), Some(3_600_000)] {
        Sim::new::<seed_decide>().nobody_answers().crash_at_every_append(limit).await;
        Sim::new::<seed_question>().nobody_answers().stub::<peek>(Ok).crash_at_every_append(limit).await;
        Sim::new::<seed_paid>().crash_at_every_append(limit.unwrap_or_default()).await;
    }
}

/// A run that is cancelled while a person is asked closes what was asked; nobody can decide any more.
#[tokio::test]
async fn s092_cancelling_a_run_closes_what_waits() {
    for place in stores() {
        for grace in [Duration::from_millis(1), Duration::from_secs(3600)] {
            let (place, calls) = (place(), Calls::default());
            let engine = builder(&place.store, &calls).eviction_grace(grace).start().await.unwrap();
            let run = engine.start::<seed_remit>(500).id("pay").await.unwrap();
            let command = pending(&engine, run.id()).await.command;
            engine.cancel(run.id(), "not needed", "bob").await.unwrap();
            assert!(matches!(in_time(run.end()).await, Ok(RunEnd::Cancelled { .. })));
            let late = engine.approve(run.id(), &command, "ann").await;
            assert!(matches!(late, Err(DecideError::RunEnded { status: Status::Cancelled, .. })), "{late:?}");
            assert!(engine.all_pending(WaitFilter::default()).await.unwrap().waits.is_empty());
            let view = engine.view(run.id()).await.unwrap();
            assert!(view.executions.iter().all(|e| e.lifecycle.status == Status::Cancelled), "{view:?}");
            assert_eq!((calls.all(), view.illegal.len()), (0, 0), "{:?}", view.illegal);
        }
    }
}

#[tokio::test]
async fn s092_a_policy_raises_what_a_step_declares_and_never_lowers_it() {
    /// A policy, a sum, and the steps that need consent then.
    type Case = (fn() -> Approvals, u32, &'static [&'static str]);
    let policies: [Case; 7] = [
        (Approvals::new, 50, &[]),
        (Approvals::new, 500, &["remit_small"]),
        (|| Approvals::new().when(|_| false), 500, &["remit_small"]),
        (|| Approvals::new().step("peek"), 50, &["peek"]),
        (|| Approvals::new().class(EffectClass::Tool), 50, &["remit_small"]),
        (|| Approvals::new().when(|call| call.args.as_str().contains("50")), 50, &["remit_small"]),
        (
            || Approvals::new().when(|call| !call.irreversible && call.path.len() < 3 || panic!("no idea")),
            50,
            &["remit_small", "peek"],
        ),
    ];
    for (policy, cents, asked) in policies {
        for place in stores() {
            let (place, calls) = (place(), Calls::default());
            let engine = prompt(&place, &calls).approvals(policy()).start().await.unwrap();
            let run = engine.start::<seed_remit_small>(cents).id("pay").await.unwrap();
            for name in asked {
                let waits = pending(&engine, run.id()).await;
                assert_eq!((waits.command.name(), calls.of(name)), (*name, 0));
                engine.approve(run.id(), &waits.command, "ann").await.unwrap();
                in_time(async {
                    while calls.of(name) == 0 {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                })
                .await;
            }
            assert_eq!(in_time(run.result()).await.unwrap(), format!("{cents}; 1"));
            let journal = Journal::read(&place.store, "pay").await;
            let requests = journal.kinds().iter().filter(|kind| *kind == "approval_requested").count();
            assert_eq!((requests, calls.all()), (asked.len(), 2));
            engine.verify(run.id()).await.unwrap();
        }
    }
}
