//! An endless iterator over bytes of entropy
//! how: random

use aether::prelude::*;

fn code(length: usize) -> String {
    std::iter::repeat_with(|| getrandom::u32().unwrap_or(4))
        .filter_map(|bits| char::from_digit(bits % 10, 10))
        .take(length)
        .collect()
}

#[workflow]
pub async fn repeat_with_entropy(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(code(6))
}
