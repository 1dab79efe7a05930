#![deny(warnings)]

use aether::prelude::*;

/// Fetches.
#[step(effect = "read")]
async fn fetch(
    cx: &mut StepCx,
    /// Where to look.
    pair: (u32, u32),
    mut limit: u8,
    _unused: u8,
    r#type: &str,
) -> Result<u32> {
    let (a, b) = pair;
    limit += 1;
    let _ = (cx, r#type, limit);
    Ok(a + b)
}

fn main() {}
