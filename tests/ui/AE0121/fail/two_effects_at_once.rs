use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, id: u32) -> Result<String> {
    let _ = cx;
    Ok(id.to_string())
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let a = fetch(cx, 1);
    let b = fetch(cx, 2);
    let _ = (a.await, b.await);
    Ok(())
}

fn main() {}
