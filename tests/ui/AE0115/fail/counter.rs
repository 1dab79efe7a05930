use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let _ = (cx, COUNT.load(std::sync::atomic::Ordering::Relaxed));
    Ok(())
}

fn main() {}
