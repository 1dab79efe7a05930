use aether::prelude::*;
use aether_testing::Sim;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[aether::test]
async fn two(sim: Sim<flow>, other: Sim<flow>) {}

#[aether::test]
async fn taken_apart((a, b): (Sim<flow>, Sim<flow>)) {}

#[aether::test]
async fn generic<T>() {}

fn main() {}
