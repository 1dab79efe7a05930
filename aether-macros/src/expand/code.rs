//! Generated code, by where it goes.

use proc_macro2::TokenStream;
use quote::quote;

use super::declarations::inherent_impl;
use crate::plan::Shape;

/// Generated code, by where it goes.
#[derive(Default)]
pub(crate) struct Expansion {
    /// Beside the function, or beside the `impl` block it stands in.
    pub(crate) outside: TokenStream,
    /// Into the `impl` block of an associated function.
    pub(crate) inside: TokenStream,
}

impl Expansion {
    /// Everything, for a function that stands alone.
    pub(crate) fn together(self) -> TokenStream {
        let Self { mut outside, inside } = self;
        outside.extend(inside);
        outside
    }
}

/// Puts the parts of an item where they belong.
pub(crate) fn assemble(
    shape: &Shape,
    outside: &[TokenStream],
    body: &TokenStream,
    tool: &TokenStream,
    call: TokenStream,
) -> Expansion {
    let nothing = TokenStream::new();
    match &shape.owner {
        None => {
            let inherent = inherent_impl(shape, body, tool);
            Expansion { outside: quote!(#(#outside)* #inherent), inside: call }
        }
        Some(_) => {
            let inherent = (!tool.is_empty()).then(|| inherent_impl(shape, &nothing, tool));
            let cfgs = &shape.attrs.cfgs;
            let body = (!body.is_empty()).then(|| quote!(#(#cfgs)* #body));
            Expansion { outside: quote!(#(#outside)* #inherent), inside: quote!(#body #call) }
        }
    }
}

/// A function that uses none of its parameters.
pub(crate) fn allow_unused(function: TokenStream) -> TokenStream {
    quote!(#[allow(unused_variables)] #function)
}
