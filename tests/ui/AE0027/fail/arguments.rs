use aether::prelude::*;
use aether_testing::Sim;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[aether::test]
async fn two(_sim: Sim<flow>, _other: Sim<flow>) {}

#[aether::test]
async fn taken_apart((_a, _b): (Sim<flow>, Sim<flow>)) {}

#[aether::test]
async fn generic<T>() {}

fn main() {}
