#![deny(warnings)]

use std::sync::atomic::{AtomicU32, Ordering};

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<u32> {
    let asked = AtomicU32::new(0);
    cx.join((
        async |cx: &mut Cx| {
            cx.now().await;
            asked.fetch_add(1, Ordering::Relaxed)
        },
        async |cx: &mut Cx| {
            cx.now().await;
            asked.load(Ordering::Relaxed)
        },
    ))
    .await;
    Ok(asked.into_inner())
}

fn main() {}
