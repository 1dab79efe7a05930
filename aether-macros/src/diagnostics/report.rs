//! Diagnostics to compiler errors: message with its code, why it matters, how to mend it.
//!
//! Promise: all that is wrong is told at once, each mistake once.

use std::fmt::Display;

use proc_macro2::Span;
use quote::ToTokens;

use super::code::Code;

/// Something suspicious that compiles.
pub(crate) struct Warning {
    pub(crate) span: Span,
    pub(crate) text: String,
}

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
        self.report_because(at, code, message, code.why, help);
    }

    /// Adds a mistake with a reason and a remedy made for this very case.
    pub(crate) fn report_because(
        &mut self,
        at: impl ToTokens,
        code: &Code,
        message: impl Display,
        why: &str,
        help: impl Display,
    ) {
        let text = format!("[{}] {message}\n  why: {why}\n  help: {help}", code.id);
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
