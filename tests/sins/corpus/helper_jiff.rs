//! The clock of jiff in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    jiff::Zoned::now().to_string()
}

#[workflow]
pub async fn helper_jiff(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
