//! Texts from outside, made safe for terminals, and cut.
//!
//! Promise: what leaves this file moves no cursor, sets no colour, forges no line and turns no direction of writing.

use std::fmt::Write as _;

/// How many characters of a value a table shows.
pub(crate) const CELL: usize = 80;
/// How many characters of a value are shown by themselves.
pub(crate) const VALUE: usize = 2_000;

/// Whether a terminal, or the eye, could take a character for something else than itself: controls of ASCII and of
/// Latin-1, separators of lines, and what turns or hides text.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text on one line, with everything hostile escaped.
pub(crate) fn line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if !is_hostile(c) => safe.push(c),
            '\n' | '\r' | '\t' => safe.extend(c.escape_default()),
            c => safe.extend(c.escape_unicode()),
        }
    }
    safe
}

/// As [`line`], but line breaks stay: for texts that we lay out.
pub(crate) fn block(text: &str) -> String {
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// JSON text with everything hostile in its strings written as an escape of JSON. Outside of strings JSON has none of it.
pub(crate) fn json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || !is_hostile(c) {
            safe.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _writing_to_a_string = write!(safe, "\\u{unit:04x}");
        }
    }
    safe
}

/// The text as one word of a shell's line: what stands in it is run by no shell.
pub(crate) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,=".contains(c);
    let mut chars = text.chars();
    // A tilde means something only at the beginning.
    if chars.next().is_some_and(is_plain) && chars.all(|c| is_plain(c) || c == '~') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The first `most` characters, and how many are left out; the whole text where that would be no shorter.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let more = text.chars().count().saturating_sub(most);
    let note = format!("… ({more} more characters: --full)");
    match text.char_indices().nth(most) {
        Some((at, _)) if more > note.chars().count() => text.get(..at).unwrap_or_default().to_owned() + &note,
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hostile_leaves() {
        let hostile = "a\u{1b}[31m\u{9b}2J\u{7}\r\n\u{202e}gpj\u{7f}\u{200b}é漢😀";
        assert_eq!(line(hostile), "a\\u{1b}[31m\\u{9b}2J\\u{7}\\r\\n\\u{202e}gpj\\u{7f}\\u{200b}é漢😀");
        assert_eq!(block("a\nb\u{1b}c"), "a\nb\\u{1b}c");
    }

    #[test]
    fn safe_json_says_the_same() {
        let value = serde_json::json!({"k\u{9b}": "\u{1b}]0;x\u{7}\u{202e}\u{e0041}é\u{7f}"});
        let safe = json(&serde_json::to_string(&value).unwrap());
        assert!(!safe.chars().any(is_hostile), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }

    #[test]
    fn a_shell_runs_nothing_of_a_word() {
        for plain in ["order-7~2", "schedule:nightly:2026-11-24T03:00:00Z", "3.b0.1:search"] {
            assert_eq!(word(plain), plain);
        }
        for text in ["", "a b", "$(touch x)", "a;b", "`c`", "it's", "~root", "a*", "*", "é", "a'$(b)'"] {
            let echo = format!("printf %s {}", word(text));
            let said = std::process::Command::new("sh").args(["-c", &echo]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), text);
        }
    }

    #[test]
    fn what_is_cut_says_how_much() {
        assert_eq!(cut("häh", 3), "häh");
        // What would say that it is cut is no shorter than what it hides.
        assert_eq!(cut(&"ä".repeat(33), 3), "ä".repeat(33));
        assert_eq!(cut(&"ä".repeat(50), 3), "äää… (47 more characters: --full)");
    }
}
