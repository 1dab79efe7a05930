#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn act(cx: &mut StepCx) -> Result<()> {
    let _ = &cx;
    let client = cx.dep::<reqwest::Client>()?;
    let _ = (client.get("http://localhost"), reqwest::StatusCode::OK);
    Ok(())
}

fn main() {}
