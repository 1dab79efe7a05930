//! `#[aether::test]`: an async function as a test.
//!
//! Promise: what cannot be a test is told once and stays as it is, without being one.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{FnArg, Ident, ItemFn, Pat, PatType, Path, ReturnType};

use crate::check::options::read as options;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::parse::item::outer;
use crate::parse::options as grammar;

/// A test that can be one.
struct Test {
    function: ItemFn,
    /// The simulation that it takes.
    takes: Option<PatType>,
    /// The `aether_testing` crate.
    krate: Path,
    /// Real time that it may take, in milliseconds.
    limit: u64,
}

/// The three phases.
pub(crate) fn compile(written: TokenStream, item: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let options = grammar::read(written).unwrap_or_else(|error| {
        diagnostics.add(error);
        Vec::new()
    });
    let (krate, limit) = options::test(options, &mut diagnostics);
    let test = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(mut function) => {
            outer(&mut function.attrs);
            check(function, krate, limit, &mut diagnostics)
        }
        Err(_) => {
            let head: TokenStream = item.clone().into_iter().take(2).collect();
            let message = "`#[aether::test]` stands on something else than a function with a body";
            diagnostics.report(head, code::TEST, message);
            None
        }
    };
    match (diagnostics.into_error(), test) {
        (None, Some(test)) => expand(test),
        (Some(error), _) => {
            let error = error.to_compile_error();
            quote!(#error #[allow(unused)] #item)
        }
        (None, None) => TokenStream::new(),
    }
}

fn check(function: ItemFn, krate: Path, limit: u64, diagnostics: &mut Diagnostics) -> Option<Test> {
    let sig = &function.sig;
    let name = &sig.ident;
    if sig.asyncness.is_none() {
        let help = "write `async fn`; a test that awaits nothing is a plain `#[test]`";
        diagnostics.report_with(sig.fn_token, code::TEST, format_args!("test `{name}` is not async"), help);
    }
    if !sig.generics.params.is_empty() {
        diagnostics.report(&sig.generics, code::TEST, format_args!("test `{name}` has type parameters"));
    }
    let mut takes = None;
    for (number, argument) in sig.inputs.iter().enumerate() {
        match argument {
            FnArg::Receiver(receiver) => {
                diagnostics.report(receiver, code::TEST, format_args!("test `{name}` takes `self`"));
            }
            FnArg::Typed(argument) if number == 0 && matches!(&*argument.pat, Pat::Ident(_)) => {
                takes = Some(argument.clone());
            }
            FnArg::Typed(argument) if number == 0 => {
                diagnostics.report(
                    &argument.pat,
                    code::TEST,
                    "the simulation that a test takes has a plain name",
                );
            }
            FnArg::Typed(argument) => {
                let message = format_args!("test `{name}` takes more than one simulation");
                diagnostics.report(argument, code::TEST, message);
            }
        }
    }
    for attr in function.attrs.iter().filter(|attr| is_test(attr.path())) {
        let help = "remove it: `#[aether::test]` makes the function a test";
        diagnostics.report_with(attr, code::TEST, format_args!("`{name}` is made a test twice"), help);
    }
    diagnostics.is_empty().then_some(Test { function, takes, krate, limit })
}

fn is_test(path: &Path) -> bool {
    path.segments.last().is_some_and(|last| last.ident == "test")
}

fn expand(test: Test) -> TokenStream {
    let Test { function, takes, krate, limit } = test;
    let ItemFn { attrs, vis, sig, block, .. } = function;
    let name = &sig.ident;
    let attribute = quote!(#krate::attribute);
    let simulation = takes.map(|PatType { pat, ty, .. }| {
        let fresh = quote_spanned!(ty.span()=> <#ty as #attribute::Argument>::fresh());
        quote!(let #pat: #ty = #fresh;)
    });
    let limit = quote!(::core::time::Duration::from_millis(#limit));
    let body = Ident::new("body", Span::mixed_site());
    let (returns, run) = match &sig.output {
        ReturnType::Default => (TokenStream::new(), Ident::new("run", name.span())),
        ReturnType::Type(..) => (quote!(-> ::std::process::ExitCode), Ident::new("run_to_exit", name.span())),
    };
    let output = &sig.output;
    // The call has the place of the test's name: that is where a test that takes too long fails.
    let call = quote_spanned!(name.span()=> #attribute::#run(#limit, #body));
    quote! {
        #[::core::prelude::v1::test]
        #(#attrs)*
        #vis fn #name() #returns {
            async fn #body() #output {
                #simulation
                #block
            }
            #call
        }
    }
}
