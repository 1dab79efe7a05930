//! What the branches of a race, a join or an each, and planners, change that is not their own.
//!
//! Promise: a change of a captured variable in a planner, in a branch of a race or an each, or in several branches of a
//! join, is refused with the way out, where the source shows it; the types refuse the others. What a branch binds itself, or
//! moves into itself, is its own.

use std::collections::{BTreeMap, BTreeSet};

use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};
use syn::{
    Block, Expr, ExprAssign, ExprBinary, ExprClosure, ExprMethodCall, ExprReference, Ident, Item, Local,
    Macro, Pat, PatIdent, Signature, Stmt,
};

use super::linear::{bound, parameter};
use super::places;
use super::rules::methods;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::flow::gate;
use crate::syntax::arguments::visit_arguments;
use crate::syntax::operators::is_assignment;

/// Judges the body of a workflow.
pub(crate) fn workflow(signature: &Signature, body: &Block, diagnostics: &mut Diagnostics) {
    let contexts = signature.inputs.first().and_then(parameter).into_iter().collect();
    let mut mutable = Bound { mutable_only: true, ..Bound::default() };
    mutable.visit_signature(signature);
    mutable.visit_block(body);
    let mut kept = Kept::default();
    kept.visit_block(body);
    Forks { contexts, mutable: mutable.names, kept: kept.0, diagnostics }.visit_block(body);
}

struct Forks<'a, 'ast> {
    /// The contexts in sight, innermost last.
    contexts: Vec<Ident>,
    /// Variables that are declared `mut`.
    mutable: BTreeSet<String>,
    /// Branches that are kept in variables, by their names.
    kept: BTreeMap<String, &'ast ExprClosure>,
    diagnostics: &'a mut Diagnostics,
}

impl<'ast> Visit<'ast> for Forks<'_, 'ast> {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let fork = match call.method.to_string().as_str() {
            "race" => Some(Fork::Race),
            "join" => Some(Fork::Join),
            "each" => Some(Fork::Each),
            "plan" => Some(Fork::Plan),
            _ => None,
        };
        if let Some(fork) = fork.filter(|_| self.is_context(&call.receiver)) {
            let mut found = Vec::new();
            call.args.iter().for_each(|argument| self.branches(argument, &mut found));
            self.judge(&found, fork);
        }
        // The first context is the workflow's own; the others are those of branches and scopes.
        let in_branch = self.contexts.len() > 1 && self.is_context(&call.receiver);
        if in_branch && call.method == "continue_as_new" {
            let message = "a branch continues as new: only the body of the workflow can";
            self.diagnostics.report(&call.method, code::BRANCH_CONTINUES, message);
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

impl<'ast> Forks<'_, 'ast> {
    fn is_context(&self, expr: &Expr) -> bool {
        places::context(expr).is_some_and(|name| self.contexts.contains(name))
    }

    /// What each of the branches in an argument changes.
    fn branches(&self, argument: &'ast Expr, found: &mut Vec<Vec<Change<'ast>>>) {
        match argument {
            Expr::Paren(inner) => self.branches(&inner.expr, found),
            Expr::Tuple(tuple) => tuple.elems.iter().for_each(|branch| self.branches(branch, found)),
            Expr::Closure(closure) => found.push(self.changes(closure)),
            // What it clones for its closure is shared all the same.
            Expr::Block(block) => {
                if let Some(Stmt::Expr(branch, None)) = block.block.stmts.last() {
                    self.branches(branch, found);
                }
            }
            Expr::Path(path) => {
                let kept = path.path.get_ident().and_then(|name| self.kept.get(&text(name)));
                found.extend(kept.map(|closure| self.changes(closure)));
            }
            _ => {}
        }
    }

    fn changes(&self, closure: &'ast ExprClosure) -> Vec<Change<'ast>> {
        let mut own = Bound::default();
        own.visit_expr_closure(closure);
        // What is moved in is changed inside only.
        let nothing = BTreeSet::new();
        let mutable = if closure.capture.is_some() { &nothing } else { &self.mutable };
        let mut changes = Changes { own: own.names, mutable, found: Vec::new() };
        changes.visit_expr(&closure.body);
        changes.found
    }

    fn judge(&mut self, branches: &[Vec<Change<'_>>], fork: Fork) {
        for (number, changes) in branches.iter().enumerate() {
            for change in changes {
                let elsewhere = branches.iter().enumerate().any(|(other, changes)| {
                    other != number && changes.iter().any(|known| known.name == change.name)
                });
                self.report(change, fork, elsewhere);
            }
        }
    }

    /// Reports a change; `elsewhere` says whether another branch changes the same.
    fn report(&mut self, change: &Change<'_>, fork: Fork, elsewhere: bool) {
        let Change { at, name, shared } = change;
        let code = code::RACED_CHANGE;
        let method = fork.method();
        match fork {
            Fork::Race => {
                let message = format!("a branch of `cx.{method}` changes `{name}`, which is not its own");
                self.diagnostics.report(at, code, message);
            }
            Fork::Plan => {
                let message = format!("the planner of `cx.plan` changes `{name}`, which is not its own");
                self.diagnostics.report_because(at, code, message, PLAN_WHY, PLAN_HELP);
            }
            Fork::Each | Fork::Join if *shared => {
                let message = format!("branches of `cx.{method}` share `{name}`, which they can change");
                let help =
                    "let each branch return what it found, and put the values together behind the await";
                self.diagnostics.warn(at, code, message, help);
            }
            Fork::Each => {
                let message = format!("a branch of `cx.each` changes `{name}`, which is not its own");
                self.report_side_by_side(at, &message, EACH_HELP);
            }
            // One branch that changes a variable which no other branch changes does so in its own order.
            Fork::Join if elsewhere => {
                let message =
                    format!("several branches of `cx.join` change `{name}`, which is not their own");
                self.report_side_by_side(at, &message, JOIN_HELP);
            }
            Fork::Join => {}
        }
    }

    /// The catalogue's reason begins with races; here all branches run to their end.
    fn report_side_by_side(&mut self, at: &Expr, message: &str, help: &str) {
        let why =
            "branches run side by side, and what they share depends on the order in which they continue";
        self.diagnostics.report_because(at, code::RACED_CHANGE, message, why, help);
    }
}

/// What to do instead in a branch of an each.
const EACH_HELP: &str = "return the value from the branch: `let found = cx.each(items, async |cx: &mut Cx, item| look(cx, item).await).await` collects the values in the order of the items";

/// What to do instead in a branch of a join.
const JOIN_HELP: &str = "return the value from each branch, `let (a, b) = cx.join((async |cx: &mut Cx| look(cx).await, ..)).await`, and change the variable with them behind the await";

/// Why a planner changes nothing.
const PLAN_WHY: &str =
    "a replay takes the plan from the journal and does not call the planner: what it changed is missing then";

/// What to do instead in a planner.
const PLAN_HELP: &str = "make it a part of the plan, `let (plan, tried) = cx.plan(\"route\", async |cx: &mut Cx| ..).await?`, and change the variable behind the await";

/// What the branches belong to.
#[derive(Clone, Copy)]
enum Fork {
    Race,
    Join,
    Each,
    Plan,
}

impl Fork {
    fn method(self) -> &'static str {
        match self {
            Self::Race => "race",
            Self::Join => "join",
            Self::Each => "each",
            Self::Plan => "plan",
        }
    }
}

/// Branches that are bound to a name; of several of one name, the last one.
#[derive(Default)]
struct Kept<'ast>(BTreeMap<String, &'ast ExprClosure>);

impl<'ast> Visit<'ast> for Kept<'ast> {
    fn visit_local(&mut self, local: &'ast Local) {
        if let Pat::Ident(name) = &local.pat
            && let Some(Expr::Closure(closure)) = local.init.as_ref().map(|init| &*init.expr)
            && gate::is_branch(closure)
        {
            self.0.insert(text(&name.ident), closure);
        }
        visit::visit_local(self, local);
    }

    fn visit_item(&mut self, _: &'ast Item) {}
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
        visit_arguments(self, mac);
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
