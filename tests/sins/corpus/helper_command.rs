//! Another program in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:?}", std::process::Command::new("date").arg("+%N").output())
}

#[workflow]
pub async fn helper_command(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
