#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use std::fmt::Write as _;
    let mut text = String::new();
    write!(text, "{}", 1)?;
    tracing::info!(text, number = 3, "done");
    Ok(())
}

fn main() {}
