//! A thread in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    std::thread::spawn(|| 1).join().map_or(0, |one| one).to_string()
}

#[workflow]
pub async fn helper_thread(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
