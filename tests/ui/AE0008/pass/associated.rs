#![deny(warnings)]

use aether::prelude::*;

/// A triage agent.
pub struct Agent;

#[workflow]
impl Agent {
    const LIMIT: u32 = 3;

    /// Look up.
    #[step(effect = "read", retry(max_retries = 2))]
    async fn search(cx: &mut StepCx, query: &str) -> Result<Vec<String>> {
        let _ = cx;
        Ok(vec![Self::shorten(query).to_owned()])
    }

    /// Triage.
    pub async fn triage(cx: &mut Cx, ticket: String) -> Result<u32> {
        let hits = Self::search(cx, &ticket).await?;
        let more = Agent::again(cx, Self::LIMIT).await?;
        Ok(u32::try_from(hits.len())? + more)
    }

    #[workflow(version = 2)]
    async fn again(cx: &mut Cx, left: u32) -> Result<u32> {
        if left == 0 { Ok(0) } else { Ok(Self::again(cx, left - 1).await? + 1) }
    }

    /// Neither workflow nor step.
    fn shorten(text: &str) -> &str {
        text.get(..3).unwrap_or(text)
    }

    /// Has `self`, and is none of ours.
    pub async fn plain(&self) -> u32 {
        Self::LIMIT
    }
}

fn main() {
    use aether::definition::{Step, Workflow};
    assert_eq!(<Agent_triage as Workflow>::DEF.name, "Agent_triage");
    assert_eq!(<Agent_again as Workflow>::DEF.version, 2);
    assert!(<Agent_search as Step>::DEF.path.ends_with("::Agent::search"));
    let _ = Agent_search::tool();
}
