use aether::prelude::*;

#[step(effect = "read")]
async fn without(id: u32) -> Result<u32> {
    Ok(id)
}

#[step(effect = "read")]
async fn of_a_workflow(cx: &mut Cx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[workflow]
async fn shared(cx: &Cx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
