#![deny(warnings)]

use aether::prelude::*;

/// Fetches.
#[step(effect = "read")]
pub(crate) async fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
