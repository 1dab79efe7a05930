//! Another program
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn command_output(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", std::process::Command::new("date").arg("+%N").output()))
}
