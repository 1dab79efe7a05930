//! A pointer to a configuration that whoever comes first puts into a static
//! how: static

use std::sync::atomic::{AtomicPtr, Ordering};

use aether::prelude::*;

struct Config {
    owner: u64,
}

static CURRENT: AtomicPtr<Config> = AtomicPtr::new(std::ptr::null_mut());

fn current(owner: u64) -> &'static Config {
    let fresh = Box::into_raw(Box::new(Config { owner }));
    let null = std::ptr::null_mut();
    let chosen = match CURRENT.compare_exchange(null, fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => fresh,
        Err(earlier) => earlier,
    };
    // SAFETY: what the static points to is never freed.
    unsafe { &*chosen }
}

#[workflow]
pub async fn leaked_configuration(cx: &mut Cx, _input: u64) -> Result<String> {
    let owner = cx.random().await;
    Ok(current(owner).owner.to_string())
}
