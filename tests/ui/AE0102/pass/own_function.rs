#![deny(warnings)]

use aether::prelude::*;

/// Not random at all.
fn random(seed: u64) -> u64 {
    seed.wrapping_mul(31)
}

mod rng {
    pub(crate) fn draw(seed: u64) -> u64 {
        seed
    }
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<u64> {
    let seed = cx.random().await;
    Ok(random(seed) + rng::draw(seed))
}

fn main() {}
