//! The address of a function
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn fn_address(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok((usize::from_str_radix as fn(&str, u32) -> _ as usize).to_string())
}
