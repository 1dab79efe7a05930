//! A shuffle by a generator that has its seed from the context
//! how: clean

use aether::prelude::*;
use rand::prelude::*;
use rand::rngs::StdRng;

fn deal(seed: u64, hands: usize) -> Vec<Vec<u8>> {
    let mut generator = StdRng::seed_from_u64(seed);
    let mut deck: Vec<u8> = (1..=52).collect();
    deck.shuffle(&mut generator);
    (0..hands).map(|hand| deck.iter().skip(hand).step_by(hands).take(5).copied().collect()).collect()
}

fn lucky(seed: u64) -> u32 {
    let mut generator = StdRng::seed_from_u64(seed ^ 0x5eed);
    (0..10).map(|_| generator.random_range(1..=6)).filter(|eyes| *eyes == 6).count() as u32
}

#[workflow]
pub async fn seeded_shuffle(cx: &mut Cx, _input: u64) -> Result<String> {
    let seed = cx.random().await;
    Ok(format!("{:?} {}", deal(seed, 3), lucky(seed)))
}
