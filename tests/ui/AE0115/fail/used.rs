use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = COUNTER.fetch_add(1, Ordering::Relaxed);
    let _ = super::STATE.lock();
    let _ = std::sync::LazyLock::force(&CONFIG);
    let _ = CACHE.get_or_init(|| 3);
    Ok(())
}

fn main() {}
