#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = cx;
    let counts: std::collections::BTreeMap<u32, u32> = [(1, 2)].into_iter().collect();
    let _ = counts;
    Ok(())
}

fn main() {}
