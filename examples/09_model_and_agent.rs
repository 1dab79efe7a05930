//! A model and an agent: every question and every tool call is recorded, so nothing is asked or done twice.
//!
//! Run: `cargo run --example 09_model_and_agent`. A script in this file plays the model, so it works offline; with
//! `OpenAiClient::from_env()?` in its place it asks a real one.

use aether::llm::{ChatMessage, ChatRequest, ChatResponse, ModelClient, ModelError, ToolCall};
use aether::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::pin::Pin;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Plan {
    city: String,
}

/// Look up the weather in a city.
#[step(effect = "read")]
async fn weather(_cx: &mut StepCx, city: String) -> Result<String> {
    Ok(format!("rain in {city}"))
}

/// Book a table for some people.
#[step(effect = "tool")]
async fn book_table(cx: &mut StepCx, people: u32) -> Result<String> {
    println!("  booking for {people}, once, as {}", cx.idempotency_key());
    Ok("booked".into())
}

/// Plan an evening.
#[workflow]
async fn evening(cx: &mut Cx, wish: String) -> Result<String> {
    // One question with a typed answer: the schema is sent, and an answer of another shape is asked for again. As a plan,
    // the answer counts for the whole life of the run, even if a later version words the question differently.
    let plan: Plan = cx
        .plan("evening", async |cx: &mut Cx| cx.llm("plan").system("Find the city.").user(wish).json().await)
        .await?;
    // A loop with tools: every `#[step]` can be a tool. The model sees its documentation and its arguments.
    let agent = cx.agent("evening").system("Check the weather, then book.");
    let done = agent
        .tools((weather::tool(), book_table::tool()))
        .run(format!("An evening in {}", plan.city))
        .await?;
    Ok(format!("{} ({} answers of the model)", done.answer, done.turns))
}

/// Plays a model: its answer depends on nothing but the conversation.
#[derive(Debug)]
struct Script;

impl ModelClient for Script {
    fn chat(
        &self,
        request: ChatRequest,
    ) -> Pin<Box<dyn Future<Output = Result<ChatResponse, ModelError>> + Send + '_>> {
        let call = |name: &str, arguments: &str| {
            let call = ToolCall { id: name.into(), name: name.into(), arguments: arguments.into() };
            ChatResponse { tool_calls: vec![call], ..ChatResponse::default() }
        };
        let say = |text: &str| ChatResponse { content: Some(text.into()), ..ChatResponse::default() };
        let answer = match request.messages.last() {
            _ if request.call == "plan" => say(r#"{"city": "Vienna"}"#),
            Some(ChatMessage::Tool { name, .. }) if name == "weather" => {
                call("book_table", r#"{"people": 2}"#)
            }
            Some(ChatMessage::Tool { .. }) => say("It rains; a table for two is booked."),
            _ => call("weather", r#"{"city": "Vienna"}"#),
        };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::builder().memory().model(Script).start().await?;
    let run = engine.start::<evening>("Dinner where Mozart lived".to_owned()).await?;
    println!("{}\n", run.result().await?);
    for step in engine.view(run.id()).await?.steps {
        println!("{:<16} {:?}", step.command.as_str(), step.class);
    }
    Ok(())
}
