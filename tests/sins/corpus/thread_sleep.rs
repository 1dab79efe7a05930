//! A wait that blocks
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn thread_sleep(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    std::thread::sleep(std::time::Duration::from_millis(1));
    Ok(String::new())
}
