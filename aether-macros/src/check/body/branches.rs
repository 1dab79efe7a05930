//! Where branches, bodies and planners are written: in the workflow, where their awaits are put behind the gate.
//!
//! Promise: what `race`, `join`, `each`, `plan` and `scoped` of a context get is a closure whose source stands in the
//! workflow, or a variable that a plain `let` binds to one. Whatever else is given, an await in it would not be looked at.

use std::collections::BTreeMap;

use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};
use syn::{
    Arm, Block, Expr, ExprCall, ExprClosure, ExprForLoop, ExprIf, ExprMethodCall, ExprWhile, Ident, Item,
    Local, Macro, Pat, PatIdent, Signature, Stmt,
};

use super::linear::{bound, parameter};
use super::names::segments;
use super::places;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::flow::gate;
use crate::syntax::arguments::visit_arguments;

/// Judges the body of a workflow.
pub(crate) fn workflow(signature: &Signature, body: &Block, diagnostics: &mut Diagnostics) {
    let mut sites = Sites { scopes: vec![BTreeMap::new()], diagnostics };
    sites.bind_all(|binder| binder.visit_signature(signature));
    if let Some(context) = signature.inputs.first().and_then(parameter) {
        sites.bind(&context, Bound::Context);
    }
    sites.visit_block(body);
}

/// What a name is bound to.
#[derive(Clone, Debug)]
enum Bound {
    Context,
    /// A closure whose awaits are behind the gate.
    Gated,
    /// A tuple, each part of which may be such a closure.
    Tuple(Vec<Self>),
    Other,
}

struct Sites<'a> {
    /// What names are bound to, innermost scope last.
    scopes: Vec<BTreeMap<String, Bound>>,
    diagnostics: &'a mut Diagnostics,
}

impl<'ast> Visit<'ast> for Sites<'_> {
    fn visit_block(&mut self, block: &'ast Block) {
        self.inside(|this| visit::visit_block(this, block));
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if let Some(init) = &local.init {
            self.visit_expr(&init.expr);
            init.diverge.iter().for_each(|(_, diverge)| self.visit_expr(diverge));
        }
        let known = self.bound_by(local);
        self.visit_pat(&local.pat);
        known.into_iter().for_each(|(name, to)| self.bind(&name, to));
    }

    /// What a pattern binds is a closure only where [`Sites::bound_by`] says so.
    fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
        self.bind(&pat.ident, Bound::Other);
        visit::visit_pat_ident(self, pat);
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        self.inside(|this| {
            closure.inputs.iter().for_each(|input| this.visit_pat(input));
            if let Some(context) = closure.inputs.first().filter(|_| gate::is_branch(closure)).and_then(bound)
            {
                this.bind(&context, Bound::Context);
            }
            this.visit_expr(&closure.body);
        });
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        self.inside(|this| visit::visit_arm(this, arm));
    }

    fn visit_expr_if(&mut self, expr: &'ast ExprIf) {
        self.inside(|this| visit::visit_expr_if(this, expr));
    }

    fn visit_expr_while(&mut self, expr: &'ast ExprWhile) {
        self.inside(|this| visit::visit_expr_while(this, expr));
    }

    fn visit_expr_for_loop(&mut self, expr: &'ast ExprForLoop) {
        self.visit_expr(&expr.expr);
        self.inside(|this| {
            this.visit_pat(&expr.pat);
            this.visit_block(&expr.body);
        });
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        if self.is_context(&call.receiver) {
            self.call(&call.method, call.args.iter());
        }
        visit::visit_expr_method_call(self, call);
    }

    /// `Cx::race(cx, ..)`.
    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(path) = &*call.func
            && let Some(last) = path.path.segments.last()
            && (path.qself.is_some()
                || path.path.segments.iter().rev().nth(1).is_some_and(|ty| ty.ident == "Cx"))
            && call.args.first().is_some_and(|context| self.is_context(context))
        {
            self.call(&last.ident, call.args.iter().skip(1));
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        visit_arguments(self, mac);
    }

    fn visit_item(&mut self, _: &'ast Item) {}
}

impl Sites<'_> {
    fn inside(&mut self, visit: impl FnOnce(&mut Self)) {
        self.scopes.push(BTreeMap::new());
        visit(self);
        self.scopes.pop();
    }

    fn bind(&mut self, name: &Ident, to: Bound) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.unraw().to_string(), to);
        }
    }

    /// Binds every name of a pattern, to nothing that is known.
    fn bind_all(&mut self, visit: impl FnOnce(&mut Names)) {
        let mut names = Names::default();
        visit(&mut names);
        names.0.iter().for_each(|name| self.bind(name, Bound::Other));
    }

    /// What a `let` binds: judged before its names are bound, because they may be in its value.
    fn bound_by(&mut self, local: &Local) -> Vec<(Ident, Bound)> {
        let mut found = Vec::new();
        if let Some(init) = &local.init {
            self.pair(&local.pat, &init.expr, &mut found);
        }
        found
    }

    fn pair(&mut self, pat: &Pat, value: &Expr, found: &mut Vec<(Ident, Bound)>) {
        match (pat, value) {
            (Pat::Paren(inner), value) => self.pair(&inner.pat, value, found),
            (Pat::Tuple(pats), Expr::Tuple(values)) if pats.elems.len() == values.elems.len() => {
                pats.elems.iter().zip(&values.elems).for_each(|(pat, value)| self.pair(pat, value, found));
            }
            // A closure has a type of its own: nothing else can be assigned to the variable later, unless it has the type
            // of a pointer.
            (Pat::Ident(pat), value) if pat.subpat.is_none() => {
                found.push((pat.ident.clone(), self.meaning(value)));
            }
            (Pat::Type(typed), value) => match &*typed.pat {
                Pat::Ident(pat) if pat.mutability.is_some() => {}
                pat => self.pair(pat, value, found),
            },
            _ => {}
        }
    }

    fn known(&self, name: &Ident) -> Bound {
        let name = name.unraw().to_string();
        self.scopes.iter().rev().find_map(|scope| scope.get(&name)).cloned().unwrap_or(Bound::Other)
    }

    /// Whether an expression is a context, perhaps with something said of its next command: `cx.budget(..)`.
    fn is_context(&self, expr: &Expr) -> bool {
        places::context(expr).is_some_and(|name| matches!(self.known(name), Bound::Context))
    }

    /// What the value of an expression is.
    fn meaning(&mut self, expr: &Expr) -> Bound {
        match expr {
            _ if self.is_context(expr) => Bound::Context,
            Expr::Paren(inner) => self.meaning(&inner.expr),
            Expr::Group(inner) => self.meaning(&inner.expr),
            Expr::Reference(inner) => self.meaning(&inner.expr),
            Expr::Closure(closure) if closure.asyncness.is_some() || gives_a_block(&closure.body) => {
                Bound::Gated
            }
            // It is no branch, which the types say; its awaits are behind the gate.
            Expr::Async(_) => Bound::Gated,
            Expr::Tuple(tuple) => Bound::Tuple(tuple.elems.iter().map(|part| self.meaning(part)).collect()),
            Expr::Path(path) => path.path.get_ident().map_or(Bound::Other, |name| self.known(name)),
            Expr::MethodCall(call) if call.method == "clone" && call.args.is_empty() => {
                match self.meaning(&call.receiver) {
                    Bound::Context => Bound::Other,
                    cloned => cloned,
                }
            }
            Expr::Block(block) if block.label.is_none() => self.value_of(&block.block),
            _ => Bound::Other,
        }
    }

    /// What a block ends with, as in `{ let name = name.clone(); async move |cx: &mut Cx| .. }`.
    fn value_of(&mut self, block: &Block) -> Bound {
        self.scopes.push(BTreeMap::new());
        let mut value = Bound::Other;
        for stmt in &block.stmts {
            value = Bound::Other;
            match stmt {
                Stmt::Local(local) => {
                    let known = self.bound_by(local);
                    self.bind_all(|names| names.visit_pat(&local.pat));
                    known.into_iter().for_each(|(name, to)| self.bind(&name, to));
                }
                Stmt::Expr(expr, None) => value = self.meaning(expr),
                _ => {}
            }
        }
        self.scopes.pop();
        value
    }

    /// Judges a call of a method of a context.
    fn call<'e>(&mut self, method: &Ident, mut arguments: impl Iterator<Item = &'e Expr>) {
        let (at, role) = match method.to_string().as_str() {
            "race" | "join" => (0, Role::Branches),
            "each" => (1, Role::Body),
            "plan" => (1, Role::Planner),
            "scoped" => (0, Role::Scope),
            _ => return,
        };
        if let Some(argument) = arguments.nth(at) {
            self.judge(method, role, argument);
        }
    }

    fn judge(&mut self, method: &Ident, role: Role, argument: &Expr) {
        match argument {
            Expr::Paren(inner) => self.judge(method, role, &inner.expr),
            Expr::Group(inner) => self.judge(method, role, &inner.expr),
            Expr::Tuple(tuple) if matches!(role, Role::Branches) => {
                tuple.elems.iter().for_each(|branch| self.judge(method, role, branch));
            }
            argument => {
                let gated = match self.meaning(argument) {
                    Bound::Gated => true,
                    Bound::Tuple(parts) => parts.iter().all(|part| matches!(part, Bound::Gated)),
                    Bound::Context | Bound::Other => false,
                };
                if !gated {
                    self.report(method, role, argument);
                }
            }
        }
    }

    fn report(&mut self, method: &Ident, role: Role, argument: &Expr) {
        let name = places::path_of_place(argument).map(|path| segments(path).join("::"));
        let what = role.name();
        let message = match &name {
            Some(name) => format!("{what} of `cx.{method}` is passed by its name, `{name}`"),
            None => format!("{what} of `cx.{method}` is made elsewhere"),
        };
        let help = role.help(name.as_deref().unwrap_or("look"));
        self.diagnostics.report_with(argument.to_token_stream(), code::BRANCH_ELSEWHERE, message, help);
    }
}

/// What is given to a method of a context.
#[derive(Clone, Copy)]
enum Role {
    Branches,
    Body,
    Planner,
    Scope,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Branches => "a branch",
            Self::Body => "the body",
            Self::Planner => "the planner",
            Self::Scope => "the code",
        }
    }

    fn help(self, name: &str) -> String {
        let (parameters, arguments) = match self {
            Self::Branches | Self::Planner => ("|cx: &mut Cx|", "cx"),
            Self::Body => ("|cx: &mut Cx, item|", "cx, item"),
            Self::Scope => return format!("write `|mut cx| async move {{ {name}(&mut cx).await }}` here"),
        };
        format!(
            "write the closure here, `async {parameters} {name}({arguments}).await`, or bind it with a plain `let` in the workflow"
        )
    }
}

/// Whether the future of a closure that is not async is an async block in it.
fn gives_a_block(body: &Expr) -> bool {
    match body {
        Expr::Async(_) => true,
        Expr::Paren(inner) => gives_a_block(&inner.expr),
        Expr::Group(inner) => gives_a_block(&inner.expr),
        Expr::Block(block) => {
            matches!(block.block.stmts.last(), Some(Stmt::Expr(last, None)) if gives_a_block(last))
        }
        _ => false,
    }
}

/// The names in patterns.
#[derive(Default)]
struct Names(Vec<Ident>);

impl<'ast> Visit<'ast> for Names {
    fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
        self.0.push(pat.ident.clone());
        visit::visit_pat_ident(self, pat);
    }
}
