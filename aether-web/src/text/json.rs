//! JSON as people read it: indented, with colours, and cut where it is long.

use std::fmt::Write as _;

use aether_core::payload::Payload;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::text::exact::{Exact, quoted};

/// Most bytes of a value on a page.
pub(crate) const MOST: usize = 64 * 1024;
/// Most bytes of a value about which somebody decides.
pub(crate) const MOST_DECIDED: usize = 1024 * 1024;

/// A value as it stands on a page. The text is HTML that was escaped here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Escaped HTML.
    pub(crate) html: String,
    /// How many bytes were left out.
    pub(crate) cut: usize,
}

impl Shown {
    /// A recorded value.
    pub(crate) fn payload(payload: &Payload) -> Self {
        Self::payload_within(payload, MOST)
    }

    /// A recorded value about which somebody decides: whole, unless it is longer than any form is.
    pub(crate) fn decided(payload: &Payload) -> Self {
        Self::payload_within(payload, MOST_DECIDED)
    }

    fn payload_within(payload: &Payload, most: usize) -> Self {
        match Exact::read(payload.as_str()) {
            Some(value) => Self::exact_within(&value, most),
            None => Self::text_within(payload.as_str(), most),
        }
    }

    pub(crate) fn value(value: &Value) -> Self {
        Self::json(&value.to_string())
    }

    /// JSON text.
    pub(crate) fn json(text: &str) -> Self {
        Exact::read(text).map_or_else(|| Self::text(text), |value| Self::exact_within(&value, MOST))
    }

    fn exact_within(value: &Exact, most: usize) -> Self {
        // A text alone is read as a text.
        if let Exact::Text(text) = value
            && text.contains('\n')
        {
            return Self::text_within(text, most);
        }
        let mut writer = Writer { html: String::new(), room: most, left_out: 0 };
        writer.value(value, 0);
        Self { html: writer.html, cut: writer.left_out }
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::text_within(text, MOST)
    }

    fn text_within(text: &str, most: usize) -> Self {
        let kept = head(text, most);
        Self { html: escape(kept), cut: text.len() - kept.len() }
    }
}

/// The beginning of a text, at most so many bytes.
pub(crate) fn head(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// A text in one line, at most so many characters.
pub(crate) fn line(text: &str, most: usize) -> String {
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() > most {
        words = words.chars().take(most.saturating_sub(1)).collect();
        words.push('…');
    }
    words
}

/// The indented text of a value, without colours: for forms and differences.
pub(crate) fn pretty(payload: &Payload) -> String {
    Exact::read(payload.as_str()).map_or_else(|| payload.as_str().to_owned(), |value| value.pretty())
}

/// Escapes a text for HTML, also inside of attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

/// A short text that is another one where the texts are.
pub(crate) fn mark<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.as_ref().as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

struct Writer {
    html: String,
    /// How many bytes still fit.
    room: usize,
    left_out: usize,
}

impl Writer {
    fn value(&mut self, value: &Exact, depth: usize) {
        match value {
            Exact::Object(fields) if !fields.is_empty() => {
                self.plain("{");
                for (at, (name, value)) in fields.iter().enumerate() {
                    self.next_line(at, depth + 1);
                    self.coloured("k", &quoted(name));
                    self.plain(": ");
                    self.value(value, depth + 1);
                }
                self.next_line(0, depth);
                self.plain("}");
            }
            Exact::Array(items) if !items.is_empty() => {
                self.plain("[");
                for (at, value) in items.iter().enumerate() {
                    self.next_line(at, depth + 1);
                    self.value(value, depth + 1);
                }
                self.next_line(0, depth);
                self.plain("]");
            }
            Exact::Text(text) => self.coloured("s", &quoted(text)),
            Exact::Number(text) => self.coloured("n", text),
            Exact::Word(text) => self.coloured("b", text),
            Exact::Object(_) => self.plain("{}"),
            Exact::Array(_) => self.plain("[]"),
        }
    }

    fn next_line(&mut self, at: usize, depth: usize) {
        self.plain(if at > 0 { ",\n" } else { "\n" });
        self.plain(&"  ".repeat(depth.min(64)));
    }

    fn plain(&mut self, text: &str) {
        let kept = self.keep(text);
        self.html.push_str(&escape(kept));
    }

    fn coloured(&mut self, class: &'static str, text: &str) {
        let kept = escape(self.keep(text));
        if !kept.is_empty() {
            let _a_string_takes_all = write!(self.html, "<span class=\"{class}\">{kept}</span>");
        }
    }

    /// What still fits.
    fn keep<'t>(&mut self, text: &'t str) -> &'t str {
        let kept = head(text, self.room);
        self.room -= kept.len();
        self.left_out += text.len() - kept.len();
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_of_a_value_is_markup() {
        let hostile = json!({ "</pre><script>": ["<img src=x onerror=alert(1)>", "\"'&"] });
        let html = Shown::value(&hostile).html;
        let without_colours = html.replace("</span>", "");
        let without_colours = ["k", "s", "n", "b"]
            .iter()
            .fold(without_colours, |html, class| html.replace(&format!("<span class=\"{class}\">"), ""));
        assert!(!without_colours.contains(['<', '>', '"', '\'']), "{without_colours}");
        assert!(html.contains("&lt;/pre&gt;&lt;script&gt;"));
    }

    #[test]
    fn a_long_value_is_cut_between_characters_and_says_how_much_is_missing() {
        let long = "ä".repeat(MOST);
        let shown = Shown::text(&long);
        assert_eq!((shown.html.len(), shown.cut), (MOST, MOST));
        let shown = Shown::value(&json!([long, long]));
        assert!(shown.html.len() < MOST + 200 && shown.cut > 3 * MOST - 100, "{}", shown.cut);
    }
}
