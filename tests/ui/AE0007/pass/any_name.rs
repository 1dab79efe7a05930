#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(context: &mut aether::prelude::StepCx) -> Result<()> {
    let _ = context;
    Ok(())
}

#[workflow]
async fn flow(_: &mut Cx) -> Result<()> {
    Ok(())
}

fn main() {}
