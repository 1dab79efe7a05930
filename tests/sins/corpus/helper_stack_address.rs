//! The address of a variable in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    let variable = 0_u8;
    format!("{:p}", &variable)
}

#[workflow]
pub async fn helper_stack_address(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
