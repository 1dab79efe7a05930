use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use tokio::spawn as start;
    let _ = start(async {});
    Ok(())
}

fn main() {}
