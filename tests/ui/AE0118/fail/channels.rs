use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use std::sync::mpsc;
    let _ = mpsc::channel::<u8>();
    let _ = tokio::sync::oneshot::channel::<u8>();
    let _ = tokio::sync::Notify::new();
    let _ = std::sync::Condvar::new();
    let _ = std::sync::Barrier::new(2);
    Ok(())
}

fn main() {}
