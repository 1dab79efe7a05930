use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = (cx, rand::random::<u64>());
    Ok(())
}

fn main() {}
