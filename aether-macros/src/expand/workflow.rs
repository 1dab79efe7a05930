//! The code of a workflow: its definition, its body as the engine calls it, and its call from another workflow.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned as _;

use super::arguments::{
    argument_pattern, associated_items, body_arguments, codec_fns, unreachable_codec_fns,
};
use super::body::{body_call, body_function, body_path, call_function, engine_fn_signature};
use super::code::{Expansion, allow_unused, assemble};
use super::declarations::{Linked, function_name, linked_item, trait_impl, type_item, warning_items};
use super::definition::{allow_marks, needs_const, workflow_def};
use super::names::{GeneratedNames, private_path, self_type};
use crate::plan::{Arg, Pass, Shape, Version, WorkflowPlan};
use crate::syntax::span::placed_at;

/// All code of a workflow.
pub(crate) fn workflow_item(plan: &WorkflowPlan) -> Expansion {
    let shape = &plan.shape;
    let linked = Linked::Workflow { fingerprint: &plan.fingerprint, mentions: &plan.mentions };
    let outside = [linked_item(shape, &linked), type_item(shape), workflow_impl(plan), warning_items(shape)];
    let body = body_function(shape, &plan.body, "Cx", owns_arguments(shape));
    assemble(shape, &outside, &body, &TokenStream::new(), workflow_call_fn(shape, &inline_call(shape)))
}

/// The same shape with a body that is never reached, for a workflow with mistakes.
pub(crate) fn workflow_stub(shape: &Shape) -> Expansion {
    let p = private_path(shape);
    let head = engine_fn_signature(shape, "run", "Cx", "Input");
    let def = workflow_def(shape, &Version { number: 1, module: None }, "", &[], &[], &[]);
    let associated = associated_items(shape, &quote!(Input), &unreachable_codec_fns(shape));
    let body = quote! {
        const DEF: &'static #p::WorkflowDef = { #def };
        #associated
        #head { ::core::unreachable!() }
    };
    let outside = [type_item(shape), trait_impl(shape, "Workflow", &body)];
    let call = allow_unused(workflow_call_fn(shape, &quote!(::core::unreachable!())));
    assemble(shape, &outside, &TokenStream::new(), &TokenStream::new(), call)
}

fn workflow_impl(plan: &WorkflowPlan) -> TokenStream {
    let shape = &plan.shape;
    let p = private_path(shape);
    let GeneratedNames { cx, args, .. } = GeneratedNames::new();
    let def = workflow_def(shape, &plan.version, &plan.fingerprint, &plan.states, &plan.edges, &plan.changes);
    let associated = associated_items(shape, &quote!(Input), &codec_fns(shape));
    let tuple = argument_pattern(shape);
    let head = engine_fn_signature(shape, "run", "Cx", "Input");
    let called = body_call(shape, body_arguments(shape).into_iter());
    let code = match owns_arguments(shape) {
        true => called,
        false => quote!(async move {
            let (#cx, #tuple) = (#cx, #tuple);
            #called.await
        }),
    };
    let path = placed_at(quote!(#p::workflow_body), shape.ret.span());
    let code = quote_spanned!(shape.ret.span()=> #path(#code));
    let needs = needs_const(shape, &plan.needs);
    let names = shape.args.iter().map(|arg| &arg.name);
    let (function, mentions) = (function_name(shape), &plan.mentions);
    let marks = allow_marks(shape);
    let body = quote! {
        const DEF: &'static #p::WorkflowDef = { #def };
        const ARGUMENTS: &'static [&'static ::core::primitive::str] = &[#(#names),*];
        const MENTIONED: #p::Mentioned = #p::Mentioned { function: #function, mentions: &[#(#mentions),*] };
        #needs
        #associated
        #head {
            #marks
            let #tuple = #args;
            #code
        }
    };
    trait_impl(shape, "Workflow", &body)
}

fn workflow_call_fn(shape: &Shape, body: &TokenStream) -> TokenStream {
    let args = shape.args.iter().map(|Arg { ident, call_ty, .. }| quote!(#ident: #call_ty)).collect();
    call_function(shape, args, &shape.ret.to_token_stream(), body)
}

/// Whether the body takes every argument by value. One that it borrows is the caller's where a workflow calls it inline.
fn owns_arguments(shape: &Shape) -> bool {
    shape.args.iter().all(|arg| arg.pass == Pass::Owned)
}

/// Runs the body in a scope of its own inside the caller's run.
fn inline_call(shape: &Shape) -> TokenStream {
    let p = private_path(shape);
    let this = self_type(shape);
    let scope = Ident::new("scope", Span::mixed_site());
    let cx = GeneratedNames::new().cx;
    let cx = shape.context.as_ref().map_or(&cx, |context| &context.ident);
    let args = shape.args.iter().map(|arg| &arg.ident);
    let path = body_path(shape, &quote!(<#this>));
    quote! {
        #p::inline_workflow(#cx, <#this as #p::Workflow>::DEF, move |#scope: #p::Cx| #path(#scope, #(#args),*))
    }
}
