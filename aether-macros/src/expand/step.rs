//! The code of a step: its definition, its body as the engine calls it, and its call from a workflow.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{Expr, ExprPath, Path, PathSegment, Type, TypeReference, parse_quote, parse_quote_spanned};

use super::arguments::{
    argument_pattern, argument_trait, associated_items, body_arguments, codec_fns, unreachable_codec_fns,
};
use super::body::{body_call, body_function, call_function, engine_fn_signature};
use super::code::{Expansion, allow_unused, assemble};
use super::declarations::{Linked, linked_item, trait_impl, type_item, warning_items};
use super::definition::{
    allow_marks, declaration_fingerprint, needs_const, step_consts, step_options_literal, variant_name,
};
use super::names::{GeneratedNames, PrivatePath, private_path, self_type};
use crate::parse::item::Owner;
use crate::plan::{Approval, Arg, ArgumentClosure, Effect, Shape, StepPlan};
use crate::syntax::span::placed_at;

/// All code of a step.
pub(crate) fn step_item(plan: &StepPlan) -> Expansion {
    let shape = &plan.shape;
    let (options, class) = (step_options_literal(plan), variant_name(plan.options.effect));
    let fingerprint = declaration_fingerprint(plan, &options);
    let declared = options.declares.then_some(&options.value);
    let consts = step_consts(shape, &class, &fingerprint, declared, plan.options.of.as_ref());
    let outside = [
        linked_item(shape, &Linked::Step { fingerprint: &fingerprint, class: &class }),
        type_item(shape),
        step_impl(plan, &consts),
        warning_items(shape),
    ];
    assemble(
        shape,
        &outside,
        &body_function(shape, &plan.body, "StepCx", true),
        &tool_fn(shape),
        step_call_fn(shape, &recorded_call(shape)),
    )
}

/// The same shape with bodies that are never reached, for a step with mistakes.
pub(crate) fn step_stub(shape: &Shape) -> Expansion {
    let head = engine_fn_signature(shape, "call", "StepCx", "Args");
    let consts = step_consts(shape, &variant_name(Effect::Pure), "", None, None);
    let associated = associated_items(shape, &quote!(Args), &unreachable_codec_fns(shape));
    let body = quote! {
        #consts
        #associated
        #head { ::core::unreachable!() }
    };
    let outside = [type_item(shape), trait_impl(shape, "Step", &body)];
    let call = allow_unused(step_call_fn(shape, &quote!(::core::unreachable!())));
    assemble(shape, &outside, &TokenStream::new(), &unreachable_tool_fn(shape), call)
}

fn step_impl(plan: &StepPlan, consts: &TokenStream) -> TokenStream {
    let shape = &plan.shape;
    let p = private_path(shape);
    let arguments = GeneratedNames::new().args;
    let associated = associated_items(shape, &quote!(Args), &codec_fns(shape));
    let tuple = argument_pattern(shape);
    let head = engine_fn_signature(shape, "call", "StepCx", "Args");
    let called = body_call(shape, shape.args.iter().map(|arg| arg.ident.to_token_stream()));
    let path = placed_at(quote!(#p::step_body), shape.ret.span());
    let boxed = quote_spanned!(shape.ret.span()=> #path(#called));
    // A pure step runs again on every replay, as workflow code does.
    let marks = shape.context.is_none().then(|| {
        let allowed = allow_marks(shape);
        quote!(#p::marks::replayed(); #allowed)
    });
    let key = plan.options.key.as_ref().map(|key| business_key_fn(shape, key));
    let approval = match &plan.options.approval {
        Some(Approval::ByArguments(closure)) => Some(needs_approval_fn(shape, closure)),
        Some(Approval::Required) | None => None,
    };
    let probe = plan.options.probe.as_ref().map(|path| probe_fn(shape, path));
    let compensation = plan.options.compensate.as_ref().map(|path| compensation_fn(shape, path));
    let needs = needs_const(shape, &plan.options.needs);
    let transaction = transaction_const(plan);
    let body = quote! {
        #consts
        #needs
        #transaction
        #associated
        #head { #marks let #tuple = #arguments; #boxed }
        #key
        #approval
        #probe
        #compensation
    };
    trait_impl(shape, "Step", &body)
}

/// How the body of a transaction step reaches its database, where it does so itself and in one way: the engine refuses to
/// start on a store that has another one.
fn transaction_const(plan: &StepPlan) -> Option<TokenStream> {
    let context = plan.shape.context.as_ref().filter(|_| plan.options.effect == Effect::Transaction)?;
    let mut calls = DatabaseCalls { context: &context.ident, sql: false, postgres: false };
    calls.visit_block(&plan.body);
    let name = match (calls.sql, calls.postgres) {
        (true, false) => "cx.sql",
        (false, true) => "cx.postgres",
        _ => return None,
    };
    Some(
        quote!(const TRANSACTION: ::core::option::Option<&'static str> = ::core::option::Option::Some(#name);),
    )
}

/// The calls on a context that reach a database.
struct DatabaseCalls<'c> {
    context: &'c Ident,
    sql: bool,
    postgres: bool,
}

impl<'ast> Visit<'ast> for DatabaseCalls<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let on_context = matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident(self.context));
        self.sql |= on_context && call.method == "sql";
        self.postgres |= on_context && call.method == "postgres";
        syn::visit::visit_expr_method_call(self, call);
    }
}

/// `Box::pin` of a future that owns `cx` and the arguments under their names.
fn boxed_future(shape: &Shape, value: &TokenStream) -> TokenStream {
    let GeneratedNames { cx, args, .. } = GeneratedNames::new();
    let tuple = argument_pattern(shape);
    quote! {
        ::std::boxed::Box::pin(async move {
            let mut #cx = #cx;
            let #tuple = #args;
            #value
        })
    }
}

/// A key that another try would compute otherwise is no key: it is workflow code.
fn business_key_fn(shape: &Shape, key: &ArgumentClosure) -> TokenStream {
    let p = private_path(shape);
    let args = GeneratedNames::new().args;
    let marks = allow_marks(shape);
    let bound = argument_bindings(shape, key);
    let body = without_self(shape, &key.body);
    quote! {
        fn business_key(#args: &Self::Args) -> ::core::option::Option<::std::string::String> {
            #marks
            #bound
            ::core::option::Option::Some(#p::as_workflow_code(|| ::std::string::ToString::to_string(&#body)))
        }
    }
}

fn needs_approval_fn(shape: &Shape, closure: &ArgumentClosure) -> TokenStream {
    let p = private_path(shape);
    let args = GeneratedNames::new().args;
    let marks = allow_marks(shape);
    let bound = argument_bindings(shape, closure);
    let body = without_self(shape, &closure.body);
    quote! {
        fn needs_approval(#args: &Self::Args) -> bool {
            #marks
            #bound
            #p::as_workflow_code(|| -> bool { #body })
        }
    }
}

/// Binds the arguments under their names, as the parameters of the closure are.
fn argument_bindings(shape: &Shape, closure: &ArgumentClosure) -> TokenStream {
    let args = GeneratedNames::new().args;
    let tuple = argument_pattern(shape);
    let typed = closure.params.iter().filter_map(|(name, ty)| {
        let ty = ty.as_ref()?;
        Some(quote!(let #name: #ty = #name;))
    });
    quote! {
        let #tuple = #args;
        #(#typed)*
    }
}

fn probe_fn(shape: &Shape, path: &Path) -> TokenStream {
    let p = private_path(shape);
    let GeneratedNames { cx, args, .. } = GeneratedNames::new();
    let params = body_arguments(shape);
    let function = without_self(shape, &parse_quote!(#path));
    let asked = quote_spanned!(path.span()=> #function(&mut #cx, #(#params),*).await.map_err(::core::convert::Into::into));
    let future = boxed_future(shape, &asked);
    quote! {
        fn probe(#cx: #p::StepCx, #args: Self::Args) -> ::core::option::Option<
            #p::BoxFuture<'static, ::core::result::Result<#p::Probe<Self::Output>, #p::Failure>>,
        > {
            ::core::option::Option::Some(#future)
        }
    }
}

/// The call of the undoing step: the arguments, then the output.
fn compensation_fn(shape: &Shape, path: &Path) -> TokenStream {
    let p = private_path(shape);
    let args = GeneratedNames::new().args;
    let output = Ident::new("output", Span::mixed_site());
    let tuple = argument_pattern(shape);
    let (idents, types) = (shape.args.iter().map(|arg| &arg.ident), shape.args.iter().map(|arg| &arg.owned));
    let produced = quote!(::core::option::Option<Self::Output>);
    let (passed, taken) = match shape.args.len() {
        0 => (quote!(#output), produced),
        _ => (quote!((#(#idents,)* #output)), quote!((#(#types,)* #produced))),
    };
    let step = compensation_type(shape, path);
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

/// An expression with the type of the `impl` block in place of `Self`, which means another type here.
fn without_self(shape: &Shape, expr: &Expr) -> Expr {
    struct Namer<'a>(&'a Type);
    impl VisitMut for Namer<'_> {
        fn visit_expr_path_mut(&mut self, path: &mut ExprPath) {
            if path.qself.is_none() && path.path.segments.len() > 1 && path.path.segments[0].ident == "Self" {
                let (ty, rest) = (self.0, path.path.segments.iter().skip(1));
                *path = parse_quote_spanned!(path.path.span()=> <#ty>#(::#rest)*);
            }
        }
    }
    let mut expr = expr.clone();
    if let Some(Owner { ty, .. }) = &shape.owner {
        Namer(ty).visit_expr_mut(&mut expr);
    }
    expr
}

/// The type of a step by the path of its function: that of `Agent::refund` is `Agent_refund`.
fn compensation_type(shape: &Shape, path: &Path) -> Path {
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
fn tool_fn(shape: &Shape) -> TokenStream {
    let p = private_path(shape);
    let fields = shape.args.iter().map(|Arg { owned, name, doc, .. }| quote!(.field::<#owned>(#name, #doc)));
    tool_fn_of(shape, &quote!(#p::Tool::of::<Self>(#p::ToolSchema::new() #(#fields)*)))
}

fn unreachable_tool_fn(shape: &Shape) -> TokenStream {
    tool_fn_of(shape, &quote!(::core::unreachable!()))
}

fn tool_fn_of(shape: &Shape, body: &TokenStream) -> TokenStream {
    let p = private_path(shape);
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
    let p = private_path(shape);
    let GeneratedNames { cx, .. } = GeneratedNames::new();
    let cx = shape.context.as_ref().map_or(&cx, |context| &context.ident);
    let this = self_type(shape);
    let recorded = shape
        .args
        .iter()
        .fold(quote!(#p::ArgsEncoder::new()), |record, arg| record_argument(arg, &record, &p));
    let call = placed_at(quote!(#p::call_step::<#this>), shape.ret.span());
    quote!(#call(#cx, #recorded.finish()))
}

/// Records an argument that may be borrowed.
fn record_argument(arg: &Arg, record: &TokenStream, p: &PrivatePath) -> TokenStream {
    let Arg { ident, name, ty, owned, .. } = arg;
    let argument = argument_trait(arg, p);
    match ty {
        ty if ty == owned => quote!(#argument::put(&#ident, #name, #record)),
        Type::Reference(TypeReference { elem, .. }) if **elem == *owned => {
            quote!(#argument::put(#ident, #name, #record))
        }
        _ => quote_spanned!(ty.span()=> #record.field::<#ty>(#name, &#ident)),
    }
}

fn step_call_fn(shape: &Shape, body: &TokenStream) -> TokenStream {
    let p = private_path(shape);
    let ret = &shape.ret;
    // An error about the result points at the return type here as in the implementation, and so is told once.
    let p = placed_at(p.to_token_stream(), ret.span());
    let output = quote_spanned!(ret.span()=> <#ret as #p::Answers>::Called);
    let args = shape.args.iter().map(|Arg { ident, ty, .. }| quote!(#ident: #ty)).collect();
    call_function(shape, args, &output, body)
}
