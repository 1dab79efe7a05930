//! A blocking wait in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    std::thread::sleep(std::time::Duration::from_millis(1));
    String::new()
}

#[workflow]
pub async fn helper_sleep(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
