use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = uuid::Uuid::new_v4();
    let _ = uuid::Uuid::now_v7();
    let _ = Ulid::new();
    let _ = nanoid::nanoid!();
    Ok(())
}

fn main() {}
