//! Texts as people write them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use regex::Regex;
use unicode_segmentation::UnicodeSegmentation as _;

static CARD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(?:\d[ -]?){13,16}\b").expect("the pattern is valid"));

/// With numbers that look like those of cards taken out.
pub fn without_cards(text: &str) -> Cow<'_, str> {
    CARD.replace_all(text, "[card]")
}

/// The reply above the quoted text, without a signature.
pub fn without_quotes(text: &str) -> String {
    let is_end = |line: &str| line == "-- " || (line.starts_with("On ") && line.ends_with("wrote:"));
    let own = text.lines().take_while(|line| !is_end(line));
    let lines: Vec<&str> = own.filter(|line| !line.starts_with('>')).collect();
    lines.join("\n").trim().to_owned()
}

/// At most so many letters as a person sees them.
pub fn shortened(text: &str, most: usize) -> String {
    let mut letters = text.graphemes(true);
    let mut short: String = letters.by_ref().take(most).collect();
    if letters.next().is_some() {
        short.push('…');
    }
    short
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.unicode_words().map(str::to_lowercase)
}

/// How much two texts have in common, in percent of their words.
pub fn likeness(a: &str, b: &str) -> u32 {
    let a: HashSet<String> = words(a).collect();
    let b: HashSet<String> = words(b).collect();
    let common = a.intersection(&b).count();
    let all = a.len() + b.len() - common;
    u32::try_from((common * 100).checked_div(all).unwrap_or(0)).unwrap_or(100)
}

/// `{name}` replaced by the value of that name.
pub fn filled(template: &str, values: &BTreeMap<&str, String>) -> String {
    values.iter().fold(template.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}
