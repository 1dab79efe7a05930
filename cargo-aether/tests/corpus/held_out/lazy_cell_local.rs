//! A lazy cell in a struct that reads the environment at its first use
//! how: env

use std::cell::LazyCell;

use aether::prelude::*;

struct Prompt {
    template: &'static str,
    language: LazyCell<String>,
}

impl Prompt {
    fn new(template: &'static str) -> Self {
        Prompt { template, language: LazyCell::new(|| std::env::var("LANG").unwrap_or_default()) }
    }

    fn render(&self) -> String {
        self.template.replace("{language}", self.language.as_str())
    }
}

#[workflow]
pub async fn lazy_cell_local(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(Prompt::new("Answer in {language}.").render())
}
