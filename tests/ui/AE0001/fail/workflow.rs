use aether::prelude::*;

#[workflow(effect = "read")]
async fn main_flow(cx: &mut Cx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
