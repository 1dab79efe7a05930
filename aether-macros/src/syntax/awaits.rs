//! Whether tokens hold an await.

use proc_macro2::{TokenStream, TokenTree};

/// Whether tokens hold an `.await`.
pub(crate) fn contains_await(tokens: &TokenStream) -> bool {
    let mut after_dot = false;
    for token in tokens.clone() {
        match &token {
            TokenTree::Ident(ident) if after_dot && ident == "await" => return true,
            TokenTree::Group(group) if contains_await(&group.stream()) => return true,
            _ => {}
        }
        after_dot = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '.');
    }
    false
}
