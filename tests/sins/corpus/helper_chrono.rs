//! The clock of chrono in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    chrono::Utc::now().to_rfc3339()
}

#[workflow]
pub async fn helper_chrono(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
