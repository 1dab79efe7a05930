//! The nearest known word, by counting edits
//! how: clean

use aether::prelude::*;

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let cost = (corner + usize::from(from != *to)).min(row[j] + 1).min(row[j + 1] + 1);
            corner = std::mem::replace(&mut row[j + 1], cost);
        }
    }
    row.last().copied().unwrap_or_default()
}

fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<(&'a str, usize)> {
    known
        .into_iter()
        .map(|candidate| (candidate, distance(word, candidate)))
        .filter(|(candidate, edits)| *edits * 2 <= candidate.chars().count())
        .min_by_key(|(candidate, edits)| (*edits, *candidate))
}

fn suggestions(words: &[&str]) -> String {
    let known: std::collections::HashSet<&str> = ["status", "start", "stop", "restart", "stash"].into();
    let lines = words.iter().map(|word| match nearest(word, known.iter().copied()) {
        Some((_, 0)) => format!("{word} is known"),
        Some((near, edits)) => format!("{word}: did you mean {near} ({edits})?"),
        None => format!("{word}: unknown"),
    });
    lines.collect::<Vec<_>>().join(" ")
}

#[workflow]
pub async fn spelling_suggestions(cx: &mut Cx, _input: u64) -> Result<String> {
    let typed = ["stats", "strat", "sotp", "help"][cx.random().await as usize % 4];
    Ok(suggestions(&[typed, "start", "stat"]))
}
