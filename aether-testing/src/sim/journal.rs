//! A journal as text for people and snapshots, and the difference of two lists.
//!
//! Promise: the text of one journal does not depend on the build, the machine, or the order of keys.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use aether_core::event::Event;
use serde_json::Value;

/// Fields that change from build to build.
const VOLATILE: [&str; 5] = ["digest", "fingerprint", "seed", "site", "worker"];

/// One event a line: position, kind, and fields in alphabetical order.
pub(super) fn journal_text(events: &[Event]) -> String {
    let mut text = String::new();
    for (position, event) in events.iter().enumerate() {
        let _writing_to_a_string = writeln!(text, "{position:>3} {}", event_text(event));
    }
    text
}

/// Kind, and fields in alphabetical order.
pub(super) fn event_text(event: &Event) -> String {
    let mut text = String::from(event.kind());
    for (field, value) in fields(event) {
        let _writing_to_a_string = write!(text, " {field}={}", sorted(&value));
    }
    text
}

fn fields(event: &Event) -> BTreeMap<String, Value> {
    let json = serde_json::to_string(event).unwrap_or_default();
    let mut by_kind: BTreeMap<String, BTreeMap<String, Value>> =
        serde_json::from_str(&json).unwrap_or_default();
    let mut fields = by_kind.pop_first().map(|(_, fields)| fields).unwrap_or_default();
    fields.retain(|name, _| !VOLATILE.contains(&name.as_str()));
    fields
}

/// JSON with the keys of every object in alphabetical order.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().collect();
            let fields: Vec<_> = fields
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), sorted(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// A shortest way from `expected` to `found`: kept (' '), missing ('-') and added ('+') items.
pub(super) fn difference<'a>(expected: &[&'a str], found: &[&'a str]) -> Vec<(char, &'a str)> {
    let common = common_lengths(expected, found);
    let (mut left, mut right, mut steps) = (0, 0, Vec::new());
    while left < expected.len() || right < found.len() {
        if left < expected.len() && right < found.len() && expected[left] == found[right] {
            steps.push((' ', expected[left]));
            (left, right) = (left + 1, right + 1);
        } else if right == found.len()
            || (left < expected.len() && common[left + 1][right] >= common[left][right + 1])
        {
            steps.push(('-', expected[left]));
            left += 1;
        } else {
            steps.push(('+', found[right]));
            right += 1;
        }
    }
    steps
}

/// Length of the longest common subsequence of every pair of tails.
fn common_lengths(a: &[&str], b: &[&str]) -> Vec<Vec<usize>> {
    let mut lengths = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i][j] = if a[i] == b[j] {
                lengths[i + 1][j + 1] + 1
            } else {
                lengths[i + 1][j].max(lengths[i][j + 1])
            };
        }
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_keeps_what_is_common() {
        let steps = difference(&["a", "b", "c"], &["b", "c", "d"]);
        assert_eq!(steps, [('-', "a"), (' ', "b"), (' ', "c"), ('+', "d")]);
    }
}
