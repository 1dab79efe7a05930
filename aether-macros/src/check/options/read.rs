//! Reads the options of `#[step(..)]`, `#[workflow(..)]` and `#[test(..)]`.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{Ident, Path, parse_quote};

use super::written::{Common, Of, Written};
use super::{allow, rules, values};
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::parse::options::{Opt, Value};
use crate::plan::{Confirm, FormerPath, KeyScope, OnUnknown, StepOptions, Timeout, Version};

const STEP: &[&str] = &[
    "effect",
    "retry",
    "timeout",
    "irreversible",
    "idempotent",
    "key",
    "on_unknown",
    "probe",
    "approval",
    "compensate",
    "scope",
    "changes",
    "confirm",
    "heartbeat",
    "limit",
    "needs",
    "name",
    "of",
    "allow",
    "crate",
];
const WORKFLOW: &[&str] = &["name", "of", "version", "allow", "macros", "crate"];
const TEST: &[&str] = &["timeout", "crate"];
/// What `#[workflow_mod]` passes on; not for people.
const USES: &str = "__uses";
/// How long a test may take, in milliseconds of real time, where it does not say.
const TEST_LIMIT: u64 = 60_000;

/// Reads the options of a step. Without a valid effect there are none.
pub(crate) fn step(
    options: Vec<Opt>,
    readable: bool,
    diagnostics: &mut Diagnostics,
) -> (Common, Option<StepOptions>) {
    let (mut common, written) = read(options, STEP, diagnostics);
    let of = written.of.as_ref().and_then(|(_, of)| of.as_ref());
    common.name = common.name.or_else(|| of.map(recorded_name));
    let effect = match written.effect {
        Some(effect) => effect,
        None => {
            if readable {
                diagnostics.report(
                    CallSite,
                    code::EFFECT_MISSING,
                    "this step does not say what kind of contact with the world it is",
                );
            }
            None
        }
    };
    let options = effect.map(|effect| {
        rules::check(effect, &written, diagnostics);
        let probes = written.probe.is_some().then_some(OnUnknown::Probe);
        let of = written.of.and_then(|(_, of)| of);
        StepOptions {
            of: of.map(|Of { module, name }| FormerPath { module, function: name }),
            effect,
            retry: written.retry.map(|(_, retry)| retry),
            timeout: written.timeout,
            on_unknown: written.on_unknown.and_then(|(_, policy)| policy).or(probes),
            irreversible: written.irreversible.is_some(),
            idempotent: written.idempotent.is_some(),
            key: written.key.and_then(|(_, key)| key),
            probe: written.probe.and_then(|(_, path)| path),
            approval: written.approval.and_then(|(_, approval)| approval),
            compensate: written.compensate.and_then(|(_, path)| path),
            scope: written.scope.and_then(|(_, scope)| scope),
            changes: written.changes.map(|(_, kinds)| kinds).unwrap_or_default(),
            confirm: written.confirm.and_then(|(_, confirm)| confirm),
            heartbeat: written.heartbeat.and_then(|(_, silence)| silence),
            limit: written.limit.and_then(|(_, limit)| limit),
            needs: written.needs.map(|(_, types)| types).unwrap_or_default(),
        }
    });
    (common, options)
}

/// The name that a step of this path has in journals: of a function of a type, the type is part of it.
fn recorded_name(of: &Of) -> String {
    let owner = of.module.as_deref().and_then(|module| module.rsplit("::").next());
    match owner.filter(|owner| owner.starts_with(char::is_uppercase)) {
        Some(owner) => format!("{owner}_{}", of.name),
        None => of.name.clone(),
    }
}

/// Reads the options of a workflow: the common ones, and which version of which workflow it is.
pub(crate) fn workflow(options: Vec<Opt>, diagnostics: &mut Diagnostics) -> (Common, Version) {
    let (mut common, written) = read(options, WORKFLOW, diagnostics);
    rules::version(&common, &written, diagnostics);
    let mut module = None;
    if let Some((_, Some(of))) = written.of {
        common.name = Some(of.name);
        module = of.module;
    }
    (common, Version { number: written.version.unwrap_or(1), module })
}

/// What a test says: where the `aether_testing` crate is, and how many milliseconds of real time it may take.
pub(crate) fn test(options: Vec<Opt>, diagnostics: &mut Diagnostics) -> (Path, u64) {
    let named = options.iter().any(|option| option.name == "crate");
    let (common, written) = read(options, TEST, diagnostics);
    let krate = if named { common.krate } else { parse_quote!(::aether_testing) };
    let limit = match written.timeout {
        Some(Timeout::Millis(millis)) => millis,
        Some(Timeout::None) => u64::MAX,
        _ => TEST_LIMIT,
    };
    (krate, limit)
}

fn read(options: Vec<Opt>, known: &[&str], diagnostics: &mut Diagnostics) -> (Common, Written) {
    let mut common = Common::default();
    let mut written = Written::default();
    let mut seen: Vec<String> = Vec::new();
    for Opt { name, value } in options {
        let text = name.to_string();
        if text == USES
            && let Value::Items(items) = value
        {
            common.module = items;
            continue;
        }
        if !known.contains(&text.as_str()) {
            values::unknown_option(&name, known, diagnostics);
            continue;
        }
        if text != "allow" && seen.contains(&text) {
            diagnostics.report(&name, code::DUPLICATE_OPTION, format_args!("option `{text}` is given twice"));
            continue;
        }
        one(name, value, &mut common, &mut written, diagnostics);
        seen.push(text);
    }
    (common, written)
}

fn one(name: Ident, value: Value, common: &mut Common, written: &mut Written, diagnostics: &mut Diagnostics) {
    let d = diagnostics;
    match name.to_string().as_str() {
        "allow" => common.allows.extend(allow::read(&name, &value, d)),
        "name" => common.name = values::journal_name(&name, &value, d),
        "crate" => {
            common.krate = values::crate_path(&name, &value, d).unwrap_or_else(|| Common::default().krate);
        }
        "macros" => common.macros = values::macros(&name, &value, d),
        "of" => written.of = Some(with(name, |name| values::of(name, &value, d))),
        "version" => written.version = Some(values::version(&name, &value, d)),
        "effect" => written.effect = Some(values::effect(&name, &value, d)),
        "timeout" => written.timeout = values::timeout(&name, &value, d),
        "irreversible" => written.irreversible = values::flag(name, &value, d),
        "idempotent" => written.idempotent = values::flag(name, &value, d),
        "retry" => written.retry = Some(with(name, |name| values::retry(name, value, d))),
        "key" => written.key = Some(with(name, |name| values::key(name, value, d))),
        "on_unknown" => {
            written.on_unknown = Some(with(name, |name| values::word(name, &value, OnUnknown::ALL, d)));
        }
        "probe" => written.probe = Some(with(name, |name| values::probe(name, &value, d))),
        "compensate" => written.compensate = Some(with(name, |name| values::compensate(name, &value, d))),
        "changes" => written.changes = Some(with(name, |name| values::changes(name, &value, d))),
        "confirm" => {
            written.confirm = Some(with(name, |name| values::word(name, &value, Confirm::ALL, d)));
        }
        "heartbeat" => written.heartbeat = Some(with(name, |name| values::heartbeat(name, &value, d))),
        "limit" => written.limit = Some(with(name, |name| values::limit(name, &value, d))),
        "needs" => written.needs = Some(with(name, |name| values::needs(name, value, d))),
        "scope" => written.scope = Some(with(name, |name| values::word(name, &value, KeyScope::ALL, d))),
        "approval" => written.approval = Some(with(name, |name| values::approval(name, value, d))),
        _ => {}
    }
}

/// The place of an option and what it says.
fn with<T>(name: Ident, read: impl FnOnce(&Ident) -> T) -> (Ident, T) {
    let value = read(&name);
    (name, value)
}

/// Stands for the attribute itself.
struct CallSite;

impl ToTokens for CallSite {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        Ident::new("step", Span::call_site()).to_tokens(tokens);
    }
}
