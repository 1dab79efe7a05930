use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = tokio::task::spawn_blocking(|| 1);
    let _ = tokio::task::JoinSet::<u8>::new();
    let _ = tokio::runtime::Handle::current();
    let _ = tokio::task::yield_now();
    let _ = tokio::task::LocalSet::new();
    Ok(())
}

fn main() {}
