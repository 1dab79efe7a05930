//! A static list behind a mutex
//! how: direct

use aether::prelude::*;

static SEEN: std::sync::Mutex<Vec<u64>> = std::sync::Mutex::new(Vec::new());

#[workflow]
pub async fn static_mutex(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = cx.random().await;
    if let Ok(mut seen) = SEEN.lock() {
        seen.push(number);
        return Ok(seen.len().to_string());
    }
    Ok(String::new())
}
