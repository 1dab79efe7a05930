//! Definitions as literals: what a step or workflow declares, and its state machine.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::private;
use crate::ir::{
    Allow, Approval, Edge, EdgeKind, Effect, OnUnknown, Retry, Shape, State, StateKind, StepPlan, Timeout,
};

pub(super) fn step_def(shape: &Shape, options: &TokenStream, name: &str) -> TokenStream {
    let p = private(shape);
    let ident = match &shape.owner {
        Some(owner) => format!("{}::{}", owner.name, shape.function),
        None => shape.ident.to_string(),
    };
    let (doc, line) = (&shape.attrs.doc, shape.line);
    let allows = allows(&shape.allows, &p);
    quote! {
        &#p::StepDef {
            name: #name,
            path: ::core::concat!(::core::module_path!(), "::", #ident),
            doc: #doc,
            file: ::core::file!(),
            line: #line,
            options: #options,
            allows: #allows,
        }
    }
}

fn allows(allows: &[Allow], p: &TokenStream) -> TokenStream {
    let allows =
        allows.iter().map(|Allow { what, reason }| quote!(#p::Allow { what: #what, reason: #reason }));
    quote!(&[#(#allows),*])
}

/// The declared options over the defaults of the class.
pub(super) fn options(plan: &StepPlan) -> TokenStream {
    let p = private(&plan.shape);
    let options = &plan.options;
    let class = class(options.effect);
    let retry = options.retry.map(|retry| {
        let retry = retry_literal(retry, &p);
        quote!(retry: #retry,)
    });
    let timeout = options.timeout.map(|timeout| match timeout {
        Timeout::None => quote!(timeout: ::core::option::Option::None,),
        Timeout::Millis(millis) => {
            quote!(timeout: ::core::option::Option::Some(::core::time::Duration::from_millis(#millis)),)
        }
    });
    let on_unknown = options.on_unknown.map(|policy| {
        let policy = policy_name(policy);
        quote!(on_unknown: #p::OnUnknown::#policy,)
    });
    let flag = |name: &str, set: bool| {
        let name = format_ident!("{name}");
        set.then(|| quote!(#name: true,))
    };
    let irreversible = flag("irreversible", options.irreversible);
    let idempotent = flag("idempotent", options.idempotent);
    let keyed = flag("keyed", options.key.is_some());
    let compensated = flag("compensated", options.compensate.is_some());
    let approval = options.approval.as_ref().map(|approval| {
        let approval = match approval {
            Approval::Required => quote!(Required),
            Approval::ByArguments(_) => quote!(ByArguments),
        };
        quote!(approval: #p::Approval::#approval,)
    });
    quote! {
        #p::StepOptions {
            #retry #timeout #on_unknown #irreversible #idempotent #keyed #approval #compensated
            ..#p::StepOptions::of(#p::EffectClass::#class)
        }
    }
}

fn class(effect: Effect) -> Ident {
    format_ident!("{}", format!("{effect:?}"))
}

fn policy_name(policy: OnUnknown) -> Ident {
    format_ident!("{}", format!("{policy:?}"))
}

/// `max` counts retries in the attribute, and attempts in the definition.
fn retry_literal(retry: Retry, p: &TokenStream) -> TokenStream {
    let Retry { max, delay, factor, max_delay } = retry;
    let attempts = max.saturating_add(1);
    quote! {
        #p::Retry {
            max: #attempts,
            delay: ::core::time::Duration::from_millis(#delay),
            factor: #factor,
            max_delay: ::core::time::Duration::from_millis(#max_delay),
        }
    }
}

pub(super) fn workflow_def(
    shape: &Shape,
    version: u32,
    fingerprint: &str,
    states: &[State],
    edges: &[Edge],
) -> TokenStream {
    let p = private(shape);
    let (name, doc, line) = (&shape.name, &shape.attrs.doc, shape.line);
    let states = states.iter().map(|state| state_literal(state, &p));
    let edges = edges.iter().map(|Edge { from, to, kind }| {
        let kind = edge_kind(*kind);
        quote!(#p::Edge { from: #from, to: #to, kind: #p::EdgeKind::#kind })
    });
    let allows = allows(&shape.allows, &p);
    quote! {
        &#p::WorkflowDef {
            name: #name,
            module: ::core::module_path!(),
            doc: #doc,
            version: #version,
            fingerprint: #fingerprint,
            file: ::core::file!(),
            line: #line,
            states: &[#(#states),*],
            edges: &[#(#edges),*],
            allows: #allows,
        }
    }
}

fn state_literal(state: &State, p: &TokenStream) -> TokenStream {
    let State { name, kind, line, column, branch } = state;
    let kind = state_kind(*kind);
    let branch = match branch {
        Some(branch) => quote!(::core::option::Option::Some(#branch)),
        None => quote!(::core::option::Option::None),
    };
    quote! {
        #p::State { name: #name, kind: #p::StateKind::#kind, line: #line, column: #column, branch: #branch }
    }
}

fn state_kind(kind: StateKind) -> Ident {
    format_ident!("{}", format!("{kind:?}"))
}

fn edge_kind(kind: EdgeKind) -> Ident {
    format_ident!("{}", format!("{kind:?}"))
}
