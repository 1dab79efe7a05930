//! What steps and workflows have in common: the rules of the signature, one after the other.

use quote::{ToTokens, format_ident};
use syn::ext::IdentExt as _;
use syn::{
    FnArg, GenericParam, Generics, Ident, ItemFn, PatType, Path, ReturnType, Safety, Signature, parse_quote,
};

use super::arguments::argument;
use super::attributes::attributes;
use super::context::{Wanted, context};
use super::owned;
use super::result::result;
use super::services;
use crate::check::body::places::hash_set;
use crate::check::options::allow::allowed;
use crate::check::options::written::Common;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::parse::item::Owner;
use crate::plan::{Effect, Shape};

/// The shape of a step. Without an effect, no rule about the context is judged.
pub(crate) fn step(
    function: &ItemFn,
    common: Common,
    owner: Option<Owner>,
    effect: Option<Effect>,
    d: &mut Diagnostics,
) -> Shape {
    let wanted = match effect {
        Some(Effect::Pure) => Wanted::Nothing,
        Some(_) => Wanted::Context("StepCx"),
        None => Wanted::Anything,
    };
    shape(function, common, owner, wanted, d)
}

/// The shape of a workflow.
pub(crate) fn workflow(
    function: &ItemFn,
    common: Common,
    owner: Option<Owner>,
    d: &mut Diagnostics,
) -> Shape {
    shape(function, common, owner, Wanted::Context("Cx"), d)
}

fn shape(
    function: &ItemFn,
    common: Common,
    owner: Option<Owner>,
    wanted: Wanted,
    d: &mut Diagnostics,
) -> Shape {
    let sig = &owned::without_self(&function.sig, owner.as_ref());
    qualifiers(sig, d);
    let mut generics = generics(&sig.generics, d);
    let mut params = parameters(sig, d);
    // Of a pure step nothing is recorded.
    let is_recorded = !matches!(wanted, Wanted::Nothing);
    let context = context(&mut params, wanted, sig, d);
    let services = services::refuse(sig, d);
    if is_recorded && !allowed(code::HASH_ORDER, &common.allows) {
        recorded_sets(sig, &params, d);
    }
    let args = params.iter().enumerate().map(|(at, param)| argument(at, param, &mut generics, d)).collect();
    bind(&mut generics, &common.krate, &services);
    Shape {
        vis: function.vis.clone(),
        name: common.name.unwrap_or_else(|| match &owner {
            Some(owner) => format!("{}_{}", owner.name.unraw(), sig.ident.unraw()),
            None => sig.ident.unraw().to_string(),
        }),
        ident: match &owner {
            Some(owner) => format_ident!("{}_{}", owner.name, sig.ident, span = sig.ident.span()),
            None => sig.ident.clone(),
        },
        function: sig.ident.clone(),
        owner,
        warnings: Vec::new(),
        line: line(&sig.ident),
        attrs: attributes(&function.attrs),
        generics,
        context,
        args,
        ret: result(sig, &common.krate, d),
        allows: common.allows,
        krate: common.krate,
    }
}

/// A set is recorded as a list of its elements, in the order in which they lie in it.
fn recorded_sets(sig: &Signature, params: &[&PatType], d: &mut Diagnostics) {
    let mut refuse = |path: &Path, what: &str| {
        let message = format!("{what} of `{}` is recorded in the order of a `HashSet`", sig.ident);
        d.report_because(path, code::HASH_ORDER, message, SET_WHY, "use `BTreeSet`");
    };
    for param in params {
        if let Some(path) = hash_set(&param.ty) {
            refuse(path, "an argument");
        }
    }
    if let ReturnType::Type(_, ty) = &sig.output
        && let Some(path) = hash_set(ty)
    {
        refuse(path, "the result");
    }
}

/// Why a set with random keys is not recorded.
const SET_WHY: &str = "a set that is read from the journal has another order in every process, so what a replay writes of it is not what was recorded";

fn line(ident: &Ident) -> u32 {
    u32::try_from(ident.span().start().line).unwrap_or(0)
}

fn qualifiers(sig: &Signature, d: &mut Diagnostics) {
    if sig.asyncness.is_none() {
        d.report(sig.fn_token, code::NOT_ASYNC, format_args!("`{}` is not async", sig.ident));
    }
    let mut refuse = |at: &dyn ToTokens, what: &str| {
        d.report(at.to_token_stream(), code::QUALIFIER, format_args!("`{}` is {what}", sig.ident));
    };
    sig.constness.iter().for_each(|at| refuse(at, "`const`"));
    if let Safety::Unsafe(at) = &sig.safety {
        refuse(at, "`unsafe`");
    }
    sig.abi.iter().for_each(|at| refuse(at, "`extern`"));
    sig.variadic.iter().for_each(|at| refuse(at, "variadic"));
}

fn generics(generics: &Generics, d: &mut Diagnostics) -> Generics {
    let mut kept = generics.clone();
    let all = std::mem::take(&mut kept.params);
    for param in all {
        if let GenericParam::Lifetime(lifetime) = &param {
            d.report(lifetime, code::LIFETIME, "a step or workflow has no lifetime parameters");
        } else {
            kept.params.push(param);
        }
    }
    kept
}

/// Every type parameter stands in a recorded value, so it is recordable; those that were refused are not asked to be.
fn bind(generics: &mut Generics, krate: &Path, refused: &[Ident]) {
    for param in generics.type_params_mut() {
        param.default = None;
        let bound = match refused.contains(&param.ident) {
            true => parse_quote!('static),
            false => parse_quote!(#krate::__private::Recordable),
        };
        param.bounds.push(bound);
    }
}

fn parameters<'a>(sig: &'a Signature, d: &mut Diagnostics) -> Vec<&'a PatType> {
    let mut params = Vec::new();
    for param in &sig.inputs {
        match param {
            FnArg::Typed(param) => params.push(param),
            FnArg::Receiver(receiver) => {
                d.report(receiver, code::RECEIVER, "a step or workflow takes no `self`");
            }
        }
    }
    params
}
