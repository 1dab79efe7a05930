//! The clock of chrono, local
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn chrono_local(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(chrono::Local::now().to_rfc3339())
}
