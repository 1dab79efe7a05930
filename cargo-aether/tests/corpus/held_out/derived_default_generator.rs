//! A derived Default over a field whose own Default takes a random seed
//! how: random

use aether::prelude::*;

#[derive(Default)]
struct Sampler {
    taken: usize,
    generator: fastrand::Rng,
}

impl Sampler {
    fn sample(&mut self, from: &[&'static str]) -> &'static str {
        self.taken += 1;
        from[self.generator.usize(..from.len())]
    }
}

#[workflow]
pub async fn derived_default_generator(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let mut sampler = Sampler::default();
    Ok(sampler.sample(&["red", "green", "blue", "black"]).to_owned())
}
