//! The wall clock in a closure that a static holds
//! how: indirect

use aether::prelude::*;

static SOURCE: [fn() -> String; 1] = [|| format!("{:?}", std::time::SystemTime::now())];

#[workflow]
pub async fn closure_in_static(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(SOURCE.iter().map(|read| read()).collect())
}
