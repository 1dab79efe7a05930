use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = None.unwrap_or_else(std::time::SystemTime::now);
    let _ = <std::time::Instant>::now();
    Ok(())
}

fn main() {}
