//! The address of a value, formatted
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn pointer_format(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = cx.random().await;
    let boxed = Box::new(number);
    Ok(format!("{:p}", &*boxed))
}
