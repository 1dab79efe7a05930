//! A regular expression that a static compiles at its first use
//! how: clean

use std::sync::LazyLock;

use aether::prelude::*;
use regex::Regex;

static ORDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?P<shop>[a-z]{2})-(?P<number>\d{4,})\b").expect("the pattern is valid")
});

fn orders(text: &str) -> Vec<(String, u64)> {
    ORDER
        .captures_iter(text)
        .filter_map(|found| Some((found["shop"].to_uppercase(), found["number"].parse().ok()?)))
        .collect()
}

fn masked(text: &str) -> String {
    ORDER.replace_all(text, |found: &regex::Captures<'_>| format!("{}-****", &found["shop"])).into_owned()
}

#[workflow]
pub async fn lazy_regex_order_number(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = 1000 + cx.random().await % 9000;
    let text = format!("Where is DE-{number}? I also sent back fr-20077.");
    Ok(format!("{:?} {}", orders(&text), masked(&text)))
}
