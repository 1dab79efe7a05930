//! A request of reqwest
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn reqwest_get(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(reqwest::get("http://127.0.0.1:9/").await?.text().await?)
}
