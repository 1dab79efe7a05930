//! Models through a real engine, and the OpenAI client against well-behaved and rude peers.

#![allow(clippy::unwrap_used)] // In functions that tests share.

mod kit;

use std::sync::atomic::Ordering;
use std::time::Duration;

use aether_core::definition::def::Retry;
use aether_core::engine::{Engine, RunError};
use aether_core::failure::Failure;
use aether_core::journal::event::Event;
use aether_core::outcome::FailureClass;
use aether_core::run::Fault;
use aether_core::store::memory::MemoryStore;
use aether_effects::llm::{
    ChatMessage, ChatRequest, ChatResponse, CxLlm, ModelClient, ModelError, Models, OpenAiClient, ToolCall,
    ToolSpec, Usage,
};
use kit::{Manner, Script, builder, events, nobody, peer, recorded_text, says, verify};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Plan {
    query: String,
}

workflow!(MakePlan(cx, question: String) -> Plan {
    Ok(cx.llm("plan").system("You plan.").user(question).temperature(0.5).max_tokens(99).json().await?)
});

workflow!(Ask(cx, call: String) -> String {
    Ok(cx.llm(call).user("hello").text().await?)
});

async fn engine(store: &MemoryStore, client: impl ModelClient) -> Engine {
    builder(store).provide(Models::new(client)).start().await.unwrap()
}

#[tokio::test]
async fn a_question_and_its_whole_answer_are_recorded_and_replayed() {
    let (store, script) = (MemoryStore::new(), Script::new([says("```json\n{\"query\":\"keys\"}\n```")]));
    let engine = engine(&store, script.clone()).await;
    let run = engine.start::<MakePlan>("why?".into()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), Plan { query: "keys".into() });
    verify(&engine, run.id()).await;
    assert_eq!(script.asked().len(), 1, "a replay asks no model");

    let events = events(&store, run.id()).await;
    let emitted = events.iter().find_map(|event| match event {
        Event::CommandEmitted(e) => Some(e.input.as_ref().unwrap().decode::<ChatRequest>().unwrap()),
        _ => None,
    });
    assert_eq!(emitted.as_ref(), Some(&script.asked()[0]));
    let asked = emitted.unwrap();
    assert_eq!((asked.temperature, asked.max_tokens), (Some(0.5), Some(99)));
    assert_eq!(asked.messages, [ChatMessage::system("You plan."), ChatMessage::user("why?")]);
    assert_eq!(asked.response_schema.unwrap()["required"], json!(["query"]));
    let answer = events.into_iter().find_map(|event| match event {
        Event::CommandCommitted(e) => Some(e.result.unwrap().decode::<ChatResponse>().unwrap()),
        _ => None,
    });
    let answer = answer.unwrap();
    assert_eq!((&*answer.model, answer.usage.input_tokens), ("script-1", 10));
}

#[tokio::test]
async fn an_answer_of_the_wrong_shape_is_asked_for_again() {
    let (store, script) = (MemoryStore::new(), Script::new([says("no idea"), says(r#"{"query":"q"}"#)]));
    let engine = engine(&store, script.clone()).await;
    let run = engine.start::<MakePlan>("why?".into()).await.unwrap();
    assert_eq!(run.result().await.unwrap().query, "q");
    assert_eq!(script.asked().len(), 2);
    verify(&engine, run.id()).await;
}

#[tokio::test]
async fn after_the_last_attempt_the_error_says_what_was_wanted_and_shows_no_answer() {
    let script = Script::new((0..9).map(|_| says("I would rather talk about the sea")));
    let engine = engine(&MemoryStore::new(), script.clone()).await;
    let run = engine.start::<MakePlan>("why?".into()).await.unwrap();
    let error = run.result().await.unwrap_err().to_string();
    assert!(error.contains("no attempt left") && error.contains("expected value"), "{error}");
    assert!(error.contains("Plan") && !error.contains("the sea"), "{error}");
    assert_eq!(script.asked().len(), 4, "three retries: an answer costs, and this is no outage");
    verify(&engine, run.id()).await;
}

#[tokio::test]
async fn the_client_is_chosen_by_the_name_of_the_call() {
    let models = Models::new(Script::new([says("default")])).with("draft", Script::new([says("draft")]));
    let engine = builder(&MemoryStore::new()).provide(models).start().await.unwrap();
    for (call, expected) in [("draft", "draft"), ("other", "default")] {
        let run = engine.start::<Ask>(call.into()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_program_without_models_is_told_so_at_once() {
    let engine = builder(&MemoryStore::new()).start().await.unwrap();
    let run = engine.start::<Ask>("plan".into()).await.unwrap();
    let Err(RunError::Stopped { fault, .. }) = run.result().await else { panic!("the run must stop") };
    assert!(matches!(*fault, Fault::NotProvided { .. }), "{fault:?}");
    let said = fault.to_string();
    assert!(said.contains("Models") && said.contains(".model(") && said.contains("llm.plan"), "{said}");
}

fn request() -> ChatRequest {
    let call = ToolCall { id: "c1".into(), name: "search".into(), arguments: "{\"q\":1}".into() };
    ChatRequest {
        call: "my plan".into(),
        messages: vec![
            ChatMessage::user("u"),
            ChatMessage::Assistant { content: None, tool_calls: vec![call] },
            ChatMessage::Tool { call_id: "c1".into(), name: "search".into(), content: "found".into() },
        ],
        tools: vec![ToolSpec {
            name: "search".into(),
            description: "d".into(),
            schema: json!({ "type": "object" }),
        }],
        max_tokens: Some(5),
        response_schema: Some(json!({ "type": "object" })),
        ..ChatRequest::default()
    }
}

fn client(url: &str) -> OpenAiClient {
    OpenAiClient::new(format!("{url}/v1/"), "very-secret-key", "small-1").timeout(Duration::from_secs(60))
}

#[tokio::test]
async fn the_protocol_is_spoken_as_defined() {
    let server = MockServer::start().await;
    let answer = json!({
        "model": "small-1-2026",
        "choices": [{ "finish_reason": "tool_calls", "message": { "content": null, "tool_calls": [
            { "id": "a", "type": "function", "function": { "name": "search", "arguments": "{\"q\":2}" } },
            { "type": "function", "function": { "name": "search", "arguments": { "q": 3 } } },
        ] } }],
        "usage": { "prompt_tokens": 11, "completion_tokens": 7 },
    });
    Mock::given(method("POST"))
        .and(path("/v1/chat/completions"))
        .and(header("authorization", "Bearer very-secret-key"))
        .respond_with(ResponseTemplate::new(200).set_body_json(answer))
        .mount(&server)
        .await;
    let answer = client(&server.uri()).chat(request()).await.unwrap();
    assert_eq!(answer.model, "small-1-2026");
    assert_eq!(answer.usage, Usage::of(11, 7));
    assert_eq!(answer.finish_reason.as_deref(), Some("tool_calls"));
    let calls: Vec<_> = answer.tool_calls.iter().map(|c| (&*c.id, &*c.name, &*c.arguments)).collect();
    assert_eq!(calls, [("a", "search", "{\"q\":2}"), ("call_1", "search", "{\"q\":3}")]);

    let sent: Value = serde_json::from_slice(&server.received_requests().await.unwrap()[0].body).unwrap();
    let expected = json!({
        "model": "small-1",
        "max_tokens": 5,
        "messages": [
            { "role": "user", "content": "u" },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "c1", "type": "function", "function": { "name": "search", "arguments": "{\"q\":1}" } },
            ] },
            { "role": "tool", "tool_call_id": "c1", "content": "found" },
        ],
        "tools": [{ "type": "function", "function": {
            "name": "search", "description": "d", "parameters": { "type": "object" },
        } }],
        "response_format": { "type": "json_schema", "json_schema": {
            "name": "my_plan", "schema": { "type": "object" },
        } },
    });
    assert_eq!(sent, expected);
}

async fn error_for(status: u16, body: &str) -> ModelError {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(status).insert_header("retry-after", "9").set_body_string(body);
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;
    client(&server.uri()).chat(request()).await.unwrap_err()
}

#[tokio::test]
async fn malformed_answers_are_typed_errors_that_show_their_start() {
    for body in ["", "<html>busy</html>", "{\"choices\":[", "\u{7f}"] {
        let error = error_for(200, body).await;
        assert!(matches!(error, ModelError::NotJson { .. }), "{body:?}: {error}");
    }
    assert!(error_for(200, "<html>busy</html>").await.to_string().contains("<html>busy"));
    let call = r#"{"choices":[{"message":{"tool_calls":[{"id":"x","function":{}}]}}]}"#;
    for body in
        ["{}", "[]", "7", "null", r#"{"choices":[]}"#, r#"{"choices":[{}]}"#, r#"{"choices":"x"}"#, call]
    {
        let error = error_for(200, body).await;
        assert!(matches!(error, ModelError::WrongShape { .. }), "{body:?}: {error}");
        assert_eq!(error.class(), FailureClass::Unclassified);
    }
}

#[tokio::test]
async fn statuses_are_told_apart() {
    let said = r#"{"error":{"message":"key very-secret-key is bad","type":"x"}}"#;
    let error = error_for(401, said).await;
    assert_eq!(error, ModelError::Unauthorized { status: 401, message: "key *** is bad".into() });
    assert_eq!(error.class(), FailureClass::Permanent);
    let error = error_for(429, "slow down").await;
    let retry_after = Some(Duration::from_secs(9));
    assert_eq!(error, ModelError::RateLimited { retry_after, message: "slow down".into() });
    assert!(matches!(error_for(503, "").await, ModelError::Overloaded { status: 503, .. }));
    assert!(matches!(error_for(404, "no such model").await, ModelError::BadRequest { status: 404, .. }));
    assert!(matches!(error_for(302, "").await, ModelError::BadRequest { status: 302, .. }));
    let failure = Failure::from(error_for(429, "").await);
    assert_eq!(failure.class(), FailureClass::Retryable, "`?` keeps the class");
}

#[tokio::test]
async fn rude_peers_are_typed_errors() {
    let chat = async |manner| client(&peer(manner).await.0).chat(request()).await.unwrap_err();
    let impatient = client(&peer(Manner::Hangs).await.0).timeout(Duration::from_millis(300));
    assert!(matches!(impatient.chat(request()).await, Err(ModelError::Timeout { .. })));
    assert!(matches!(chat(Manner::Closes).await, ModelError::Network { .. }));
    assert!(matches!(chat(Manner::Says("\u{1}\u{2}garbage\r\n\r\n")).await, ModelError::Network { .. }));
    let half = Manner::Says("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"cho");
    assert!(matches!(chat(half).await, ModelError::Network { .. }));
    let stuck = Manner::Says("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n{");
    assert!(matches!(chat(stuck).await, ModelError::TooLarge { .. }));
    assert!(matches!(client(&nobody().await).chat(request()).await, Err(ModelError::Network { .. })));
    assert!(matches!(client("nonsense").chat(request()).await, Err(ModelError::Setup(_))));
}

#[tokio::test]
async fn the_key_reaches_no_journal_and_a_hanging_model_is_asked_again() {
    let (url, requests) = peer(Manner::Hangs).await;
    let store = MemoryStore::new();
    let client = client(&url).timeout(Duration::from_secs(1));
    assert!(!format!("{client:?}").contains("very-secret"));
    let engine =
        builder(&store).model_retry(Retry::times(3)).provide(Models::new(client)).start().await.unwrap();
    let run = engine.start::<Ask>("plan".into()).await.unwrap();
    let error = run.result().await.unwrap_err().to_string();
    assert!(error.contains("did not answer in time"), "{error}");
    assert_eq!(requests.load(Ordering::SeqCst), 4);
    assert!(!recorded_text(&store, run.id()).await.contains("very-secret"));
}
