//! The address of a function in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:p}", look as fn() -> String)
}

#[workflow]
pub async fn helper_fn_address(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
