//! Workflows on the simulation that ask models and send HTTP requests.

use aether::error::RunError;
use aether::prelude::*;
use aether_effects::llm::{ChatResponse, ModelError, ToolCall};
use aether_testing::{Sim, SimError};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
struct Plan {
    query: String,
    limit: u32,
}

/// Plan, and write it down.
#[workflow]
async fn plan(cx: &mut Cx, question: String) -> Result<String> {
    let plan: Plan = cx.llm("plan").system("You plan.").user(&question).json().await?;
    let text = cx.llm("write").user(&plan.query).text().await?;
    Ok(format!("{text} ({})", plan.limit))
}

#[tokio::test]
async fn a_model_answers_by_call_and_in_order() {
    let sim = Sim::new::<plan>()
        .model_seq("plan", ["no idea", "```json\n{\"query\": \"keys\", \"limit\": 3}\n```"])
        .model(|request| format!("{} answers", request.call));
    let report = sim.run("How?".into()).await;
    assert_eq!(report.assert_completed(), "write answers (3)");
    report.assert_effects(&["llm.plan", "llm.write"]);
    let asked = report.model_requests("plan");
    assert_eq!(asked.len(), 2, "the first answer is no JSON");
    assert!(asked[0].response_schema.is_some());
    assert!(matches!(report.verified, Some(Ok(_))), "{:?}", report.verified);
    let crashed = sim.crash_at_every_append("How?".into()).await;
    assert!(crashed.in_doubt.is_empty(), "{crashed:?}");
}

#[tokio::test]
async fn a_model_without_an_answer_is_named() {
    let sim = Sim::new::<plan>().model_for("write", |_| "text");
    let error = sim.try_run("How?".into()).await.unwrap_err().to_string();
    assert!(error.contains("`llm.plan` was called and has no stub"), "{error}");
    assert!(error.contains("stubs: llm.write") && error.contains(".model_seq(\"plan\""), "{error}");

    let sim = Sim::new::<plan>().model_seq("plan", ["no idea"]);
    let error = sim.try_run("How?".into()).await.unwrap_err();
    assert_eq!(error, SimError::ModelUsedUp { call: "plan".into(), answers: 1 });
}

#[tokio::test]
async fn a_model_that_refuses_is_asked_in_virtual_time() {
    let busy = || ModelError::Setup("no key".into());
    let sim = Sim::new::<plan>().model(move |_| Err::<String, _>(busy()));
    let report = sim.run("How?".into()).await;
    let Err(RunError::Failed(failure)) = &report.result else { panic!("{:?}", report.result) };
    assert!(failure.to_string().contains("no key"), "{failure}");
}

/// Look a word up.
#[step(effect = "read")]
async fn look_up(_cx: &mut StepCx, word: String) -> Result<u32> {
    Err(Failure::permanent(word))
}

/// Ring a bell.
#[step(effect = "tool")]
async fn ring(_cx: &mut StepCx, times: u32) -> Result<String> {
    Err(Failure::permanent(times))
}

/// Let a model find out and act.
#[workflow]
async fn helped(cx: &mut Cx, question: String) -> Result<String> {
    Ok(cx.agent("helper").tools((look_up::tool(), ring::tool())).run(&question).await?.answer)
}

fn calls(name: &str, arguments: serde_json::Value) -> ChatResponse {
    let call = ToolCall { id: format!("call-{name}"), name: name.into(), arguments: arguments.to_string() };
    ChatResponse { model: "scripted".into(), tool_calls: vec![call], ..ChatResponse::default() }
}

#[tokio::test]
async fn an_agent_survives_a_crash_at_every_append() {
    let sim = Sim::new::<helped>()
        .model_for("helper", |request| match request.messages.len() {
            0..=2 => calls("look_up", json!({ "word": "bell" })),
            3..=4 => calls("ring", json!({ "times": 2 })),
            _ => ChatResponse {
                model: "scripted".into(),
                content: Some("done".into()),
                ..ChatResponse::default()
            },
        })
        .stub::<look_up>(|word| Ok(word.len() as u32))
        .stub::<ring>(|times| Ok("dong ".repeat(times as usize)));
    let report = sim.run("Ring!".into()).await;
    assert_eq!(report.assert_completed(), "done");
    report.assert_calls::<look_up>(1);
    assert_eq!(report.calls::<ring>(), [2]);
    let crashed = sim.crash_at_every_append("Ring!".into()).await;
    assert!(!crashed.in_doubt.is_empty(), "{crashed:?}");
}

const USERS: &str = "https://api.example.com/users";

/// Fetch, and post.
#[workflow]
async fn greeted(cx: &mut Cx, id: u32) -> Result<u16> {
    let user = cx.http().get(format!("{USERS}/{id}")).send().await?;
    let name: String = user.error_for_status()?.json()?;
    let posted = cx.http().post(USERS).json(&json!({ "hello": name })).idempotent().send().await?;
    Ok(posted.status)
}

#[tokio::test]
async fn http_answers_by_method_and_url() {
    let sim = Sim::new::<greeted>()
        .http("GET", &format!("{USERS}/*"), |call| (200, json!(call.url.len().to_string())))
        .http("POST", USERS, |call| if call.body.is_some() { 201 } else { 400 });
    let report = sim.run(7).await;
    assert_eq!(report.assert_completed(), &201);
    report.assert_effects(&["http.get", "http.post"]);
    assert_eq!(report.effect_calls("http.post"), 1);
    assert!(matches!(report.verified, Some(Ok(_))), "{:?}", report.verified);
    sim.crash_at_every_append(7).await;

    let sim = Sim::new::<greeted>().http("POST", USERS, |_| 201);
    let error = sim.try_run(7).await.unwrap_err().to_string();
    assert!(error.contains("`http.get` was called and has no stub") && error.contains(".http("), "{error}");
}
