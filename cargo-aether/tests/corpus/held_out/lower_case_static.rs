//! A static counter with a lower-case name in a module
//! how: static

use aether::prelude::*;

#[allow(non_upper_case_globals)]
mod numbers {
    use std::sync::atomic::{AtomicU32, Ordering};

    pub static next: AtomicU32 = AtomicU32::new(1);

    pub fn take() -> u32 {
        next.fetch_add(1, Ordering::SeqCst)
    }
}

#[workflow]
pub async fn lower_case_static(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("invoice {}", numbers::take()))
}
