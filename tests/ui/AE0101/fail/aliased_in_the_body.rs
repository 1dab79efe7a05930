use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use std::time::SystemTime as Clock;
    type Watch = std::time::Instant;
    let _ = Clock::now();
    let _ = Watch::now();
    Ok(())
}

fn main() {}
