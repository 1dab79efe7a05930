//! Phase three: a plan to code.
//!
//! Promise: cannot fail, and emits thin code: names, literals and calls of `aether::__private`.

mod definition;
mod step;

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{GenericParam, Lifetime};

use self::definition::workflow_def;
use crate::ir::{Arg, Owner, Pass, Plan, Rejected, Shape, Stub, Warning, WorkflowPlan};

/// Generated code, by where it goes.
#[derive(Default)]
pub(crate) struct Code {
    /// Beside the function, or beside the `impl` block it stands in.
    pub(crate) outside: TokenStream,
    /// Into the `impl` block of an associated function.
    pub(crate) inside: TokenStream,
}

impl Code {
    /// Everything, for a function that stands alone.
    pub(crate) fn together(self) -> TokenStream {
        let Self { mut outside, inside } = self;
        outside.extend(inside);
        outside
    }
}

/// The code of a checked item.
pub(crate) fn plan(plan: &Plan) -> Code {
    match plan {
        Plan::Step(step) => step::step_item(step),
        Plan::Workflow(workflow) => workflow_item(workflow),
    }
}

/// The messages, and an item of the same public shape.
pub(crate) fn rejected(rejected: &Rejected) -> Code {
    let errors = &rejected.errors;
    let mut code = match &rejected.form {
        Stub::Method(function, true) => Code { inside: function.clone(), ..Code::default() },
        Stub::Method(function, false) => Code { outside: function.clone(), ..Code::default() },
        Stub::Step(shape) => step::step_stub(shape),
        Stub::Workflow(shape) => workflow_stub(shape),
    };
    // A message inside an `impl` block would have to be an item of it.
    let outside = code.outside;
    code.outside = quote!(#errors #outside);
    code
}

/// Names that generated code introduces; hygiene keeps them apart from the user's.
struct Names {
    cx: Ident,
    args: Ident,
    error: Ident,
    decoder: Ident,
    call: Lifetime,
}

fn names() -> Names {
    let mixed = Span::mixed_site();
    Names {
        cx: Ident::new("cx", mixed),
        args: Ident::new("args", mixed),
        error: Ident::new("error", mixed),
        decoder: Ident::new("decoder", mixed),
        call: Lifetime::new("'__cx", mixed),
    }
}

fn private(shape: &Shape) -> TokenStream {
    let krate = &shape.krate;
    quote!(#krate::__private)
}

/// Puts the parts of an item where they belong.
fn placed(
    shape: &Shape,
    outside: &[TokenStream],
    body: &TokenStream,
    tool: &TokenStream,
    call: TokenStream,
) -> Code {
    let nothing = TokenStream::new();
    match &shape.owner {
        None => {
            let inherent = inherent(shape, body, tool);
            Code { outside: quote!(#(#outside)* #inherent), inside: call }
        }
        Some(_) => {
            let inherent = (!tool.is_empty()).then(|| inherent(shape, &nothing, tool));
            let cfgs = &shape.attrs.cfgs;
            let body = (!body.is_empty()).then(|| quote!(#(#cfgs)* #body));
            Code { outside: quote!(#(#outside)* #inherent), inside: quote!(#body #call) }
        }
    }
}

/// The suspicious places, as uses of deprecated constants: the one way to a warning on stable Rust.
fn warnings(shape: &Shape) -> TokenStream {
    let cfgs = &shape.attrs.cfgs;
    let each = shape.warnings.iter().map(|Warning { span, text }| {
        let used = Ident::new("suspicious", *span);
        quote! {
            #(#cfgs)*
            const _: () = {
                #[deprecated(note = #text)]
                #[allow(non_upper_case_globals)]
                const suspicious: () = ();
                #used
            };
        }
    });
    quote!(#(#each)*)
}

fn workflow_item(plan: &WorkflowPlan) -> Code {
    let shape = &plan.shape;
    let outside =
        [registration(shape, "RegisteredWorkflow"), type_item(shape), workflow_impl(plan), warnings(shape)];
    let body = body_function(shape, &plan.body);
    placed(shape, &outside, &body, &TokenStream::new(), workflow_call(shape, &inline_call(shape)))
}

fn workflow_stub(shape: &Shape) -> Code {
    let p = private(shape);
    let head = head(shape, "run", "Cx", "Input");
    let def = workflow_def(shape, 1, "", &[], &[]);
    let associated = associated(shape, &quote!(Input), &stub_codec(shape));
    let body = quote! {
        const DEF: &'static #p::WorkflowDef = #def;
        #associated
        #head { ::core::unreachable!() }
    };
    let outside = [type_item(shape), trait_impl(shape, "Workflow", &body)];
    let call = unused(workflow_call(shape, &quote!(::core::unreachable!())));
    placed(shape, &outside, &TokenStream::new(), &TokenStream::new(), call)
}

/// A function that uses none of its parameters.
fn unused(function: TokenStream) -> TokenStream {
    quote!(#[allow(unused_variables)] #function)
}

/// Makes the definition known to the program without a call. A generic item has no single definition.
fn registration(shape: &Shape, registry: &str) -> TokenStream {
    if !shape.generics.params.is_empty() {
        return TokenStream::new();
    }
    let p = private(shape);
    let cfgs = &shape.attrs.cfgs;
    let registry = format_ident!("{registry}");
    let name = &shape.ident;
    quote! {
        #(#cfgs)*
        const _: () = {
            #p::inventory::submit! { #p::#registry::of::<#name>() }
        };
    }
}

fn type_item(shape: &Shape) -> TokenStream {
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
        #[allow(non_camel_case_types, missing_docs, missing_debug_implementations, missing_copy_implementations)]
        #[allow(dead_code, unreachable_pub, unnameable_types, clippy::all, clippy::pedantic, clippy::nursery)]
        #vis struct #ident #params { #marker }
    }
}

fn trait_impl(shape: &Shape, name: &str, items: &TokenStream) -> TokenStream {
    let p = private(shape);
    let cfgs = &shape.attrs.cfgs;
    let ident = &shape.ident;
    let name = format_ident!("{name}");
    let (generics, types, bounds) = shape.generics.split_for_impl();
    quote! {
        #(#cfgs)*
        #[allow(unused, deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
        impl #generics #p::#name for #ident #types #bounds { #items }
    }
}

fn inherent(shape: &Shape, body: &TokenStream, tool: &TokenStream) -> TokenStream {
    let cfgs = &shape.attrs.cfgs;
    let ident = &shape.ident;
    let (generics, types, bounds) = shape.generics.split_for_impl();
    quote! {
        #(#cfgs)*
        impl #generics #ident #types #bounds { #body #tool }
    }
}

/// The user's function.
fn body_function(shape: &Shape, body: &syn::Block) -> TokenStream {
    let attrs = &shape.attrs.body;
    let name = body_name(shape);
    let context = shape.context.iter().map(|context| &context.param);
    let args = shape.args.iter().map(|Arg { ident, mutable, ty, .. }| {
        let mutability = mutable.then(|| quote!(mut));
        quote!(#mutability #ident: #ty)
    });
    let params = context.map(ToTokens::to_token_stream).chain(args);
    let ret = &shape.ret;
    let statements = &body.stmts;
    let braces = body.brace_token.span.join();
    let block = quote_spanned!(braces=> { #(#statements)* });
    quote! {
        #[doc(hidden)]
        #[allow(clippy::unused_async, clippy::needless_pass_by_value, clippy::trivially_copy_pass_by_ref)]
        #[allow(clippy::ptr_arg, clippy::future_not_send, clippy::used_underscore_binding)]
        #(#attrs)*
        async fn #name(#(#params),*) -> #ret #block
    }
}

/// The name of the user's function in generated code.
fn body_name(shape: &Shape) -> Ident {
    match &shape.owner {
        Some(_) => format_ident!("__body_{}", shape.function, span = Span::call_site()),
        None => format_ident!("__body", span = Span::call_site()),
    }
}

/// The path of the user's function, where `this` is the type of the item.
fn body_path(shape: &Shape, this: &TokenStream) -> TokenStream {
    let name = body_name(shape);
    match &shape.owner {
        Some(Owner { ty, .. }) => quote!(<#ty>::#name),
        None => quote!(#this::#name),
    }
}

/// `Args`, `Output`, `Error`, `encode`, `decode`; `args` is what the trait calls the first.
fn associated(shape: &Shape, args: &TokenStream, codec: &TokenStream) -> TokenStream {
    let p = private(shape);
    let owned = owned(shape);
    let ret = &shape.ret;
    let results = quote! {
        type Output = <#ret as #p::Returns>::Ok;
        type Error = <#ret as #p::Returns>::Err;
    };
    let results = placed_at(results, ret.span());
    quote! {
        type #args = #owned;
        #results
        #codec
    }
}

/// The owned arguments: `()`, the one, or a tuple.
fn owned(shape: &Shape) -> TokenStream {
    let mut types = shape.args.iter().map(|arg| &arg.owned);
    match (types.len(), types.next()) {
        (1, Some(one)) => one.to_token_stream(),
        _ => {
            let types = shape.args.iter().map(|arg| &arg.owned);
            quote!((#(#types),*))
        }
    }
}

/// The pattern or tuple of all arguments, likewise.
fn tuple(shape: &Shape) -> TokenStream {
    let idents: Vec<&Ident> = shape.args.iter().map(|arg| &arg.ident).collect();
    match &idents[..] {
        [one] => one.to_token_stream(),
        all => quote!((#(#all),*)),
    }
}

/// The call of the user's function; an error about its result points at the return type.
fn called(shape: &Shape, params: impl Iterator<Item = TokenStream>) -> TokenStream {
    let p = private(shape);
    let at = shape.ret.span();
    let result = placed_at(quote!(#p::Returns::into_result), at);
    let path = placed_at(body_path(shape, &quote!(Self)), at);
    quote_spanned!(at=> #result(#path(#(#params),*).await))
}

/// The head of the function that the engine calls, likewise.
fn head(shape: &Shape, name: &str, context: &str, args: &str) -> TokenStream {
    let p = private(shape);
    let Names { cx, args: arguments, .. } = names();
    let (name, context, args) =
        (format_ident!("{name}"), format_ident!("{context}"), format_ident!("{args}"));
    let head = quote! {
        fn #name(#cx: #p::#context, #arguments: Self::#args)
            -> #p::BoxFuture<'static, ::core::result::Result<Self::Output, Self::Error>>
    };
    placed_at(head, shape.ret.span())
}

/// `encode` and `decode`: one field per argument.
fn codec(shape: &Shape) -> TokenStream {
    let p = private(shape);
    let Names { args, decoder, .. } = names();
    let (owned, tuple) = (owned(shape), tuple(shape));
    let record = Ident::new("record", Span::mixed_site());
    let puts = shape.args.iter().map(|arg| {
        let (argument, ident, name) = (argument(arg, &p), &arg.ident, &arg.name);
        quote!(let #record = #argument::put(#ident, #name, #record);)
    });
    let takes = shape.args.iter().map(|arg| {
        let (argument, name) = (argument(arg, &p), &arg.name);
        quote!(#argument::take(#name, &#decoder)?)
    });
    let takes = match shape.args.len() {
        1 => quote!(#(#takes)*),
        _ => quote!((#(#takes),*)),
    };
    quote! {
        fn encode(#args: &#owned) -> ::core::result::Result<#p::Payload, #p::PayloadError> {
            let #tuple = #args;
            let #record = #p::ArgsEncoder::new();
            #(#puts)*
            #record.finish()
        }
        fn decode(#args: &#p::Payload) -> ::core::result::Result<#owned, #p::PayloadError> {
            let #decoder = #p::ArgsDecoder::new(#args)?;
            ::core::result::Result::Ok(#takes)
        }
    }
}

/// The type of an argument as one; an error about it points at the argument's name.
fn argument(arg: &Arg, p: &TokenStream) -> TokenStream {
    let at = arg.ident.span();
    let owned = placed_at(arg.owned.to_token_stream(), at);
    quote_spanned!(at=> <#owned as #p::Argument>)
}

/// The same tokens, as if they stood at another place.
pub(crate) fn placed_at(tokens: TokenStream, at: Span) -> TokenStream {
    let moved = tokens.into_iter().map(|token| match token {
        TokenTree::Group(group) => {
            let mut moved = Group::new(group.delimiter(), placed_at(group.stream(), at));
            moved.set_span(group.span().located_at(at));
            TokenTree::Group(moved)
        }
        mut token => {
            token.set_span(token.span().located_at(at));
            token
        }
    });
    moved.collect()
}

fn stub_codec(shape: &Shape) -> TokenStream {
    let p = private(shape);
    let args = names().args;
    let owned = owned(shape);
    quote! {
        fn encode(#args: &#owned) -> ::core::result::Result<#p::Payload, #p::PayloadError> { ::core::unreachable!() }
        fn decode(#args: &#p::Payload) -> ::core::result::Result<#owned, #p::PayloadError> { ::core::unreachable!() }
    }
}

/// Hands the owned arguments to a function that wants them as written.
fn passed(shape: &Shape) -> Vec<TokenStream> {
    let pass = |Arg { ident, pass, .. }: &Arg| match pass {
        Pass::Owned => quote!(#ident),
        Pass::Ref => quote!(&#ident),
        Pass::AsRef => quote!(#ident.as_ref()),
        Pass::AsDeref => quote!(#ident.as_deref()),
    };
    shape.args.iter().map(pass).collect()
}

/// The type of the item with its parameters.
fn this(shape: &Shape) -> TokenStream {
    let ident = &shape.ident;
    let (_, types, _) = shape.generics.split_for_impl();
    quote!(#ident #types)
}

fn workflow_call(shape: &Shape, body: &TokenStream) -> TokenStream {
    let args = shape.args.iter().map(|Arg { ident, call_ty, .. }| quote!(#ident: #call_ty)).collect();
    call_function(shape, args, &shape.ret.to_token_stream(), body)
}

/// The function that workflows call.
fn call_function(
    shape: &Shape,
    args: Vec<TokenStream>,
    output: &TokenStream,
    body: &TokenStream,
) -> TokenStream {
    let p = private(shape);
    let Names { cx, call, .. } = names();
    let Shape { vis, function: ident, attrs, .. } = shape;
    let (cfgs, docs, called) = (&attrs.cfgs, &attrs.docs, &attrs.call);
    let cx = shape.context.as_ref().map_or(&cx, |context| &context.ident);
    let params: Vec<&GenericParam> = shape.generics.params.iter().collect();
    let bounds = &shape.generics.where_clause;
    quote! {
        #(#cfgs)*
        #(#docs)*
        #(#called)*
        #[allow(clippy::all, clippy::pedantic, clippy::nursery)]
        #vis fn #ident<#call, #(#params),*>(#cx: &#call mut impl #p::AsCx, #(#args),*) -> #p::BoxEffect<#call, #output>
        #bounds
        {
            let #cx = #p::AsCx::as_cx(#cx);
            #body
        }
    }
}

/// Runs the body in a scope of its own inside the caller's run.
fn inline_call(shape: &Shape) -> TokenStream {
    let p = private(shape);
    let this = this(shape);
    let scope = Ident::new("scope", Span::mixed_site());
    let cx = names().cx;
    let cx = shape.context.as_ref().map_or(&cx, |context| &context.ident);
    let args = shape.args.iter().map(|arg| &arg.ident);
    let context = shape.context.as_ref().map(|context| quote_spanned!(context.ty.span()=> &mut #scope));
    let params = context.into_iter().chain(args.map(ToTokens::to_token_stream));
    let path = body_path(shape, &quote!(<#this>));
    quote! {
        #p::inline_workflow(#cx, <#this as #p::Workflow>::DEF, move |#scope: #p::Cx| async move {
            let mut #scope = #scope;
            #path(#(#params),*).await
        })
    }
}

fn workflow_impl(plan: &WorkflowPlan) -> TokenStream {
    let shape = &plan.shape;
    let p = private(shape);
    let Names { cx, args, .. } = names();
    let def = workflow_def(shape, plan.version, &plan.fingerprint, &plan.states, &plan.edges);
    let associated = associated(shape, &quote!(Input), &codec(shape));
    let context = shape.context.as_ref().map(|context| quote_spanned!(context.ty.span()=> &mut #cx));
    let params = context.into_iter().chain(passed(shape));
    let tuple = tuple(shape);
    let (head, called) = (head(shape, "run", "Cx", "Input"), called(shape, params));
    let body = quote! {
        const DEF: &'static #p::WorkflowDef = #def;
        #associated
        #head {
            ::std::boxed::Box::pin(#p::workflow_code(async move {
                let mut #cx = #cx;
                let #tuple = #args;
                #called
            }))
        }
    };
    trait_impl(shape, "Workflow", &body)
}

#[cfg(test)]
mod tests;
