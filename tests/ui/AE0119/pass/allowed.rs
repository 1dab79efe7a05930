#![deny(warnings)]

use aether::prelude::*;

thread_local! {
    static DEPTH: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

#[workflow(allow(thread_local, reason = "set by the test harness only"))]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = DEPTH.with(std::cell::Cell::get);
    Ok(())
}

fn main() {}
