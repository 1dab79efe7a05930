use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx, soon: u8) -> Result<()> {
    let _ = &cx;
    use tokio::time::{self, timeout as limit};
    let second = std::time::Duration::from_secs(1);
    let _ = time::interval(second);
    let _ = limit(second, async {});
    let _ = tokio::time::sleep_until(soon);
    Ok(())
}

fn main() {}
