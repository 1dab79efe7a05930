use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = std::time::SystemTime::UNIX_EPOCH.elapsed();
    let _ = (std::time::UNIX_EPOCH + std::time::Duration::from_secs(3)).elapsed();
    let _ = std::time::SystemTime::from(cx.now().await).elapsed();
    Ok(())
}

fn main() {}
