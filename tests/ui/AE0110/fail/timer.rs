use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = (cx, tokio::time::sleep(std::time::Duration::from_secs(1)));
    Ok(())
}

fn main() {}
