//! Arguments on their way: recorded, decoded, and handed to the user's function as it wants them.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

use super::names::{GeneratedNames, PrivatePath, private_path};
use crate::plan::{Arg, Pass, Shape};
use crate::syntax::span::placed_at;

/// `Args`, `encode`, `decode`; `args` is what the trait calls the first.
pub(crate) fn associated_items(shape: &Shape, args: &TokenStream, codec: &TokenStream) -> TokenStream {
    let owned = owned_arguments_type(shape);
    quote! {
        type #args = #owned;
        #codec
    }
}

/// The owned arguments: `()`, the one, or a tuple.
pub(crate) fn owned_arguments_type(shape: &Shape) -> TokenStream {
    let mut types = shape.args.iter().map(|arg| &arg.owned);
    match (types.len(), types.next()) {
        (1, Some(one)) => one.to_token_stream(),
        _ => {
            let types = shape.args.iter().map(|arg| &arg.owned);
            quote!((#(#types),*))
        }
    }
}

/// The names of all arguments, as a pattern or as a value: `()`, the one, or a tuple.
pub(crate) fn argument_pattern(shape: &Shape) -> TokenStream {
    let idents: Vec<&Ident> = shape.args.iter().map(|arg| &arg.ident).collect();
    match &idents[..] {
        [one] => one.to_token_stream(),
        all => quote!((#(#all),*)),
    }
}

/// The owned arguments as the user's function wants them: by value, or borrowed as its signature says.
pub(crate) fn body_arguments(shape: &Shape) -> Vec<TokenStream> {
    shape.args.iter().map(|arg| passed(arg, &arg.ident)).collect()
}

/// An argument that is owned under the name `owner`, as the user's function wants it.
pub(crate) fn passed(arg: &Arg, owner: &Ident) -> TokenStream {
    match arg.pass {
        Pass::Owned => quote!(#owner),
        Pass::Ref => quote!(&#owner),
        Pass::AsRef => quote!(#owner.as_ref()),
        Pass::AsDeref => quote!(#owner.as_deref()),
    }
}

/// How many results `taken` takes. A longer tuple is written with a `?` for each, which costs more to check.
const TUPLE: usize = 12;

/// `encode` and `decode`: one field per argument.
pub(crate) fn codec_fns(shape: &Shape) -> TokenStream {
    let p = private_path(shape);
    let GeneratedNames { args, decoder, .. } = GeneratedNames::new();
    let (owned, tuple) = (owned_arguments_type(shape), argument_pattern(shape));
    let recorded = shape.args.iter().fold(quote!(#p::ArgsEncoder::new()), |record, arg| {
        let (argument, ident, name) = (argument_trait(arg, &p), &arg.ident, &arg.name);
        quote!(#argument::put(#ident, #name, #record))
    });
    let takes = shape.args.iter().map(|arg| {
        let (argument, name) = (argument_trait(arg, &p), &arg.name);
        quote!(#argument::take(#name, &#decoder))
    });
    let takes = match shape.args.len() {
        1 => quote!(#p::taken(#(#takes)*, #decoder)),
        0..=TUPLE => quote!(#p::taken((#(#takes),*), #decoder)),
        _ => quote!(::core::result::Result::Ok((#(#takes?),*))),
    };
    let reads = match shape.args.len() {
        0..=TUPLE => quote!(of(#args)),
        _ => quote!(new(#args)?),
    };
    quote! {
        fn encode(#args: &#owned) -> #p::Coded<#p::Payload> {
            let #tuple = #args;
            #recorded.finish()
        }
        fn decode(#args: &#p::Payload) -> #p::Coded<#owned> {
            let #decoder = #p::ArgsDecoder::#reads;
            #takes
        }
    }
}

/// The same in a stub.
pub(crate) fn unreachable_codec_fns(shape: &Shape) -> TokenStream {
    let p = private_path(shape);
    let args = GeneratedNames::new().args;
    let owned = owned_arguments_type(shape);
    quote! {
        fn encode(#args: &#owned) -> #p::Coded<#p::Payload> { ::core::unreachable!() }
        fn decode(#args: &#p::Payload) -> #p::Coded<#owned> { ::core::unreachable!() }
    }
}

/// The type of an argument as an `Argument`; an error about it points at the argument's name.
pub(crate) fn argument_trait(arg: &Arg, p: &PrivatePath) -> TokenStream {
    let at = arg.ident.span();
    let owned = placed_at(arg.owned.to_token_stream(), at);
    quote_spanned!(at=> <#owned as #p::Argument>)
}
