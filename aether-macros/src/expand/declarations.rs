//! The items beside the user's function: its type, its implementations, its registration and its warnings.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens as _, format_ident, quote};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;

use super::names::{PrivatePath, private_path};
use crate::diagnostics::report::Warning;
use crate::plan::Shape;
use crate::syntax::span::placed_at;

/// The type that stands for the function.
pub(crate) fn type_item(shape: &Shape) -> TokenStream {
    let Shape { vis, ident, generics, .. } = shape;
    let (cfgs, docs) = (&shape.attrs.cfgs, &shape.attrs.docs);
    let mut params = generics.clone();
    for param in params.type_params_mut() {
        param.bounds.clear();
        param.colon_token = None;
    }
    params.where_clause = None;
    let types = generics.type_params().map(|param| &param.ident);
    let marker = (generics.type_params().count() > 0)
        .then(|| quote!(__marker: ::core::marker::PhantomData<fn() -> (#(#types,)*)>));
    quote! {
        #(#cfgs)*
        #(#docs)*
        #[allow(non_camel_case_types, missing_docs, missing_debug_implementations, missing_copy_implementations, dead_code, unreachable_pub, unnameable_types, clippy::all, clippy::pedantic, clippy::nursery)]
        #vis struct #ident #params { #marker }
    }
}

/// The implementation of `Signature`, and that of `Step` or `Workflow`. An error about what is returned points at the return
/// type.
pub(crate) fn trait_impl(shape: &Shape, name: &str, items: &TokenStream) -> TokenStream {
    let p = private_path(shape);
    let cfgs = &shape.attrs.cfgs;
    let ident = &shape.ident;
    let name = format_ident!("{name}");
    let (generics, types, bounds) = shape.generics.split_for_impl();
    let returned = placed_at(shape.ret.to_token_stream(), shape.ret.span());
    quote! {
        #(#cfgs)*
        #[allow(deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
        impl #generics #p::Signature for #ident #types #bounds { type Returned = #returned; }
        #(#cfgs)*
        #[allow(unused, deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
        impl #generics #p::#name for #ident #types #bounds { #items }
    }
}

/// The associated functions of the type.
pub(crate) fn inherent_impl(shape: &Shape, body: &TokenStream, tool: &TokenStream) -> TokenStream {
    let cfgs = &shape.attrs.cfgs;
    let ident = &shape.ident;
    let (generics, types, bounds) = shape.generics.split_for_impl();
    quote! {
        #(#cfgs)*
        impl #generics #ident #types #bounds { #body #tool }
    }
}

/// Makes the item known to the program without a call. What is generic has no single definition: only its code is known, by
/// the name of the function.
pub(crate) fn linked_item(shape: &Shape, linked: &Linked<'_>) -> TokenStream {
    let p = private_path(shape);
    let Shape { line, name, ident, attrs, .. } = shape;
    let cfgs = &attrs.cfgs;
    let value = match (shape.generics.params.is_empty(), linked) {
        (true, Linked::Step { .. }) => quote!(#p::linked_step::<#ident>),
        (true, Linked::Workflow { .. }) => quote!(#p::linked_workflow::<#ident>),
        (false, Linked::Step { fingerprint, .. } | Linked::Workflow { fingerprint, .. }) => {
            let function = function_name(shape);
            let (mentions, class) = linked.mentions_and_class(&p);
            quote! {
                || #p::LinkedItem {
                    code: #p::LinkedCode {
                        function: #function,
                        name: #name,
                        file: ::core::file!(),
                        line: #line,
                        fingerprint: #fingerprint,
                        mentions: &[#(#mentions),*],
                        class: #class,
                    },
                    item: ::core::option::Option::None,
                }
            }
        }
    };
    quote! {
        #(#cfgs)*
        #p::inventory::submit! { #p::Linked(#value) }
    }
}

/// The name of the function, as it is mentioned.
pub(crate) fn function_name(shape: &Shape) -> String {
    shape.function.unraw().to_string()
}

/// What is told of the code of an item.
pub(crate) enum Linked<'a> {
    Step { fingerprint: &'a str, class: &'a Ident },
    Workflow { fingerprint: &'a str, mentions: &'a [String] },
}

impl Linked<'_> {
    fn mentions_and_class(&self, p: &PrivatePath) -> (&[String], TokenStream) {
        match self {
            Self::Step { class, .. } => (&[], quote!(::core::option::Option::Some(#p::EffectClass::#class))),
            Self::Workflow { mentions, .. } => (mentions, quote!(::core::option::Option::None)),
        }
    }
}

/// The suspicious places, as uses of deprecated constants: the one way to a warning on stable Rust. The compiler puts the name
/// of the constant before the text, so the name says whose warning it is.
pub(crate) fn warning_items(shape: &Shape) -> TokenStream {
    let cfgs = &shape.attrs.cfgs;
    let each = shape.warnings.iter().map(|Warning { span, text }| {
        let used = Ident::new("aether_warning", *span);
        quote! {
            #(#cfgs)*
            const _: () = {
                #[deprecated(note = #text)]
                #[allow(non_upper_case_globals)]
                const aether_warning: () = ();
                #used
            };
        }
    });
    quote!(#(#each)*)
}
