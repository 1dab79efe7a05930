//! What leaves the journal, and what never does.

use aether::Secret;
use aether::prelude::*;
use aether::recording::Masking;
use tempfile::tempdir;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::collector::Collector;
use crate::kit::{ANSWER, LONG, Model, PROMPT, failing, name, order_once, to_http};

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
