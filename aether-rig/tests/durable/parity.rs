//! The same agent with and without Aether: the same questions to the provider, the same calls, the same answer.

use std::sync::Arc;

use aether::prelude::*;
use aether::rig::rig_agent::run::UnhandledInvalidToolCall;
use aether::rig::{Contract, RigAgents};
use aether::store::{MemoryStore, Store};
use serde_json::Value;

use crate::kit::{Became, Declared, Script, World, answer, complain, engine, in_time, support};

async fn questions(world: &World) -> Vec<Value> {
    let requests = world.server.received_requests().await.unwrap();
    let questions = requests.iter().filter(|request| request.url.path() == "/v1/chat/completions");
    questions.map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn provider_and_tools_see_what_they_see_without_aether() {
    let alone = World::start(support()).await;
    let answer = alone.agent().prompt("My parcel is lost.").await.unwrap();
    let world = World::start(support()).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let became = complain(&engine(&store, world.agents()).await, Declared::Not).await;
    assert_eq!(became, Became::Answered(answer.output()));
    assert_eq!(questions(&world).await, questions(&alone).await);
    assert_eq!(world.asked().counts(), alone.asked().counts());
}

/// What a prompt leaves.
#[workflow]
async fn whole(cx: &mut Cx) -> Result<String> {
    let answer = cx.rig("support").prompt("My parcel is lost.").await?;
    let (messages, calls) = (answer.messages(), answer.completion_calls());
    serde_json::to_string(&(messages, calls, answer.usage())).map_err(Failure::permanent)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_transcript_and_the_bill_are_those_of_rig() {
    let alone = World::start(support()).await;
    let answer = alone.agent().prompt("My parcel is lost.").await.unwrap();
    let expected =
        serde_json::to_value((answer.messages(), answer.completion_calls(), answer.usage())).unwrap();
    let world = World::start(support()).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = engine(&store, world.agents()).await;
    let run = engine.start::<whole>(()).id("r").await.unwrap();
    let left: Value = serde_json::from_str(&in_time(run.result()).await.unwrap()).unwrap();
    assert_eq!(left, expected);
}

/// Prompts twice, the second time with what was said.
#[workflow]
async fn twice(cx: &mut Cx) -> Result<(String, usize)> {
    let first = cx.rig("support").prompt("My parcel is lost.").await?;
    let second = cx.rig("support").history(first.messages.clone()).max_turns(1).prompt("Thanks.").await?;
    Ok((second.output(), second.requests()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_prompt_has_the_history_of_the_first() {
    let world = World::start(support()).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = engine(&store, world.agents()).await;
    let run = engine.start::<twice>(()).id("r").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), ("done after 4 results".to_owned(), 1));
    let last = questions(&world).await.pop().unwrap();
    // The preamble, what was said, four results of tools, and the prompt.
    assert_eq!(last["messages"].as_array().unwrap().len(), 10, "{last:#}");
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Verdict {
    refunded: bool,
}

/// An answer of a type.
#[workflow]
async fn typed(cx: &mut Cx) -> Result<Verdict> {
    Ok(cx.rig("support").contract("search", Contract::read()).prompt_typed("Is it refunded?").await?)
}

fn says(text: &'static str) -> Script {
    Arc::new(move |_, _| answer(Some(text), &[]))
}

async fn typed_answer(text: &'static str) -> (std::result::Result<Verdict, String>, Vec<Value>) {
    let world = World::start(says(text)).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = engine(&store, world.agents()).await;
    let run = engine.start::<typed>(()).id("r").await.unwrap();
    let verdict = in_time(run.result()).await.map_err(|error| error.to_string());
    (verdict, questions(&world).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_answer_is_asked_for_and_read_as_rig_does() {
    for text in [r#"{"refunded":true}"#, "Sure:\n```json\n{\"refunded\":true}\n```"] {
        let (verdict, asked) = typed_answer(text).await;
        assert_eq!(verdict, Ok(Verdict { refunded: true }), "{text}");
        let alone = World::start(says(text)).await;
        let answer = alone.agent().prompt_typed::<Verdict>("Is it refunded?").await.unwrap();
        assert_eq!(answer.output, Verdict { refunded: true });
        assert_eq!(asked, questions(&alone).await);
    }
    let (verdict, _) = typed_answer("I do not know.").await;
    assert!(verdict.unwrap_err().contains("Verdict"));
}

/// A model that asks for a tool that there is not.
fn confused() -> Script {
    Arc::new(|number, _| match number {
        0 => answer(Some("Hm."), &[("c1", "delete_everything", "{}")]),
        _ => answer(Some("done"), &[]),
    })
}

/// Leaves out calls of tools that there are not.
#[workflow]
async fn lenient(cx: &mut Cx) -> Result<String> {
    let prompt = cx.rig("support").unhandled_invalid_tool_call(UnhandledInvalidToolCall::Ignore);
    Ok(prompt.prompt("My parcel is lost.").await?.output())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_there_is_not_ends_the_prompt_unless_the_program_says_otherwise() {
    let world = World::start(confused()).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let became = complain(&engine(&store, world.agents()).await, Declared::Not).await;
    let Became::Failed(error) = became else { panic!("{became:?}") };
    let alone = world.agent().prompt("My parcel is lost.").await.unwrap_err();
    assert!(error.contains(&alone.to_string()), "{error} is not {alone}");

    let world = World::start(confused()).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = engine(&store, world.agents()).await;
    let run = engine.start::<lenient>(()).id("r").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "Hm.");
}

/// With a contract for a tool that the agent does not have.
#[workflow]
async fn misspelt(cx: &mut Cx) -> Result<String> {
    Ok(cx.rig("support").contract("serch", Contract::read()).prompt("Hello").await?.output())
}

/// As an agent that the program does not have.
#[workflow]
async fn stranger(cx: &mut Cx) -> Result<String> {
    Ok(cx.rig("sales").prompt("Hello").await?.output())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_there_are_not_are_errors_that_say_which_there_are() {
    let world = World::start(support()).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = engine(&store, world.agents()).await;
    let run = engine.start::<misspelt>(()).id("a").await.unwrap();
    let error = in_time(run.result()).await.unwrap_err().to_string();
    assert!(error.contains("no tool `serch`") && error.contains("search, note, refund"), "{error}");
    let run = engine.start::<stranger>(()).id("b").await.unwrap();
    let error = in_time(run.result()).await.unwrap_err().to_string();
    assert!(error.contains("`sales`") && error.contains("support"), "{error}");
    assert_eq!(world.asked().questions(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_keeps_the_settings_that_it_has_read() {
    let world = World::start(support()).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = engine(&store, world.agents()).await;
    let became = complain(&first, Declared::Not).await;
    first.shutdown().await.unwrap();
    let other = crate::kit::builder(&world.url()).preamble("You are another one.").max_tokens(3).build();
    let second = engine(&store, RigAgents::new().with("support", other).unwrap()).await;
    let asked = world.asked();
    second.verify(&"r".parse().unwrap()).await.unwrap();
    assert_eq!(complain(&second, Declared::Not).await, became);
    assert_eq!(world.asked(), asked, "a replay asks nobody");
}
