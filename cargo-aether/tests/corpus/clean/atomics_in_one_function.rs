//! Atomics that are made and read in one function
//! how: clean

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use aether::prelude::*;

#[derive(Default)]
struct Stats {
    seen: AtomicUsize,
    largest: AtomicU64,
    odd: AtomicBool,
}

impl Stats {
    fn record(&self, value: u64) -> usize {
        self.largest.fetch_max(value, Ordering::Relaxed);
        self.odd.fetch_or(value % 2 == 1, Ordering::AcqRel);
        self.seen.fetch_add(1, Ordering::SeqCst)
    }
}

fn stats(seed: u64) -> String {
    let stats = Arc::new(Stats::default());
    let sink = {
        let stats = Arc::clone(&stats);
        move |value| stats.record(value)
    };
    let numbers = (0..8).map(|n| sink((seed >> n) & 0xff)).collect::<Vec<_>>();
    let swapped = stats.largest.compare_exchange(255, 0, Ordering::AcqRel, Ordering::Acquire).is_ok();
    format!("{numbers:?} {} {:?} {swapped}", stats.seen.load(Ordering::SeqCst), stats.odd)
}

#[workflow]
pub async fn atomics_in_one_function(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(stats(cx.random().await))
}
