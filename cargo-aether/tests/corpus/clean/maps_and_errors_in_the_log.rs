//! Hash maps and errors that are written to the log and nowhere else
//! how: clean

use std::collections::HashMap;

use aether::prelude::*;

fn scores(text: &str) -> HashMap<char, u64> {
    let mut scores = HashMap::new();
    for c in text.chars() {
        *scores.entry(c).or_insert(0) += 1;
    }
    tracing::debug!("scores: {scores:?}");
    tracing::info!(length = text.len(), "of {} characters: {:?}", scores.len(), scores);
    scores
}

fn number(text: &str) -> u64 {
    let parsed: anyhow::Result<u64> = text.parse().map_err(|_| anyhow::anyhow!("`{text}` is no number"));
    match parsed {
        Ok(number) => number,
        Err(error) => {
            tracing::warn!("{error:?}");
            0
        }
    }
}

#[workflow]
pub async fn maps_and_errors_in_the_log(cx: &mut Cx, _input: u64) -> Result<String> {
    let text = cx.random().await.to_string();
    let scores = scores(&text);
    Ok(format!("{:?} {}", scores.get(&'1'), number(&text)))
}
