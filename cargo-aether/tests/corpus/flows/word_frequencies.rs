//! Words are counted in a hash map by a helper and sorted before anything is done with them
//! how: clean

use std::collections::HashMap;

use aether::prelude::*;
use itertools::Itertools as _;
use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation as _;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frequency {
    word: String,
    count: usize,
}

/// The most frequent words, those of one count by the alphabet.
fn frequencies(text: &str, most: usize) -> Vec<Frequency> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for word in text.unicode_words().filter(|word| word.chars().count() > 3) {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let mut all: Vec<Frequency> = counts.into_iter().map(|(word, count)| Frequency { word, count }).collect();
    all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.word.cmp(&b.word)));
    all.truncate(most);
    all
}

#[step(effect = "read")]
pub async fn word_frequencies_page(cx: &mut StepCx, url: &str) -> Result<String> {
    let reply = cx.http().get(url).send().await?;
    Ok(reply.error_for_status()?.text().to_owned())
}

#[step(effect = "tool", idempotent)]
pub async fn word_frequencies_tag(_cx: &mut StepCx, word: &str) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn word_frequencies(cx: &mut Cx, urls: Vec<String>) -> Result<Vec<Frequency>> {
    let pages = cx.each(urls, async |cx: &mut Cx, url| word_frequencies_page(cx, &url).await).limit(5).await;
    let text = pages.into_iter().filter_map(|page| page.ok()).join("\n");
    let found = frequencies(&text, 20);
    for frequency in found.iter().filter(|frequency| frequency.count > 1) {
        word_frequencies_tag(cx, &frequency.word).await?;
    }
    Ok(found)
}
