use aether::prelude::*;

#[step(effect = "pure", approval = "required")]
async fn add(a: u32) -> Result<u32> {
    Ok(a)
}

#[step(effect = "read", compensate = forget)]
async fn look(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "tool", scope = "store")]
async fn ship(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "tool", confirm = "ask")]
async fn write(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "llm", changes = ["file"])]
async fn think(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "read", heartbeat = "10s", timeout = "10s")]
async fn crawl(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "pure", heartbeat = "10s")]
async fn subtract(a: u32) -> Result<u32> {
    Ok(a)
}

fn main() {}
