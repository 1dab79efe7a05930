//! Business keys that hold in the whole store, and calls that are raised to irreversible: rows 89, 90 and 99.

use std::pin::Pin;
use std::sync::Mutex;

use aether::agent::CxAgent;
use aether::effect::Tool;
use aether::error::KeyHolder;
use aether::llm::{ChatRequest, ChatResponse, ModelClient, ModelError, ToolCall};
use aether::prelude::*;
use aether::retention::Retention;
use aether::store::Store;
use std::sync::Arc;
use std::time::Duration;

use super::kit::{Calls, Journal, Rows, builder, in_time, resume, stores};

/// Pay an invoice; it must not be paid twice by anybody.
#[step(effect = "external", irreversible, key = |invoice| invoice, scope = "store")]
async fn pay(cx: &mut StepCx, invoice: &str, how: &str) -> Result<String> {
    Calls::note(cx)?;
    match how {
        "fails" => Err(Failure::permanent("no money")),
        "lost" => Err(Failure::unknown("the line went dead")),
        _ => Ok(format!("paid {invoice}")),
    }
}

/// Pay, and say what became of it.
#[workflow]
async fn seed_pay(cx: &mut Cx, invoice: String, how: String) -> Result<std::result::Result<String, String>> {
    Ok(match pay(cx, &invoice, &how).await {
        Ok(paid) => Ok(paid),
        Err(StepError::Taken(KeyHolder { run, command, in_doubt, .. })) => {
            Err(format!("{run} {command} {in_doubt}"))
        }
        Err(other) => Err(other.to_string()),
    })
}

async fn said(
    store: &Arc<dyn Store>,
    calls: &Calls,
    run: &str,
    how: &str,
) -> std::result::Result<String, String> {
    let engine = builder(store, calls).start().await.unwrap();
    let input = ("invoice 7".to_owned(), how.to_owned());
    let run = engine.start::<seed_pay>(input).id(run).await.unwrap();
    let said = in_time(run.result()).await.unwrap();
    engine.verify(run.id()).await.unwrap();
    said
}

#[tokio::test]
async fn s089_a_store_wide_key_is_refused_to_every_other_run_and_its_holder_is_named() {
    for place in stores() {
        let (first, again, calls) = (place(), place(), Calls::default());
        for place in [&first, &again] {
            assert_eq!(said(&place.store, &calls, "one", "pays").await, Ok("paid invoice 7".into()));
        }
        assert_eq!(said(&first.store, &calls, "two", "pays").await, Err("one 0:pay false".into()));
        // A crash between the refusal and the step's end: it is not asked for again, and still names its holder.
        let journal = Journal::read(&first.store, "two").await;
        journal.through("tool_invocation_refused", "pay").plant(&again.store, Rows::Follow).await;
        let (_engine, result) = resume::<seed_pay>(&again.store, "two", &calls).await;
        assert_eq!(result.unwrap(), Err("one 0:pay false".into()));
        assert_eq!(Journal::read(&again.store, "two").await.facts(), journal.facts());
        assert_eq!(calls.of("pay"), 2, "once in each store");
    }
}

#[tokio::test]
async fn s090_only_a_definite_failure_frees_a_store_wide_key() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        assert_eq!(said(&place.store, &calls, "one", "fails").await, Err("no money".into()));
        let lost = said(&place.store, &calls, "two", "lost").await.unwrap_err();
        assert!(lost.starts_with("in doubt"), "{lost}");
        assert_eq!(said(&place.store, &calls, "three", "pays").await, Err("two 0:pay true".into()));
        assert_eq!(calls.of("pay"), 2);
    }
}

#[tokio::test]
async fn s102_a_store_wide_key_stays_taken_when_its_run_is_purged() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        said(&place.store, &calls, "one", "pays").await.unwrap();
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let report = engine.purge(&Retention::new().completed(Duration::ZERO)).await.unwrap();
        assert_eq!((report.deleted, engine.runs(Default::default()).await.unwrap().len()), (1, 0));
        assert_eq!(said(&place.store, &calls, "two", "pays").await, Err("one 0:pay false".into()));
        // Also to a run of the same name.
        assert_eq!(said(&place.store, &calls, "one", "pays").await, Err("one 0:pay false".into()));
        assert_eq!(calls.of("pay"), 1);
    }
}

/// Send a letter; declares nothing.
#[step(effect = "tool")]
async fn send_letter(cx: &mut StepCx, to: &str) -> Result<bool> {
    Calls::note(cx)?;
    let _ = to;
    Ok(cx.contract().irreversible())
}

/// Launch a rocket; declares that it is final.
#[step(effect = "tool", irreversible)]
async fn launch(cx: &mut StepCx, pad: &str) -> Result<bool> {
    Calls::note(cx)?;
    let _ = pad;
    Ok(cx.contract().irreversible())
}

/// Send two letters to one person.
#[workflow]
async fn write_twice(cx: &mut Cx, to: String) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for _ in 0..2 {
        said.push(format!("{:?}", send_letter(cx, &to).await.map_err(|error| error.to_string())));
    }
    Ok(said)
}

/// Send letters in every way in which a caller may raise a call.
#[workflow]
async fn seed_raise(cx: &mut Cx) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for (raised, to) in [(true, "ann"), (true, "ann"), (false, "ann"), (false, "bob"), (false, "bob")] {
        let letter =
            if raised { send_letter(cx.irreversible(), to).await } else { send_letter(cx, to).await };
        said.push(format!("{:?}", letter.map_err(|error| error.to_string())));
    }
    said.extend(write_twice(cx, "eve".into()).await?);
    said.extend(write_twice(cx.irreversible(), "joe".into()).await?);
    // What is raised is the next command; what comes after it is as it declares itself.
    cx.irreversible().now().await;
    said.extend(write_twice(cx, "sue".into()).await?);
    Ok(said)
}

#[tokio::test]
async fn s099_a_caller_can_raise_a_call_to_irreversible() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<seed_raise>(()).id("raise").await.unwrap();
        let said = in_time(run.result()).await.unwrap();
        let refused = |by: &str| {
            format!(
                "Err(\"rejected: irreversible step `send_letter` was called before with the same business key, as `{by}:send_letter` of run `raise`\")"
            )
        };
        let (yes, no) = ("Ok(true)".to_owned(), "Ok(false)".to_owned());
        let ann = [yes.clone(), refused("0"), no.clone()];
        assert_eq!(said[..3], ann);
        assert_eq!(said[3..7], [&no; 4].map(Clone::clone));
        assert_eq!(said[7..9], [yes, refused("6.0")]);
        assert_eq!(said[9..], [&no; 2].map(Clone::clone));
        let view = engine.view(run.id()).await.unwrap();
        let raised: Vec<_> = view.executions.iter().filter(|e| e.constraints.irreversible).collect();
        assert_eq!(raised.len(), 4, "the refused ones too");
        engine.verify(run.id()).await.unwrap();
    }
}

/// A model that calls tools with the arguments it is given, and then ends.
#[derive(Debug)]
struct Insists(Mutex<Vec<(&'static str, &'static str)>>);

impl ModelClient for Insists {
    fn chat(
        &self,
        _request: ChatRequest,
    ) -> Pin<Box<dyn Future<Output = std::result::Result<ChatResponse, ModelError>> + Send + '_>> {
        let mut wanted = self.0.lock().unwrap();
        let call = |(name, arguments): (&str, &str)| ToolCall {
            id: name.into(),
            name: name.into(),
            arguments: arguments.into(),
        };
        let mut answer = ChatResponse { model: "m".into(), ..ChatResponse::default() };
        match wanted.is_empty() {
            true => answer.content = Some("done".into()),
            false => answer.tool_calls = vec![call(wanted.remove(0))],
        }
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// Let a model use the tools.
#[workflow]
async fn seed_model_raises(cx: &mut Cx) -> Result<String> {
    let tools: Vec<Tool> = vec![send_letter::tool(), launch::tool()];
    Ok(cx.agent("captain").tools(tools).run("go").await?.answer)
}

#[tokio::test]
async fn s099_a_model_can_raise_a_call_and_lower_none() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let wanted = vec![
            // Nothing that a model says makes a declared step repeatable: not a word, nor an argument of its own.
            ("launch", r#"{"pad":"A","irreversible":false}"#),
            ("launch", r#"{"pad":"A"}"#),
            ("launch", r#"{"irreversible":false,"pad":"A","again":1}"#),
            ("send_letter", r#"{"to":"ann","irreversible":true}"#),
            ("send_letter", r#"{"irreversible":true,"to":"ann"}"#),
            ("send_letter", r#"{"to":"bob"}"#),
            ("send_letter", r#"{"to":"bob","irreversible":false}"#),
        ];
        let model = Insists(Mutex::new(wanted));
        let engine = builder(&place.store, &calls).model(model).start().await.unwrap();
        let run = engine.start::<seed_model_raises>(()).id("model").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "done");
        assert_eq!((calls.of("launch"), calls.of("send_letter")), (1, 3));
        let view = engine.view(run.id()).await.unwrap();
        let tools = view.executions.iter().filter(|e| e.class.changes_world());
        let raised: Vec<_> =
            tools.map(|e| (e.command.name().to_owned(), e.constraints.irreversible)).collect();
        let (launch, letter) = ("launch".to_owned(), "send_letter".to_owned());
        assert_eq!(raised[..3], [1, 2, 3].map(|_| (launch.clone(), true)));
        assert_eq!(raised[3..], [true, true, false, false].map(|raised| (letter.clone(), raised)));
    }
}
