//! Diagnostics to compiler errors: message with its code, why it matters, how to mend it.
//!
//! Promise: all that is wrong is told at once, each mistake once.

use std::fmt::Display;

use proc_macro2::Span;
use quote::ToTokens;

use crate::code::Code;
use crate::ir::Warning;

/// Everything found wrong so far.
#[derive(Default)]
pub(crate) struct Diagnostics {
    error: Option<syn::Error>,
    warnings: Vec<Warning>,
}

impl Diagnostics {
    /// Adds a mistake with the catalogue's reason and remedy.
    pub(crate) fn report(&mut self, at: impl ToTokens, code: &Code, message: impl Display) {
        self.report_with(at, code, message, code.help);
    }

    /// Adds a mistake with a remedy made for this very case.
    pub(crate) fn report_with(
        &mut self,
        at: impl ToTokens,
        code: &Code,
        message: impl Display,
        help: impl Display,
    ) {
        let text = format!("[{}] {message}\n  why: {}\n  help: {help}", code.id, code.why);
        self.add(syn::Error::new_spanned(at, text));
    }

    /// Adds something suspicious, which compiles with a warning.
    pub(crate) fn warn(&mut self, at: impl ToTokens, code: &Code, message: impl Display, help: impl Display) {
        let text = format!("[{}] {message}\n  why: {}\n  help: {help}", code.id, code.why);
        // The last token, so that the warning does not underline a whole path.
        let span = at.to_token_stream().into_iter().last().map_or_else(Span::call_site, |token| token.span());
        self.warnings.push(Warning { span, text });
    }

    /// What is suspicious.
    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// Adds an error that has its text already.
    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.error {
            Some(all) => all.combine(error),
            None => self.error = Some(error),
        }
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.error.is_none()
    }

    /// All mistakes in one error.
    pub(crate) fn into_error(self) -> Option<syn::Error> {
        self.error
    }
}

/// The candidate that `word` was probably meant to be.
pub(crate) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let best = candidates.iter().min_by_key(|candidate| distance(word, candidate))?;
    (distance(word, best) <= (best.len() / 3).max(1)).then_some(best)
}

/// `: did you mean `x`?` or nothing.
pub(crate) fn did_you_mean(word: &str, candidates: &[&str]) -> String {
    nearest(word, candidates).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// Edit distance with swapped neighbours counted once (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let swap = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + swap);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        assert_eq!(nearest("efect", &["effect", "retry"]), Some("effect"));
        assert_eq!(nearest("rtery", &["effect", "retry"]), Some("retry"));
        assert_eq!(nearest("rterx", &["effect", "retry"]), None);
        assert_eq!(nearest("approval", &["effect", "retry"]), None);
    }
}
