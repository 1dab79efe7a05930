//! A thread-local counter in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    thread_local! {
        static CALLS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    CALLS.replace(CALLS.get() + 1).to_string()
}

#[workflow]
pub async fn helper_thread_local(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
