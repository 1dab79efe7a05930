//! The code of a step: its definition, its body as the engine calls it, and its call from a workflow.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Path, PathSegment, Type, TypeReference};

use super::definition::{options, step_def};
use super::{
    Code, Names, argument, associated, body_function, call_function, called, codec, head, names, passed,
    placed, private, registration, stub_codec, this, trait_impl, tuple, type_item, unused, warnings,
};
use crate::ir::{Approval, Arg, OfArguments, Owner, Shape, StepPlan};

pub(super) fn step_item(plan: &StepPlan) -> Code {
    let shape = &plan.shape;
    let outside = [registration(shape, "RegisteredStep"), type_item(shape), step_impl(plan), warnings(shape)];
    placed(
        shape,
        &outside,
        &body_function(shape, &plan.body),
        &tool(shape),
        step_call(shape, &recorded_call(shape)),
    )
}

pub(super) fn step_stub(shape: &Shape) -> Code {
    let p = private(shape);
    let error = names().error;
    let head = head(shape, "call", "StepCx", "Args");
    let def = step_def(shape, &quote!(#p::StepOptions::of(#p::EffectClass::Pure)), &shape.name);
    let associated = associated(shape, &quote!(Args), &stub_codec(shape));
    let body = quote! {
        const DEF: &'static #p::StepDef = #def;
        #associated
        #head { ::core::unreachable!() }
        fn classify(#error: &Self::Error) -> #p::FailureClass { ::core::unreachable!() }
    };
    let outside = [type_item(shape), trait_impl(shape, "Step", &body)];
    let call = unused(step_call(shape, &quote!(::core::unreachable!())));
    placed(shape, &outside, &TokenStream::new(), &stub_tool(shape), call)
}

fn step_impl(plan: &StepPlan) -> TokenStream {
    let shape = &plan.shape;
    let p = private(shape);
    let Names { cx, error, .. } = names();
    let def = step_def(shape, &options(plan), &shape.name);
    let associated = associated(shape, &quote!(Args), &codec(shape));
    let context = shape.context.as_ref().map(|context| quote_spanned!(context.ty.span()=> &mut #cx));
    let params = context.into_iter().chain(passed(shape));
    let head = head(shape, "call", "StepCx", "Args");
    let called = in_future(shape, &called(shape, params));
    let key = plan.options.key.as_ref().map(|key| business_key(shape, key));
    let approval = match &plan.options.approval {
        Some(Approval::ByArguments(closure)) => Some(needs_approval(shape, closure)),
        Some(Approval::Required) | None => None,
    };
    let probe = plan.options.probe.as_ref().map(|path| probe(shape, path));
    let compensation = plan.options.compensate.as_ref().map(|path| compensation(shape, path));
    let body = quote! {
        const DEF: &'static #p::StepDef = #def;
        #associated
        #head { #called }
        fn classify(#error: &Self::Error) -> #p::FailureClass {
            use #p::{ClassOfKnown as _, ClassOfOther as _};
            (&&#p::ClassOf(#error)).class_of()
        }
        fn retry_after(#error: &Self::Error) -> ::core::option::Option<::core::time::Duration> {
            use #p::{ClassOfKnown as _, ClassOfOther as _};
            (&&#p::ClassOf(#error)).retry_after_of()
        }
        #key
        #approval
        #probe
        #compensation
    };
    trait_impl(shape, "Step", &body)
}

/// `Box::pin` of a future that owns `cx` and the arguments under their names.
fn in_future(shape: &Shape, value: &TokenStream) -> TokenStream {
    let Names { cx, args, .. } = names();
    let tuple = tuple(shape);
    quote! {
        ::std::boxed::Box::pin(async move {
            let mut #cx = #cx;
            let #tuple = #args;
            #value
        })
    }
}

fn business_key(shape: &Shape, key: &OfArguments) -> TokenStream {
    let args = names().args;
    let bound = bound(shape, key);
    let body = &key.body;
    quote! {
        fn business_key(#args: &Self::Args) -> ::core::option::Option<::std::string::String> {
            #bound
            ::core::option::Option::Some(::std::string::ToString::to_string(&#body))
        }
    }
}

fn needs_approval(shape: &Shape, closure: &OfArguments) -> TokenStream {
    let args = names().args;
    let bound = bound(shape, closure);
    let body = &closure.body;
    quote! {
        fn needs_approval(#args: &Self::Args) -> bool {
            #bound
            #body
        }
    }
}

/// Binds the arguments under their names, as the parameters of the closure are.
fn bound(shape: &Shape, closure: &OfArguments) -> TokenStream {
    let args = names().args;
    let tuple = tuple(shape);
    let typed = closure.params.iter().filter_map(|(name, ty)| {
        let ty = ty.as_ref()?;
        Some(quote!(let #name: #ty = #name;))
    });
    quote! {
        let #tuple = #args;
        #(#typed)*
    }
}

fn probe(shape: &Shape, path: &Path) -> TokenStream {
    let p = private(shape);
    let Names { cx, args, .. } = names();
    let params = passed(shape);
    let function = function(shape, path);
    let asked = quote_spanned!(path.span()=> #function(&mut #cx, #(#params),*).await.map_err(::core::convert::Into::into));
    let future = in_future(shape, &asked);
    quote! {
        fn probe(#cx: #p::StepCx, #args: Self::Args) -> ::core::option::Option<
            #p::BoxFuture<'static, ::core::result::Result<#p::Probe<Self::Output>, #p::Failure>>,
        > {
            ::core::option::Option::Some(#future)
        }
    }
}

/// The call of the undoing step: the arguments, then the output.
fn compensation(shape: &Shape, path: &Path) -> TokenStream {
    let p = private(shape);
    let args = names().args;
    let output = Ident::new("output", Span::mixed_site());
    let tuple = tuple(shape);
    let (idents, types) = (shape.args.iter().map(|arg| &arg.ident), shape.args.iter().map(|arg| &arg.owned));
    let produced = quote!(::core::option::Option<Self::Output>);
    let (passed, taken) = match shape.args.len() {
        0 => (quote!(#output), produced),
        _ => (quote!((#(#idents,)* #output)), quote!((#(#types,)* #produced))),
    };
    let step = undoing(shape, path);
    let undo = quote_spanned!(path.span()=> <#step as #p::Undoes<#taken>>::undo(&#passed));
    quote! {
        fn compensation(
            #args: Self::Args,
            #output: ::core::option::Option<Self::Output>,
        ) -> ::core::option::Option<#p::Undo> {
            let #tuple = #args;
            ::core::option::Option::Some(#undo)
        }
    }
}

/// The path of a function, with the type of the `impl` block in place of `Self`, which means another type here.
fn function(shape: &Shape, path: &Path) -> TokenStream {
    match &shape.owner {
        Some(Owner { ty, .. }) if path.segments.len() > 1 && path.segments[0].ident == "Self" => {
            let rest = path.segments.iter().skip(1);
            quote_spanned!(path.span()=> <#ty>#(::#rest)*)
        }
        _ => path.to_token_stream(),
    }
}

/// The type of a step by the path of its function: that of `Agent::refund` is `Agent_refund`.
fn undoing(shape: &Shape, path: &Path) -> Path {
    let mut names: Vec<PathSegment> = path.segments.iter().cloned().collect();
    if let [.., owner, last] = &mut names[..]
        && owner.ident.to_string().starts_with(char::is_uppercase)
    {
        let own = shape.owner.as_ref().filter(|_| owner.ident == "Self").map(|owner| &owner.name);
        last.ident =
            format_ident!("{}_{}", own.unwrap_or(&owner.ident), last.ident, span = last.ident.span());
        names.remove(names.len() - 2);
    }
    Path { leading_colon: path.leading_colon, segments: names.into_iter().collect() }
}

/// `name::tool()`. The bound is deferred to the caller, so that a step whose arguments have no schema compiles.
fn tool(shape: &Shape) -> TokenStream {
    let p = private(shape);
    let fields = shape.args.iter().map(|Arg { owned, name, doc, .. }| quote!(.field::<#owned>(#name, #doc)));
    tool_function(shape, &quote!(#p::Tool::of::<Self>(#p::ToolSchema::new() #(#fields)*)))
}

fn stub_tool(shape: &Shape) -> TokenStream {
    tool_function(shape, &quote!(::core::unreachable!()))
}

fn tool_function(shape: &Shape, body: &TokenStream) -> TokenStream {
    let p = private(shape);
    let vis = &shape.vis;
    let doc = format!("The step `{}` as a tool for a model.", shape.name);
    let bounds =
        shape.args.iter().map(|Arg { owned, .. }| quote!(for<'__schema> #owned: #p::Describable<'__schema>));
    quote! {
        #[doc = #doc]
        #[allow(dead_code, unreachable_pub, clippy::all, clippy::pedantic)]
        #[must_use]
        #vis fn tool() -> #p::Tool
        where
            #(#bounds,)*
        {
            #body
        }
    }
}

/// The call of a step from a workflow: the arguments are recorded at once, so only `cx` stays borrowed.
fn recorded_call(shape: &Shape) -> TokenStream {
    let p = private(shape);
    let Names { cx, .. } = names();
    let cx = shape.context.as_ref().map_or(&cx, |context| &context.ident);
    let this = this(shape);
    let record = Ident::new("record", Span::mixed_site());
    let puts = shape.args.iter().map(|arg| put(arg, &record, &p));
    quote! {
        let #record = #p::ArgsEncoder::new();
        #(#puts)*
        #p::call_step::<#this>(#cx, #record.finish())
    }
}

/// Records an argument that may be borrowed.
fn put(arg: &Arg, record: &Ident, p: &TokenStream) -> TokenStream {
    let Arg { ident, name, ty, owned, .. } = arg;
    let argument = argument(arg, p);
    match ty {
        ty if ty == owned => quote!(let #record = #argument::put(&#ident, #name, #record);),
        Type::Reference(TypeReference { elem, .. }) if **elem == *owned => {
            quote!(let #record = #argument::put(#ident, #name, #record);)
        }
        _ => quote_spanned!(ty.span()=> let #record = #record.field::<#ty>(#name, &#ident);),
    }
}

fn step_call(shape: &Shape, body: &TokenStream) -> TokenStream {
    let p = private(shape);
    let ret = &shape.ret;
    let value = quote_spanned!(ret.span()=> <#ret as #p::Returns>::Ok);
    let error = quote_spanned!(ret.span()=> <#ret as #p::Returns>::Err);
    let output = quote!(::core::result::Result<#value, #p::StepError<#error>>);
    let args = shape.args.iter().map(|Arg { ident, ty, .. }| quote!(#ident: #ty)).collect();
    call_function(shape, args, &output, body)
}
