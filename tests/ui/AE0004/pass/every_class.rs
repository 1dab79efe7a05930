#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn by_read(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "llm")]
async fn by_llm(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "tool")]
async fn by_tool(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "external")]
async fn by_external(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "http")]
async fn by_http(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "pure")]
async fn by_nothing() -> Result<()> {
    Ok(())
}

fn main() {}
