//! Two texts that hold the same in another order: most likely the elements of a hash collection.
//!
//! Promise: nothing is said unless one text is the other with its characters in another order.

/// How the line begins.
const LINE: &str = "\n  order:  ";

/// The line that [`reordered`] put at the end of a text, or nothing.
pub(crate) fn order_line(text: &str) -> &str {
    text.find(LINE).map_or("", |at| &text[at..])
}

/// A line that names the field whose elements have another order, or nothing.
pub(crate) fn reordered(first: &str, second: &str) -> String {
    if first == second || letters(first) != letters(second) {
        return String::new();
    }
    let same = first.chars().zip(second.chars()).take_while(|(one, other)| one == other);
    let before: String = same.map(|(letter, _)| letter).collect();
    let what = field(&before).map_or_else(|| "both".to_owned(), |field| format!("`{field}`"));
    format!(
        "{LINE}{what} {} the same in another order, as the elements of a `HashMap` or `HashSet` are in every process: use a `BTreeMap`, or sort",
        if what == "both" { "hold" } else { "holds" }
    )
}

fn letters(text: &str) -> Vec<char> {
    let mut letters: Vec<char> = text.chars().collect();
    letters.sort_unstable();
    letters
}

/// The name of the innermost field that begins in `text` and does not end there: of `"name":` or `name=`.
fn field(text: &str) -> Option<&str> {
    let member = text.rfind("\":").map(|end| (end, text[..end].rfind('"').map_or(0, |quote| quote + 1)));
    let outer = text.rfind('=').map(|end| (end, text[..end].rfind(' ').map_or(0, |space| space + 1)));
    let (end, begin) = member.into_iter().chain(outer).max()?;
    text.get(begin..end).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::reordered;

    #[test]
    fn the_field_of_another_order_is_named() {
        let one = r#"node_started 1:send args={"to":"ann","tags":["a","b"]} at src/a.rs:3"#;
        let other = r#"node_started 1:send args={"to":"ann","tags":["b","a"]} at src/a.rs:3"#;
        assert!(reordered(one, other).contains("`tags` holds the same in another order"));
        let (one, other) = ("run_completed output=\"k1 k2\"", "run_completed output=\"k2 k1\"");
        assert!(reordered(one, other).contains("`output` holds"));
    }

    #[test]
    fn other_differences_are_none_of_order() {
        assert_eq!(reordered("output=1", "output=2"), "");
        assert_eq!(reordered("output=1", "output=1"), "");
    }
}
