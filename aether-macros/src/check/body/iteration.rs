//! What a body goes through element by element: put beside a question about its type, which only types can answer.
//!
//! Promise: the value and its evaluation stay as they are; where the type is a hash collection with random keys, the compiler
//! warns at the place. What comes to the same in any order is not asked about.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Block, Expr, ExprAssign, ExprBinary, ExprClosure, ExprMethodCall, GenericArgument, Ident, Item, Local,
    LocalInit, Member, Pat, Path, Stmt, Type, parse_quote,
};

use super::rules::methods;
use crate::syntax::operators::is_assignment;

/// Consumers that give the same in any order.
const ORDER_FREE: &[&str] =
    &["all", "any", "count", "is_empty", "len", "max", "min", "product", "sorted", "sorted_unstable", "sum"];

/// Adapters that leave it to their consumer whether the order matters.
const ADAPTERS: &[&str] =
    &["cloned", "copied", "filter", "filter_map", "flat_map", "flatten", "into_iter", "iter", "map"];

/// Collections whose own order is not that in which they are filled.
const UNORDERED: &[&str] = &["BTreeMap", "BTreeSet", "HashMap", "HashSet"];

/// Asks about the type of everything that the body goes through.
pub(crate) fn ask(body: &mut Block, krate: &Path) {
    Questions { krate }.visit_block_mut(body);
}

struct Questions<'a> {
    krate: &'a Path,
}

impl VisitMut for Questions<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Expr::MethodCall(call) = expr
            && ends_without_order(call)
        {
            return self.visit_arguments(call);
        }
        visit_mut::visit_expr_mut(self, expr);
        match expr {
            Expr::MethodCall(call) if gives_a_branch_each(call) => {
                let at = call.method.span();
                if let Some(items) = call.args.first_mut() {
                    self.ask_value(at, items);
                }
            }
            Expr::MethodCall(call)
                if methods::iterates(&call.method.to_string()) && call.method != "retain" =>
            {
                if let Some(place) = place(&call.receiver) {
                    let (place, at) = (place.clone(), call.method.span());
                    self.ask(&place, at, expr);
                }
            }
            Expr::ForLoop(each) => {
                let gone_through = match &*each.expr {
                    Expr::Reference(reference) => &reference.expr,
                    expr => expr,
                };
                if let Some(place) = place(gone_through) {
                    let (place, at) = (place.clone(), last_name(place).unwrap_or_else(|| place.span()));
                    self.ask(&place, at, &mut each.expr);
                } else if !matches!(gone_through, Expr::Range(_) | Expr::Array(_) | Expr::Lit(_)) {
                    self.ask_value(gone_through.span(), &mut each.expr);
                }
            }
            _ => {}
        }
    }

    fn visit_local_mut(&mut self, local: &mut Local) {
        if fills_in_any_order(local).is_some() {
            if let Some(LocalInit { expr, .. }) = &mut local.init
                && let Expr::MethodCall(call) = &mut **expr
            {
                self.visit_arguments(call);
            }
            return;
        }
        // Sums of floats are not the same in any order.
        match &mut local.init {
            Some(LocalInit { expr, diverge: None, .. }) if is_float(&local.pat) && is_sum(expr) => {
                visit_mut::visit_expr_mut(self, expr);
            }
            _ => visit_mut::visit_local_mut(self, local),
        }
    }

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

impl Questions<'_> {
    fn ask(&self, place: &Expr, at: Span, value: &mut Expr) {
        let krate = self.krate;
        let question = Ident::new("in_any_order", at);
        *value = parse_quote!(#krate::__private::asked(
            {
                #[allow(unused_imports)]
                use #krate::__private::InAnyOrder as _;
                #krate::__private::GoneThrough(&#place).#question();
            },
            #value
        ));
    }

    /// The same of any value, which is evaluated once and handed on.
    fn ask_value(&mut self, at: Span, value: &mut Expr) {
        let krate = self.krate;
        let question = Ident::new("in_any_order", at);
        let items = Ident::new("items", Span::mixed_site());
        *value = parse_quote!(#krate::__private::asked_of(#value, |#items| {
            #[allow(unused_imports)]
            use #krate::__private::InAnyOrder as _;
            #krate::__private::GoneThrough(#items).#question();
        }));
    }

    /// The arguments of a chain of calls.
    fn visit_arguments(&mut self, call: &mut ExprMethodCall) {
        call.args.iter_mut().for_each(|argument| self.visit_expr_mut(argument));
        match &mut *call.receiver {
            Expr::MethodCall(inner) => self.visit_arguments(inner),
            receiver => self.visit_expr_mut(receiver),
        }
    }
}

/// Whether it is `cx.each(items, body)`: each item gets a branch, numbered in the order of the items.
fn gives_a_branch_each(call: &ExprMethodCall) -> bool {
    call.method == "each" && call.args.len() == 2
}

/// A variable or a field of one.
fn place(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Paren(inner) => place(&inner.expr),
        Expr::Group(inner) => place(&inner.expr),
        Expr::Field(field) => place(&field.base).map(|_| expr),
        Expr::Path(path) => {
            let name = path.path.get_ident()?.to_string();
            name.starts_with(|first: char| first.is_lowercase() || first == '_').then_some(expr)
        }
        _ => None,
    }
}

fn last_name(place: &Expr) -> Option<Span> {
    match place {
        Expr::Field(field) => match &field.member {
            Member::Named(name) => Some(name.span()),
            Member::Unnamed(index) => Some(index.span),
        },
        Expr::Path(path) => path.path.get_ident().map(Ident::span),
        _ => None,
    }
}

/// Whether a chain of calls goes through something, and gives the same in any order.
fn ends_without_order(call: &ExprMethodCall) -> bool {
    let name = call.method.to_string();
    let into =
        |is: fn(&GenericArgument) -> bool| call.turbofish.as_ref().is_some_and(|to| to.args.iter().any(is));
    let collects = name == "collect" && into(is_unordered) && keeps_keys(&call.receiver);
    let adds_floats = matches!(name.as_str(), "sum" | "product")
        && into(|to| matches!(to, GenericArgument::Type(ty) if is_float_type(ty)));
    (collects || ORDER_FREE.contains(&name.as_str())) && !adds_floats && adapts(&call.receiver)
}

/// What a `let` goes through that fills a collection whose own order is not that of its filling:
/// `let sorted: BTreeMap<_, _> = map.into_iter().collect();`.
pub(crate) fn fills_in_any_order(local: &Local) -> Option<&Expr> {
    let (Pat::Type(typed), Some(init)) = (&local.pat, &local.init) else { return None };
    let Expr::MethodCall(call) = &*init.expr else { return None };
    let collects = call.method == "collect" && call.turbofish.is_none() && is_unordered_type(&typed.ty);
    let from = &*call.receiver;
    if collects && adapts(from) && keeps_keys(from) { source(from) } else { None }
}

/// Whether the closures of a chain of calls hand on the keys that they get, and change nothing: of two elements that get one
/// key, the last one would stay, and a closure that counts would count in another order.
fn keeps_keys(expr: &Expr) -> bool {
    let Expr::MethodCall(call) = expr else { return true };
    let makes = matches!(call.method.to_string().as_str(), "map" | "filter_map" | "flat_map");
    let kept = call.args.iter().all(|argument| match argument {
        Expr::Closure(closure) => (!makes || hands_on(closure)) && !assigns(&closure.body),
        // A function by its name.
        _ => !makes,
    });
    kept && keeps_keys(&call.receiver)
}

/// Whether a closure gives back what it gets, or a pair with the first half of the pair that it gets.
fn hands_on(closure: &ExprClosure) -> bool {
    let Some(key) = closure.inputs.first().and_then(key_of) else { return false };
    let mut given = &*closure.body;
    if let Expr::Block(block) = given
        && let Some(Stmt::Expr(last, None)) = block.block.stmts.last()
    {
        given = last;
    }
    if let Expr::Tuple(pair) = given
        && let Some(first) = pair.elems.first()
    {
        given = first;
    }
    while let Expr::MethodCall(call) = given
        && matches!(call.method.to_string().as_str(), "clone" | "to_owned" | "to_string" | "into" | "as_str")
    {
        given = &call.receiver;
    }
    matches!(given, Expr::Path(path) if path.path.is_ident(key))
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

/// Whether something is assigned in an expression.
fn assigns(expr: &Expr) -> bool {
    #[derive(Default)]
    struct Assignments(bool);
    impl<'ast> Visit<'ast> for Assignments {
        fn visit_expr_assign(&mut self, _: &'ast ExprAssign) {
            self.0 = true;
        }

        fn visit_expr_binary(&mut self, expr: &'ast ExprBinary) {
            self.0 |= is_assignment(expr.op);
            visit::visit_expr_binary(self, expr);
        }
    }
    let mut found = Assignments::default();
    found.visit_expr(expr);
    found.0
}

fn is_sum(expr: &Expr) -> bool {
    matches!(expr, Expr::MethodCall(call) if call.method == "sum" || call.method == "product")
}

fn is_float(pat: &Pat) -> bool {
    matches!(pat, Pat::Type(typed) if is_float_type(&typed.ty))
}

fn is_float_type(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident("f64") || path.path.is_ident("f32"))
}

/// What a chain of calls goes through that gives the same in any order. Of sums that is not said: those of floats do not.
pub(crate) fn gone_through_in_any_order(call: &ExprMethodCall) -> Option<&Expr> {
    let is_sum = call.method == "sum" || call.method == "product";
    if is_sum || !ends_without_order(call) { None } else { source(&call.receiver) }
}

/// Where a chain of calls begins to iterate.
fn source(expr: &Expr) -> Option<&Expr> {
    let Expr::MethodCall(call) = expr else { return None };
    let here = || methods::iterates(&call.method.to_string()).then_some(&*call.receiver);
    source(&call.receiver).or_else(here)
}

fn adapts(expr: &Expr) -> bool {
    let Expr::MethodCall(call) = expr else { return false };
    let name = call.method.to_string();
    methods::iterates(&name) || (ADAPTERS.contains(&name.as_str()) && adapts(&call.receiver))
}

fn is_unordered(argument: &GenericArgument) -> bool {
    matches!(argument, GenericArgument::Type(ty) if is_unordered_type(ty))
}

fn is_unordered_type(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|last| UNORDERED.iter().any(|name| last.ident == name))
}
