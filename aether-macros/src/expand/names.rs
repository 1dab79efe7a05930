//! Names in generated code.
//!
//! Promise: hygiene keeps them apart from the user's, and every path is absolute.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::Lifetime;

use crate::plan::Shape;

/// Names that generated code introduces; hygiene keeps them apart from the user's.
pub(crate) struct GeneratedNames {
    pub(crate) cx: Ident,
    pub(crate) args: Ident,
    pub(crate) decoder: Ident,
    pub(crate) call: Lifetime,
}

impl GeneratedNames {
    pub(crate) fn new() -> Self {
        let mixed = Span::mixed_site();
        Self {
            cx: Ident::new("cx", mixed),
            args: Ident::new("args", mixed),
            decoder: Ident::new("decoder", mixed),
            call: Lifetime::new("'__cx", mixed),
        }
    }
}

/// The path of what generated code calls. It stands everywhere in it, so it is kept as tokens that `quote!` appends: to append
/// a stream, the compiler is asked.
pub(crate) struct PrivatePath(Vec<TokenTree>);

/// The path of what generated code calls.
pub(crate) fn private_path(shape: &Shape) -> PrivatePath {
    let krate = &shape.krate;
    PrivatePath(quote!(#krate::__private).into_iter().collect())
}

impl ToTokens for PrivatePath {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.0.iter().cloned());
    }
}

/// The type of the item with its parameters.
pub(crate) fn self_type(shape: &Shape) -> TokenStream {
    let ident = &shape.ident;
    let (_, types, _) = shape.generics.split_for_impl();
    quote!(#ident #types)
}
