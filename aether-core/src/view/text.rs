//! Texts from outside on one line.

use std::fmt;

/// A text from outside, escaped so that it cannot end a line or move the cursor, and so cannot forge an entry.
pub(super) struct OneLine<'a>(pub(super) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\u{2028}' | '\u{2029}' => write!(f, "{}", c.escape_unicode()),
            c if c.is_control() => write!(f, "{}", c.escape_default()),
            c => write!(f, "{c}"),
        })
    }
}
