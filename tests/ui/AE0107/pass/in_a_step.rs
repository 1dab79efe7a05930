#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "tool")]
async fn list(cx: &mut StepCx) -> Result<bool> {
    let _ = cx;
    Ok(std::process::Command::new("ls").status()?.success())
}

fn main() {}
