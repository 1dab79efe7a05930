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
    fn few_spans_are_all_kept_and_of_many_the_first_and_the_last() {
        assert_eq!(telling(vec![0..9, 3..9, 12..14]), [0..9, 3..9, 12..14, 0..9, 12..14]);
        let many: Vec<_> = (0..100).map(|start| start..100).collect();
        let kept: Vec<_> = telling(many).into_iter().map(|span| span.start).collect();
        assert_eq!(kept, [0, 1, 2, 3, 96, 97, 98, 99, 0]);
    }
}
