#![deny(warnings)]

use aether::prelude::*;

mod agents {
    pub(crate) struct Planner;
    pub(crate) struct Worker<const N: usize>;
}

#[workflow(allow(env, reason = "the same everywhere"))]
impl agents::Planner {
    pub(crate) async fn run(cx: &mut Cx) -> Result<usize> {
        let _ = std::env::var("REGION");
        agents::Worker::<3>::run(cx).await
    }
}

#[workflow]
impl agents::Worker<3> {
    pub(crate) async fn run(cx: &mut Cx) -> Result<usize> {
        Ok(cx.random().await.to_string().len())
    }
}

fn main() {}
