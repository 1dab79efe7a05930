//! An order by address
//! how: indirect

use aether::prelude::*;

fn sort(boxes: &mut [Box<u64>]) {
    let spread: Vec<Vec<u8>> = (1..64).map(|n| vec![0; n * 24]).collect();
    boxes.sort_by_key(|boxed| std::ptr::from_ref(&**boxed).addr().wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ spread.len());
}

#[workflow]
pub async fn sorted_by_address(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let mut boxes: Vec<Box<u64>> = (0..64).map(Box::new).collect();
    sort(&mut boxes);
    Ok(format!("{boxes:?}"))
}
