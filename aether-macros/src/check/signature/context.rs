//! The context: the first parameter of a step or workflow.

use proc_macro2::Span;
use quote::quote;
use syn::{Ident, Pat, PatType, Signature, Type};

use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::plan::Context;

/// What the first parameter has to be.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    Context(&'static str),
    Nothing,
    Anything,
}

/// Takes the context off the parameters.
pub(crate) fn context(
    params: &mut Vec<&PatType>,
    wanted: Wanted,
    sig: &Signature,
    d: &mut Diagnostics,
) -> Option<Context> {
    let first = params.first().copied();
    let found = first.and_then(seems_context);
    match wanted {
        Wanted::Nothing => {
            if let (Some(first), Some(_)) = (first, found) {
                d.report(first, code::PURE_CONTEXT, "a pure step takes no context");
                params.remove(0);
            }
            None
        }
        Wanted::Anything => found.and_then(|_| take(params)),
        Wanted::Context(name) => match (first, found) {
            (Some(first), Some(Seems { name: other, by_mut })) => {
                if !by_mut {
                    let help = format!("write `&mut {name}`");
                    d.report_with(&first.ty, code::CONTEXT, "the context is not borrowed mutably", help);
                } else if other != name && (other == "Cx" || other == "StepCx") {
                    let message = format!("the context is of type `{other}`");
                    d.report_with(&first.ty, code::CONTEXT, message, format_args!("write `&mut {name}`"));
                }
                take(params)
            }
            _ if sig.receiver().is_some() => None,
            _ => {
                let help = format!("let the first parameter be `cx: &mut {name}`");
                d.report_with(
                    &sig.ident,
                    code::CONTEXT,
                    format_args!("`{}` takes no context", sig.ident),
                    help,
                );
                None
            }
        },
    }
}

/// What a first parameter seems to be; types decide in the end.
struct Seems {
    name: String,
    by_mut: bool,
}

fn seems_context(param: &PatType) -> Option<Seems> {
    let (ty, by_mut) = match &*param.ty {
        Type::Reference(reference) => (&*reference.elem, reference.mutability.is_some()),
        ty => (ty, false),
    };
    let Type::Path(path) = ty else { return None };
    let name = path.path.segments.last()?.ident.to_string();
    (by_mut || name == "Cx" || name == "StepCx").then_some(Seems { name, by_mut })
}

fn take(params: &mut Vec<&PatType>) -> Option<Context> {
    let param = params.remove(0);
    let ident = match &*param.pat {
        Pat::Ident(pat) => pat.ident.clone(),
        _ => Ident::new("_cx", Span::mixed_site()),
    };
    let PatType { pat, ty, .. } = param;
    Some(Context { ident, param: quote!(#pat: #ty), ty: (**ty).clone() })
}
