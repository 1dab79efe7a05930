//! A thread-local
//! how: direct

use aether::prelude::*;

thread_local! {
    static CALLS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[workflow]
pub async fn thread_local_counter(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(CALLS.with(|calls| calls.replace(calls.get() + 1)).to_string())
}
