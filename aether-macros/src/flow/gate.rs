//! The awaits of a workflow body: numbers them in source order and puts each behind the gate.
//!
//! Promise: no await that the source shows stays outside the gate; one that a macro hides is a mistake. Items nested
//! in the body are functions of their own and stay as they are.

use std::collections::BTreeSet;

use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Block, Expr, ExprAsync, ExprAwait, ExprCall, ExprClosure, ExprLit, ExprMethodCall, Ident, Item, Lit,
    Macro, Pat, PatIdent, Path, Stmt, Token, token,
};

use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::plan::{State, StateKind};
use crate::syntax::arguments::Arguments;
use crate::syntax::awaits::contains_await;
use crate::syntax::known_macros;
use crate::syntax::span::placed_at;

/// Puts every await behind the gate; gives the states.
pub(crate) fn insert_gates(
    body: &mut Block,
    krate: &Path,
    context: Option<Ident>,
    macros: &[String],
    diagnostics: &mut Diagnostics,
) -> Vec<State> {
    let contexts = context.into_iter().collect();
    let mut gates = Gates {
        krate,
        contexts,
        states: Vec::new(),
        called: BTreeSet::new(),
        branch: None,
        branches: 0,
        in_plain_closure: false,
        macros,
        locals: locals_of(body),
        diagnostics,
    };
    gates.visit_block_mut(body);
    let Gates { states, called, .. } = gates;
    if !called.is_empty() {
        body.stmts.insert(0, names_of(&called));
    }
    states
}

/// Types that are named like the functions that are called, so that an error about one can name it.
fn names_of(called: &BTreeSet<Ident>) -> Stmt {
    Stmt::Item(Item::Verbatim(quote! {
        #[allow(non_camel_case_types, dead_code, unreachable_pub, clippy::all, clippy::pedantic, clippy::nursery)]
        mod __called {
            #(pub enum #called {})*
        }
    }))
}

/// The name of the function that an expression calls.
fn called_name(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Paren(inner) => called_name(&inner.expr),
        Expr::Group(inner) => called_name(&inner.expr),
        Expr::Call(call) => match (boxed(call), &*call.func) {
            (Some(inner), _) => called_name(inner),
            (None, Expr::Path(path)) => {
                let name = path.path.segments.last()?.ident.clone();
                (name != "Self").then_some(name)
            }
            _ => None,
        },
        _ => None,
    }
}

/// The value in `Box::pin(value)`.
fn boxed(call: &ExprCall) -> Option<&Expr> {
    let Expr::Path(path) = &*call.func else { return None };
    let mut names = path.path.segments.iter().rev().map(|segment| &segment.ident);
    let makes = names.next().is_some_and(|name| name == "pin" || name == "new");
    (makes && names.next().is_some_and(|owner| owner == "Box")).then(|| call.args.first()).flatten()
}

/// Whether an expression calls a variable of the body, a closure for example.
fn calls_variable(expr: &Expr, locals: &BTreeSet<Ident>) -> bool {
    match expr {
        Expr::Paren(inner) => calls_variable(&inner.expr, locals),
        Expr::Group(inner) => calls_variable(&inner.expr, locals),
        Expr::Call(call) => match (boxed(call), &*call.func) {
            (Some(inner), _) => calls_variable(inner, locals),
            (None, Expr::Path(path)) => path.path.get_ident().is_some_and(|name| locals.contains(name)),
            _ => false,
        },
        _ => false,
    }
}

/// The names that patterns of a body bind.
fn locals_of(body: &Block) -> BTreeSet<Ident> {
    #[derive(Default)]
    struct Names(BTreeSet<Ident>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
            self.0.insert(pat.ident.clone());
            visit::visit_pat_ident(self, pat);
        }

        fn visit_item(&mut self, _: &'ast Item) {}
    }
    let mut names = Names::default();
    names.visit_block(body);
    names.0
}

/// Number and awaited expression of an await that went through [`insert_gates`].
pub(crate) fn gated(expr: &ExprAwait) -> Option<(u16, &Expr)> {
    let Expr::Call(call) = &*expr.base else { return None };
    let (awaited, number) = (call.args.get(0)?, call.args.get(1)?);
    let Expr::Lit(literal) = number else { return None };
    let Lit::Int(number) = &literal.lit else { return None };
    Some((number.base10_parse().ok()?, awaited))
}

/// Whether a closure's body awaits, by itself or in an async block that it returns.
pub(crate) fn is_branch(closure: &ExprClosure) -> bool {
    closure.asyncness.is_some() || contains_await(&closure.body.to_token_stream())
}

struct Gates<'a> {
    krate: &'a Path,
    /// Names under which a context is known, innermost last.
    contexts: Vec<Ident>,
    states: Vec<State>,
    /// Names of the functions that are called.
    called: BTreeSet<Ident>,
    branch: Option<u16>,
    branches: u16,
    /// In a closure that is not async itself: an async block in it belongs to it.
    in_plain_closure: bool,
    /// Macros that the user vouches for.
    macros: &'a [String],
    /// Names that patterns of the body bind.
    locals: BTreeSet<Ident>,
    diagnostics: &'a mut Diagnostics,
}

impl VisitMut for Gates<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Await(awaited) => self.put_gate(awaited),
            Expr::Verbatim(tokens) if contains_await(tokens) => {
                self.diagnostics.report(
                    tokens,
                    code::HIDDEN_AWAIT,
                    "an await in an expression that is not understood",
                );
            }
            Expr::Const(_) => {}
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_expr_closure_mut(&mut self, closure: &mut ExprClosure) {
        if !is_branch(closure) {
            return visit_mut::visit_expr_closure_mut(self, closure);
        }
        let known = self.contexts.len();
        self.contexts.extend(closure.inputs.first().and_then(binding));
        let plain = closure.asyncness.is_none();
        self.in_branch(plain, |this| visit_mut::visit_expr_closure_mut(this, closure));
        self.contexts.truncate(known);
    }

    fn visit_expr_async_mut(&mut self, block: &mut ExprAsync) {
        if self.in_plain_closure {
            visit_mut::visit_expr_async_mut(self, block);
        } else {
            self.in_branch(false, |this| visit_mut::visit_expr_async_mut(this, block));
        }
    }

    fn visit_macro_mut(&mut self, mac: &mut Macro) {
        if known_macros::is_concurrent(mac) {
            let message = format!("`{}!` in a workflow", known_macros::name(mac));
            self.diagnostics.report(&mac.path, code::FOREIGN_CONCURRENCY, message);
        } else if contains_await(&mac.tokens) {
            self.look_into(mac);
        }
    }

    fn visit_stmt_mut(&mut self, stmt: &mut Stmt) {
        if !matches!(stmt, Stmt::Item(Item::Macro(_))) {
            visit_mut::visit_stmt_mut(self, stmt);
        } else if let Stmt::Item(Item::Macro(item)) = stmt {
            self.visit_macro_mut(&mut item.mac);
        }
    }

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

impl Gates<'_> {
    fn in_branch(&mut self, plain: bool, visit: impl FnOnce(&mut Self)) {
        let outer = (self.branch, self.in_plain_closure);
        self.branch = Some(self.branches);
        self.branches = self.branches.saturating_add(1);
        self.in_plain_closure = plain;
        visit(self);
        (self.branch, self.in_plain_closure) = outer;
    }

    fn put_gate(&mut self, awaited: &mut ExprAwait) {
        self.visit_expr_mut(&mut awaited.base);
        let (name, kind) = describe(&awaited.base, &self.contexts);
        let at = awaited.await_token.span;
        let start = at.start();
        let number = u16::try_from(self.states.len()).unwrap_or(u16::MAX);
        self.states.push(State {
            name,
            kind,
            line: u32::try_from(start.line).unwrap_or(0),
            column: u32::try_from(start.column + 1).unwrap_or(0),
            branch: self.branch,
        });
        let (krate, base) = (self.krate, &awaited.base);
        let span = Span::mixed_site().located_at(at);
        let gate = match called_name(base) {
            Some(mut name) => {
                // An error about the effect's type points at the argument that stands for it: at the name.
                let effect = quote_spanned!(Span::mixed_site().located_at(name.span())=> _);
                name.set_span(span.resolved_at(Span::call_site()));
                let gate = match calls_variable(base, &self.locals) {
                    true => quote!(#krate::__private::gate_local),
                    false => quote!(#krate::__private::gate_call),
                };
                let path = placed_at(gate, span);
                self.called.insert(name.clone());
                quote_spanned!(span=> #path::<__called::#name, #effect>)
            }
            None => placed_at(quote!(#krate::__private::gate), span),
        };
        let nothing = Expr::Verbatim(TokenStream::new());
        let base = std::mem::replace(&mut *awaited.base, nothing);
        *awaited.base = gate_call(gate, base, Literal::u16_suffixed(number), span);
    }

    /// Rewrites awaits in the arguments of a macro that is known to evaluate them.
    fn look_into(&mut self, mac: &mut Macro) {
        let mut arguments = Arguments::of(mac);
        let name = known_macros::name(mac);
        let known = known_macros::is_transparent(mac) || self.macros.contains(&name);
        if !known || arguments.hides_await() {
            let message = format!("an await inside `{name}!`");
            self.diagnostics.report(&mac.path, code::HIDDEN_AWAIT, message);
            return;
        }
        for expr in arguments.pieces.iter_mut().filter_map(|piece| piece.expr.as_mut()) {
            self.visit_expr_mut(expr);
        }
        mac.tokens = arguments.into_tokens();
    }
}

/// `gate(base, number)`, put together: to parse the call would be to parse all that is awaited once more.
fn gate_call(gate: TokenStream, base: Expr, number: Literal, span: Span) -> Expr {
    let mut args = Punctuated::new();
    args.push_value(base);
    args.push_punct(Token![,](span));
    args.push_value(Expr::Lit(ExprLit { attrs: Vec::new(), lit: Lit::new(number) }));
    Expr::Call(ExprCall {
        attrs: Vec::new(),
        func: Box::new(Expr::Verbatim(gate)),
        paren_token: token::Paren(span),
        args,
    })
}

fn binding(pat: &Pat) -> Option<Ident> {
    match pat {
        Pat::Ident(pat) => Some(pat.ident.clone()),
        Pat::Type(typed) => binding(&typed.pat),
        _ => None,
    }
}

/// Name and kind of an awaited expression.
fn describe(expr: &Expr, contexts: &[Ident]) -> (String, StateKind) {
    match expr {
        Expr::Paren(inner) => describe(&inner.expr, contexts),
        Expr::Group(inner) => describe(&inner.expr, contexts),
        Expr::Try(inner) => describe(&inner.expr, contexts),
        Expr::Call(call) => match &*call.func {
            _ if boxed(call).is_some_and(|inner| matches!(inner, Expr::Call(_) | Expr::MethodCall(_))) => {
                boxed(call).map_or_else(other, |inner| describe(inner, contexts))
            }
            Expr::Path(path) => match path.path.segments.last() {
                Some(last) => (last.ident.to_string(), StateKind::Call),
                None => other(),
            },
            _ => other(),
        },
        Expr::MethodCall(call) => method(call, contexts),
        Expr::Path(path) => match path.path.get_ident() {
            Some(ident) => (ident.to_string(), StateKind::Other),
            None => other(),
        },
        _ => other(),
    }
}

fn other() -> (String, StateKind) {
    ("await".into(), StateKind::Other)
}

/// A chain of calls is named by the method that begins it.
fn method(call: &ExprMethodCall, contexts: &[Ident]) -> (String, StateKind) {
    let root = place(&call.receiver);
    match root {
        Expr::MethodCall(inner) => method(inner, contexts),
        Expr::Path(path) => {
            let name = call.method.to_string();
            match path.path.get_ident() {
                Some(ident) if contexts.contains(ident) => (format!("cx.{name}"), effect(&name)),
                Some(ident) => (format!("{ident}.{name}"), StateKind::Other),
                None => (name, StateKind::Other),
            }
        }
        Expr::Call(_) => describe(root, contexts),
        _ => (call.method.to_string(), StateKind::Other),
    }
}

/// The expression behind parentheses, borrows and derefs.
fn place(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => place(&inner.expr),
        Expr::Group(inner) => place(&inner.expr),
        Expr::Reference(inner) => place(&inner.expr),
        Expr::Unary(inner) => place(&inner.expr),
        Expr::Try(inner) => place(&inner.expr),
        expr => expr,
    }
}

fn effect(method: &str) -> StateKind {
    match method {
        _ if method.starts_with("join") => StateKind::Join,
        _ if method.starts_with("race") => StateKind::Race,
        _ if method.starts_with("each") => StateKind::Each,
        _ if method.starts_with("child") => StateKind::Child,
        _ => StateKind::Effect,
    }
}
