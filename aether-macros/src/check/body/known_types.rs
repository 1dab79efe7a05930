//! The variables whose types are known wherever they stand.
//!
//! Promise: a question about a type must not stand where it is inferred only later. What is not known here may still be.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{
    Block, Expr, ExprClosure, FnArg, Ident, Item, Local, LocalInit, Macro, Pat, PatIdent, PatType, Signature,
    Type, TypeInfer,
};

use crate::syntax::arguments;

/// Functions and methods that give what is asked of them later.
const OF_ANY_TYPE: &[&str] =
    &["collect", "default", "into", "parse", "product", "sum", "try_into", "unwrap_or_default"];

/// The names of a function's variables.
#[derive(Debug, Default)]
pub(super) struct KnownTypes {
    /// Those that are bound with a type, or to what a function gives.
    typed: BTreeSet<Ident>,
    /// Those that are bound in another way, also those that hide another one.
    untyped: BTreeSet<Ident>,
    /// Of these, those that are bound in closures: their types may follow from a later call.
    in_closures: BTreeSet<Ident>,
    /// In so many closures.
    depth: usize,
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

    /// Whether the type of a variable is known where it is bound.
    pub(super) fn has(&self, name: &Ident) -> bool {
        self.typed.contains(name) && !self.untyped.contains(name)
    }

    /// Whether a variable without a type may be one of a closure.
    pub(super) fn is_of_closure(&self, name: &Ident) -> bool {
        self.in_closures.contains(name)
    }
}

impl<'ast> Visit<'ast> for KnownTypes {
    fn visit_pat_type(&mut self, pat: &'ast PatType) {
        match &*pat.pat {
            Pat::Ident(name) if is_whole(&pat.ty) => {
                self.typed.insert(name.ident.clone());
            }
            _ => visit::visit_pat_type(self, pat),
        }
    }

    fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
        self.untyped.insert(pat.ident.clone());
        if self.depth > 0 {
            self.in_closures.insert(pat.ident.clone());
        }
        visit::visit_pat_ident(self, pat);
    }

    fn visit_local(&mut self, local: &'ast Local) {
        match (&local.pat, &local.init) {
            (Pat::Ident(name), Some(LocalInit { expr, .. })) if is_called(expr) => {
                self.typed.insert(name.ident.clone());
                self.visit_expr(expr);
            }
            _ => visit::visit_local(self, local),
        }
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        self.depth += 1;
        visit::visit_expr_closure(self, closure);
        self.depth -= 1;
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        arguments::visit_arguments(self, mac);
    }

    fn visit_item(&mut self, _: &'ast Item) {}
}

/// Whether nothing in a type is left to be inferred.
fn is_whole(ty: &Type) -> bool {
    struct Inferred(bool);
    impl<'ast> Visit<'ast> for Inferred {
        fn visit_type_infer(&mut self, _: &'ast TypeInfer) {
            self.0 = true;
        }
    }
    let mut inferred = Inferred(false);
    inferred.visit_type(ty);
    !inferred.0
}

/// Whether a value is what a function gives that is called by its name, or a copy of a field.
fn is_called(value: &Expr) -> bool {
    match value {
        Expr::Try(inner) => is_called(&inner.expr),
        Expr::Await(inner) => is_called(&inner.base),
        Expr::Call(call) => match (&*call.func, call.args.first()) {
            // The gate before an await.
            (Expr::Path(gate), Some(inner))
                if gate.path.segments.iter().any(|part| part.ident == "__private") =>
            {
                is_called(inner)
            }
            (Expr::Path(_), _) => has_type(value),
            _ => false,
        },
        Expr::MethodCall(call) => call.method == "clone" && matches!(&*call.receiver, Expr::Field(_)),
        _ => false,
    }
}

/// Whether a value has a type of its own, and not whichever is asked of it.
pub(super) fn has_type(value: &Expr) -> bool {
    let is_of_any_type = |name: &Ident| {
        let name = name.to_string();
        OF_ANY_TYPE.contains(&&*name) || name.starts_with("from")
    };
    match value {
        Expr::Try(inner) => has_type(&inner.expr),
        Expr::Await(inner) => has_type(&inner.base),
        Expr::MethodCall(call) => !is_of_any_type(&call.method),
        Expr::Call(call) => match &*call.func {
            Expr::Path(function) => {
                function.path.segments.last().is_some_and(|last| !is_of_any_type(&last.ident))
            }
            _ => true,
        },
        _ => true,
    }
}
