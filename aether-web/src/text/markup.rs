//! Pages as they leave the console.
//!
//! Promise: no character that turns the direction of a text leaves as it is, wherever on a page it stands: it could make a
//! line read as another one.

use std::fmt::Write as _;

use askama::Template;

/// Whether a character turns the direction of the text around it, or is a mark without width that does.
pub(crate) fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A template as text. What turns the direction stands there as an escape, `\u{202e}`.
pub(crate) fn rendered(template: &impl Template) -> Result<String, askama::Error> {
    template.render().map(straight)
}

/// A text with what turns its direction as escapes.
pub(crate) fn straight(text: String) -> String {
    if !text.contains(turns) {
        return text;
    }
    let mut shown = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if turns(c) {
            let _a_string_takes_all = write!(shown, "\\u{{{:x}}}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A text for a hidden field, which comes back as it is: nobody reads it there, so nothing of it is replaced.
pub(crate) fn hidden(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        if turns(c) || "&<>\"'\r\n".contains(c) {
            let _a_string_takes_all = write!(html, "&#{};", u32::from(c));
        } else {
            html.push(c);
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_direction_is_turned_and_hidden_fields_keep_what_they_hold() {
        assert_eq!(straight("a\u{202e}b\u{200f}\u{61c}ä".to_owned()), "a\\u{202e}b\\u{200f}\\u{61c}ä");
        assert_eq!(hidden("<a\u{202e}\">"), "&#60;a&#8238;&#34;&#62;");
        assert_eq!(straight(hidden("a\u{202e}")), "a&#8238;");
    }
}
