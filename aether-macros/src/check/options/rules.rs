//! The rules between options, and between options and the function.

use syn::Ident;

use super::written::{Common, Written};
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::diagnostics::suggestion::did_you_mean;
use crate::plan::{ArgumentClosure, Effect, OnUnknown, Shape, StepOptions, Timeout};

/// The rules between options.
pub(crate) fn check(effect: Effect, written: &Written, diagnostics: &mut Diagnostics) {
    meaningless(effect, written, diagnostics);
    alone(written, diagnostics);
    heartbeat(written, diagnostics);
    if !effect.changes_world() {
        return;
    }
    let spots_repeats = written.key.is_some() || written.idempotent.is_some();
    if let Some((at, retry)) = &written.retry
        && retry.max_retries > 0
        && !spots_repeats
        && written.probe.is_none()
    {
        let message = format!("`retry` on a step of class `{}`, which changes the world", effect.as_str());
        diagnostics.report(at, code::RETRY_UNSAFE, message);
    }
    let policy = written.on_unknown.as_ref();
    match (policy, &written.probe) {
        (Some((at, Some(OnUnknown::Probe))), None) => {
            let help = "add `probe = path`, an `async fn(cx: &mut StepCx, ..) -> Result<Probe<T>>` with the step's arguments";
            diagnostics.report_with(at, code::PROBE, "`on_unknown = \"probe\"` without a probe", help);
        }
        (Some((_, Some(other))), Some((at, _))) if *other != OnUnknown::Probe => {
            diagnostics.report(at, code::PROBE, "a probe that `on_unknown` never asks");
        }
        (Some((at, Some(OnUnknown::Retry))), None) if !spots_repeats => {
            diagnostics.report(at, code::BLIND_RETRY, "`on_unknown = \"retry\"` where nobody spots a repeat");
        }
        _ => {}
    }
}

fn meaningless(effect: Effect, written: &Written, diagnostics: &mut Diagnostics) {
    let world = effect.changes_world();
    let transacts = effect == Effect::Transaction;
    let asks = effect != Effect::Pure && !transacts;
    let options = [
        (written.irreversible.as_ref(), world),
        (written.idempotent.as_ref(), !transacts),
        (place(&written.key), world),
        (place(&written.on_unknown), world),
        (place(&written.probe), world),
        (place(&written.approval), asks),
        (place(&written.compensate), world || transacts),
        (place(&written.changes), world),
        (place(&written.heartbeat), asks),
        (place(&written.limit), effect != Effect::Pure),
        (place(&written.needs), effect != Effect::Pure),
    ];
    for (at, _) in options.into_iter().filter(|(_, fits)| !fits) {
        let Some(at) = at else { continue };
        let message = format!("`{at}` has no meaning on a step of class `{}`", effect.as_str());
        diagnostics.report(at, code::MEANINGLESS, message);
    }
    if effect == Effect::Pure
        && let Some((at, _)) = &written.retry
    {
        let message = "`retry` has no meaning on a step of class `pure`";
        let help = "remove it: what touches nothing fails the same way every time";
        diagnostics.report_with(at, code::MEANINGLESS, message, help);
    }
}

/// Options that only say more about another one.
fn alone(written: &Written, diagnostics: &mut Diagnostics) {
    let pairs = [
        (place(&written.scope), "irreversible", written.irreversible.is_some()),
        (place(&written.confirm), "changes", written.changes.is_some()),
    ];
    for (at, other, _) in pairs.into_iter().filter(|(.., given)| !given) {
        let Some(at) = at else { continue };
        let message = format!("`{at}` without `{other}`");
        let help = format!("add `{other}`, or remove `{at}`");
        diagnostics.report_with(at, code::MEANINGLESS, message, help);
    }
}

/// A silence that the timeout ends first is never noticed.
fn heartbeat(written: &Written, diagnostics: &mut Diagnostics) {
    if let Some((at, Some(silence))) = &written.heartbeat
        && let Some(Timeout::Millis(limit)) = written.timeout
        && *silence >= limit
    {
        let help = "write a `heartbeat` shorter than `timeout`, or remove it";
        diagnostics.report_with(
            at,
            code::MEANINGLESS,
            "a `heartbeat` that is not shorter than `timeout`",
            help,
        );
    }
}

/// A version says of which workflow and which number, and has no name of its own.
pub(crate) fn version(common: &Common, written: &Written, diagnostics: &mut Diagnostics) {
    let Some((at, _)) = &written.of else { return };
    if written.version.is_none() {
        diagnostics.report(at, code::VERSION, "`of` without `version`");
    }
    if common.name.is_some() {
        let help = "remove `name`: a version has the name of the workflow that `of` names";
        diagnostics.report_with(at, code::VERSION, "`of` beside `name`", help);
    }
}

/// Where an option stands.
fn place<T>(option: &Option<(Ident, T)>) -> Option<&Ident> {
    option.as_ref().map(|(at, _)| at)
}

/// The parameters of `key` and `approval` are arguments of the step.
pub(crate) fn closures_over_arguments(options: &StepOptions, shape: &Shape, diagnostics: &mut Diagnostics) {
    for (option, closure) in options.closures() {
        over_arguments(option, closure, shape, diagnostics);
    }
}

fn over_arguments(option: &str, closure: &ArgumentClosure, shape: &Shape, diagnostics: &mut Diagnostics) {
    let names: Vec<&str> = shape.args.iter().map(|arg| arg.name.as_str()).collect();
    for (param, _) in &closure.params {
        let text = param.to_string();
        if !shape.args.iter().any(|arg| arg.ident == *param) {
            let message = format!("the step has no argument `{text}`{}", did_you_mean(&text, &names));
            let help = format!("name the parameters of `{option}` like arguments of the step, in any order");
            diagnostics.report_with(param, code::BAD_VALUE, message, help);
        }
    }
}
