//! The address of a value, by a method
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn pointer_addr(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = cx.random().await;
    let boxed = Box::new(number);
    Ok(std::ptr::from_ref(&*boxed).addr().to_string())
}
