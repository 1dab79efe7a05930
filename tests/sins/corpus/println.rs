//! Printing
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn println(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = cx.random().await;
    println!("{number}");
    Ok(String::new())
}
