//! Phase two: every rule, every mistake.
//!
//! Promise: this is the only way to a [`Plan`]; an item with any mistake gets a [`Rejected`] with all of them.

use quote::quote;
use syn::ItemFn;

use super::body::context::BodyContext;
use super::body::{branches, captures, iteration, linear, marks, mentions, needs, visit, wrapped};
use super::options::allow::allowed;
use super::options::{read, rules};
use super::signature::shape;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::flow::{gate, walk};
use crate::parse::item::{Owner, Parsed};
use crate::parse::kind::Kind;
use crate::parse::options::Opt;
use crate::plan::{Effect, Plan, Rejected, Shape, StepPlan, Stub, WorkflowPlan};
use crate::syntax::plain_text::{fingerprint, plain};

/// Checks an item.
pub(crate) fn check(parsed: Parsed) -> Result<Plan, Rejected> {
    let mut diagnostics = Diagnostics::default();
    let Parsed { kind, options, function, owner } = parsed;
    let readable = options.is_ok();
    let options = options.unwrap_or_else(|error| {
        diagnostics.add(error);
        Vec::new()
    });
    match kind {
        Kind::Step => step(options, readable, function, owner, diagnostics),
        Kind::Workflow => workflow(options, function, owner, diagnostics),
    }
}

fn step(
    options: Vec<Opt>,
    readable: bool,
    mut function: ItemFn,
    owner: Option<Owner>,
    mut diagnostics: Diagnostics,
) -> Result<Plan, Rejected> {
    let (mut common, options) = read::step(options, readable, &mut diagnostics);
    let effect = options.as_ref().map(|options| options.effect);
    let (macros, module) = (std::mem::take(&mut common.macros), std::mem::take(&mut common.module));
    let mut shape = shape::step(&function, common, owner, effect, &mut diagnostics);
    let context =
        BodyContext { signature: &function.sig, allows: &shape.allows, macros: &macros, module: &module };
    if let Some(options) = &options {
        rules::closures_over_arguments(options, &shape, &mut diagnostics);
        options.closures().for_each(|(_, closure)| visit::closure(closure, &context, &mut diagnostics));
    }
    // What awaits anyway may be in a future of an attribute's own.
    let is_wrapped =
        effect == Some(Effect::Pure) && wrapped::is_reported(&function, Kind::Step, &mut diagnostics);
    if !is_wrapped {
        visit::step(&function.block, effect, &context, &mut diagnostics);
    }
    shape.warnings = diagnostics.take_warnings();
    match options {
        Some(mut options) if diagnostics.is_empty() => {
            let context = shape.context.as_ref().map(|context| &context.ident);
            let declared = std::mem::take(&mut options.needs);
            options.needs = needs::of_step(&function.block, context, shape.owner.as_ref(), declared);
            if matches!(options.effect, Effect::Pure | Effect::Transaction) {
                ask_for_order(&mut function, &shape);
            }
            let signature = plain(&function.sig);
            Ok(Plan::Step(Box::new(StepPlan { shape, options, signature, body: *function.block })))
        }
        _ => Err(rejected(&function, shape, Kind::Step, diagnostics)),
    }
}

fn workflow(
    options: Vec<Opt>,
    mut function: ItemFn,
    owner: Option<Owner>,
    mut diagnostics: Diagnostics,
) -> Result<Plan, Rejected> {
    let (mut common, version) = read::workflow(options, &mut diagnostics);
    let (macros, module) = (std::mem::take(&mut common.macros), std::mem::take(&mut common.module));
    let mut shape = shape::workflow(&function, common, owner, &mut diagnostics);
    let context =
        BodyContext { signature: &function.sig, allows: &shape.allows, macros: &macros, module: &module };
    if wrapped::is_reported(&function, Kind::Workflow, &mut diagnostics) {
        return Err(rejected(&function, shape, Kind::Workflow, diagnostics));
    }
    visit::workflow(&function.block, &context, &mut diagnostics);
    captures::workflow(&function.sig, &function.block, &mut diagnostics);
    branches::workflow(&function.sig, &function.block, &mut diagnostics);
    linear::workflow(&function.sig, &function.block, &mut diagnostics);
    shape.warnings = diagnostics.take_warnings();
    let fingerprint = fingerprint(&function);
    let mentions = mentions::of_workflow(&function, &module);
    let cx = shape.context.as_ref().map(|context| context.ident.clone());
    let needs = needs::of_workflow(&function.block, cx.as_ref(), shape.owner.as_ref());
    let changes = marks::of_workflow(&function.block, cx.as_ref(), &mut diagnostics);
    let states = gate::insert_gates(&mut function.block, &shape.krate, cx, &macros, &mut diagnostics);
    if states.len() >= usize::from(u16::MAX - 2) {
        diagnostics.report(
            &shape.ident,
            code::TOO_MANY_STATES,
            format_args!("{} awaits in one workflow", states.len()),
        );
    }
    if !diagnostics.is_empty() {
        return Err(rejected(&function, shape, Kind::Workflow, diagnostics));
    }
    ask_for_order(&mut function, &shape);
    let edges = walk::edges(&function.block, states.len());
    Ok(Plan::Workflow(Box::new(WorkflowPlan {
        shape,
        version,
        fingerprint,
        mentions,
        states,
        edges,
        changes,
        needs,
        body: *function.block,
    })))
}

/// Lets the types say what the body goes through, unless that was switched off.
fn ask_for_order(function: &mut ItemFn, shape: &Shape) {
    if !allowed(code::HASH_ORDER, &shape.allows) {
        iteration::ask(function, &shape.krate);
    }
}

fn rejected(function: &ItemFn, shape: Shape, kind: Kind, diagnostics: Diagnostics) -> Rejected {
    let form = match kind {
        _ if function.sig.receiver().is_some() => {
            let ItemFn { attrs, vis, sig, .. } = function;
            let function = quote!(#(#attrs)* #[allow(unused, clippy::all, clippy::pedantic)] #vis #sig { ::core::unreachable!() });
            Stub::Method(function, shape.owner.is_some())
        }
        Kind::Step => Stub::Step(Box::new(shape)),
        Kind::Workflow => Stub::Workflow(Box::new(shape)),
    };
    let errors = diagnostics.into_error().map(|error| error.to_compile_error()).unwrap_or_default();
    Rejected { errors, form }
}
