//! The user's name in the context of an error
//! how: env

use aether::prelude::*;
use anyhow::Context as _;

fn parse(text: &str) -> anyhow::Result<u32> {
    text.parse().with_context(|| {
        let user = std::env::var("USER").unwrap_or_default();
        format!("{user} gave {text:?}")
    })
}

fn look() -> String {
    match parse("seven") {
        Ok(number) => number.to_string(),
        Err(error) => format!("{error:#}"),
    }
}

#[workflow]
pub async fn context_of_an_error(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
