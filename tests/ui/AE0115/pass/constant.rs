#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    const COUNT: u32 = 3;
    let _ = (cx, COUNT);
    Ok(())
}

fn main() {}
