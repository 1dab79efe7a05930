//! The user's function in generated code, and how it is called: by the engine, and by a workflow.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::GenericParam;
use syn::spanned::Spanned as _;

use super::arguments::passed;
use super::names::{GeneratedNames, private_path};
use crate::parse::item::Owner;
use crate::plan::{Arg, Pass, Shape};
use crate::syntax::span::placed_at;

/// The user's function. It owns its context, and its arguments where `owned` says so, so that its future is all that the
/// engine needs: a future around it would be checked and proved `Send` a second time.
pub(crate) fn body_function(shape: &Shape, body: &syn::Block, context: &str, owned: bool) -> TokenStream {
    let p = private_path(shape);
    let attrs = &shape.attrs.body;
    let name = body_name(shape);
    let (owner, context) = (GeneratedNames::new().cx, format_ident!("{context}"));
    let borrowed = shape.context.as_ref().map(|context| {
        let (param, place) = (&context.param, quote_spanned!(context.ty.span()=> &mut #owner));
        quote!(let #param = #place;)
    });
    let mutable = borrowed.is_some().then(|| quote!(mut));
    let params = shape.args.iter().map(|arg| match owned && arg.pass != Pass::Owned {
        true => {
            let (owner, ty) = (owner_name(arg), &arg.owned);
            quote!(#owner: #ty)
        }
        false => written(arg),
    });
    let borrows = shape.args.iter().filter(|arg| owned && arg.pass != Pass::Owned).map(|arg| {
        let (written, value) = (written(arg), passed(arg, &owner_name(arg)));
        quote!(let #written = #value;)
    });
    let ret = &shape.ret;
    let statements = &body.stmts;
    let braces = body.brace_token.span.join();
    let block = quote_spanned!(braces=> { #borrowed #(#borrows)* #(#statements)* });
    quote! {
        #[doc(hidden)]
        #[allow(clippy::unused_async, clippy::needless_pass_by_value, clippy::trivially_copy_pass_by_ref, clippy::ptr_arg, clippy::future_not_send, clippy::used_underscore_binding)]
        #(#attrs)*
        async fn #name(#mutable #owner: #p::#context, #(#params),*) -> #ret #block
    }
}

/// An argument as the user wrote it.
fn written(Arg { ident, mutable, ty, .. }: &Arg) -> TokenStream {
    let mutability = mutable.then(|| quote!(mut));
    quote!(#mutability #ident: #ty)
}

/// The name of what a borrowed argument is borrowed from.
fn owner_name(arg: &Arg) -> Ident {
    format_ident!("__{}", arg.ident, span = Span::mixed_site())
}

/// The name of the user's function in generated code.
pub(crate) fn body_name(shape: &Shape) -> Ident {
    match &shape.owner {
        Some(_) => format_ident!("__body_{}", shape.function, span = Span::call_site()),
        None => format_ident!("__body", span = Span::call_site()),
    }
}

/// The path of the user's function, where `this` is the type of the item.
pub(crate) fn body_path(shape: &Shape, this: &TokenStream) -> TokenStream {
    let name = body_name(shape);
    match &shape.owner {
        Some(Owner { ty, .. }) => quote!(<#ty>::#name),
        None => quote!(#this::#name),
    }
}

/// The call of the user's function; an error about its result points at the return type.
pub(crate) fn body_call(shape: &Shape, params: impl Iterator<Item = TokenStream>) -> TokenStream {
    let at = shape.ret.span();
    let path = placed_at(body_path(shape, &quote!(Self)), at);
    let cx = GeneratedNames::new().cx;
    quote_spanned!(at=> #path(#cx, #(#params),*))
}

/// The signature of the function that the engine calls; an error about its result points at the return type, too.
pub(crate) fn engine_fn_signature(shape: &Shape, name: &str, context: &str, args: &str) -> TokenStream {
    let p = private_path(shape);
    let GeneratedNames { cx, args: arguments, .. } = GeneratedNames::new();
    let (name, context, args) =
        (format_ident!("{name}"), format_ident!("{context}"), format_ident!("{args}"));
    let head = quote! {
        fn #name(#cx: #p::#context, #arguments: Self::#args)
            -> #p::BoxFuture<'static, Self::Returned>
    };
    placed_at(head, shape.ret.span())
}

/// The function that workflows call.
pub(crate) fn call_function(
    shape: &Shape,
    args: Vec<TokenStream>,
    output: &TokenStream,
    body: &TokenStream,
) -> TokenStream {
    let p = private_path(shape);
    let GeneratedNames { cx, call, .. } = GeneratedNames::new();
    let Shape { vis, function: ident, attrs, .. } = shape;
    let (cfgs, docs, called) = (&attrs.cfgs, &attrs.docs, &attrs.call);
    let cx = shape.context.as_ref().map_or(&cx, |context| &context.ident);
    let params: Vec<&GenericParam> = shape.generics.params.iter().collect();
    let bounds = &shape.generics.where_clause;
    let at = shape.ret.span();
    let effect = placed_at(quote!(#p::BoxEffect), at);
    let effect = quote_spanned!(at=> #effect<#call, #output>);
    quote! {
        #(#cfgs)*
        #(#docs)*
        #(#called)*
        #[allow(clippy::all, clippy::pedantic, clippy::nursery)]
        #vis fn #ident<#call, #(#params),*>(#cx: &#call mut impl #p::AsCx, #(#args),*) -> #effect
        #bounds
        {
            let #cx = #p::AsCx::as_cx(#cx);
            #body
        }
    }
}
