//! What the attributes put into definitions, and how definitions are drawn.

use aether::definition::{Step, Workflow};
use aether::prelude::*;

struct Agent;

#[workflow]
impl Agent {
    /// Looks.
    #[step(effect = "read", allow(clock, uuid, reason = "for the log"))]
    async fn look(cx: &mut StepCx, n: u64) -> Result<u64> {
        Ok(n + u64::from(cx.attempt()))
    }

    /// Runs.
    #[workflow(version = 3, allow(env, reason = "the same everywhere"))]
    async fn run(cx: &mut Cx, n: u64) -> Result<u64> {
        let _ = std::env::var("REGION");
        let looked = Self::look(cx, n).await?;
        Self::halve(cx, looked).await
    }

    async fn halve(cx: &mut Cx, n: u64) -> Result<u64> {
        if n < 2 { Ok(n) } else { Self::halve(cx, n / 2).await }
    }
}

#[test]
fn associated_functions_are_named_after_their_type() {
    assert_eq!(Agent_run::DEF.name, "Agent_run");
    assert_eq!(Agent_run::DEF.version, 3);
    assert_eq!(Agent_look::DEF.name, "Agent_look");
    assert_eq!(Agent_look::DEF.path, concat!(module_path!(), "::Agent::look"));
    assert_eq!(Agent_look::tool().name(), "Agent_look");
}

#[test]
fn what_is_allowed_stands_in_the_definition() {
    let allowed =
        |allows: &[aether::definition::Allow]| allows.iter().map(|a| (a.what, a.reason)).collect::<Vec<_>>();
    assert_eq!(allowed(Agent_run::DEF.allows), [("env", "the same everywhere")]);
    assert_eq!(allowed(Agent_look::DEF.allows), [("clock", "for the log"), ("uuid", "for the log")]);
}

#[test]
fn a_definition_is_drawn() {
    let text = Agent_run::DEF.mermaid();
    assert!(text.contains("[\"look<br/>") && text.contains("[\"halve<br/>"), "{text}");
    assert!(Agent_run::DEF.dot().starts_with("digraph \"Agent_run\" {"));
    assert_eq!(Agent_run::DEF.json()["states"][0]["name"], "look");
}

#[tokio::test]
async fn associated_workflows_run() {
    let engine = Engine::builder().memory().start().await.unwrap();
    let run = engine.start::<Agent_run>(40).id("associated").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 1);
}
