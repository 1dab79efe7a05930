//! The linear context: one effect at a time on each context, and each branch on a context of its own.
//!
//! Promise: what is refused here would not pass the borrow checker either; here it is told in the words of the model.
//! Where a name may mean something else, nothing is said.

use syn::visit::{self, Visit};
use syn::{
    Block, Expr, ExprAwait, ExprClosure, ExprMethodCall, ExprPath, FnArg, Ident, Item, Local, Pat, PatIdent,
    Signature, Stmt,
};

use super::places;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::flow::gate;

/// Judges the body of a workflow.
pub(crate) fn workflow(signature: &Signature, body: &Block, diagnostics: &mut Diagnostics) {
    let contexts = signature.inputs.first().and_then(parameter).into_iter().collect();
    Linear { contexts, diagnostics }.visit_block(body);
}

/// The name of a parameter.
pub(crate) fn parameter(param: &FnArg) -> Option<Ident> {
    match param {
        FnArg::Typed(typed) => bound(&typed.pat),
        FnArg::Receiver(_) => None,
    }
}

/// The one name that a pattern binds.
pub(crate) fn bound(pat: &Pat) -> Option<Ident> {
    match pat {
        Pat::Ident(pat) => Some(pat.ident.clone()),
        Pat::Type(typed) => bound(&typed.pat),
        _ => None,
    }
}

struct Linear<'a> {
    /// The contexts in sight, innermost last.
    contexts: Vec<Ident>,
    diagnostics: &'a mut Diagnostics,
}

impl<'ast> Visit<'ast> for Linear<'_> {
    fn visit_block(&mut self, block: &'ast Block) {
        for (at, stmt) in block.stmts.iter().enumerate() {
            if let Stmt::Local(local) = stmt {
                self.pending(local, &block.stmts[at + 1..]);
            }
        }
        visit::visit_block(self, block);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let forks = call.method == "join" || call.method == "race" || call.method == "each";
        if forks && let Some(context) = self.context(&call.receiver) {
            call.args.iter().for_each(|argument| self.branches(&call.method, &context, argument));
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

impl Linear<'_> {
    /// The context that an expression is.
    fn context(&self, expr: &Expr) -> Option<Ident> {
        places::context(expr).filter(|name| self.contexts.contains(name)).cloned()
    }

    /// The context that a call begins an effect on.
    fn begun(&self, expr: &Expr) -> Option<Ident> {
        match expr {
            Expr::Paren(inner) => self.begun(&inner.expr),
            Expr::Group(inner) => self.begun(&inner.expr),
            Expr::MethodCall(call) => self.context(&call.receiver).or_else(|| self.begun(&call.receiver)),
            Expr::Call(call) => call.args.first().and_then(|first| self.context(first)),
            _ => None,
        }
    }

    /// Effects that a `let` begins and that are awaited only after the context was used again.
    fn pending(&mut self, local: &Local, after: &[Stmt]) {
        let Some(init) = &local.init else { return };
        let effects = effects(&local.pat, &init.expr);
        for (at, (name, expr)) in effects.iter().enumerate() {
            let Some(context) = self.begun(expr) else { continue };
            let mut order = Order::of(&context, Some(name));
            effects[at + 1..].iter().for_each(|(_, other)| order.visit_expr(other));
            after.iter().for_each(|stmt| order.visit_stmt(stmt));
            if let (Some(used), Some(End::Awaited)) = (order.used, order.end) {
                let message = format!("`{context}` is used again before the effect `{name}` is awaited");
                self.diagnostics.report(used, code::PENDING_EFFECT, message);
            }
        }
    }

    /// The branches in an argument of `join`, `race` or `each`.
    fn branches(&mut self, method: &Ident, context: &Ident, argument: &Expr) {
        let mut order = Order::of(context, None);
        match argument {
            Expr::Paren(inner) => return self.branches(method, context, &inner.expr),
            Expr::Tuple(tuple) => {
                return tuple.elems.iter().for_each(|branch| self.branches(method, context, branch));
            }
            Expr::Closure(closure) => order.visit_expr_closure(closure),
            Expr::Async(block) => order.visit_expr_async(block),
            _ => return,
        }
        if let Some(used) = order.used {
            let message =
                format!("a branch of `{context}.{method}` uses the context it is branched off from");
            self.diagnostics.report(used, code::OUTER_CONTEXT, message);
        }
    }
}

/// The names that a `let` gives to values, each with the expression.
fn effects<'a>(pat: &'a Pat, expr: &'a Expr) -> Vec<(&'a Ident, &'a Expr)> {
    match (pat, expr) {
        (Pat::Type(typed), expr) => effects(&typed.pat, expr),
        (Pat::Ident(pat), expr) => vec![(&pat.ident, expr)],
        (Pat::Tuple(pats), Expr::Tuple(exprs)) if pats.elems.len() == exprs.elems.len() => {
            pats.elems.iter().zip(&exprs.elems).flat_map(|(pat, expr)| effects(pat, expr)).collect()
        }
        _ => Vec::new(),
    }
}

/// The first use of a context, and whether an effect is awaited after it.
struct Order<'a> {
    context: &'a Ident,
    effect: Option<&'a Ident>,
    used: Option<&'a ExprPath>,
    end: Option<End>,
}

/// Where a search ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The effect is awaited.
    Awaited,
    /// A name means something else from here on.
    Rebound,
}

impl<'a> Order<'a> {
    fn of(context: &'a Ident, effect: Option<&'a Ident>) -> Self {
        Self { context, effect, used: None, end: None }
    }

    fn awaits(&self, expr: &Expr) -> bool {
        match places::place(expr) {
            Expr::MethodCall(call) => self.awaits(&call.receiver),
            Expr::Path(path) => self.effect.is_some_and(|effect| path.path.is_ident(effect)),
            _ => false,
        }
    }
}

impl<'a> Visit<'a> for Order<'a> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if self.end.is_none() {
            visit::visit_expr(self, expr);
        }
    }

    fn visit_expr_await(&mut self, awaited: &'a ExprAwait) {
        if self.awaits(&awaited.base) {
            self.end = Some(End::Awaited);
        } else {
            visit::visit_expr_await(self, awaited);
        }
    }

    fn visit_expr_path(&mut self, path: &'a ExprPath) {
        if path.path.is_ident(self.context) {
            self.used.get_or_insert(path);
        }
    }

    fn visit_pat_ident(&mut self, pat: &'a PatIdent) {
        let other_context = self.used.is_none() && pat.ident == *self.context;
        if other_context || self.effect.is_some_and(|effect| pat.ident == *effect) {
            self.end.get_or_insert(End::Rebound);
        }
        visit::visit_pat_ident(self, pat);
    }

    /// The value of a `let` is computed before its name is bound.
    fn visit_local(&mut self, local: &'a Local) {
        if let Some(init) = &local.init {
            self.visit_expr(&init.expr);
            init.diverge.iter().for_each(|(_, diverge)| self.visit_expr(diverge));
        }
        self.visit_pat(&local.pat);
    }

    fn visit_item(&mut self, _: &'a Item) {}
}
