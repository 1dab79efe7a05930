//! The last error of the operating system, from some earlier call
//! how: thread_local

use std::io;

use aether::prelude::*;

fn last() -> String {
    let error = io::Error::last_os_error();
    format!("{:?} {:?}", error.kind(), error.raw_os_error())
}

#[workflow]
pub async fn last_error_of_the_system(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(last())
}
