use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = (cx, uuid::Uuid::new_v4());
    Ok(())
}

fn main() {}
