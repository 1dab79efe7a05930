//! A counter in an implementation of Drop
//! how: indirect

use aether::prelude::*;

struct Guard;

struct Counter(std::sync::atomic::AtomicU64);

static DROPPED: Counter = Counter(std::sync::atomic::AtomicU64::new(0));

impl Counter {
    fn with_count(&self) -> String {
        self.0.load(std::sync::atomic::Ordering::Relaxed).to_string()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        DROPPED.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[workflow]
pub async fn drop_impl(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    drop(Guard);
    Ok(DROPPED.with_count())
}
