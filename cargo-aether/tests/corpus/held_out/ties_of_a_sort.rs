//! Entries of a hash map, sorted by a value that many of them share
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;

fn ranked(words: &[&str]) -> Vec<(String, usize)> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for word in words {
        *counts.entry((*word).to_owned()).or_default() += 1;
    }
    let mut all: Vec<_> = counts.into_iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all
}

#[workflow]
pub async fn ties_of_a_sort(cx: &mut Cx, _input: u64) -> Result<String> {
    let salt = cx.random().await;
    let all = ranked(&["a", "b", "c", "d", "e", "f", "g", "h"]);
    Ok(format!("{salt} {}", all.iter().map(|(word, _)| word.as_str()).collect::<String>()))
}
