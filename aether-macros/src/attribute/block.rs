//! `#[workflow]` on an `impl` block: workflows and steps as associated functions.
//!
//! Promise: `Agent::triage` is called like any associated function, its type is `Agent_triage`; functions that are
//! neither workflow nor step stay as they are.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, FnArg, ImplItem, ImplItemFn, ItemFn, ItemImpl, Meta, Type};

use super::function::check_and_expand;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::expand::code::Expansion;
use crate::parse::inherit;
use crate::parse::item::{Owner, function_of};
use crate::parse::kind::Kind;

/// The code of a block.
pub(crate) fn compile(options: &TokenStream, mut block: ItemImpl) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let inherited = inherit::inherited(options, &mut diagnostics);
    let owner = owner(&block, &mut diagnostics);
    let mut outside = TokenStream::new();
    let items = std::mem::take(&mut block.items);
    for item in items {
        match item {
            ImplItem::Fn(function) => match kind(&function) {
                Some((kind, own)) => {
                    let Expansion { outside: beside, inside } =
                        compiled(kind, &own, &inherited, function, owner.as_ref());
                    outside.extend(beside);
                    block.items.push(ImplItem::Verbatim(inside));
                }
                None => block.items.push(ImplItem::Fn(function)),
            },
            item => block.items.push(item),
        }
    }
    let errors = diagnostics.into_error().map(|error| error.to_compile_error());
    quote!(#errors #outside #block)
}

fn compiled(
    kind: Kind,
    own: &TokenStream,
    inherited: &[TokenStream],
    function: ImplItemFn,
    owner: Option<&Owner>,
) -> Expansion {
    let ImplItemFn { attrs, vis, modifiers, sig, block } = function;
    let attrs = attrs.into_iter().filter(|attr| Kind::of(attr).is_none()).collect();
    let function = ItemFn { attrs, vis, modifiers, sig, block: Box::new(block) };
    let Some(owner) = owner else {
        // The block is refused as a whole: only the shape stays, for callers.
        let (attrs, vis, sig) = (&function.attrs, &function.vis, &function.sig);
        let inside = quote!(#(#attrs)* #[allow(unused)] #vis #sig { ::core::unreachable!() });
        return Expansion { inside, ..Expansion::default() };
    };
    let options = inherit::merged(kind, own, inherited);
    check_and_expand(function_of(kind, options, function, Some(owner.clone())))
}

/// The type of the block, if its functions can be workflows.
fn owner(block: &ItemImpl, diagnostics: &mut Diagnostics) -> Option<Owner> {
    let mut refuse = |at: TokenStream, what: &str| {
        diagnostics.report(at, code::IMPL_BLOCK, format_args!("`#[workflow]` on an `impl` block {what}"));
        None
    };
    if let Some((path, _)) = &block.trait_ {
        return refuse(path.to_token_stream(), "of a trait");
    }
    if !block.generics.params.is_empty() {
        return refuse(block.generics.to_token_stream(), "with parameters");
    }
    match &*block.self_ty {
        Type::Path(path) => {
            let name = path.path.segments.last()?.ident.clone();
            Some(Owner { ty: (*block.self_ty).clone(), name })
        }
        ty => refuse(ty.to_token_stream(), "of a type without a name"),
    }
}

/// What a function is, and the options of its own attribute.
fn kind(function: &ImplItemFn) -> Option<(Kind, TokenStream)> {
    let own = |attr: &Attribute| match &attr.meta {
        Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    };
    if let Some((kind, attr)) = function.attrs.iter().find_map(|attr| Some((Kind::of(attr)?, attr))) {
        return Some((kind, own(attr)));
    }
    let context = function.sig.inputs.first().is_some_and(is_context);
    (context && function.sig.asyncness.is_some()).then(|| (Kind::Workflow, TokenStream::new()))
}

fn is_context(input: &FnArg) -> bool {
    let FnArg::Typed(typed) = input else { return false };
    let Type::Reference(reference) = &*typed.ty else { return false };
    let Type::Path(path) = &*reference.elem else { return false };
    reference.mutability.is_some() && path.path.segments.last().is_some_and(|last| last.ident == "Cx")
}
