//! The thread's id in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:?}", std::thread::current().id())
}

#[workflow]
pub async fn helper_thread_id(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
