#![deny(warnings)]

use aether::prelude::*;

/// Flows.
#[workflow]
pub async fn flow(cx: &mut Cx) -> Result<u64> {
    Ok(cx.random().await % 2)
}

#[aether::test]
async fn nothing() {}

#[aether::test]
async fn with_an_attribute_inside() {
    #![allow(unused_variables)]
    let unused = 1;
}

#[aether::test(timeout = "5m", crate = "::aether_testing")]
async fn simulated(mut sim: aether_testing::Sim<flow>) -> Result<()> {
    sim = sim.seed(1);
    sim.run(()).await.assert_completed();
    Ok(())
}

#[aether::test(timeout = "none")]
#[should_panic(expected = "this")]
async fn panicking() {
    panic!("this");
}

fn main() {}
