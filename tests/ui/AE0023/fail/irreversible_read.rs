use aether::prelude::*;

#[step(effect = "read", irreversible, on_unknown = "ask")]
async fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "pure", retry(max_retries = 2))]
async fn add(a: u32) -> Result<u32> {
    Ok(a)
}

fn main() {}
