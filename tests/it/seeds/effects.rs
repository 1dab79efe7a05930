//! Effect system: rows 31 to 64 of the seeds but those about unknown outcomes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use aether::engine::Fit;
use aether::error::{BuildError, Fault, RunError};
use aether::id::CommandId;
use aether::prelude::*;
use aether::store::event::{Event, PlanGenerated};
use aether::store::{AppendError, Store, StoreError};
use aether::view::RunView;
use aether_testing::FailingStore;

use super::chain::{act, links, look, recorded, result_of, seed_chain, think};
use super::everything::{COMMANDS, Outside, additions, seed_everything};
use super::kit::{Calls, Journal, Place, Rows, builder, failed, in_time, json, resume, run_id, stores};

#[tokio::test]
async fn s031_with_nothing_to_confirm_a_recorded_outcome_is_injected() {
    let whole = recorded().await;
    assert!(!whole.kinds().contains(&"state_changed".into()));
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        whole.open().plant(&place.store, Rows::Follow).await;
        let (_engine, result) = resume::<seed_chain>(&place.store, "chain", &calls).await;
        assert_eq!((result.unwrap(), calls.all()), (result_of(&whole), 0));
    }
}

#[tokio::test]
async fn s035_the_effect_log_holds_the_effects_and_nothing_else_in_order() {
    for place in stores() {
        let (place, outside) = (place(), Outside::new().await);
        let (engine, _, _) = outside.run(&place).await;
        let view = engine.view(&run_id("all")).await.unwrap();
        let names: Vec<_> = view.effects.iter().map(|effect| effect.command.name()).collect();
        assert_eq!(names, COMMANDS);
        assert!(view.effects.is_sorted_by_key(|effect| effect.position));
        assert_eq!(view.illegal, [""; 0]);
    }
}

/// Look for the own intent from inside.
async fn intent_is_durable(cx: &StepCx) -> Result<bool> {
    Calls::note(cx)?;
    let store = cx.dep::<Arc<dyn Store>>()?;
    let mut found = false;
    for frame in store.load(cx.run_id(), 0).await? {
        found |= frame.events()?.iter().any(|event| match event {
            Event::ToolInvocationStarted(e) => e.command == *cx.command_id() && e.key == cx.idempotency_key(),
            _ => false,
        });
    }
    Ok(found)
}

/// Look for the own intent.
#[step(effect = "tool")]
async fn witness_tool(cx: &mut StepCx) -> Result<bool> {
    intent_is_durable(cx).await
}

/// Look for the own intent.
#[step(effect = "external")]
async fn witness_external(cx: &mut StepCx) -> Result<bool> {
    intent_is_durable(cx).await
}

/// Look for the own intent.
#[step(effect = "http")]
async fn witness_http(cx: &mut StepCx) -> Result<bool> {
    intent_is_durable(cx).await
}

/// Look for the intents of world-changing steps, also in branches.
#[workflow]
async fn seed_witness(cx: &mut Cx) -> Result<Vec<bool>> {
    let mut seen = vec![witness_tool(cx).await?, witness_external(cx).await?, witness_http(cx).await?];
    let (one, two) = cx
        .join((async |cx: &mut Cx| witness_tool(cx).await, async |cx: &mut Cx| witness_http(cx).await))
        .await;
    seen.extend([one?, two?]);
    Ok(seen)
}

#[tokio::test]
async fn s036_every_world_changing_call_is_preceded_by_its_durable_event() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<seed_witness>(()).await.unwrap();
        assert_eq!((in_time(run.result()).await.unwrap(), calls.all()), (vec![true; 5], 5));
    }
}

#[tokio::test]
async fn s037_what_went_out_and_what_came_back_is_in_the_record() {
    for place in stores() {
        let (place, outside) = (place(), Outside::new().await);
        let (engine, _, journal) = outside.run(&place).await;
        let view = engine.view(&run_id("all")).await.unwrap();
        let effect = |name: &str| view.effects.iter().find(|e| e.command.name() == name).unwrap();
        let text = |name: &str| {
            let effect = effect(name);
            let input = effect.input.as_ref().map(|input| input.as_str().to_owned());
            (input.unwrap_or_default(), effect.output.as_ref().unwrap().as_str().to_owned())
        };
        for (name, n) in [("look", 1), ("act", 2), ("think", 3), ("call_out", 4), ("post", 5)] {
            let (input, output) = text(name);
            assert_eq!(input, format!("{{\"n\":{n}}}"));
            assert!(output.contains(&format!(", {n}]")), "{output}");
        }
        let (prompt, answer) = text("llm.plan");
        for part in ["m-1", "be brief", "plan it", "0.25"] {
            assert!(prompt.contains(part), "{part} in {prompt}");
        }
        assert!(answer.contains("search, then answer"), "{answer}");
        let (request, response) = text("http.get");
        assert!(request.contains("/item") && response.contains("an item"), "{request} {response}");
        assert!(text("http.post").0.contains("search, then answer"), "the body that was sent");
        let exchanges = journal.kinds().into_iter().filter(|kind| kind == "http_recorded").count();
        assert_eq!(exchanges, 2);
    }
}

#[tokio::test]
async fn s038_pure_steps_run_again_and_write_no_event() {
    let (place, outside) = (Place::memory(), Outside::new().await);
    let (engine, _, journal) = outside.run(&place).await;
    assert_eq!(journal.of("add"), []);
    // Other tests compute it too, at the same time, so that only a lower bound can be told.
    let before = additions();
    engine.verify(&run_id("all")).await.unwrap();
    assert!(additions() > before);
}

#[tokio::test]
async fn s039_a_replay_draws_no_time_random_or_uuid_value() {
    for place in stores() {
        let (place, outside) = (place(), Outside::new().await);
        let (engine, _, _) = outside.run(&place).await;
        // The engine itself looks at the clock once more after a run has ended.
        let (mut before, mut alike) = (outside.world.counts(), 0);
        while alike < 5 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            let now = outside.world.counts();
            alike = if now == before { alike + 1 } else { 0 };
            before = now;
        }
        assert!(before.1 >= 4, "the run itself draws: {before:?}");
        engine.verify(&run_id("all")).await.unwrap();
        assert_eq!(outside.world.counts(), before);
    }
}

#[tokio::test]
async fn s040_a_full_replay_calls_nothing() {
    for place in stores() {
        let (place, outside) = (place(), Outside::new().await);
        let (engine, _, _) = outside.run(&place).await;
        let before = outside.contacts().await;
        // Six bodies, what one of them saw, a model, and two requests.
        assert_eq!(before, (8, 2));
        let verified = engine.verify(&run_id("all")).await.unwrap();
        assert_eq!((verified.recorded, verified.matched), (14, 14));
        assert_eq!(outside.contacts().await, before);
    }
}

#[tokio::test]
async fn s041_a_replay_needs_nothing_but_the_journal() {
    for place in stores() {
        let outside = Outside::new().await;
        let (_engine, _, journal) = outside.run(&Place::memory()).await;
        drop(outside);
        let bare = place();
        journal.plant(&bare.store, Rows::Absent).await;
        let engine = Engine::builder().store(bare.store.clone()).start().await.unwrap();
        engine.verify(&run_id("all")).await.unwrap();
        let run = engine.handle::<seed_everything>("all").await.unwrap();
        assert!(in_time(run.result()).await.unwrap().0.contains("search, then answer"));
    }
}

/// Make a plan.
#[step(effect = "llm")]
async fn make_plan(cx: &mut StepCx) -> Result<Vec<u32>> {
    Calls::note(cx)?;
    Ok(vec![3, 1, 2])
}

/// Follow a plan.
#[workflow]
async fn seed_plan(cx: &mut Cx) -> Result<u32> {
    let plan = make_plan(cx).await?;
    for n in &plan {
        look(cx, *n).await?;
    }
    Ok(plan.len() as u32)
}

#[tokio::test]
async fn s042_a_recorded_plan_is_authoritative_and_a_missing_one_fails_the_verify_run() {
    let whole = Journal::record::<seed_plan>("plan", ()).await;
    let generated = PlanGenerated { command: CommandId::new("0", "make_plan"), plan: json("[5,6]") };
    let mut elsewhere = whole.first(1);
    elsewhere.events.push(generated.into());
    for place in stores() {
        let (own, foreign, calls) = (place(), place(), Calls::default());
        whole.through("command_committed", "make_plan").plant(&own.store, Rows::Follow).await;
        let (_engine, result) = resume::<seed_plan>(&own.store, "plan", &calls).await;
        assert_eq!((result.unwrap(), calls.of("make_plan"), calls.of("look")), (3, 0, 3));
        elsewhere.plant(&foreign.store, Rows::Follow).await;
        let (_engine, result) = resume::<seed_plan>(&foreign.store, "plan", &calls).await;
        assert_eq!((result.unwrap(), calls.of("make_plan"), calls.of("look")), (2, 0, 5));

        let (missing, calls) = (place(), Calls::default());
        let hand = whole.first(1).hold(&missing.store, Rows::Follow).await;
        let engine = builder(&missing.store, &calls).start().await.unwrap();
        let fit = engine.verify(&run_id("plan")).await.unwrap().fit;
        // Nobody has let go of the run, so that the engine has not taken it up either.
        let Fit::SoFar { at: Some(requested) } = fit else { panic!("{fit:?}") };
        assert_eq!(requested.command.as_str(), "0:make_plan");
        drop(hand);
    }
}

#[tokio::test]
async fn s043_resume_executes_from_the_first_unrecorded_effect_and_records_each() {
    let whole = recorded().await;
    for (at, link) in links().iter().enumerate() {
        // The outcome of this step is the first that is missing; world-changing ones have not begun.
        let last = match at.checked_sub(1) {
            None => whole.first(1),
            Some(before) => whole.through("step_committed", links()[before].name),
        };
        for place in stores() {
            let (place, calls) = (place(), Calls::default());
            last.plant(&place.store, Rows::Follow).await;
            let (engine, result) = resume::<seed_chain>(&place.store, "chain", &calls).await;
            result.unwrap();
            assert_eq!(calls.of(link.body), 1, "{} is executed", link.name);
            let after = Journal::read(&place.store, "chain").await;
            assert_eq!(after.facts(), whole.facts());
            engine.verify(&run_id("chain")).await.unwrap();
        }
    }
}

/// Use a tool once.
#[workflow]
async fn seed_act(cx: &mut Cx, n: u32) -> Result<aether::effect::Payload> {
    Ok(act(cx, n).await?)
}

#[tokio::test]
async fn s044_without_a_durable_start_the_body_is_not_called() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let full = StoreError::Full { store: "test".into(), reason: "no space left".into() };
        let failing: Arc<dyn Store> =
            Arc::new(FailingStore::new(place.store.clone()).append_fails(1, full.clone()));
        let engine = builder(&failing, &calls).start().await.unwrap();
        let run = engine.start::<seed_act>(7).id("act").await.unwrap();
        let end = in_time(run.result()).await;
        let Err(RunError::Stopped { fault, .. }) = end else { panic!("{end:?}") };
        assert_eq!(*fault, Fault::Append(AppendError::Store(full)));
        assert_eq!(calls.all(), 0);
        assert_eq!(Journal::read(&place.store, "act").await.kinds(), ["run_created"]);
        assert_eq!(place.store.entries(&run_id("act")).await.unwrap(), []);
    }
}

/// Fail at the first `failures` attempts.
#[step(effect = "tool", idempotent, on_unknown = "retry", retry(max_retries = 5, delay = "1ms"))]
async fn stumble(cx: &mut StepCx, failures: u32) -> Result<u32> {
    Calls::note(cx)?;
    if cx.attempt() < failures { Err(Failure::retryable("stumbled")) } else { Ok(cx.attempt()) }
}

/// Fail for good.
#[step(effect = "tool")]
async fn never(cx: &mut StepCx) -> Result<()> {
    Calls::note(cx)?;
    Err(Failure::permanent("never"))
}

/// Stumble, and then fail.
#[workflow]
async fn seed_stumble(cx: &mut Cx, failures: u32) -> Result<u32> {
    let attempts = stumble(cx, failures).await?;
    never(cx).await?;
    Ok(attempts)
}

async fn stumbled(place: &Place) -> (Engine, Calls, Journal) {
    let calls = Calls::default();
    let engine = builder(&place.store, &calls).start().await.unwrap();
    let run = engine.start::<seed_stumble>(2).id("stumble").await.unwrap();
    failed(in_time(run.result()).await);
    (engine, calls, Journal::read(&place.store, "stumble").await)
}

#[tokio::test]
async fn s047_step_committed_names_step_command_and_key_and_never_follows_a_failure() {
    for place in stores() {
        let place = place();
        let (_engine, _, journal) = stumbled(&place).await;
        let committed: Vec<_> = journal
            .events
            .iter()
            .filter_map(|event| match event {
                Event::StepCommitted(e) => Some((e.step.as_str(), e.command.as_str(), e.key.clone())),
                _ => None,
            })
            .collect();
        let key = format!("aether:{}:0:stumble:2", journal.run).into();
        assert_eq!(committed, [("stumble", "0:stumble", Some(key))]);
        assert_eq!(journal.count("node_finished", "never"), 1, "the failed step is over all the same");
        let reads = Journal::record::<seed_chain>("chain", 1).await;
        let keyless = reads.of("look").into_iter().find_map(|event| match event {
            Event::StepCommitted(e) => Some(e.key),
            _ => None,
        });
        assert_eq!(keyless, Some(None));
    }
}

#[test]
fn s054_the_mapping_of_effects_to_events_is_the_golden_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let journal = runtime.block_on(async {
        let (place, outside) = (Place::memory(), Outside::new().await);
        outside.run(&place).await.2
    });
    let view = RunView::fold(run_id("all"), journal.events.clone());
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for step in &view.steps {
        let class =
            if step.command.name() == "sleep" { "time (sleep)".into() } else { step.class.to_string() };
        let class = if step.command.name() == "http.get" { "read (http)".into() } else { class };
        kinds.entry(class).or_insert_with(|| journal.kinds_of(step.command.name()));
    }
    kinds.insert("pure".into(), journal.kinds_of("add"));
    let mut found = String::new();
    for (class, kinds) in kinds {
        writeln!(found, "{class}:{}", kinds.iter().map(|kind| format!(" {kind}")).collect::<String>())
            .unwrap();
    }
    assert_eq!(found, include_str!("effect_kinds.golden"), "\n{found}");
}

#[tokio::test]
async fn s055_every_retry_decision_is_in_the_history() {
    for place in stores() {
        let place = place();
        let (engine, calls, journal) = stumbled(&place).await;
        let retried: Vec<_> = journal
            .events
            .iter()
            .filter_map(|event| match event {
                Event::StepRetried(e) => Some((e.attempt, e.error.as_str().contains("stumbled"))),
                _ => None,
            })
            .collect();
        assert_eq!(retried, [(0, true), (1, true)]);
        assert_eq!((calls.of("stumble"), calls.of("never")), (3, 1));
        let view = engine.view(&run_id("stumble")).await.unwrap();
        assert_eq!(view.steps.iter().map(|step| step.attempts).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(journal.count("step_retried", "never"), 0);
    }
}

#[tokio::test]
async fn s059_the_attempt_in_the_key_rises_only_after_a_definite_failure() {
    for place in stores() {
        let live = place();
        let (_engine, calls, journal) = stumbled(&live).await;
        let key = |attempt: u32| format!("aether:stumble:0:stumble:{attempt}");
        assert_eq!(calls.keys("stumble"), [0, 1, 2].map(key));
        // A crash while the second attempt is in flight does not raise it.
        let second = journal.events.iter().rposition(|e| e.kind() == "step_retried").unwrap();
        let started =
            journal.first(second).events.iter().rposition(|e| e.kind() == "tool_invocation_started");
        let (place, calls) = (place(), Calls::default());
        journal.first(started.unwrap() + 1).plant(&place.store, Rows::Follow).await;
        let (_engine, result) = resume::<seed_stumble>(&place.store, "stumble", &calls).await;
        failed(result);
        // Nor does an error of what is sent again: it says nothing about the sending before.
        assert_eq!(calls.keys("stumble"), [1; 4].map(key));
    }
}

#[tokio::test]
async fn s060_an_invocation_has_one_id_everywhere() {
    for place in stores() {
        let place = place();
        let (engine, _, journal) = stumbled(&place).await;
        let ids = |kind: &str| {
            let found = journal.of("stumble").into_iter().filter(|event| event.kind() == kind);
            let ids = found.filter_map(|event| match event {
                Event::ToolInvocationStarted(e) => Some(e.invocation.to_string()),
                Event::ToolInvocationFinished(e) => Some(e.invocation.to_string()),
                _ => None,
            });
            ids.collect::<Vec<_>>()
        };
        let expected = ["0:stumble#0", "0:stumble#1", "0:stumble#2"];
        assert_eq!(ids("tool_invocation_started"), expected);
        assert_eq!(ids("tool_invocation_finished"), expected);
        let rows = engine.ledger(&run_id("stumble")).await.unwrap();
        let rows: Vec<_> = rows.iter().filter(|row| row.tool == "stumble").collect();
        assert_eq!(rows.iter().map(|row| row.invocation.as_str()).collect::<Vec<_>>(), expected);
        let view = engine.view(&run_id("stumble")).await.unwrap();
        assert_eq!(view.steps[0].invocation.as_ref().map(|id| id.as_str()), Some("0:stumble#2"));
    }
}

#[tokio::test]
async fn s063_production_needs_durable_recording() {
    let refused = Engine::builder().memory().production().start().await.err().unwrap();
    assert!(matches!(&refused, BuildError::NotDurable { store } if store == "memory"), "{refused}");
    assert!(Engine::builder().memory().start().await.is_ok());
    let place = Place::sqlite();
    assert!(Engine::builder().store(place.store.clone()).production().start().await.is_ok());
}

/// Ask a model twice the same.
#[workflow]
async fn seed_ask_twice(cx: &mut Cx) -> Result<String> {
    Ok(format!("{:?} {:?}", think(cx, 1).await?, think(cx, 1).await?))
}

/// Ask in one named piece of work.
#[workflow]
async fn seed_two_models(cx: &mut Cx) -> Result<String> {
    seed_ask_twice(cx).await
}

#[tokio::test]
async fn s064_two_model_calls_in_one_piece_of_work_have_two_ids_and_both_are_injected() {
    let whole = Journal::record::<seed_two_models>("two", ()).await;
    let mut commands: Vec<_> =
        whole.of("think").iter().filter_map(Event::command).map(|c| c.to_string()).collect();
    commands.dedup();
    assert_eq!(commands, ["0.0:think", "0.1:think"]);
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        whole.open().plant(&place.store, Rows::Follow).await;
        let (_engine, result) = resume::<seed_two_models>(&place.store, "two", &calls).await;
        result.unwrap();
        assert_eq!(calls.all(), 0);
        assert_eq!(Journal::read(&place.store, "two").await.facts(), whole.facts());
    }
}
