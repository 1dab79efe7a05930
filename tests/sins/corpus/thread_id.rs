//! The thread's id
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn thread_id(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", std::thread::current().id()))
}
