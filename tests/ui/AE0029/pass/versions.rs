#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn triage(_cx: &mut Cx, ticket: String) -> Result<String> {
    Ok(ticket)
}

#[workflow(of = "triage", version = 2)]
async fn triage_v2(cx: &mut Cx, ticket: String) -> Result<String> {
    cx.now().await;
    Ok(ticket)
}

/// A version in a module of its own.
mod third {
    use aether::prelude::*;

    #[workflow(of = "versions::triage", version = 3)]
    pub async fn triage(cx: &mut Cx, ticket: String, urgent: bool) -> Result<bool> {
        let _ = (ticket, cx.now().await);
        Ok(urgent)
    }
}

struct Agent;

#[workflow]
impl Agent {
    #[workflow(version = 1)]
    async fn look(_cx: &mut Cx, n: u64) -> Result<u64> {
        Ok(n)
    }

    #[workflow(of = "Agent_look", version = 2)]
    async fn look_v2(cx: &mut Cx, n: u64) -> Result<u64> {
        Self::look(cx, n).await
    }
}

/// A generic version.
#[workflow(of = "count", version = 2)]
async fn count_v2<T: aether::definition::Recordable>(_cx: &mut Cx, all: Vec<T>) -> Result<usize> {
    Ok(all.len())
}

fn main() {
    async fn _started(engine: &Engine) {
        let _ = engine.start::<triage>(String::new()).await;
        let _ = engine.start::<triage_v2>(String::new()).await;
        let _ = engine.start::<third::triage>((String::new(), true)).await;
        let _ = engine.start::<count_v2<u8>>(Vec::new()).await;
    }
}
