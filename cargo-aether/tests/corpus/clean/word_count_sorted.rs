//! Words counted in a hash map and then sorted
//! how: clean

use std::collections::HashMap;

use aether::prelude::*;

fn frequent(text: &str, at_most: usize) -> Vec<(String, usize)> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let mut counted: Vec<_> = counts.into_iter().collect();
    counted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counted.truncate(at_most);
    counted
}

#[workflow]
pub async fn word_count_sorted(cx: &mut Cx, _input: u64) -> Result<String> {
    let most = cx.random().await % 5;
    let text = "The cat saw the dog; the dog saw a bird. A bird saw nothing.";
    let lines =
        frequent(text, most as usize + 1).iter().map(|(word, n)| format!("{n} {word}")).collect::<Vec<_>>();
    Ok(lines.join("\n"))
}
