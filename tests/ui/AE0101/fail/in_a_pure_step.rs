use aether::prelude::*;

#[step(effect = "pure")]
async fn act() -> Result<()> {
    let _ = std::time::SystemTime::now();
    Ok(())
}

fn main() {}
