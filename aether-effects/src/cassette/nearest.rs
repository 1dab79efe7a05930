//! What is said of a call that is not on a cassette: how far it is from those that are.

use std::fmt::Write as _;
use std::path::Path;

use aether_core::payload::Payload;

/// Characters of a request that are compared and shown.
const SHOWN: usize = 300;
/// Recorded calls that are shown.
const NEAREST: usize = 3;

/// Why the call `request` is refused; `given` answers to calls like it were given before.
pub(crate) fn refusal<'a>(
    path: &Path,
    request: &Payload,
    given: usize,
    recorded: impl Iterator<Item = &'a Payload>,
) -> String {
    let asked = start(request);
    let mut text = format!("it is not on cassette {}: {asked}", path.display());
    if given > 0 {
        let _writing_to_a_string =
            write!(text, "\n  it was recorded {given} time(s), and each answer was given");
        return text;
    }
    let mut near: Vec<_> = recorded.map(start).map(|known| (distance(&asked, &known), known)).collect();
    near.sort();
    near.dedup();
    if near.is_empty() {
        text.push_str("\n  nothing of its kind is");
    }
    for (_, known) in near.into_iter().take(NEAREST) {
        let _writing_to_a_string = write!(text, "\n  nearest recorded: {known}");
    }
    text.push_str("\n  record it with `Mode::Auto`");
    text
}

fn start(request: &Payload) -> String {
    request.as_str().chars().take(SHOWN).collect()
}

/// The least number of characters to be put in, taken out or changed to get from `a` to `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_changes() {
        for (a, b, expected) in
            [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("aä", "ää", 1)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }
}
