//! The environment in an implementation of Display
//! how: indirect

use aether::prelude::*;

struct Home;

impl std::fmt::Display for Home {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&std::env::var("PATH").unwrap_or_default())
    }
}

#[workflow]
pub async fn display_impl(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(Home.to_string())
}
