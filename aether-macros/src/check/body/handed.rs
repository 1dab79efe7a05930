//! What a body hands to a call that goes through it: the same questions about its type.
//!
//! Promise: only collections in which everything stays in the order of its arrival are warned of; nothing is asked where the
//! type may follow from what comes later.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit_mut::VisitMut as _;
use syn::{Expr, ExprCall, Ident, Member, parse_quote};

use super::iteration::{Questions, adapts, gives_value, last_name, place, source};
use super::keys;
use super::known_types::has_type;
use crate::syntax::known_macros;

/// Functions of serializers that write a value in the order of its elements, and which of their arguments it is.
const WRITERS: &[(&str, usize)] =
    &[("to_string", 0), ("to_string_pretty", 0), ("to_vec", 0), ("to_vec_pretty", 0), ("to_writer", 1)];

/// Collections in which everything stays in the order of its arrival.
const IN_ORDER: &[&str] = &["LinkedList", "String", "Vec", "VecDeque"];

/// Serializers that keep the order of a map.
const SERIALIZERS: &[&str] =
    &["bincode", "postcard", "rmp_serde", "ron", "serde_json", "serde_yaml", "simd_json", "sonic_rs", "toml"];

impl Questions<'_> {
    /// What is handed to `zip`, `from_iter`, a serializer, or a macro that prints it.
    pub(super) fn ask_of_what_is_handed(&self, expr: &mut Expr) {
        match expr {
            Expr::MethodCall(call) if matches!(call.method.to_string().as_str(), "zip" | "chain") => {
                self.ask_argument(call.method.span(), call.args.first_mut());
            }
            Expr::Call(call) => {
                if let Some((at, argument)) = gone_through(call) {
                    self.ask_argument(at, call.args.iter_mut().nth(argument));
                }
            }
            Expr::Macro(mac) => {
                let printed = known_macros::debugged(&mac.mac);
                for place in printed.iter().filter_map(|printed| place(behind_reference(printed))) {
                    if self.is_known(place) {
                        self.ask(place, last_name(place).unwrap_or_else(|| place.span()), expr);
                    }
                }
            }
            _ => {}
        }
    }

    fn ask_argument(&self, at: Span, argument: Option<&mut Expr>) {
        let Some(argument) = argument else { return };
        if let Some(place) = place(behind_reference(argument)).cloned() {
            if self.is_known(&place) {
                self.ask(&place, at, argument);
            }
            return;
        }
        let value = match argument {
            Expr::Reference(reference) => &mut *reference.expr,
            value => value,
        };
        if gives_value(value) && has_type(value) {
            self.ask_value(at, value);
        }
    }

    /// Whether the type of a place is known where it stands: that of a named field is.
    fn is_known(&self, place: &Expr) -> bool {
        match place {
            Expr::Paren(inner) => self.is_known(&inner.expr),
            Expr::Group(inner) => self.is_known(&inner.expr),
            Expr::Path(path) => path.path.get_ident().is_some_and(|name| self.known.has(name)),
            Expr::Field(field) => matches!(field.member, Member::Named(_)) || self.is_known(&field.base),
            _ => false,
        }
    }

    /// What `collection.extend(items)` takes in, which is asked together with the collection. `false` for anything else.
    pub(super) fn ask_of_what_is_taken_in(&mut self, expr: &mut Expr) -> bool {
        let Expr::MethodCall(call) = expr else { return false };
        let (Some(into), true) = (place(&call.receiver), call.method == "extend" && call.args.len() == 1)
        else {
            return false;
        };
        let (into, at) = (into.clone(), call.method.span());
        let Some(items) = call.args.first_mut() else { return false };
        if let Some(place) = taken_in(items).cloned() {
            if !self.is_known(&place) {
                return false;
            }
            if let Expr::MethodCall(chain) = items {
                self.visit_arguments(chain);
            }
            let krate = self.krate;
            let question = self.question_of_both(&into, &parse_quote!(&#place), at);
            *expr = parse_quote!(#krate::__private::asked({ #question }, #expr));
            return true;
        }
        if !gives_value(items) || !has_type(items) {
            return false;
        }
        self.visit_expr_mut(items);
        let krate = self.krate;
        let name = Ident::new("items", Span::mixed_site());
        let value = std::mem::replace(items, parse_quote!(#name));
        let question = self.question_of_both(&into, &parse_quote!(&#name), at);
        *expr = parse_quote!(match #value { #name => #krate::__private::asked({ #question }, #expr) });
        true
    }

    fn question_of_both(&self, into: &Expr, items: &Expr, at: Span) -> proc_macro2::TokenStream {
        let krate = self.krate;
        let question = Ident::new("in_any_order", at);
        quote::quote! {
            #[allow(unused_imports)]
            use #krate::__private::{InAnyOrder as _, OwnOrder as _};
            #krate::__private::TakesIn(&#into).taken(#items).#question();
        }
    }
}

/// What is behind `&`.
fn behind_reference(expr: &Expr) -> &Expr {
    match expr {
        Expr::Reference(reference) => &reference.expr,
        expr => expr,
    }
}

/// A place whose elements come out of an expression, with keys as they are: two with different keys do not come out with one.
fn taken_in(items: &Expr) -> Option<&Expr> {
    if let Some(place) = place(behind_reference(items)) {
        return Some(place);
    }
    let keeps = adapts(items) && keys::assigns_nothing(items) && keys::keeps(items);
    if keeps && !is_chained(items) { source(items).and_then(place) } else { None }
}

/// Whether something is appended in a chain of calls.
fn is_chained(chain: &Expr) -> bool {
    matches!(chain, Expr::MethodCall(call) if call.method == "chain" || is_chained(&call.receiver))
}

/// The name of a function that goes through an argument, and the argument's number: `Vec::from_iter(items)`,
/// `serde_json::to_string(&value)`.
fn gone_through(call: &ExprCall) -> Option<(Span, usize)> {
    let Expr::Path(function) = &*call.func else { return None };
    let mut segments = function.path.segments.iter().rev();
    let (name, of) = (&segments.next()?.ident, &segments.next()?.ident);
    if name == "from_iter" {
        return IN_ORDER.iter().any(|known| of == known).then_some((name.span(), 0));
    }
    let (_, argument) = WRITERS.iter().find(|(known, _)| name == known)?;
    SERIALIZERS.iter().any(|known| of == known).then_some((name.span(), *argument))
}
