//! The address of a value, transmuted into a number
//! how: address

use aether::prelude::*;

fn place() -> usize {
    let value = Box::new(3_u8);
    unsafe { std::mem::transmute::<&u8, usize>(&value) }
}

#[workflow]
pub async fn transmuted_reference(cx: &mut Cx, _input: u64) -> Result<u64> {
    cx.random().await;
    Ok(place() as u64 % 4096)
}
