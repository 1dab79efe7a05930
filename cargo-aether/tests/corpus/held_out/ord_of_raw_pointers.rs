//! A derived Ord that compares pointers before names
//! how: address

use aether::prelude::*;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Handle {
    raw: *const u8,
    name: String,
}

fn sorted() -> String {
    let blocks: Vec<Vec<u8>> = (1..24).map(|size| vec![0; size * size * 300]).collect();
    let mut handles: std::collections::BinaryHeap<Handle> = blocks
        .iter()
        .enumerate()
        .map(|(at, block)| Handle { raw: block.as_ptr(), name: at.to_string() })
        .collect();
    std::iter::from_fn(|| handles.pop()).map(|handle| handle.name + " ").collect()
}

#[workflow]
pub async fn ord_of_raw_pointers(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(sorted())
}
