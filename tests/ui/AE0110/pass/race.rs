#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let first = cx
        .race((
            async |cx: &mut Cx| Some(cx.random().await),
            async |cx: &mut Cx| {
                cx.sleep(std::time::Duration::from_secs(30)).await;
                None
            },
        ))
        .await;
    let _ = first;
    Ok(())
}

fn main() {}
