//! A hash map that is written to the log, and into a text beside it
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;

fn described(text: &str) -> String {
    let counts: HashMap<char, usize> = text.chars().map(|c| (c, text.matches(c).count())).collect();
    tracing::debug!("counts: {counts:?}");
    let described = format!("counts: {counts:?}");
    tracing::debug!("{described}");
    described
}

#[workflow]
pub async fn text_beside_a_log(cx: &mut Cx, _input: u64) -> Result<String> {
    let salt = cx.random().await;
    Ok(described(&format!("a bird saw nothing {salt}")))
}
