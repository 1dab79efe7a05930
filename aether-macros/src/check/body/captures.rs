//! What the branches of a race, a join or an each change that is not their own.
//!
//! Promise: a change of a captured variable in a branch of a race is refused with the way out, where the source shows it;
//! the types refuse the others. What a branch binds itself, or moves into itself, is its own.

use std::collections::BTreeSet;

use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};
use syn::{
    Block, Expr, ExprAssign, ExprBinary, ExprClosure, ExprMethodCall, ExprReference, Ident, Item, Macro,
    PatIdent, Signature,
};

use super::linear::{bound, parameter};
use super::places;
use super::rules::methods;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::flow::gate;
use crate::syntax::arguments::{Arguments, statements};
use crate::syntax::operators::is_assignment;

/// Judges the body of a workflow.
pub(crate) fn workflow(signature: &Signature, body: &Block, diagnostics: &mut Diagnostics) {
    let contexts = signature.inputs.first().and_then(parameter).into_iter().collect();
    let mut mutable = Bound { mutable_only: true, ..Bound::default() };
    mutable.visit_signature(signature);
    mutable.visit_block(body);
    Forks { contexts, mutable: mutable.names, diagnostics }.visit_block(body);
}

struct Forks<'a> {
    /// The contexts in sight, innermost last.
    contexts: Vec<Ident>,
    /// Variables that are declared `mut`.
    mutable: BTreeSet<String>,
    diagnostics: &'a mut Diagnostics,
}

impl<'ast> Visit<'ast> for Forks<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let races = call.method == "race";
        if (races || call.method == "join" || call.method == "each") && self.is_context(&call.receiver) {
            call.args.iter().for_each(|argument| self.branches(argument, &call.method, races));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        let known = self.contexts.len();
        self.contexts.extend(closure.inputs.first().filter(|_| gate::is_branch(closure)).and_then(bound));
        visit::visit_expr_closure(self, closure);
        self.contexts.truncate(known);
    }

    fn visit_item(&mut self, _: &'ast Item) {}
}

impl Forks<'_> {
    fn is_context(&self, expr: &Expr) -> bool {
        let Expr::Path(path) = places::place(expr) else { return false };
        path.path.get_ident().is_some_and(|name| self.contexts.contains(name))
    }

    fn branches(&mut self, argument: &Expr, method: &Ident, races: bool) {
        match argument {
            Expr::Paren(inner) => self.branches(&inner.expr, method, races),
            Expr::Tuple(tuple) => tuple.elems.iter().for_each(|branch| self.branches(branch, method, races)),
            Expr::Closure(closure) => {
                let mut own = Bound::default();
                own.visit_expr_closure(closure);
                // What is moved in is changed inside only.
                let nothing = BTreeSet::new();
                let mutable = if closure.capture.is_some() { &nothing } else { &self.mutable };
                let mut changes = Changes { own: own.names, mutable, found: Vec::new() };
                changes.visit_expr(&closure.body);
                let found = changes.found;
                found.iter().for_each(|change| self.report(change, method, races));
            }
            _ => {}
        }
    }

    fn report(&mut self, change: &Change<'_>, method: &Ident, races: bool) {
        let Change { at, name, shared } = change;
        if races {
            let message = format!("a branch of `cx.{method}` changes `{name}`, which is not its own");
            self.diagnostics.report(at, code::RACED_CHANGE, message);
        } else if *shared {
            let message = format!("branches of `cx.{method}` share `{name}`, which they can change");
            let help = "let each branch return what it found, and put the values together behind the await";
            self.diagnostics.warn(at, code::RACED_CHANGE, message, help);
        }
    }
}

/// Names that are bound.
#[derive(Default)]
struct Bound {
    names: BTreeSet<String>,
    mutable_only: bool,
}

impl<'ast> Visit<'ast> for Bound {
    fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
        if pat.mutability.is_some() || !self.mutable_only {
            self.names.insert(text(&pat.ident));
        }
        visit::visit_pat_ident(self, pat);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        if let Some(block) = statements(mac) {
            return Visit::visit_block(self, &block);
        }
        for expr in Arguments::of(mac).pieces.iter().filter_map(|piece| piece.expr.as_ref()) {
            Visit::visit_expr(self, expr);
        }
    }
}

/// A change of something that a branch captured.
struct Change<'a> {
    at: &'a Expr,
    name: String,
    /// Whether other branches can change it too.
    shared: bool,
}

struct Changes<'m, 'a> {
    own: BTreeSet<String>,
    /// Variables that a change without a lock can reach.
    mutable: &'m BTreeSet<String>,
    found: Vec<Change<'a>>,
}

impl<'a> Changes<'_, 'a> {
    fn change(&mut self, place: &'a Expr, shared: bool) {
        let Some(name) = root(place) else { return };
        let reached = shared || self.mutable.contains(&name);
        if reached && !self.own.contains(&name) && !self.found.iter().any(|known| known.name == name) {
            self.found.push(Change { at: place, name, shared });
        }
    }
}

impl<'a> Visit<'a> for Changes<'_, 'a> {
    fn visit_expr_assign(&mut self, expr: &'a ExprAssign) {
        self.change(&expr.left, false);
        visit::visit_expr_assign(self, expr);
    }

    fn visit_expr_binary(&mut self, expr: &'a ExprBinary) {
        if is_assignment(expr.op) {
            self.change(&expr.left, false);
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_reference(&mut self, expr: &'a ExprReference) {
        if expr.mutability.is_some() {
            self.change(&expr.expr, false);
        }
        visit::visit_expr_reference(self, expr);
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        let name = call.method.to_string();
        if methods::shares_changes(&name, call.args.len()) {
            self.change(&call.receiver, true);
        } else if methods::changes_receiver(&name) {
            self.change(&call.receiver, false);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_item(&mut self, _: &'a Item) {}
}

/// The variable that a place begins with.
fn root(expr: &Expr) -> Option<String> {
    match places::place(expr) {
        Expr::Field(field) => root(&field.base),
        Expr::Index(index) => root(&index.expr),
        Expr::Path(path) if path.qself.is_none() => {
            let name = text(path.path.get_ident()?);
            name.starts_with(|first: char| first.is_lowercase() || first == '_').then_some(name)
        }
        _ => None,
    }
}

fn text(ident: &Ident) -> String {
    ident.unraw().to_string()
}
