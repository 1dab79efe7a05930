//! Random numbers in an iterator
//! how: indirect

use aether::prelude::*;

struct Dice;

impl Iterator for Dice {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        Some(rand::random())
    }
}

#[workflow]
pub async fn iterator_impl(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", Dice.take(3).collect::<Vec<_>>()))
}
