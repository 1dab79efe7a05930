//! A random number in an operator
//! how: indirect

use aether::prelude::*;

struct Noise;

impl std::ops::Add<u64> for Noise {
    type Output = u64;
    fn add(self, other: u64) -> u64 {
        other ^ rand::random::<u64>()
    }
}

#[workflow]
pub async fn operator_impl(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = cx.random().await;
    Ok((Noise + number).to_string())
}
