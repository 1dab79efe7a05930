//! The variables whose types are known wherever they stand.
//!
//! Promise: a question about a type must not stand where it is inferred only later. What is not known here may still be.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Block, ExprClosure, FnArg, Ident, Pat, PatIdent, PatType, Signature, Type};

/// The names of a function's variables.
#[derive(Debug, Default)]
pub(super) struct KnownTypes {
    /// Those that are bound with a type.
    typed: BTreeSet<Ident>,
    /// Those that are bound without one, also those that hide another one.
    untyped: BTreeSet<Ident>,
    /// Of these, the parameters of closures, whose types may follow from a later call.
    parameters: BTreeSet<Ident>,
}

impl KnownTypes {
    pub(super) fn of(signature: &Signature, body: &Block) -> Self {
        let mut known = Self::default();
        for input in &signature.inputs {
            if let FnArg::Typed(input) = input {
                known.visit_pat_type(input);
            }
        }
        known.visit_block(body);
        known
    }

    /// Whether the type of a variable was written.
    pub(super) fn is_written(&self, name: &Ident) -> bool {
        self.typed.contains(name) && !self.untyped.contains(name)
    }

    /// Whether a variable may be a parameter of a closure.
    pub(super) fn is_of_closure(&self, name: &Ident) -> bool {
        self.parameters.contains(name)
    }
}

impl<'ast> Visit<'ast> for KnownTypes {
    fn visit_pat_type(&mut self, pat: &'ast PatType) {
        match &*pat.pat {
            Pat::Ident(name) if !matches!(&*pat.ty, Type::Infer(_)) => {
                self.typed.insert(name.ident.clone());
            }
            _ => visit::visit_pat_type(self, pat),
        }
    }

    fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
        self.untyped.insert(pat.ident.clone());
        visit::visit_pat_ident(self, pat);
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        let outer = std::mem::take(&mut self.untyped);
        closure.inputs.iter().for_each(|input| self.visit_pat(input));
        self.parameters.extend(self.untyped.iter().cloned());
        self.untyped.extend(outer);
        visit::visit_expr_closure(self, closure);
    }
}
