//! The clock inside a branch of a join
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn clock_in_branch(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let (a, b) = cx
        .join((
            async |cx: &mut Cx| {
                cx.random().await;
                std::time::SystemTime::now()
            },
            async |cx: &mut Cx| cx.random().await,
        ))
        .await;
    Ok(format!("{a:?}{b}"))
}
