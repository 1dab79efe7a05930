//! Where generated code seems to stand, which is where the compiler points when it refuses it.

use proc_macro2::{Group, Span, TokenStream, TokenTree};

/// The same tokens, as if they stood at another place. What their names mean does not change.
pub(crate) fn placed_at(tokens: TokenStream, at: Span) -> TokenStream {
    let moved = tokens.into_iter().map(|token| match token {
        TokenTree::Group(group) => {
            let mut moved = Group::new(group.delimiter(), placed_at(group.stream(), at));
            moved.set_span(group.span().located_at(at));
            TokenTree::Group(moved)
        }
        mut token => {
            token.set_span(token.span().located_at(at));
            token
        }
    });
    moved.collect()
}
