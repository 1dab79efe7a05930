//! A small generator that is seeded from the thread's
//! how: random

use aether::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

fn shuffled(count: u32) -> Vec<u32> {
    let mut generator = StdRng::from_rng(&mut rand::rng());
    let mut numbers: Vec<u32> = (0..count).collect();
    numbers.shuffle(&mut generator);
    numbers
}

#[workflow]
pub async fn small_generator(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", shuffled(12)))
}
