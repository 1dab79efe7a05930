//! The marks of a workflow: `cx.version("use-baz", 1..=2)`, collected for its definition.
//!
//! Promise: what is collected is what the body asks for. A mark whose name or range is not plain in the source is a
//! mistake, so that it can be told beforehand which open runs a build has no path for.

use std::collections::BTreeMap;

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Block, Expr, ExprAwait, ExprCall, ExprClosure, ExprMethodCall, Ident, Item, Lit, LitInt, LitStr, Macro,
    RangeLimits, Token,
};

use super::linear::bound;
use super::places;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::flow::gate;
use crate::plan::Change;
use crate::syntax::arguments::visit_arguments;

/// Longest name of a mark, in bytes.
const LONGEST: usize = 100;

/// The marks of a workflow, in the order of their lines.
pub(crate) fn of_workflow(
    body: &Block,
    context: Option<&Ident>,
    diagnostics: &mut Diagnostics,
) -> Vec<Change> {
    let contexts = context.into_iter().cloned().collect();
    let mut marks = Marks { contexts, changes: Vec::new(), known: BTreeMap::new(), diagnostics };
    marks.visit_block(body);
    let mut changes = marks.changes;
    changes.sort_by_key(|change| change.line);
    changes
}

struct Marks<'a> {
    /// The names of the context, in the body and in its branches.
    contexts: Vec<Ident>,
    changes: Vec<Change>,
    /// By name: the range, and whether it has a version for each time.
    known: BTreeMap<String, (u32, u32, bool)>,
    diagnostics: &'a mut Diagnostics,
}

impl<'ast> Visit<'ast> for Marks<'_> {
    fn visit_expr_await(&mut self, awaited: &'ast ExprAwait) {
        // Whatever it is called on: nothing else of this name can be awaited in a workflow.
        match &*awaited.base {
            Expr::MethodCall(call) if !self.is_on_context(call) => self.judge_method(call),
            _ => {}
        }
        visit::visit_expr_await(self, awaited);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        if self.is_on_context(call) {
            self.judge_method(call);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(path) = &*call.func {
            let mut names = path.path.segments.iter().rev().map(|segment| &segment.ident);
            if let (Some(method), Some(ty)) = (names.next(), names.next())
                && ty == "Cx"
            {
                let args: Punctuated<Expr, Token![,]> = call.args.iter().skip(1).cloned().collect();
                self.judge(method, &args, call);
            }
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        self.contexts.extend(closure.inputs.first().filter(|_| gate::is_branch(closure)).and_then(bound));
        visit::visit_expr_closure(self, closure);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        visit_arguments(self, mac);
    }

    fn visit_item(&mut self, _: &'ast Item) {}
}

impl Marks<'_> {
    fn is_on_context(&self, call: &ExprMethodCall) -> bool {
        let Expr::Path(receiver) = places::place(&call.receiver) else { return false };
        receiver.path.get_ident().is_some_and(|name| self.contexts.contains(name))
    }

    fn judge_method(&mut self, call: &ExprMethodCall) {
        self.judge(&call.method, &call.args, call);
    }

    /// Collects a call, where `method` asks for a version.
    fn judge(&mut self, method: &Ident, args: &Punctuated<Expr, Token![,]>, call: &dyn ToTokens) {
        let each = method == "version_each";
        let (Some(name), Some(range), 2) = (args.first(), args.last(), args.len()) else { return };
        if !each && method != "version" {
            return;
        }
        let (name, range) = (self.name(name), self.range(range));
        if let (Some(name), Some((from, to))) = (name, range) {
            self.collect(&name, (from, to, each), call);
        }
    }

    /// The name of a mark, where it is one.
    fn name(&mut self, written: &Expr) -> Option<LitStr> {
        let Expr::Lit(literal) = plain(written) else {
            return self.refuse(written, "the name of a mark is no literal");
        };
        let Lit::Str(name) = &literal.lit else {
            return self.refuse(written, "the name of a mark is no text");
        };
        let value = name.value();
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if value.is_empty() || value.len() > LONGEST || !value.chars().all(fits) {
            return self.refuse(
                written,
                "the name of a mark is one to 100 letters, digits, and the signs `-`, `_`, `.` and `/`",
            );
        }
        Some(name.clone())
    }

    /// The versions that the code has a path for.
    fn range(&mut self, written: &Expr) -> Option<(u32, u32)> {
        let no_range = "the versions of a mark are no literal range";
        let Expr::Range(range) = plain(written) else { return self.refuse(written, no_range) };
        let ends = (range.start.as_deref().and_then(number), range.end.as_deref().and_then(number));
        let (Some(from), Some(to), RangeLimits::Closed(_)) = (ends.0, ends.1, range.limits) else {
            return self.refuse(written, no_range);
        };
        let (Ok(from), Ok(to)) = (from.base10_parse::<u32>(), to.base10_parse::<u32>()) else {
            return self.refuse(written, "the version of a mark is no `u32`");
        };
        if from == 0 {
            return self.refuse(written, "the versions of a mark begin with 0");
        }
        if from > to {
            return self.refuse(written, format_args!("the range {from}..={to} of a mark is empty"));
        }
        Some((from, to))
    }

    fn refuse<T>(&mut self, at: &Expr, message: impl std::fmt::Display) -> Option<T> {
        self.diagnostics.report(at, code::MARK, message);
        None
    }

    fn collect(&mut self, name: &LitStr, (from, to, each): (u32, u32, bool), call: &dyn ToTokens) {
        let value = name.value();
        match self.known.get(&value) {
            Some(known) if *known == (from, to, each) => {}
            Some(&(first, last, _)) => {
                let message = match (first, last) == (from, to) {
                    true => format!("mark `{value}` is asked for once in the run and each time"),
                    false => {
                        format!("mark `{value}` has two ranges: {first}..={last} and {from}..={to}")
                    }
                };
                self.diagnostics.report(call.to_token_stream(), code::MARK_TWICE, message);
            }
            None => {
                let line = u32::try_from(name.span().start().line).unwrap_or(u32::MAX);
                self.known.insert(value.clone(), (from, to, each));
                self.changes.push(Change { name: value, from, to, each, line });
            }
        }
    }
}

/// An expression without parentheses around it.
fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => plain(&inner.expr),
        Expr::Group(inner) => plain(&inner.expr),
        expr => expr,
    }
}

fn number(expr: &Expr) -> Option<&LitInt> {
    match plain(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => Some(number),
            _ => None,
        },
        _ => None,
    }
}
