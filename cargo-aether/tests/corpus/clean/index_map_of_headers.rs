//! A map that keeps the order of insertion
//! how: clean

use aether::prelude::*;
use indexmap::{IndexMap, IndexSet};

fn headers(raw: &str) -> IndexMap<String, Vec<String>> {
    let mut map = IndexMap::new();
    for line in raw.lines() {
        if let Some((name, value)) = line.split_once(':') {
            map.entry(name.trim().to_ascii_lowercase())
                .or_insert_with(Vec::new)
                .push(value.trim().to_owned());
        }
    }
    map
}

fn listing(map: &IndexMap<String, Vec<String>>) -> String {
    let values: IndexSet<&str> = map.values().flatten().map(String::as_str).collect();
    let lines = map.iter().map(|(name, values)| format!("{name}={}", values.join("|")));
    format!("{} / {}", lines.collect::<Vec<_>>().join("&"), values.into_iter().collect::<String>())
}

#[workflow]
pub async fn index_map_of_headers(cx: &mut Cx, _input: u64) -> Result<String> {
    let length = cx.random().await % 1000;
    let raw = format!("Host: example.org\nAccept: a\nContent-Length: {length}\naccept: b\n");
    Ok(listing(&headers(&raw)))
}
