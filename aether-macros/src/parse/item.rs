//! The item that an attribute stands on.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::visit_mut::{self, VisitMut};
use syn::{AttrStyle, Attribute, Ident, ItemFn, ItemImpl, Type, parse_quote};

use super::kind::Kind;
use super::options::{self, Opt};
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;

/// What `#[step]` or `#[workflow]` stands on.
pub(crate) enum Item {
    Function(Box<Parsed>),
    /// An `impl` block of workflows, with the options of its attribute.
    Block(TokenStream, Box<ItemImpl>),
    /// Anything else: the item and a message.
    Refused(TokenStream),
}

/// What the attribute stands on, and what stands in it.
pub(crate) struct Parsed {
    pub(crate) kind: Kind,
    /// An error when the options do not follow the grammar.
    pub(crate) options: syn::Result<Vec<Opt>>,
    pub(crate) function: ItemFn,
    /// The type of the `impl` block it stands in.
    pub(crate) owner: Option<Owner>,
}

/// The type of an `impl` block.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) ty: Type,
    /// Its last name.
    pub(crate) name: Ident,
}

/// Reads attribute and item.
pub(crate) fn parse(kind: Kind, options: TokenStream, item: TokenStream) -> Item {
    if let Ok(function) = syn::parse2::<ItemFn>(item.clone()) {
        return Item::Function(Box::new(function_of(kind, options, function, None)));
    }
    match syn::parse2::<ItemImpl>(item.clone()) {
        Ok(block) if kind == Kind::Workflow => Item::Block(options, Box::new(block)),
        _ => Item::Refused(not_a_function(kind, item)),
    }
}

/// Reads the attribute of a function.
pub(crate) fn function_of(
    kind: Kind,
    options: TokenStream,
    mut function: ItemFn,
    owner: Option<Owner>,
) -> Parsed {
    outer(&mut function.attrs);
    Ungrouped.visit_signature_mut(&mut function.sig);
    Parsed { kind, options: options::read(options), function, owner }
}

/// Takes away the groups that a macro makes around the types that it was given: the types are as if they were written there.
struct Ungrouped;

impl VisitMut for Ungrouped {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        while let Type::Group(group) = ty {
            let inner = (*group.elem).clone();
            // `&$t` of `dyn A + B` needs parentheses.
            *ty = match inner {
                Type::TraitObject(_) | Type::ImplTrait(_) => parse_quote!((#inner)),
                inner => inner,
            };
        }
        visit_mut::visit_type_mut(self, ty);
    }
}

/// Attributes that stand inside of a body, `#![allow(..)]`, as they are written in front of the function.
pub(crate) fn outer(attrs: &mut [Attribute]) {
    attrs.iter_mut().for_each(|attr| attr.style = AttrStyle::Outer);
}

fn not_a_function(kind: Kind, item: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let head: TokenStream = item.clone().into_iter().take(2).collect();
    diagnostics.report(
        head,
        code::NOT_A_FUNCTION,
        format_args!("`{}` stands on something else than a function", kind.attribute()),
    );
    let errors = diagnostics.into_error().map(|error| error.to_compile_error());
    let mut out = item;
    errors.to_tokens(&mut out);
    out
}
