//! The clock of the crate time in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:?}", time::OffsetDateTime::now_utc())
}

#[workflow]
pub async fn helper_time(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
