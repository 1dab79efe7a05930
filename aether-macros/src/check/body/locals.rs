//! The names that a body binds itself.
//!
//! Promise: a name that a parameter, a pattern or the arguments of a macro bind anywhere in the body is known.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};
use syn::{Block, FnArg, Ident, Macro, Pat, PatIdent, Signature};

use super::places::hash_type;
use crate::syntax::arguments::Given;
use crate::syntax::known_macros;

/// The names that are bound in a body.
#[derive(Default)]
pub(crate) struct Locals {
    /// Names bound by patterns.
    bound: BTreeSet<String>,
    /// Names in tokens of macros that are no expression, which may bind them.
    opaque: BTreeSet<String>,
    /// Parameters that are hash collections.
    hashed: BTreeSet<String>,
}

impl Locals {
    /// Looks for them in a function.
    pub(crate) fn of(signature: &Signature, body: &Block) -> Self {
        let mut locals = Self::default();
        locals.visit_signature(signature);
        locals.visit_block(body);
        let hashed = signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(typed) => match (&*typed.pat, hash_type(&typed.ty)) {
                (Pat::Ident(pat), true) => Some(text(&pat.ident)),
                _ => None,
            },
            FnArg::Receiver(_) => None,
        });
        locals.hashed = hashed.collect();
        locals
    }

    /// Whether a pattern binds `name`.
    pub(crate) fn binds(&self, name: &str) -> bool {
        self.bound.contains(name)
    }

    /// Whether `name` may be bound, by a pattern or by a macro.
    pub(crate) fn may_bind(&self, name: &Ident) -> bool {
        let name = text(name);
        name == "self" || self.bound.contains(&name) || self.opaque.contains(&name)
    }

    /// Whether `name` is a parameter that is a hash collection.
    pub(crate) fn is_hashed(&self, name: &str) -> bool {
        self.hashed.contains(name)
    }

    fn mention(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => drop(self.opaque.insert(text(&ident))),
                TokenTree::Group(group) => self.mention(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Locals {
    fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
        self.bound.insert(text(&pat.ident));
        visit::visit_pat_ident(self, pat);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        if !known_macros::is_known(mac) {
            self.mention(mac.tokens.clone());
        }
        let arguments = match Given::of(mac) {
            Given::Statements(block) => return Visit::visit_block(self, &block),
            Given::Arguments(arguments) => arguments,
        };
        for piece in arguments.pieces {
            self.mention(piece.lead);
            if let Some(expr) = piece.expr {
                Visit::visit_expr(self, &expr);
            }
        }
    }
}

fn text(ident: &Ident) -> String {
    ident.unraw().to_string()
}
