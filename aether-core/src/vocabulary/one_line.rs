//! Text from outside inside of a line.
//!
//! Promise: what is in it begins no line of its own.

/// The text with its control characters as escapes.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}
