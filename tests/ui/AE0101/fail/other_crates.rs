use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = jiff::Timestamp::now();
    let _ = jiff::Zoned::now();
    let _ = tokio::time::Instant::now();
    Ok(())
}

fn main() {}
