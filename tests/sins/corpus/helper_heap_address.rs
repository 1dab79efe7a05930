//! The address of a value in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:p}", &*Box::new([0_u8; 64]))
}

#[workflow]
pub async fn helper_heap_address(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
