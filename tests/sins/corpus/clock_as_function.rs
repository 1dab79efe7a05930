//! The clock passed as a function
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn clock_as_function(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let now = Some(()).map(|()| 1).map_or_else(std::time::SystemTime::now, |_| std::time::SystemTime::now());
    Ok(format!("{now:?}"))
}
