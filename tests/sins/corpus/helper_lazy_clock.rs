//! A static that reads the clock at its first use
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    static BEGUN: std::sync::LazyLock<std::time::SystemTime> = std::sync::LazyLock::new(std::time::SystemTime::now);
    format!("{:?}", *BEGUN)
}

#[workflow]
pub async fn helper_lazy_clock(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
