//! A blocking task whose progress is read at once
//! how: spawn

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aether::prelude::*;
use tokio::runtime::Handle;

fn progress() -> u64 {
    let done = Arc::new(AtomicU64::new(0));
    let Ok(runtime) = Handle::try_current() else { return 0 };
    let counter = done.clone();
    runtime.spawn_blocking(move || {
        for _ in 0..100_000 {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let _other: u64 = (0..50_000).map(std::hint::black_box).sum();
    done.load(Ordering::Relaxed)
}

#[workflow]
pub async fn pool_of_blocking_threads(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(progress().to_string())
}
