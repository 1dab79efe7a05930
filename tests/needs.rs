//! What an engine refuses to start without. A program of its own: the check looks at everything that is linked, and the
//! other tests link workflows of many programs.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use aether::engine::{EngineBuilder, MissingNeed};
use aether::error::BuildError;
use aether::llm::{ChatRequest, ChatResponse, ModelClient, ModelError};
use aether::prelude::*;
use aether_testing::Sim;

struct Mailer;
struct Desk;

trait Clock: Send + Sync {
    fn hour(&self) -> u8;
}

struct Noon;

impl Clock for Noon {
    fn hour(&self) -> u8 {
        12
    }
}

#[step(effect = "tool", needs(Desk))]
async fn send(cx: &mut StepCx, to: &str) -> Result<u8> {
    let mailer: Arc<Mailer> = cx.dep()?;
    let _ = (mailer, to, cx.provided::<String>());
    Ok(cx.dep::<Box<dyn Clock>>()?.hour())
}

#[step(effect = "read")]
async fn look(cx: &mut StepCx) -> Result<u8> {
    let Ok(_number) = cx.dep::<u64>() else { return Ok(0) };
    cx.dep::<Mailer>()?;
    Ok(1)
}

#[workflow]
async fn write(cx: &mut Cx, to: String) -> Result<u8> {
    Ok(look(cx).await? + send(cx, &to).await?)
}

#[workflow]
async fn asked(cx: &mut Cx) -> Result<String> {
    Ok(cx.llm("draft").user("a letter").text().await?)
}

#[derive(Debug)]
struct Silent;

impl ModelClient for Silent {
    fn chat(
        &self,
        _: ChatRequest,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<ChatResponse, ModelError>> + Send + '_>> {
        Box::pin(std::future::ready(Err(ModelError::Setup("nobody asks it".into()))))
    }
}

fn complete() -> EngineBuilder {
    let clock: Box<dyn Clock> = Box::new(Noon);
    Engine::builder().memory().model(Silent).provide(Mailer).provide(Desk).provide(clock)
}

async fn missing(builder: EngineBuilder) -> Vec<MissingNeed> {
    match builder.start().await {
        Ok(_) => Vec::new(),
        Err(BuildError::MissingDeps { missing, .. }) => missing,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn an_engine_does_not_start_without_what_its_steps_take() {
    let found = missing(Engine::builder().memory().provide(7_u64)).await;
    let wanted: Vec<&str> = found.iter().map(|need| need.wanted).collect();
    assert_eq!(wanted.len(), 4, "{found:?}");
    for (name, takers) in [("Mailer", 2), ("Desk", 1), ("Clock>", 1), ("Models", 1)] {
        let need = found.iter().find(|need| need.wanted.ends_with(name)).unwrap();
        assert_eq!(need.taken_by.len(), takers, "{need}");
        assert!(need.taken_by.iter().all(|taker| taker.contains("tests/needs.rs:")), "{need}");
    }
}

#[tokio::test]
async fn the_refusal_names_types_steps_places_and_what_is_provided() {
    let refused = Engine::builder().memory().provide(7_u64).start().await;
    let text = refused.unwrap_err().to_string();
    for part in [
        "`needs::Mailer`, taken by step `needs::look` (tests/needs.rs:",
        "step `needs::send` (tests/needs.rs:",
        "call `.provide::<alloc::boxed::Box<dyn needs::Clock>>(..)`",
        "workflow `needs::asked` (tests/needs.rs:",
        "call `.model(..)`",
        "provided are: u64",
        ".without::<step>()",
    ] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[tokio::test]
async fn what_is_complete_starts_and_runs() {
    let engine = complete().start().await.unwrap();
    let run = engine.start::<write>("ann".to_owned()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 12);
}

#[tokio::test]
async fn a_step_can_be_left_out() {
    let builder = || Engine::builder().memory().model(Silent).provide(Mailer);
    assert_eq!(missing(builder()).await.len(), 2);
    assert!(missing(builder().without::<send>()).await.is_empty());
    assert!(missing(Engine::builder().memory().allow_missing_deps()).await.is_empty());
}

#[aether::test]
async fn a_simulation_needs_nothing_for_a_stub(sim: Sim<write>) {
    let report = sim.stub::<look>(|()| Ok(1)).stub::<send>(|_| Ok(2)).run("ann".to_owned()).await;
    assert_eq!(report.assert_completed(), &3);
}
