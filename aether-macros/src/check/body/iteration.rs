//! What a body goes through element by element: put beside a question about its type, which only types can answer.
//!
//! Promise: the value and its evaluation stay as they are; where the type is a hash collection with random keys, the compiler
//! warns at the place. What comes to the same in any order is not asked about.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Expr, ExprClosure, ExprConst, ExprMethodCall, GenericArgument, Ident, Item, ItemFn, Local, LocalInit,
    Macro, Member, Pat, Path, Type, parse_quote,
};

use super::keys;
use super::known_types::KnownTypes;
use super::rules::methods;
use crate::syntax::arguments::Given;
use crate::syntax::known_macros;

/// Consumers that give the same in any order.
const ORDER_FREE: &[&str] =
    &["all", "any", "count", "is_empty", "len", "max", "min", "product", "sorted", "sorted_unstable", "sum"];

/// Adapters that leave it to their consumer whether the order matters.
const ADAPTERS: &[&str] =
    &["chain", "cloned", "copied", "filter", "filter_map", "flat_map", "flatten", "into_iter", "iter", "map"];

/// Maps whose own order is not that in which they are filled: of two values with one key, the last one stays.
const MAPS: &[&str] = &["BTreeMap", "HashMap"];

/// Sets whose own order is not that in which they are filled.
const SETS: &[&str] = &["BTreeSet", "HashSet"];

/// Asks about the type of everything that the body goes through.
pub(crate) fn ask(function: &mut ItemFn, krate: &Path) {
    let known = KnownTypes::of(&function.sig, &function.block);
    Questions { krate, known, depth: 0 }.visit_block_mut(&mut function.block);
}

pub(super) struct Questions<'a> {
    pub(super) krate: &'a Path,
    pub(super) known: KnownTypes,
    /// In so many closures.
    depth: usize,
}

impl VisitMut for Questions<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if has_attributes(expr) {
            return visit_mut::visit_expr_mut(self, expr);
        }
        if let Expr::MethodCall(call) = expr
            && ends_without_order(call)
        {
            return self.visit_arguments(call);
        }
        if self.ask_of_what_is_taken_in(expr) {
            return;
        }
        let goes_through_a_value = matches!(expr, Expr::MethodCall(call) if goes_through_a_value(call));
        visit_mut::visit_expr_mut(self, expr);
        match expr {
            Expr::MethodCall(call) if goes_through_a_value => {
                self.ask_value(call.method.span(), &mut call.receiver);
            }
            Expr::MethodCall(call) if gives_a_branch_each(call) => {
                let at = call.method.span();
                if let Some(items) = call.args.first_mut() {
                    self.ask_value(at, items);
                }
            }
            Expr::MethodCall(call)
                if methods::iterates(&call.method.to_string()) && !is_in_any_order(call) =>
            {
                if let Some(place) = place(&call.receiver).filter(|place| !self.is_borrowed_through(place)) {
                    let (place, at) = (place.clone(), call.method.span());
                    self.ask(&place, at, expr);
                }
            }
            Expr::ForLoop(each) => {
                let gone_through = match &*each.expr {
                    Expr::Reference(reference) => &reference.expr,
                    expr => expr,
                };
                if let Some(place) = place(gone_through).filter(|place| !self.is_of_closure(place)) {
                    let (place, at) = (place.clone(), last_name(place).unwrap_or_else(|| place.span()));
                    self.ask(&place, at, &mut each.expr);
                } else if place(gone_through).is_none()
                    && !matches!(gone_through, Expr::Range(_) | Expr::Array(_) | Expr::Lit(_))
                {
                    self.ask_value(gone_through.span(), &mut each.expr);
                }
            }
            expr => self.ask_of_what_is_handed(expr),
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

    fn visit_macro_mut(&mut self, mac: &mut Macro) {
        // Some print what stands in them.
        if !known_macros::is_transparent(mac) || known_macros::prints_itself(mac) {
            return;
        }
        let Given::Arguments(mut arguments) = Given::of(mac) else { return };
        let given = arguments.pieces.iter_mut().filter_map(|piece| piece.expr.as_mut());
        given.for_each(|expr| self.visit_expr_mut(expr));
        mac.tokens = arguments.into_tokens();
    }

    fn visit_expr_closure_mut(&mut self, closure: &mut ExprClosure) {
        self.depth += 1;
        visit_mut::visit_expr_closure_mut(self, closure);
        self.depth -= 1;
    }

    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

impl Questions<'_> {
    /// Whether a question about a place would borrow a variable of an outer closure, and the code only what that refers to.
    fn is_borrowed_through(&self, place: &Expr) -> bool {
        self.depth > 1 && keys::root(place).is_some_and(|name| self.known.is_of_closure(name))
    }

    /// Whether a place is a variable of a closure, whose type may follow from a later call.
    fn is_of_closure(&self, place: &Expr) -> bool {
        matches!(place, Expr::Path(path) if path.path.get_ident().is_some_and(|name| self.known.is_of_closure(name)))
    }

    pub(super) fn ask(&self, place: &Expr, at: Span, value: &mut Expr) {
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
    pub(super) fn ask_value(&self, at: Span, value: &mut Expr) {
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
    pub(super) fn visit_arguments(&mut self, call: &mut ExprMethodCall) {
        call.args.iter_mut().for_each(|argument| self.visit_expr_mut(argument));
        match &mut *call.receiver {
            Expr::MethodCall(inner) => self.visit_arguments(inner),
            receiver => self.visit_expr_mut(receiver),
        }
    }
}

/// Whether an attribute is on a call: what it decides is decided of all of the statement, and of nothing around the call.
fn has_attributes(expr: &Expr) -> bool {
    let attributes = match expr {
        Expr::MethodCall(call) => &call.attrs,
        Expr::Call(call) => &call.attrs,
        Expr::Macro(mac) => &mac.attrs,
        _ => return false,
    };
    !attributes.is_empty()
}

/// Whether it is `cx.each(items, body)`: each item gets a branch, numbered in the order of the items.
fn gives_a_branch_each(call: &ExprMethodCall) -> bool {
    call.method == "each" && call.args.len() == 2
}

/// Whether a call goes through what an expression gives that is no place: `claim.tags.clone().into_iter()`. Such a value can be
/// handed on; what a constructor with constants gives may live longer than its statement, and is no collection.
fn goes_through_a_value(call: &ExprMethodCall) -> bool {
    gives_value(&call.receiver) && methods::iterates(&call.method.to_string())
}

pub(super) fn gives_value(expr: &Expr) -> bool {
    match expr {
        Expr::MethodCall(_) => !adapts(expr),
        Expr::Call(call) => !matches!(&*call.func, Expr::Path(function) if is_constructor(&function.path)),
        Expr::Await(_) | Expr::Try(_) => true,
        _ => false,
    }
}

/// Whether it only drops elements, by a closure that keeps nothing of what it has seen.
fn is_in_any_order(call: &ExprMethodCall) -> bool {
    call.method == "retain" && !call.args.iter().any(keys::assigns)
}

fn is_constructor(function: &Path) -> bool {
    function.segments.last().is_some_and(|last| last.ident.to_string().starts_with(char::is_uppercase))
}

/// A variable or a field of one.
pub(super) fn place(expr: &Expr) -> Option<&Expr> {
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

pub(super) fn last_name(place: &Expr) -> Option<Span> {
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
    let collects = name == "collect"
        && call.turbofish.iter().flat_map(|to| &to.args).any(|to| fills(to, &call.receiver));
    let adds_floats = matches!(name.as_str(), "sum" | "product")
        && into(|to| matches!(to, GenericArgument::Type(ty) if is_float_type(ty)));
    (collects || ORDER_FREE.contains(&name.as_str())) && !adds_floats && adapts(&call.receiver)
}

/// What a `let` goes through that fills a collection whose own order is not that of its filling:
/// `let sorted: BTreeMap<_, _> = map.into_iter().collect();`.
pub(crate) fn fills_in_any_order(local: &Local) -> Option<&Expr> {
    let (Pat::Type(typed), Some(init)) = (&local.pat, &local.init) else { return None };
    let Expr::MethodCall(call) = &*init.expr else { return None };
    let from = &*call.receiver;
    let collects = call.method == "collect" && call.turbofish.is_none() && fills_type(&typed.ty, from);
    if collects && adapts(from) { source(from) } else { None }
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
pub(super) fn source(expr: &Expr) -> Option<&Expr> {
    let Expr::MethodCall(call) = expr else { return None };
    let here = || methods::iterates(&call.method.to_string()).then_some(&*call.receiver);
    source(&call.receiver).or_else(here)
}

pub(super) fn adapts(expr: &Expr) -> bool {
    let Expr::MethodCall(call) = expr else { return false };
    let name = call.method.to_string();
    methods::iterates(&name) || (ADAPTERS.contains(&name.as_str()) && adapts(&call.receiver))
}

fn fills(argument: &GenericArgument, chain: &Expr) -> bool {
    matches!(argument, GenericArgument::Type(ty) if fills_type(ty, chain))
}

/// Whether what comes out of a chain of calls makes the same collection of a type in any order.
fn fills_type(ty: &Type, chain: &Expr) -> bool {
    let Type::Path(path) = ty else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    let is_one_of = |names: &[&str]| names.iter().any(|name| last.ident == name);
    keys::assigns_nothing(chain) && (is_one_of(SETS) || is_one_of(MAPS) && keys::keeps(chain))
}
