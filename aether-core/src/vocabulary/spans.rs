//! Parts of a text that are secrets: where they end, and which of those that overlap are kept by themselves.
//!
//! Promise: the work and the memory are proportional to the length of the text, whatever is in it.

use std::ops::Range;

/// The values in a text, from places that come one behind the other.
pub(crate) struct Values<'t> {
    text: &'t str,
    /// The newest one that was looked for.
    newest: Range<usize>,
}

impl<'t> Values<'t> {
    pub(crate) fn of(text: &'t str) -> Self {
        Self { text, newest: 0..0 }
    }

    /// The value that begins at `start`. Many may end where the newest one does: `token=token=token=..`
    pub(crate) fn from(&mut self, start: usize) -> Range<usize> {
        let ends = |c: char| c.is_whitespace() || matches!(c, '&' | '#' | '"' | '\'' | '<' | '>' | ',' | ';');
        if !(self.newest.start..self.newest.end).contains(&start) {
            let rest = &self.text[start..];
            self.newest = start..start + rest.find(ends).unwrap_or(rest.len());
        }
        start..self.newest.end
    }
}

/// The values of members whose names are secret, in a text that is no JSON but has some in it, such as a part of an answer
/// that an error quotes; also quoted several times: `\"password\":\"..`. What is cut off counts as the value.
pub(crate) fn members(text: &str, is_secret: impl Fn(&str) -> bool) -> Vec<Range<usize>> {
    let (mut found, mut from) = (Vec::new(), 0);
    for (at, _) in text.match_indices(':') {
        let named = at.checked_sub(from).and_then(|_| quoted_before(&text[from..at])).is_some_and(&is_secret);
        if named && let Some(value) = value_at(text, at + 1) {
            from = value.end;
            found.push(value);
        }
    }
    found
}

/// The name that stands in quotes at the end of a text.
fn quoted_before(text: &str) -> Option<&str> {
    let name = text.trim_ascii_end().strip_suffix('"')?.trim_end_matches('\\');
    let before = name.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    before.ends_with('"').then_some(&name[before.len()..])
}

/// The value that begins here: what is in its quotes, the digits of a number, or an array or an object.
fn value_at(text: &str, at: usize) -> Option<Range<usize>> {
    let value = text[at..].trim_ascii_start();
    let inner = value.trim_start_matches('\\');
    let (depth, start) = (value.len() - inner.len(), text.len() - inner.len());
    let end = match inner.chars().next()? {
        '"' => return Some(start + 1..start + 1 + length_of(&inner[1..], depth)),
        '0'..='9' | '-' if depth == 0 => {
            inner.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(inner.len())
        }
        '[' | '{' if depth == 0 => nested_length(inner),
        _ => return None,
    };
    Some(start..start + end)
}

/// The length of an array or an object; where it is not closed, all that follows belongs to it.
fn nested_length(text: &str) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => depth += 1,
            b']' | b'}' if !quoted => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

/// The length of a string that is quoted so deep: a quote of its own has more backslashes before it.
fn length_of(text: &str, depth: usize) -> usize {
    let mut backslashes = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'\\' => backslashes += 1,
            b'"' if backslashes <= depth => return at - backslashes,
            _ => backslashes = 0,
        }
    }
    text.len()
}

/// Spans in order of their starts, with those that overlap made one: of neither a rest may stay.
pub(crate) fn merged(spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::with_capacity(spans.len());
    for span in spans {
        match all.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            _ => all.push(span),
        }
    }
    all
}

/// So many of the first spans that overlap are kept by themselves, and as many of the last.
pub(crate) const WITHIN: usize = 4;

/// The spans, in order of their starts, of which each may be a secret by itself: those that overlap, some of them where
/// there are very many; then what they cover together.
pub(crate) fn telling(spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let whole = merged(spans.clone());
    let (mut telling, mut rest) = (Vec::new(), &spans[..]);
    for span in &whole {
        let (within, others) = rest.split_at(rest.partition_point(|inner| inner.start < span.end));
        rest = others;
        let (first, last) = match within.len() {
            many if many > 2 * WITHIN => (WITHIN, many - WITHIN),
            few => (few, few),
        };
        telling.extend_from_slice(&within[..first]);
        telling.extend_from_slice(&within[last..]);
    }
    telling.extend(whole);
    telling
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_where_its_text_says_so() {
        let text = "a=b=c d=e";
        let mut values = Values::of(text);
        let found: Vec<_> = text.match_indices('=').map(|(at, _)| &text[values.from(at + 1)]).collect();
        assert_eq!(found, ["b=c", "c", "e"]);
        assert_eq!(Values::of("").from(0), 0..0);
    }

    #[test]
    fn members_are_found_in_texts_that_are_no_json() {
        let cases: [(&str, &[&str]); 10] = [
            (r#"status 401: {"a":1,"password" : "hunter2","b":2}"#, &["hunter2"]),
            (r#"status 401: "{\"password\":\"hun\\\"ter2\",\"b\":2}""#, &[r#"hun\\\"ter2"#]),
            (r#"{"password":"hunt"#, &["hunt"]),
            (r#"{"password":"a\"b"} and {"password":12}"#, &[r#"a\"b"#, "12"]),
            (r#"{"password":{"of":"a}n"}, ..."#, &[r#"{"of":"a}n"}"#]),
            (r#"{"password":[{"of":"ann"}, ..."#, &[r#"[{"of":"ann"}, ..."#]),
            (r#"{"password":"\"password\":\"x\""}"#, &[r#"\"password\":\"x\""#]),
            (r#"{"name":"password", "password":null, password:"x", "password":***"#, &[]),
            (r#"{"password":"","#, &[""]),
            (r#"é"password":é"password":"é""#, &["é"]),
        ];
        for (text, expected) in cases {
            let found: Vec<_> =
                members(text, |name| name == "password").into_iter().map(|at| &text[at]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn few_spans_are_all_kept_and_of_many_the_first_and_the_last() {
        assert_eq!(telling(vec![0..9, 3..9, 12..14]), [0..9, 3..9, 12..14, 0..9, 12..14]);
        let many: Vec<_> = (0..100).map(|start| start..100).collect();
        let kept: Vec<_> = telling(many).into_iter().map(|span| span.start).collect();
        assert_eq!(kept, [0, 1, 2, 3, 96, 97, 98, 99, 0]);
    }
}
