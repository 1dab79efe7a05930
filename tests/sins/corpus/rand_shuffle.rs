//! A shuffle
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn rand_shuffle(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    use rand::seq::SliceRandom as _;
    let mut items: Vec<u32> = (0..64).collect();
    items.shuffle(&mut rand::rng());
    Ok(format!("{items:?}"))
}
