//! What leaves the journal, and what never does.

use aether::Secret;
use aether::prelude::*;
use aether::recording::Masking;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::Value;
use tempfile::tempdir;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::collector::{Collector, text};
use crate::kit::{ANSWER, LONG, Model, PROMPT, engine, failing, name, order_once, to_http};

/// Credentials, each where a program could leave one.
const PLANTED: [&str; 4] =
    ["sk-planted-in-a-header", "sk-planted-in-arguments", "sk-planted-by-name", "sk-planted-in-an-error"];

/// Call something with credentials.
#[step(effect = "tool")]
async fn call(cx: &mut StepCx, url: &str, settings: serde_json::Value) -> Result<String> {
    let secret = Secret::from("sk-planted-in-a-header".to_owned());
    cx.http().post(url).bearer(&secret).json(&settings).send().await?;
    Ok("the result says sk-planted-in-arguments".into())
}

/// Calls something with credentials.
#[workflow]
async fn calling(cx: &mut Cx, url: String) -> Result<String> {
    let settings = serde_json::json!({ "note": "sk-planted-in-arguments", "password": "sk-planted-by-name" });
    Ok(call(cx, &url, settings).await?)
}

/// Everything that a collector received from a few runs.
async fn exported(content: bool) -> String {
    let (folder, collector, server) =
        (tempdir().unwrap(), Collector::http().await, MockServer::start().await);
    Mock::given(any())
        .respond_with(ResponseTemplate::new(200).set_body_string("thanks"))
        .mount(&server)
        .await;
    let redaction = Masking::only().text("sk-planted-in-arguments").text("sk-planted-in-an-error");
    let engine = Engine::builder().sqlite(folder.path().join("a.db")).model(Model).redact(redaction);
    let engine = engine.start().await.unwrap();
    let telemetry = to_http(&collector).capture_content(content).start(&engine);
    order_once(&engine, &name("said")).await;
    engine.start::<calling>(server.uri()).id(name("calling")).await.unwrap().result().await.unwrap();
    engine.start::<failing>(()).id(name("failing")).await.unwrap().result().await.unwrap_err();
    telemetry.flush(LONG).await.unwrap();
    let text = String::from_utf8_lossy(&collector.received.bytes()).into_owned();
    assert!(text.contains("execute_tool call") && text.contains("invoke_workflow failing"));
    engine.shutdown().await.unwrap();
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_leave_nothing_that_was_said_is_exported() {
    let text = exported(false).await;
    for said in [ANSWER, PROMPT, "the result says", "thanks", "does not fit", "the shop is closed"] {
        assert!(!text.contains(said), "{said:?} was exported");
    }
    assert_no_secret(&text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_leave_what_was_said_is_exported_and_no_credential() {
    let text = exported(true).await;
    for said in [ANSWER, PROMPT, "the result says ***", "does not fit", "the shop is closed"] {
        assert!(text.contains(said), "{said:?} was not exported");
    }
    assert_no_secret(&text);
}

fn assert_no_secret(text: &str) {
    for secret in PLANTED {
        assert!(!text.contains(secret), "{secret} was exported");
    }
    // Idempotency keys.
    assert!(!text.contains("aether:said") && !text.contains("aether:calling"));
}

/// What the conventions demand of one message of a conversation.
fn assert_message(message: &Value, is_output: bool) -> Vec<String> {
    assert!(["user", "assistant", "tool"].contains(&message["role"].as_str().unwrap()), "{message}");
    assert_eq!(message.get("finish_reason").is_some_and(Value::is_string), is_output, "{message}");
    let parts = message["parts"].as_array().unwrap();
    parts.iter().map(assert_part).collect()
}

/// What they demand of a part of one. Returns its type.
fn assert_part(part: &Value) -> String {
    // Sorted: their order depends on a feature of another crate.
    let mut keys: Vec<&str> = part.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let kind = part["type"].as_str().unwrap();
    let mut expected = match kind {
        "text" => vec!["type", "content"],
        "tool_call" => vec!["type", "id", "name", "arguments"],
        "tool_call_response" => vec!["type", "id", "response"],
        "uri" => vec!["type", "modality", "mime_type", "uri"],
        other => panic!("{other} is no part of the conventions"),
    };
    expected.sort_unstable();
    assert_eq!(keys, expected, "{part}");
    kind.to_owned()
}

/// Shows a picture.
#[workflow]
async fn showing(cx: &mut Cx) -> Result<String> {
    let picture = aether::llm::Attachment::url("image/png", "https://pictures.example/lamp.png");
    Ok(cx.llm("look").user("what is it?").attach(picture).text().await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_has_the_form_of_the_conventions() {
    let (folder, collector, id) = (tempdir().unwrap(), Collector::http().await, name("form"));
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = to_http(&collector).capture_content(true).start(&engine);
    order_once(&engine, &id).await;
    engine.start::<showing>(()).id(name("form")).await.unwrap().result().await.unwrap();
    telemetry.flush(LONG).await.unwrap();
    let json = |span: &Span, key: &str| match text(span, key) {
        text if text.is_empty() => Value::Array(Vec::new()),
        text => serde_json::from_str(&text).unwrap_or_else(|error| panic!("{key}: {error}: {text}")),
    };
    let (mut inputs, mut outputs, mut instructions, mut tools) = (vec![], vec![], 0, 0);
    for span in collector.received.folded().values().filter(|span| span.name.starts_with("chat ")) {
        for message in json(span, "gen_ai.input.messages").as_array().unwrap() {
            inputs.extend(assert_message(message, false));
        }
        for message in json(span, "gen_ai.output.messages").as_array().unwrap() {
            outputs.extend(assert_message(message, true));
        }
        for part in json(span, "gen_ai.system_instructions").as_array().unwrap() {
            assert_eq!(assert_part(part), "text");
            instructions += 1;
        }
        for tool in json(span, "gen_ai.tool.definitions").as_array().unwrap() {
            assert_eq!((&tool["type"], &tool["name"]), (&"function".into(), &"charge".into()));
            assert!(tool["description"].is_string() && tool["parameters"]["type"] == "object", "{tool}");
            tools += 1;
        }
    }
    for kinds in [&mut inputs, &mut outputs] {
        kinds.sort_unstable();
        kinds.dedup();
    }
    assert_eq!(inputs, ["text", "tool_call", "tool_call_response", "uri"]);
    assert_eq!((outputs, instructions, tools), (vec!["text".to_owned(), "tool_call".into()], 2, 2));
    engine.shutdown().await.unwrap();
}
