//! The standard input in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    line
}

#[workflow]
pub async fn helper_stdin(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
