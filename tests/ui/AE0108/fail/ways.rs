use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use std::thread::{self, spawn as go};
    let _ = go(|| 1);
    thread::park();
    thread::scope(|_| ());
    let _ = std::thread::current().id();
    let _ = rayon::join(|| 1, || 2);
    let _ = [1].par_iter();
    Ok(())
}

fn main() {}
