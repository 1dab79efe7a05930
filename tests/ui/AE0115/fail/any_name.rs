use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

use aether::prelude::*;

static N: AtomicU64 = AtomicU64::new(0);
static M: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static mut X: u64 = 0;

#[allow(non_upper_case_globals)]
static calls: AtomicU64 = AtomicU64::new(0);

mod counters {
    #[allow(non_upper_case_globals)]
    pub static asked: super::AtomicBool = super::AtomicBool::new(false);
}

fn order() -> Ordering {
    Ordering::Relaxed
}

thread_local! {
    static T: Cell<u32> = const { Cell::new(0) };
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<u64> {
    let _ = &cx;
    let mut sum = N.fetch_add(1, Ordering::Relaxed);
    sum += N.load(Ordering::SeqCst);
    M.lock().map_err(|_| Failure::permanent("poisoned"))?.push(1);
    calls.store(7, Ordering::Release);
    counters::asked.swap(true, std::sync::atomic::Ordering::AcqRel);
    T.with(|cell| cell.set(3));
    unsafe {
        X += 1;
    }
    Ok(sum)
}

fn main() {
    let _ = order();
}
