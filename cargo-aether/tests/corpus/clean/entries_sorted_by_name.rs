//! What is made of the entries of a map, sorted by what was their key
//! how: clean

use std::cmp::Reverse;
use std::collections::HashMap;

use aether::prelude::*;
use itertools::Itertools as _;

struct Row {
    count: u64,
    name: String,
}

fn counts(most: u64) -> HashMap<String, u64> {
    ["ann", "bob", "cleo", "dan"]
        .iter()
        .zip((1..=most).cycle())
        .map(|(name, n)| ((*name).to_owned(), n))
        .collect()
}

/// In a loop that leaves some out.
fn rows(most: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, count) in &counts(most) {
        if *count > 1 {
            rows.push(Row { count: *count, name: name.clone() });
        }
    }
    rows.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// With the key behind the count.
fn turned(most: u64) -> Vec<(u64, String)> {
    let turned = counts(most).into_iter().map(|(name, count)| (count, name));
    turned.sorted_by_key(|(count, name)| (Reverse(*count), name.clone())).collect()
}

/// As text, and by a comparison that asks for the names last.
fn named(most: u64) -> Vec<String> {
    let counts = counts(most);
    let mut all: Vec<_> = counts.iter().collect();
    all.sort_by(|(a, n), (b, m)| {
        let by_count = m.cmp(n);
        if by_count.is_ne() { by_count } else { a.as_str().cmp(b.as_str()) }
    });
    all.into_iter().map(|(name, count)| format!("{name} {count}")).collect()
}

#[workflow]
pub async fn entries_sorted_by_name(cx: &mut Cx, _input: u64) -> Result<String> {
    let most = cx.random().await % 3 + 1;
    let rows = rows(most).into_iter().map(|row| format!("{} {}", row.name, row.count)).join(", ");
    Ok(format!("{rows}; {:?}; {}", turned(most), named(most).join(", ")))
}
