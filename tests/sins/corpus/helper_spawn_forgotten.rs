//! A task in a helper whose end nobody sees
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    drop(tokio::spawn(async { 1 }));
    String::new()
}

#[workflow]
pub async fn helper_spawn_forgotten(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
