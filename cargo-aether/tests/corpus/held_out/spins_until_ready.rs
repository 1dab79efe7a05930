//! How often a helper asks before a thread has answered
//! how: thread

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aether::prelude::*;

fn asked() -> u32 {
    let ready = Arc::new(AtomicBool::new(false));
    let setter = Arc::clone(&ready);
    std::thread::Builder::new().spawn(move || setter.store(true, Ordering::Release)).expect("a thread");
    let mut asked = 0;
    while !ready.load(Ordering::Acquire) {
        asked += 1;
        std::hint::spin_loop();
    }
    asked
}

#[workflow]
pub async fn spins_until_ready(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(asked().to_string())
}
