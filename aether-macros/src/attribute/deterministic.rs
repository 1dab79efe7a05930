//! `#[deterministic(reason = "..")]`: a helper that `cargo aether check` believes.
//!
//! Promise: the function stays as it is written, but for a mark at its beginning that does nothing.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{Attribute, LitStr, Meta, Path, Signature, Token, Visibility, parse_quote};

use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;

/// What is written in the attribute.
#[derive(Default)]
struct Options {
    reason: Option<LitStr>,
    krate: Option<Path>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            if input.peek(Token![crate]) {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                options.krate = Some(input.parse::<LitStr>()?.parse()?);
            } else {
                let name: syn::Ident = input.parse()?;
                if name != "reason" {
                    return Err(syn::Error::new(
                        name.span(),
                        "[AE0001] the options are `reason` and `crate`",
                    ));
                }
                input.parse::<Token![=]>()?;
                options.reason = Some(input.parse()?);
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

/// A function or a method, with the text of its body as it is.
struct Function {
    attrs: Vec<Attribute>,
    vis: Visibility,
    sig: Signature,
    body: TokenStream,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (attrs, vis, sig) = (input.call(Attribute::parse_outer)?, input.parse()?, input.parse()?);
        let body;
        syn::braced!(body in input);
        Ok(Self { attrs, vis, sig, body: body.parse()? })
    }
}

/// The three phases.
pub(crate) fn compile(written: TokenStream, item: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let options = Options::parse.parse2(written).unwrap_or_else(|error| {
        diagnostics.add(error);
        Options::default()
    });
    let function = syn::parse2::<Function>(item.clone());
    match &function {
        Err(_) => {
            let head: TokenStream = item.clone().into_iter().take(2).collect();
            let message = "`#[deterministic(..)]` stands on something else than a function with a body";
            diagnostics.report_with(
                head,
                code::ALLOW,
                message,
                "put it on a function or a method with a body",
            );
        }
        Ok(function) => check(function, &options, &mut diagnostics),
    }
    match (diagnostics.into_error(), function) {
        (None, Ok(function)) => expand(function, options.krate),
        (Some(error), _) => {
            let error = error.to_compile_error();
            quote!(#error #item)
        }
        (None, Err(_)) => item,
    }
}

fn check(function: &Function, options: &Options, diagnostics: &mut Diagnostics) {
    let sig = &function.sig;
    let name = &sig.ident;
    let has_reason = options.reason.as_ref().is_some_and(|reason| !reason.value().trim().is_empty());
    if !has_reason && diagnostics.is_empty() {
        let message = format_args!("`#[deterministic]` on `{name}` without a reason");
        let help = "write `#[deterministic(reason = \"the clock decides nothing here\")]`";
        diagnostics.report_with(name, code::ALLOW, message, help);
    }
    if let Some(constant) = sig.constness {
        let message = format_args!("`{name}` is a `const fn`, which is deterministic by itself");
        diagnostics.report_with(constant, code::ALLOW, message, "remove `#[deterministic(..)]`");
    }
    // The mark would stand in every caller, and say of them what is meant of the helper.
    if let Some(inlined) = function.attrs.iter().find(|attr| is_always_inlined(&attr.meta)) {
        let message = format_args!("`#[deterministic(..)]` on `{name}`, which is always inlined");
        let help = "write `#[inline]` instead: the check must see where the helper begins and ends";
        diagnostics.report_with(inlined, code::ALLOW, message, help);
    }
}

/// Whether an attribute says `inline(always)`, if only under a condition.
fn is_always_inlined(meta: &Meta) -> bool {
    let Meta::List(list) = meta else { return false };
    if list.path.is_ident("cfg_attr") {
        let all = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
        return all.is_ok_and(|all| all.iter().skip(1).any(is_always_inlined));
    }
    let is_inline = list.path.is_ident("inline");
    is_inline && list.parse_args::<syn::Ident>().is_ok_and(|how| how == "always")
}

fn expand(function: Function, krate: Option<Path>) -> TokenStream {
    let Function { attrs, vis, sig, body } = function;
    let krate = krate.unwrap_or_else(|| parse_quote!(::aether));
    quote! {
        #(#attrs)* #vis #sig {
            #krate::__private::marks::deterministic();
            #body
        }
    }
}
