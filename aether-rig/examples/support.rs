//! An agent of rig in a workflow: the process ends after the refund, and the next one neither asks nor refunds again.
//!
//! Run: `cargo run --manifest-path aether-rig/Cargo.toml --example support`. A scripted provider on loopback plays the
//! model; with `OPENAI_API_KEY` (and `OPENAI_BASE_URL`, `OPENAI_MODEL`) a real one is asked.

use std::error::Error;

use aether::prelude::*;
use aether::rig::rig_agent::core::DynModel;
use aether::rig::rig_agent::core::operation::Completion;
use aether::rig::rig_agent::core::providers::openai::{OpenAIConfig, Route};
use aether::rig::rig_agent::core::tool::{Tool, ToolContext, ToolExecutionError};
use aether::rig::rig_agent::{Agent, AgentBuilder};
use aether::rig::{Contract, IdempotencyKey, RigAgents};
use rig_reqwest::ReqwestClient;
use serde::Deserialize;
use serde_json::{Value, json};
use wiremock::{Mock, MockServer, Request, ResponseTemplate, matchers::any};

/// Nothing here knows of Aether but the key.
struct FindOrder;
struct Refund;

#[derive(Deserialize)]
struct Order {
    order: u64,
}

fn order_schema() -> Value {
    json!({ "type": "object", "properties": { "order": { "type": "integer" } }, "required": ["order"] })
}

impl Tool for FindOrder {
    const NAME: &'static str = "find_order";
    type Args = Order;
    type Output = Value;
    type Error = ToolExecutionError;

    fn description(&self) -> String {
        "Find an order".into()
    }

    fn parameters(&self) -> Value {
        order_schema()
    }

    async fn call(&self, _: &mut ToolContext, args: Order) -> std::result::Result<Value, ToolExecutionError> {
        Ok(json!({ "order": args.order, "cents": 1999, "state": "lost" }))
    }
}

impl Tool for Refund {
    const NAME: &'static str = "refund";
    type Args = Order;
    type Output = String;
    type Error = ToolExecutionError;

    fn description(&self) -> String {
        "Refund an order".into()
    }

    fn parameters(&self) -> Value {
        order_schema()
    }

    async fn call(
        &self,
        cx: &mut ToolContext,
        args: Order,
    ) -> std::result::Result<String, ToolExecutionError> {
        let key = cx.require::<IdempotencyKey>().map_err(ToolExecutionError::from_error)?;
        println!("  refunding order {} as {}", args.order, key.0);
        Ok(format!("order {} is refunded", args.order))
    }
}

fn support(model: DynModel<Completion>) -> Agent {
    AgentBuilder::new(model)
        .preamble("You answer complaints about orders.")
        .tool(FindOrder)
        .tool(Refund)
        .default_max_turns(8)
        .build()
}

/// Handle a complaint.
#[workflow]
async fn complaint(cx: &mut Cx, text: String) -> Result<String> {
    let answer = cx.rig("support").contract("find_order", Contract::read()).prompt(text).await?;
    Ok(answer.output())
}

/// Plays a provider: an answer depends on how many there were before it.
fn scripted(request: &Request) -> ResponseTemplate {
    let question: Value = request.body_json().unwrap_or_default();
    let before = question["messages"].as_array().into_iter().flatten();
    let turn = before.filter(|message| message["role"] == "assistant").count();
    println!("  the model is asked, turn {turn}");
    let call = |name: &str| {
        let function = json!({ "name": name, "arguments": r#"{"order":7}"# });
        json!({ "role": "assistant", "content": null,
                "tool_calls": [{ "id": format!("call-{turn}"), "type": "function", "function": function }] })
    };
    let message = match turn {
        0 => call("find_order"),
        1 => call("refund"),
        _ => json!({ "role": "assistant", "content": "Your parcel is lost. You have your money back." }),
    };
    let finish = if turn < 2 { "tool_calls" } else { "stop" };
    ResponseTemplate::new(200).set_body_json(json!({
        "id": "1", "object": "chat.completion", "created": 0, "model": "scripted",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
        "usage": { "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2 },
    }))
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let provider = MockServer::start().await;
    Mock::given(any()).respond_with(scripted).mount(&provider).await;
    let model = || -> std::result::Result<DynModel<Completion>, Box<dyn Error>> {
        let name = std::env::var("OPENAI_MODEL").unwrap_or_else(|_| "gpt-5.2".into());
        let config = match std::env::var("OPENAI_API_KEY") {
            Ok(_) => OpenAIConfig::from_env()?,
            Err(_) => OpenAIConfig::new("").with_base_url(format!("{}/v1", provider.uri())),
        };
        Ok(config.with_route(Route::Chat).connect(ReqwestClient::default()).completion(name).into())
    };
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("runs.db");
    for process in ["first", "second"] {
        println!("{process} process");
        let agents = RigAgents::new().with("support", support(model()?))?;
        let engine = Engine::builder().sqlite(&file).provide(agents).start().await?;
        let run = engine.start::<complaint>("Where is order 7?".into()).id("complaint-7").await?;
        println!("result: {}", run.result().await?);
        engine.shutdown().await?;
    }
    Ok(())
}
