//! The process's id by a function of libc
//! how: foreign

use aether::prelude::*;

mod sys {
    unsafe extern "C" {
        pub safe fn getpid() -> i32;
    }
}

fn lock_owner() -> String {
    format!("worker-{}", sys::getpid())
}

#[workflow]
pub async fn getpid_of_libc(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(lock_owner())
}
