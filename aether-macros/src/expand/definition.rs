//! Definitions as literals: what a step or workflow declares, and its state machine.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens as _, format_ident, quote};
use syn::Type;
use syn::spanned::Spanned as _;

use super::declarations::function_name;
use super::names::{PrivatePath, private_path};
use crate::plan::{
    Allow, Approval, Change, Edge, FormerPath, Retry, Shape, State, StepPlan, Timeout, Version,
};
use crate::syntax::plain_text::{hash, plain};
use crate::syntax::span::placed_at;

/// What a step declares: the constants of which its definition is made, and no more than differs from their defaults. The
/// compiler evaluates each of them whenever it checks the program.
pub(crate) fn step_consts(
    shape: &Shape,
    class: &Ident,
    fingerprint: &str,
    options: Option<&TokenStream>,
    of: Option<&FormerPath>,
) -> TokenStream {
    let p = private_path(shape);
    let path = step_path(shape, of);
    let (name, function) = (&shape.name, function_name(shape));
    let (doc, line) = (&shape.attrs.doc, shape.line);
    let options = options.map(|options| quote!(const OPTIONS: #p::StepOptions = #options;));
    let allows = (!shape.allows.is_empty()).then(|| {
        let allows = allows_literal(&shape.allows, &p);
        quote!(const ALLOWS: &'static [#p::Allow] = #allows;)
    });
    let ret = &shape.ret;
    let returned = placed_at(ret.to_token_stream(), ret.span());
    // What an error means for another attempt. An error about its type points at the return type.
    let classify = placed_at(quote!(#p::ClassOf::<#ret>::CLASSIFY), ret.span());
    quote! {
        const DECLARED: #p::Declared<#returned> = {
            use #p::ClassOfOther as _;
            #p::Declared {
                name: #name,
                path: #path,
                function: #function,
                fingerprint: #fingerprint,
                doc: #doc,
                file: ::core::file!(),
                line: #line,
                class: #p::EffectClass::#class,
                classify: #classify,
            }
        };
        #options
        #allows
    }
}

/// Under which path the step is known: its own, unless it says that it had another one.
fn step_path(shape: &Shape, of: Option<&FormerPath>) -> TokenStream {
    let function = match (of, &shape.owner) {
        (Some(FormerPath { module: Some(module), function }), _) => {
            let path = format!("{module}::{function}");
            return quote!(#path);
        }
        (Some(FormerPath { module: None, function }), _) => function.clone(),
        (None, Some(owner)) => format!("{}::{}", owner.name, shape.function),
        (None, None) => shape.ident.to_string(),
    };
    quote!(::core::concat!(::core::module_path!(), "::", #function))
}

/// The types of the values that a body takes from its program.
pub(crate) fn needs_const(shape: &Shape, needs: &[Type]) -> Option<TokenStream> {
    let p = private_path(shape);
    let list = quote!(&[#(#p::Need::provided::<#needs>()),*]);
    (!needs.is_empty()).then(|| quote!(const NEEDS: &'static [#p::Need] = #list;))
}

fn allows_literal(allows: &[Allow], p: &PrivatePath) -> TokenStream {
    let allows =
        allows.iter().map(|Allow { what, reason }| quote!(#p::Allow { what: #what, reason: #reason }));
    quote!(&[#(#allows),*])
}

/// A call for each check that the definition switches off, so that object files say it.
pub(crate) fn allow_marks(shape: &Shape) -> TokenStream {
    let p = private_path(shape);
    let marks = shape.allows.iter().map(|allow| format_ident!("allow_{}", allow.what));
    quote!(#(#p::marks::#marks();)*)
}

/// The options of a step.
pub(crate) struct OptionsLiteral {
    /// The declared ones over the defaults of the class.
    pub(crate) value: TokenStream,
    /// Whether any are declared.
    pub(crate) declares: bool,
}

/// The options that a step declares.
pub(crate) fn step_options_literal(plan: &StepPlan) -> OptionsLiteral {
    let p = private_path(&plan.shape);
    let options = &plan.options;
    let class = variant_name(options.effect);
    let flag = |set: bool| set.then(|| quote!(true));
    let declared = [
        ("retry", options.retry.map(|retry| retry_literal(retry, &p))),
        ("timeout", options.timeout.map(optional_duration)),
        ("on_unknown", options.on_unknown.map(|policy| enum_value(&p, "OnUnknown", policy))),
        ("irreversible", flag(options.irreversible)),
        ("idempotent", flag(options.idempotent)),
        ("keyed", flag(options.key.is_some())),
        ("scope", options.scope.map(|scope| enum_value(&p, "KeyScope", scope))),
        ("approval", options.approval.as_ref().map(|approval| approval_literal(approval, &p))),
        ("changes", (!options.changes.is_empty()).then(|| string_list_literal(&options.changes))),
        ("confirm", options.confirm.map(|confirm| enum_value(&p, "Confirm", confirm))),
        ("heartbeat", options.heartbeat.map(|silence| optional_duration(Timeout::Millis(silence)))),
        ("limit", options.limit.as_ref().map(|limit| quote!(::core::option::Option::Some(#limit)))),
        ("compensated", flag(options.compensate.is_some())),
    ];
    let declares = declared.iter().any(|(_, value)| value.is_some());
    let fields = declared.into_iter().filter_map(|(name, value)| {
        let value = value?;
        let name = format_ident!("{name}");
        Some(quote!(#name: #value,))
    });
    let value = quote! {
        #p::StepOptions {
            #(#fields)*
            ..#p::StepOptions::of(#p::EffectClass::#class)
        }
    };
    OptionsLiteral { value, declares }
}

/// A hash of what a step declares: its signature and its options.
pub(crate) fn declaration_fingerprint(plan: &StepPlan, options: &OptionsLiteral) -> String {
    let undone_by = plan.options.compensate.as_ref().map(|path| plain(&quote!(#path))).unwrap_or_default();
    hash(&format!("{} {} {undone_by}", plan.signature, plain(&options.value)))
}

fn optional_duration(timeout: Timeout) -> TokenStream {
    match timeout {
        Timeout::None => quote!(::core::option::Option::None),
        Timeout::Millis(millis) => {
            let limit = duration_literal(millis);
            quote!(::core::option::Option::Some(#limit))
        }
    }
}

fn approval_literal(approval: &Approval, p: &PrivatePath) -> TokenStream {
    match approval {
        Approval::Required => quote!(#p::Approval::Required),
        Approval::ByArguments(_) => quote!(#p::Approval::ByArguments),
    }
}

fn string_list_literal(all: &[String]) -> TokenStream {
    quote!(&[#(#all),*])
}

fn duration_literal(millis: u64) -> TokenStream {
    quote!(::core::time::Duration::from_millis(#millis))
}

/// The value of an enum of `aether_core::def`, whose variants have the names they have here.
fn enum_value(p: &PrivatePath, name: &str, value: impl std::fmt::Debug) -> TokenStream {
    let (name, variant) = (format_ident!("{name}"), variant_name(value));
    quote!(#p::#name::#variant)
}

fn retry_literal(retry: Retry, p: &PrivatePath) -> TokenStream {
    let Retry { max_retries, patience, delay, factor, max_delay, jitter } = retry;
    let patience = optional_duration(patience.map_or(Timeout::None, Timeout::Millis));
    let (delay, max_delay) = (duration_literal(delay), duration_literal(max_delay));
    quote! {
        ::core::option::Option::Some(#p::Retry {
            patience: #patience, delay: #delay, factor: #factor, max_delay: #max_delay, jitter: #jitter,
            ..#p::Retry::times(#max_retries)
        })
    }
}

/// What a workflow declares, with its state machine: the statements of a block. States and edges are many, so their paths are
/// short.
pub(crate) fn workflow_def(
    shape: &Shape,
    version: &Version,
    fingerprint: &str,
    states: &[State],
    edges: &[Edge],
    changes: &[Change],
) -> TokenStream {
    let p = private_path(shape);
    let (name, doc, line) = (&shape.name, &shape.attrs.doc, shape.line);
    let module = match &version.module {
        Some(module) => quote!(#module),
        None => quote!(::core::module_path!()),
    };
    let version = version.number;
    let states = states.iter().map(state_literal);
    let edges = edges.iter().map(|Edge { from, to, kind }| {
        let kind = variant_name(*kind);
        quote!(__Edge { from: #from, to: #to, kind: __Way::#kind })
    });
    let changes = changes.iter().map(|Change { name, from, to, each, line }| {
        quote!(#p::Change { name: #name, from: #from, to: #to, each: #each, line: #line })
    });
    let allows = allows_literal(&shape.allows, &p);
    quote! {
        use #p::{Edge as __Edge, EdgeKind as __Way, State as __State, StateKind as __Kind};
        &#p::WorkflowDef {
            name: #name,
            module: #module,
            doc: #doc,
            version: #version,
            fingerprint: #fingerprint,
            file: ::core::file!(),
            line: #line,
            states: &[#(#states),*],
            edges: &[#(#edges),*],
            changes: &[#(#changes),*],
            allows: #allows,
        }
    }
}

fn state_literal(state: &State) -> TokenStream {
    let State { name, kind, line, column, branch } = state;
    let kind = variant_name(*kind);
    let branch = match branch {
        Some(branch) => quote!(::core::option::Option::Some(#branch)),
        None => quote!(::core::option::Option::None),
    };
    quote! {
        __State { name: #name, kind: __Kind::#kind, line: #line, column: #column, branch: #branch }
    }
}

/// The name of an enum's variant, which is the same in `aether_core::def`.
pub(crate) fn variant_name(value: impl std::fmt::Debug) -> Ident {
    format_ident!("{}", format!("{value:?}"))
}
