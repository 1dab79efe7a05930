#![deny(warnings)]

use aether::prelude::*;

const LIMIT: std::num::NonZeroU32 = std::num::NonZeroU32::MIN;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = LIMIT.get();
    Ok(())
}

fn main() {}
