//! The paths in tokens that are no expression.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::parse::Parser as _;
use syn::{Path, Token};

/// The paths in tokens that are no expression, as far as they can be told: two names or more.
pub(crate) fn paths_in(tokens: &TokenStream) -> Vec<Path> {
    let mut found = Vec::new();
    let mut path = TokenStream::new();
    let mut colons = 0;
    let mut finish = |path: &mut TokenStream| {
        let path = std::mem::take(path);
        if let Ok(path) = Path::parse_mod_style.parse2(path)
            && path.segments.len() > 1
        {
            found.push(path);
        }
    };
    let mut inner = Vec::new();
    for token in tokens.clone() {
        match &token {
            TokenTree::Ident(_) => {
                if colons != 2 {
                    finish(&mut path);
                }
                path.extend([token]);
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() && colons < 2 => {
                colons += 1;
                if colons == 2 {
                    path.extend(<Token![::]>::default().to_token_stream());
                }
            }
            other => {
                finish(&mut path);
                colons = 0;
                if let TokenTree::Group(group) = other {
                    inner.extend(paths_in(&group.stream()));
                }
            }
        }
    }
    finish(&mut path);
    found.extend(inner);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_opaque_tokens_are_found() {
        let found: Vec<String> = paths_in(&"let t = a::b(c: d::e, [f::g::h]); i".parse().unwrap())
            .iter()
            .map(|path| path.to_token_stream().to_string().replace(' ', ""))
            .collect();
        assert_eq!(found, ["a::b", "d::e", "f::g::h"]);
    }
}
