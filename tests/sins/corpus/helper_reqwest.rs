//! A client of reqwest in a helper, polled once
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    let request = reqwest::get("http://127.0.0.1:9/");
    format!("{}", futures::FutureExt::now_or_never(request).is_some())
}

#[workflow]
pub async fn helper_reqwest(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
