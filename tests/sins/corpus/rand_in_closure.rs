//! A random number in a closure of an iterator
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn rand_in_closure(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let drawn: Vec<u64> = (0..3).map(|_| rand::random()).collect();
    Ok(format!("{drawn:?}"))
}
