//! What the closures of a chain of calls do with the keys of a hash collection that a map is filled from.
//!
//! Promise: a chain is said to keep keys only where two elements with different keys cannot come out with one, for then the
//! last of them would stay in a map, and which one that is depends on the order.

use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprAssign, ExprBinary, ExprClosure, Ident, Pat, PatIdent, Stmt};

use crate::syntax::operators::is_assignment;

/// Whether the closures of a chain of calls hand on the keys that they get.
pub(crate) fn keeps(chain: &Expr) -> bool {
    let Expr::MethodCall(call) = chain else { return true };
    let makes = matches!(call.method.to_string().as_str(), "map" | "filter_map" | "flat_map");
    // A function by its name may do anything.
    let hands_on = |argument: &Expr| matches!(argument, Expr::Closure(closure) if hands_on(closure));
    (!makes || call.args.iter().all(hands_on)) && keeps(&call.receiver)
}

/// Whether the closures of a chain of calls change nothing: one that counts would count in another order.
pub(crate) fn assigns_nothing(chain: &Expr) -> bool {
    let Expr::MethodCall(call) = chain else { return true };
    let assigns = |argument: &Expr| matches!(argument, Expr::Closure(_)) && assigns(argument);
    !call.args.iter().any(assigns) && assigns_nothing(&call.receiver)
}

/// Whether a closure gives back what it gets, or a pair with the first half of the pair that it gets.
fn hands_on(closure: &ExprClosure) -> bool {
    let Some(key) = closure.inputs.first().and_then(key_of) else { return false };
    gives(&closure.body, key)
}

/// Whether an expression gives a key as it is, a pair with it, an `Option` of one of them, or nothing.
fn gives(expr: &Expr, key: &Ident) -> bool {
    match expr {
        Expr::Path(path) => path.path.is_ident(key) || path.path.is_ident("None"),
        Expr::Paren(inner) => gives(&inner.expr, key),
        Expr::Group(inner) => gives(&inner.expr, key),
        Expr::Reference(inner) => gives(&inner.expr, key),
        Expr::Unary(inner) => matches!(inner.op, syn::UnOp::Deref(_)) && gives(&inner.expr, key),
        Expr::Tuple(pair) => pair.elems.first().is_some_and(|first| gives(first, key)),
        Expr::Block(block) => ends_with(&block.block, key),
        Expr::If(branches) => {
            let otherwise = branches.else_branch.as_ref().is_some_and(|(_, otherwise)| gives(otherwise, key));
            let is_hidden = is_bound(key, |names| names.visit_expr(&branches.cond));
            otherwise && !is_hidden && ends_with(&branches.then_branch, key)
        }
        Expr::Match(arms) => arms.arms.iter().all(|arm| !binds(&arm.pat, key) && gives(&arm.body, key)),
        Expr::Call(call) => {
            let is_some = matches!(&*call.func, Expr::Path(function) if function.path.is_ident("Some"));
            is_some && call.args.first().is_some_and(|given| gives(given, key))
        }
        Expr::MethodCall(call) => match (call.method.to_string().as_str(), call.args.first()) {
            ("clone" | "to_owned" | "to_string" | "into" | "as_str", None) => gives(&call.receiver, key),
            ("then_some", Some(given)) => gives(given, key),
            // `wanted.then(|| (key, value))`, `value.map(|value| (key, value))`.
            ("then" | "map", Some(Expr::Closure(closure))) => {
                !closure.inputs.iter().any(|pat| binds(pat, key)) && gives(&closure.body, key)
            }
            _ => false,
        },
        _ => false,
    }
}

fn ends_with(block: &Block, key: &Ident) -> bool {
    let Some((Stmt::Expr(last, None), before)) = block.stmts.split_last() else { return false };
    let hidden = before.iter().any(|stmt| matches!(stmt, Stmt::Local(local) if binds(&local.pat, key)));
    !hidden && gives(last, key)
}

/// The name of what a closure gets, or of the first half of a pair.
fn key_of(pat: &Pat) -> Option<&Ident> {
    match pat {
        Pat::Ident(name) => Some(&name.ident),
        Pat::Reference(inner) => key_of(&inner.pat),
        Pat::Tuple(pair) => pair.elems.first().and_then(key_of),
        Pat::Type(typed) => key_of(&typed.pat),
        _ => None,
    }
}

/// Whether a pattern gives the name to something else.
fn binds(pat: &Pat, name: &Ident) -> bool {
    is_bound(name, |names| names.visit_pat(pat))
}

/// Whether something in which patterns are looked for gives the name to something else.
fn is_bound(name: &Ident, look: impl FnOnce(&mut Names<'_>)) -> bool {
    let mut names = Names { name, found: false };
    look(&mut names);
    names.found
}

struct Names<'a> {
    name: &'a Ident,
    found: bool,
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
        self.found |= pat.ident == *self.name;
        visit::visit_pat_ident(self, pat);
    }
}

/// Whether an expression assigns something that it has not bound itself.
pub(crate) fn assigns(expr: &Expr) -> bool {
    struct Assignments<'a> {
        of: &'a Expr,
        found: bool,
    }
    impl Assignments<'_> {
        fn note(&mut self, place: &Expr) {
            let is_own = root(place).is_some_and(|name| is_bound(name, |names| names.visit_expr(self.of)));
            self.found |= !is_own;
        }
    }
    impl<'ast> Visit<'ast> for Assignments<'_> {
        fn visit_expr_assign(&mut self, expr: &'ast ExprAssign) {
            self.note(&expr.left);
            visit::visit_expr_assign(self, expr);
        }

        fn visit_expr_binary(&mut self, expr: &'ast ExprBinary) {
            if is_assignment(expr.op) {
                self.note(&expr.left);
            }
            visit::visit_expr_binary(self, expr);
        }
    }
    let mut found = Assignments { of: expr, found: false };
    found.visit_expr(expr);
    found.found
}

/// The variable in which a place is.
pub(super) fn root(place: &Expr) -> Option<&Ident> {
    match place {
        Expr::Paren(inner) => root(&inner.expr),
        Expr::Group(inner) => root(&inner.expr),
        Expr::Field(field) => root(&field.base),
        Expr::Index(index) => root(&index.expr),
        Expr::Unary(inner) => root(&inner.expr),
        Expr::Path(path) => path.path.get_ident(),
        _ => None,
    }
}
