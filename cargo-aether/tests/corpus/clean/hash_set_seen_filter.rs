//! A hash set that only says what was seen before
//! how: clean

use std::collections::HashSet;

use aether::prelude::*;

fn without_repeats<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    lines.into_iter().filter(|line| seen.insert(line.trim())).collect()
}

fn overlap(left: &[&str], right: &[&str]) -> (usize, bool, bool) {
    let left: HashSet<_> = left.iter().copied().collect();
    let right: HashSet<_> = right.iter().copied().collect();
    (left.intersection(&right).count(), left.is_subset(&right), left.is_disjoint(&right))
}

#[workflow]
pub async fn hash_set_seen_filter(cx: &mut Cx, _input: u64) -> Result<String> {
    let rows = ["milk", "eggs ", "bread", "eggs", " milk", "salt"];
    let from = cx.random().await as usize % rows.len();
    let (head, tail) = rows.split_at(from);
    let kept = without_repeats(head.iter().chain(tail).copied());
    Ok(format!("{kept:?} {:?}", overlap(head, tail)))
}
