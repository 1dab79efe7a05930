#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let doubled = cx.each(vec![1, 2, 3], async |cx: &mut Cx, n: u64| cx.random().await.wrapping_mul(n)).limit(2).await;
    let _ = doubled.len();
    Ok(())
}

fn main() {}
