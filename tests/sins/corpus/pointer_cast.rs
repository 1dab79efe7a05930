//! The address of a value, as a number
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn pointer_cast(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = cx.random().await;
    let boxed = Box::new(number);
    Ok((std::ptr::from_ref(&*boxed) as usize).to_string())
}
