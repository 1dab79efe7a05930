//! Changes where they may not happen: in the arguments of log lines, which are evaluated where the level is on, and of
//! assertions that a release build leaves out.
//!
//! Promise: only changes of what lives longer than the argument are told, and only where the source shows them: assignments,
//! `&mut`, and calls of methods that change their receiver. The double run finds the others.

use std::collections::BTreeSet;

use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};
use syn::{Expr, ExprAssign, ExprBinary, ExprMethodCall, ExprReference, Item, Macro, PatIdent};

use super::lint::BodyLint;
use super::names::{Meaning, segments};
use super::places;
use super::rules::methods;
use crate::diagnostics::code;
use crate::syntax::arguments::{Arguments, visit_arguments};
use crate::syntax::known_macros::{self, Evaluated};
use crate::syntax::operators::is_assignment;

impl BodyLint<'_> {
    /// Reports what the arguments of such a macro change.
    pub(crate) fn report_optional_changes(&mut self, mac: &Macro) {
        let name = known_macros::name(mac);
        let Some(when) = known_macros::evaluated(&name) else { return };
        let own = self.macros.contains(&name) || self.names.meaning(segments(&mac.path)) == Meaning::Own;
        if own || !self.kind.is_replayed() {
            return;
        }
        let (what, help) = match when {
            Evaluated::AtLevel => (
                format!("in the arguments of `{name}!`"),
                "change it before, and give the line the value: `let job = queue.pop(); info!(?job)`",
            ),
            Evaluated::InDebug => (
                format!("in `{name}!`"),
                "change it before, and look at what came out: `let is_new = seen.insert(id); debug_assert!(is_new)`",
            ),
        };
        let arguments = Arguments::of(mac);
        let exprs = arguments.pieces.iter().filter_map(|piece| piece.expr.as_ref());
        let mut changes = Changes::default();
        for expr in exprs {
            match expr {
                // A field of the line: `job = queue.pop()`.
                Expr::Assign(field) => changes.visit_expr(&field.right),
                expr => changes.visit_expr(expr),
            }
        }
        for (at, changed) in changes.found {
            let message = format!("`{changed}` is changed {what}");
            self.diagnostics.report_with(at, code::OPTIONAL_CHANGE, message, help);
        }
    }
}

/// What is changed, and is not bound inside.
#[derive(Default)]
struct Changes {
    own: BTreeSet<String>,
    found: Vec<(Expr, String)>,
}

impl Changes {
    fn change(&mut self, place: &Expr, whole: Expr) {
        let Some(path) = places::path_of_place(place) else { return };
        let name = segments(path).join("::");
        let known = self.own.contains(&name) || self.found.iter().any(|(_, known)| *known == name);
        if !known {
            self.found.push((whole, name));
        }
    }
}

impl<'ast> Visit<'ast> for Changes {
    fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
        self.own.insert(pat.ident.unraw().to_string());
        visit::visit_pat_ident(self, pat);
    }

    fn visit_expr_assign(&mut self, expr: &'ast ExprAssign) {
        self.change(&expr.left, Expr::Assign(expr.clone()));
        visit::visit_expr_assign(self, expr);
    }

    fn visit_expr_binary(&mut self, expr: &'ast ExprBinary) {
        if is_assignment(expr.op) {
            self.change(&expr.left, Expr::Binary(expr.clone()));
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_reference(&mut self, expr: &'ast ExprReference) {
        if expr.mutability.is_some() {
            self.change(&expr.expr, Expr::Reference(expr.clone()));
        }
        visit::visit_expr_reference(self, expr);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        // Patterns of closures are bound before their bodies are looked at; receivers come first as well.
        if methods::surely_changes(&call.method.to_string(), call.args.len()) {
            self.change(&call.receiver, Expr::MethodCall(call.clone()));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        visit_arguments(self, mac);
    }

    fn visit_item(&mut self, _: &'ast Item) {}
}
