#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx, counts: std::collections::HashMap<String, u32>) -> Result<()> {
    let _ = &cx;
    let found = counts.get("a").copied().unwrap_or_default();
    let _ = (found, counts.len(), counts.contains_key("b"));
    Ok(())
}

fn main() {}
