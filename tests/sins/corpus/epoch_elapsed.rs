//! Time since the epoch, by a method
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn epoch_elapsed(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
    Ok(format!("{since:?}"))
}
