//! A thread
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn thread_spawn(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(std::thread::spawn(|| format!("{:?}", std::thread::current().id())).join().unwrap_or_default())
}
