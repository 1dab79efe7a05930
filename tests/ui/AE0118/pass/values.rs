#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let (a, b) = cx.join((async |cx: &mut Cx| cx.random().await, async |cx: &mut Cx| cx.random().await)).await;
    let cell = std::cell::Cell::new(a);
    cell.set(b);
    let read = cell.get();
    let _ = read;
    Ok(())
}

fn main() {}
