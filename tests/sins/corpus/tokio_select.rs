//! A select of tokio
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn tokio_select(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let won = tokio::select! {
        () = std::future::ready(()) => "ready",
        drawn = cx.random() => if drawn == 0 { "zero" } else { "drawn" },
    };
    Ok(won.into())
}
