//! A line of the standard input
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn stdin_line(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line)
}
