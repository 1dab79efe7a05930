//! Where `cfg` may take a piece of code away.
//!
//! Promise: where a body has no `cfg` at all, as nearly every one, no piece of it is looked at again.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::Visit;
use syn::{Attribute, Block, Macro};

/// The pieces of one body that are conditional.
pub(crate) struct Conditions {
    has_some: bool,
}

impl Conditions {
    pub(crate) fn of(body: &Block) -> Self {
        let mut found = Self { has_some: false };
        found.visit_block(body);
        found
    }

    /// Whether `cfg` may take this piece of the body away.
    pub(crate) fn guard(&self, code: &impl ToTokens) -> bool {
        self.has_some && has_leading_cfg(code.to_token_stream())
    }
}

impl<'ast> Visit<'ast> for Conditions {
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        self.has_some |= attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr");
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        self.has_some |= mac.tokens.to_string().contains("cfg");
    }
}

fn has_leading_cfg(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter();
    while let (Some(TokenTree::Punct(hash)), Some(TokenTree::Group(group))) = (tokens.next(), tokens.next()) {
        let name = group.stream().into_iter().next().map(|token| token.to_string()).unwrap_or_default();
        if hash.as_char() == '#' && (name == "cfg" || name == "cfg_attr") {
            return true;
        }
    }
    false
}
