//! Contracts, the history of their statuses, and the three levels of a view: rows 75, 76, 82, 95, 96 and 98.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use aether::agent::CxAgent;
use aether::engine::RunEnd;
use aether::id::WorkerId;
use aether::llm::{ChatRequest, ChatResponse, CxLlm, ModelClient, ModelError, ToolCall};
use aether::prelude::*;
use aether::store::event::{Event, RunRequeued, RunWaiting};
use aether::view::{HISTORY_CAP, Purpose, RunView, TraceEntry};
use aether::view::{Status, Trigger};
use jiff::Timestamp;

use super::chain::{act, look};
use super::kit::{Calls, Journal, Place, Rows, builder, in_time, resume, run_id, stores};

/// Send a thing that cannot be taken back; the first `failures` attempts fail.
#[step(
    effect = "tool",
    irreversible,
    idempotent,
    on_unknown = "retry",
    retry(max_retries = 3, delay = "1ms")
)]
async fn dispatch(cx: &mut StepCx, failures: u32) -> Result<String> {
    Calls::note(cx)?;
    if cx.attempt() < failures {
        return Err(Failure::retryable("SMTP connection refused"));
    }
    Ok(format!("sent as {}", cx.idempotency_key()))
}

/// Look, wait for a word, and send.
#[workflow]
async fn seed_views(cx: &mut Cx, failures: u32) -> Result<String> {
    look(cx, 1).await?;
    let told: String = cx.ask("send it?").await?;
    cx.sleep(Duration::from_millis(1)).await;
    let plan = cx.llm("plan").system("the secret rules").user(told).max_tokens(77).text().await?;
    Ok(format!("{plan}: {}", dispatch(cx, failures).await?))
}

/// A model that gives its answers in turn.
#[derive(Debug)]
struct Script(Mutex<Vec<ChatResponse>>);

impl Script {
    fn says(answers: Vec<(&str, Vec<ToolCall>)>) -> Self {
        let answer = |(text, tool_calls): (&str, Vec<ToolCall>)| ChatResponse {
            model: "m".into(),
            content: (!text.is_empty()).then(|| text.to_owned()),
            tool_calls,
            ..ChatResponse::default()
        };
        Self(Mutex::new(answers.into_iter().map(answer).rev().collect()))
    }
}

impl ModelClient for Script {
    fn chat(
        &self,
        _request: ChatRequest,
    ) -> std::pin::Pin<Box<dyn Future<Output = std::result::Result<ChatResponse, ModelError>> + Send + '_>>
    {
        let answer =
            self.0.lock().unwrap().pop().ok_or_else(|| ModelError::Setup("nothing more to say".into()));
        Box::pin(std::future::ready(answer))
    }
}

/// Runs [`seed_views`] to its end, answering its question as Ann.
async fn watched(place: &Place, failures: u32) -> (Engine, RunView) {
    let script = Script::says(vec![("go", Vec::new())]);
    // Never evicted: a run that is resumed says so in its journal.
    let grace = Duration::from_secs(3600);
    let builder = builder(&place.store, &Calls::default()).eviction_grace(grace);
    let engine = builder.model(script).start().await.unwrap();
    let run = engine.start::<seed_views>(failures).id("views").await.unwrap();
    let question = in_time(async {
        loop {
            let view = engine.view(run.id()).await.unwrap();
            if let Some(step) = view.steps.iter().find(|step| step.status == Status::Waiting) {
                return step.command.clone();
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    engine.answer(run.id(), &question, &"yes", "Ann").await.unwrap();
    assert!(matches!(in_time(run.end()).await, Ok(RunEnd::Completed(_) | RunEnd::Failed { .. })));
    let view = engine.view(run.id()).await.unwrap();
    (engine, view)
}

fn moves(entries: &[TraceEntry], contract: &str) -> Vec<(Status, Trigger, String)> {
    let mine = entries.iter().filter(|e| e.contract.as_ref().is_some_and(|c| c.as_str() == contract));
    mine.filter_map(|e| Some((e.to, e.trigger?, e.actor.clone()))).collect()
}

#[tokio::test]
async fn s075_execution_ids_are_unique_with_one_machine_each_and_an_action_has_no_status() {
    for place in stores() {
        let place = place();
        let (_engine, view) = watched(&place, 2).await;
        let ids: BTreeSet<_> = view.executions.iter().map(|execution| execution.id.to_string()).collect();
        assert_eq!(ids.len(), view.executions.len(), "{ids:?}");
        let sent: Vec<_> = ids.iter().filter(|id| id.contains("dispatch")).collect();
        assert_eq!(sent, ["4:dispatch#0", "4:dispatch#1", "4:dispatch#2"], "a new attempt is a new contract");
        for execution in &view.executions {
            let lifecycle = &execution.lifecycle;
            assert_eq!(lifecycle.transitions.last().map(|last| last.to), Some(lifecycle.status));
            let mut status = Status::Pending;
            for moved in &lifecycle.transitions {
                assert_eq!((moved.from, status.after(moved.trigger)), (status, Ok(moved.to)), "one machine");
                status = moved.to;
            }
            assert!(status.is_terminal(), "{execution:?}");
        }
        for request in view.requests() {
            let action = serde_json::to_value(&request.action).unwrap();
            let fields: Vec<_> = action.as_object().unwrap().keys().cloned().collect();
            assert!(!fields.iter().any(|field| field.contains("status") || field == "result"), "{fields:?}");
        }
        assert!(view.illegal.is_empty(), "{:?}", view.illegal);
    }
}

/// Note a word.
#[step(effect = "tool")]
async fn note_word(cx: &mut StepCx, word: &str) -> Result<usize> {
    Calls::note(cx)?;
    Ok(word.len())
}

/// Let a model decide what is to be done.
#[workflow]
async fn seed_intent(cx: &mut Cx) -> Result<String> {
    Ok(cx.agent("helper").tools((note_word::tool(),)).run("do it").await?.answer)
}

#[tokio::test]
async fn s076_one_intent_yields_any_number_of_contracts() {
    let call = |word: &str| ToolCall {
        id: word.into(),
        name: "note_word".into(),
        arguments: format!("{{\"word\":\"{word}\"}}"),
    };
    for place in stores() {
        for contracts in 0..3 {
            let place = place();
            let calls: Vec<_> = ["a", "b"].into_iter().take(contracts).map(call).collect();
            // One answer of the model is one intent.
            let mut said = vec![("", calls), ("done", Vec::new())];
            if contracts == 0 {
                said.remove(0);
            }
            let model = Script::says(said);
            let engine = builder(&place.store, &Calls::default()).model(model).start().await.unwrap();
            let run = engine.start::<seed_intent>(()).id("intent").await.unwrap();
            assert_eq!(in_time(run.result()).await.unwrap(), "done");
            let view = engine.view(run.id()).await.unwrap();
            let made: Vec<_> = view.transitions().iter().map(TraceEntry::action).collect();
            let made = made.iter().filter(|a| a.starts_with("create_contract:") && a.contains("note_word"));
            assert_eq!(made.count(), contracts);
        }
    }
}

#[tokio::test]
async fn s082_every_transition_stores_from_to_trigger_time_and_actor() {
    for place in stores() {
        let place = place();
        let (engine, view) = watched(&place, 0).await;
        let entries = view.transitions();
        let worker = |status, trigger| (status, trigger, "engine".to_owned());
        let asked = moves(&entries, "1:ask#0");
        assert_eq!(
            asked[..2],
            [worker(Status::Running, Trigger::Start), worker(Status::Waiting, Trigger::Suspend)]
        );
        let ann = |status, trigger| (status, trigger, "Ann".to_owned());
        assert_eq!(
            asked[2..],
            [ann(Status::Running, Trigger::Resume), ann(Status::Completed, Trigger::Succeed)]
        );
        let slept = moves(&entries, "2:sleep#0");
        assert_eq!(slept[2], (Status::Running, Trigger::Resume, "clock".to_owned()));
        let sent = moves(&entries, "4:dispatch#0");
        assert_eq!(
            sent,
            [worker(Status::Running, Trigger::Start), worker(Status::Completed, Trigger::Succeed)]
        );

        // Times are those of the frames that hold the events, and `updated_at` is the last one.
        let frames = place.store.load(&run_id("views"), 0).await.unwrap();
        let at = |position| frames.iter().rfind(|frame| frame.position <= position).unwrap().at;
        for entry in &entries {
            assert_eq!(entry.moment.at, at(entry.moment.position), "{entry}");
        }
        for execution in &view.executions {
            let last = execution.lifecycle.transitions.last().unwrap();
            assert_eq!(execution.lifecycle.updated_at, last.moment.at);
            assert!(execution.lifecycle.updated_at >= execution.lifecycle.created.at);
        }
        let (first, last) = (frames.first().unwrap().at, frames.last().unwrap().at);
        assert!(first > Timestamp::UNIX_EPOCH && last > first);
        assert_eq!((view.lifecycle.created.at, view.lifecycle.updated_at), (first, last));

        // What a run leaves open is closed by whoever ended it.
        let run = engine.start::<seed_views>(0).id("left").await.unwrap();
        in_time(async {
            while engine.view(run.id()).await.unwrap().steps.iter().all(|s| s.status != Status::Waiting) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        engine.cancel(run.id(), "not needed", "Bob").await.unwrap();
        in_time(run.end()).await.unwrap();
        let entries = engine.trace(run.id()).await.unwrap().entries;
        let bob = (Status::Cancelled, Trigger::Cancel, "Bob".to_owned());
        assert_eq!(moves(&entries, "1:ask#0").last(), Some(&bob));
        let end = entries.last().unwrap();
        assert_eq!((end.contract.as_ref(), end.to, end.actor.as_str()), (None, Status::Cancelled, "Bob"));
    }
}

#[tokio::test]
async fn s095_trace_metadata_survives_a_restart() {
    let whole = Journal::record::<seed_sends>("sends", ()).await;
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let cut = whole.through("step_committed", "dispatch");
        cut.plant(&place.store, Rows::Follow).await;
        let before = RunView::load(&*place.store, &run_id("sends")).await.unwrap().transitions();
        let (engine, result) = resume::<seed_sends>(&place.store, "sends", &calls).await;
        result.unwrap();
        let trace = engine.trace(&run_id("sends")).await.unwrap();
        assert_eq!(
            trace.entries[..before.len()],
            before,
            "what was told before the restart is told after it"
        );
        let sent: Vec<_> = trace.entries.iter().filter(|e| e.contract.is_some() && e.irreversible).collect();
        let told: Vec<_> =
            sent.iter().map(|e| (e.action(), e.trigger, e.actor.as_str(), e.world_changed)).collect();
        assert_eq!(
            told,
            [
                ("create_contract:0:dispatch#0".to_owned(), None, "engine", false),
                ("transition:0:dispatch#0:pending→running".to_owned(), Some(Trigger::Start), "engine", false),
                (
                    "transition:0:dispatch#0:running→completed".to_owned(),
                    Some(Trigger::Succeed),
                    "engine",
                    true
                ),
            ]
        );
        let after: Vec<_> =
            trace.entries.iter().filter(|e| e.step.as_ref().is_some_and(|s| s.name() == "act")).collect();
        assert!(after.iter().skip(1).all(|entry| entry.actor.starts_with("worker-")), "{trace}");
        let text = trace.to_string();
        assert!(text.contains("succeed by engine  [irreversible, world changed]"), "{text}");
        let json = serde_json::to_string(&trace).unwrap();
        assert_eq!(serde_json::from_str::<aether::view::Trace>(&json).unwrap(), trace);
    }
}

/// Send, and use a tool.
#[workflow]
async fn seed_sends(cx: &mut Cx) -> Result<()> {
    dispatch(cx, 0).await?;
    act(cx, 1).await?;
    Ok(())
}

#[tokio::test]
async fn s096_results_transitions_and_requests_and_what_people_do_not_see() {
    for place in stores() {
        let place = place();
        let (_engine, view) = watched(&place, 1).await;
        let results = view.results();
        let named = |name: &str| results.iter().find(|result| result.step.name() == name).unwrap();
        assert_eq!((named("dispatch").status, named("dispatch").world_changed), (Status::Completed, true));
        assert!(!named("look").world_changed);
        let requests = view.requests();
        let sent = requests.iter().rfind(|request| request.action.step.name() == "dispatch").unwrap();
        assert_eq!(sent.action.input.as_ref().unwrap().as_str(), r#"{"failures":1}"#);
        assert!(sent.constraints.irreversible && sent.action.site.as_ref().unwrap().contains("views.rs:"));
        assert_eq!((sent.constraints.timeout_ms, sent.constraints.attempts), (Some(30_000), Some(4)));
        let secrets = [
            "aether:views:4:dispatch:1",
            "Ann",
            "30000",
            "the secret rules",
            "\"attempts\":4",
            "\"max_tokens\":77",
        ];
        let audit = serde_json::to_string(&view.audit()).unwrap();
        assert!(secrets.iter().all(|secret| audit.contains(secret)), "{audit}");
        let people = view.for_people();
        let shown = serde_json::to_string(&people).unwrap();
        for secret in secrets.iter().chain(&["aether:views", "engine", "max_tokens", "timeout"]) {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        assert!(shown.contains("sent as …") && shown.contains("SMTP connection refused"), "{shown}");
        assert!(shown.contains("\"content\":\"yes\""), "the user's own words stay: {shown}");
        let sent = people.steps.iter().rfind(|step| step.step.name() == "dispatch").unwrap();
        assert!(sent.irreversible && sent.world_changed && sent.error.is_none());
        assert_eq!(people.steps.iter().filter(|step| step.status == Status::Failed).count(), 1);
        assert_eq!(serde_json::from_str::<aether::view::PeopleView>(&shown).unwrap(), people);
        assert!(people.steps.iter().all(|step| step.purpose == Purpose::Call));
    }
}

#[tokio::test]
async fn s098_the_cap_of_a_history_keeps_the_terminal_transition() {
    let whole = Journal::record::<seed_sends>("sends", ()).await;
    for place in stores() {
        let place = place();
        // The run is suspended and taken up again, over and over.
        let mut long = whole.first(1);
        for number in 0..HISTORY_CAP {
            long.events.push(RunWaiting { until: None, on: Vec::new(), more: 0 }.into());
            let worker = WorkerId::from(format!("worker-{number}"));
            long.events.push(RunRequeued { worker, reason: "test".into() }.into());
        }
        long.events.extend_from_slice(&whole.events[1..]);
        long.plant(&place.store, Rows::Follow).await;
        let view = RunView::load(&*place.store, &run_id("sends")).await.unwrap();
        let moves = &view.lifecycle.transitions;
        assert_eq!((moves.len(), view.lifecycle.dropped), (HISTORY_CAP, 2 + HISTORY_CAP as u32));
        assert_eq!(moves.last().map(|last| last.to), Some(Status::Completed));
        assert!(matches!(long.events.last(), Some(Event::RunCompleted(_))));
        assert!(view.illegal.is_empty());
        let trace = view.trace();
        assert_eq!(trace.dropped, view.lifecycle.dropped);
        assert!(trace.to_string().contains("52 older transitions were dropped"), "{trace}");
    }
}
