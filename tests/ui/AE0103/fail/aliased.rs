use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use uuid::Uuid as Id;
    let _ = Id::new_v4();
    Ok(())
}

fn main() {}
