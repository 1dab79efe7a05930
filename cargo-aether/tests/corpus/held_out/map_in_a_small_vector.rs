//! The `Debug` of a list of another crate that holds hash maps
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;
use smallvec::SmallVec;

fn shown(count: u64) -> String {
    let prices: HashMap<u64, u64> = (0..count).map(|n| (n, n * n)).collect();
    let all: SmallVec<[HashMap<u64, u64>; 1]> = SmallVec::from_iter([prices]);
    format!("{all:?}")
}

#[workflow]
pub async fn map_in_a_small_vector(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = cx.random().await % 5 + 5;
    Ok(shown(count))
}
