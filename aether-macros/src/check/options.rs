//! The rules of `#[step(..)]` and `#[workflow(..)]`.

use proc_macro2::Span;
use quote::ToTokens;
use syn::{Expr, ExprClosure, Ident, Item, Lit, Pat, Path, parse_quote};

use super::allow;
use crate::code;
use crate::ir::{Allow, Effect, Key, OnUnknown, Retry, Shape, StepOptions, Timeout};
use crate::parse::{Opt, Value};
use crate::report::{Diagnostics, did_you_mean, nearest};

/// Options that both attributes have.
pub(super) struct Common {
    pub(super) krate: Path,
    pub(super) name: Option<String>,
    pub(super) allows: Vec<Allow>,
    /// Macros that the user vouches for.
    pub(super) macros: Vec<String>,
    /// The items of the module, where `#[workflow_mod]` shows them.
    pub(super) module: Vec<Item>,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            krate: parse_quote!(::aether),
            name: None,
            allows: Vec::new(),
            macros: Vec::new(),
            module: Vec::new(),
        }
    }
}

const STEP: &[&str] = &[
    "effect",
    "retry",
    "timeout",
    "irreversible",
    "idempotent",
    "key",
    "on_unknown",
    "probe",
    "name",
    "allow",
    "crate",
];
const WORKFLOW: &[&str] = &["name", "version", "allow", "macros", "crate"];
/// What `#[workflow_mod]` passes on; not for people.
const USES: &str = "__uses";

/// The options as written, each with the place it stands at.
#[derive(Default)]
struct Written {
    effect: Option<Option<Effect>>,
    retry: Option<(Ident, Retry)>,
    timeout: Option<Timeout>,
    irreversible: Option<Ident>,
    idempotent: Option<Ident>,
    key: Option<(Ident, Option<Key>)>,
    on_unknown: Option<(Ident, Option<OnUnknown>)>,
    probe: Option<(Ident, Option<Path>)>,
    version: Option<u32>,
}

/// Reads the options of a step. Without a valid effect there are none.
pub(super) fn step(
    options: Vec<Opt>,
    readable: bool,
    diagnostics: &mut Diagnostics,
) -> (Common, Option<StepOptions>) {
    let (common, written) = read(options, STEP, diagnostics);
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
        judge(effect, &written, diagnostics);
        let probes = written.probe.is_some().then_some(OnUnknown::Probe);
        StepOptions {
            effect,
            retry: written.retry.map(|(_, retry)| retry),
            timeout: written.timeout,
            on_unknown: written.on_unknown.and_then(|(_, policy)| policy).or(probes),
            irreversible: written.irreversible.is_some(),
            idempotent: written.idempotent.is_some(),
            key: written.key.and_then(|(_, key)| key),
            probe: written.probe.and_then(|(_, path)| path),
        }
    });
    (common, options)
}

/// Reads the options of a workflow: the common ones and its version.
pub(super) fn workflow(options: Vec<Opt>, diagnostics: &mut Diagnostics) -> (Common, u32) {
    let (common, written) = read(options, WORKFLOW, diagnostics);
    (common, written.version.unwrap_or(1))
}

/// Stands for the attribute itself.
struct CallSite;

impl ToTokens for CallSite {
    fn to_tokens(&self, tokens: &mut proc_macro2::TokenStream) {
        Ident::new("step", Span::call_site()).to_tokens(tokens);
    }
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
            unknown(&name, known, diagnostics);
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

fn unknown(name: &Ident, known: &[&str], diagnostics: &mut Diagnostics) {
    let text = name.to_string();
    let message = format!("unknown option `{text}`{}", did_you_mean(&text, known));
    let help = match nearest(&text, known) {
        Some(near) => format!("write `{near}`"),
        None => format!("known options: {}", known.join(", ")),
    };
    diagnostics.report_with(name, code::UNKNOWN_OPTION, message, help);
}

fn one(name: Ident, value: Value, common: &mut Common, written: &mut Written, diagnostics: &mut Diagnostics) {
    let d = diagnostics;
    match name.to_string().as_str() {
        "allow" => common.allows.extend(allow::read(&name, &value, d)),
        "name" => common.name = journal_name(&name, &value, d),
        "crate" => common.krate = crate_path(&name, &value, d).unwrap_or_else(|| Common::default().krate),
        "macros" => common.macros = macros(&name, &value, d),
        "version" => written.version = Some(version(&name, &value, d)),
        "effect" => written.effect = Some(effect(&name, &value, d)),
        "retry" => {
            let retry = retry(&name, value, d);
            written.retry = Some((name, retry));
        }
        "timeout" => written.timeout = timeout(&name, &value, d),
        "irreversible" => written.irreversible = flag(name, &value, d),
        "idempotent" => written.idempotent = flag(name, &value, d),
        "key" => {
            let key = key(&name, value, d);
            written.key = Some((name, key));
        }
        "on_unknown" => {
            let policy = on_unknown(&name, &value, d);
            written.on_unknown = Some((name, policy));
        }
        "probe" => {
            let path = probe(&name, &value, d);
            written.probe = Some((name, path));
        }
        _ => {}
    }
}

/// The rules between options.
fn judge(effect: Effect, written: &Written, diagnostics: &mut Diagnostics) {
    meaningless(effect, written, diagnostics);
    if !effect.changes_world() {
        return;
    }
    let spots_repeats = written.key.is_some() || written.idempotent.is_some();
    if let Some((at, retry)) = &written.retry
        && retry.max > 0
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
    let mut refuse = |at: &Ident| {
        let message = format!("`{at}` has no meaning on a step of class `{}`", effect.as_str());
        diagnostics.report(at, code::MEANINGLESS, message);
    };
    if !effect.changes_world() {
        written.irreversible.iter().for_each(&mut refuse);
        written.key.iter().for_each(|(at, _)| refuse(at));
        written.on_unknown.iter().for_each(|(at, _)| refuse(at));
        written.probe.iter().for_each(|(at, _)| refuse(at));
    }
    if effect == Effect::Pure
        && let Some((at, _)) = &written.retry
    {
        let message = "`retry` has no meaning on a step of class `pure`";
        let help = "remove it: what touches nothing fails the same way every time";
        diagnostics.report_with(at, code::MEANINGLESS, message, help);
    }
}

/// The parameters of `key` are arguments of the step.
pub(super) fn keyed_by_arguments(options: &StepOptions, shape: &Shape, diagnostics: &mut Diagnostics) {
    let Some(key) = &options.key else { return };
    let names: Vec<&str> = shape.args.iter().map(|arg| arg.name.as_str()).collect();
    for (param, _) in &key.params {
        let text = param.to_string();
        if !shape.args.iter().any(|arg| arg.ident == *param) {
            let message = format!("the step has no argument `{text}`{}", did_you_mean(&text, &names));
            let help = "name the parameters of `key` like arguments of the step, in any order";
            diagnostics.report_with(param, code::BAD_VALUE, message, help);
        }
    }
}

fn bad(at: impl ToTokens, what: &str, form: &str, diagnostics: &mut Diagnostics) {
    diagnostics.report_with(
        at,
        code::BAD_VALUE,
        format_args!("bad value for `{what}`"),
        format_args!("write {form}"),
    );
}

fn at(name: &Ident, value: &Value) -> proc_macro2::TokenStream {
    match value {
        Value::Is(expr) => expr.to_token_stream(),
        _ => name.to_token_stream(),
    }
}

fn literal(value: &Value) -> Option<&Lit> {
    match value {
        Value::Is(expr) => match &**expr {
            Expr::Lit(literal) => Some(&literal.lit),
            _ => None,
        },
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match literal(value)? {
        Lit::Str(text) => Some(text.value()),
        _ => None,
    }
}

fn journal_name(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<String> {
    let fits = |text: &String| {
        let legal = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        !text.is_empty() && text.len() <= 128 && text.chars().all(legal)
    };
    let text = text(value).filter(fits);
    if text.is_none() {
        bad(
            at(name, value),
            "name",
            "`name = \"..\"` with 1 to 128 letters, digits, `_`, `-` or `.`",
            diagnostics,
        );
    }
    text
}

fn crate_path(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<Path> {
    let path = match literal(value) {
        Some(Lit::Str(text)) => text.parse_with(Path::parse_mod_style).ok(),
        _ => None,
    };
    if path.is_none() {
        bad(at(name, value), "crate", "a path in quotes, for example `crate = \"my_aether\"`", diagnostics);
    }
    path
}

fn macros(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Vec<String> {
    if let Value::List(list) = value
        && !list.is_empty()
        && list.iter().all(|opt| matches!(opt.value, Value::Flag))
    {
        return list.iter().map(|opt| opt.name.to_string()).collect();
    }
    bad(at(name, value), "macros", "the names of macros, for example `macros(my_macro)`", diagnostics);
    Vec::new()
}

fn version(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> u32 {
    let number = match literal(value) {
        Some(Lit::Int(number)) => number.base10_parse::<u32>().ok().filter(|number| *number > 0),
        _ => None,
    };
    if number.is_none() {
        bad(at(name, value), "version", "a number from 1, for example `version = 2`", diagnostics);
    }
    number.unwrap_or(1)
}

fn effect(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<Effect> {
    let Some(text) = text(value) else {
        bad(at(name, value), "effect", "a class in quotes, for example `effect = \"read\"`", diagnostics);
        return None;
    };
    let found = Effect::ALL.iter().find(|(class, _)| *class == text).map(|(_, effect)| *effect);
    if found.is_none() {
        let classes: Vec<&str> = Effect::ALL.iter().map(|(class, _)| *class).collect();
        let message = format!("unknown effect class `{text}`{}", did_you_mean(&text, &classes));
        diagnostics.report(at(name, value), code::EFFECT_UNKNOWN, message);
    }
    found
}

fn flag(name: Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<Ident> {
    if !matches!(value, Value::Flag) {
        bad(at(&name, value), &name.to_string(), &format!("the word alone: `{name}`"), diagnostics);
    }
    Some(name)
}

const DURATION: &str = "a whole number and a unit in quotes: ms, s, m or h, for example `\"30s\"`";

/// Milliseconds of `"200ms"`, `"30s"`, `"5m"` or `"1h"`.
fn millis(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(split);
    let scale = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

fn duration(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<u64> {
    let found = text(value).as_deref().and_then(millis);
    if found.is_none() {
        bad(at(name, value), &name.to_string(), DURATION, diagnostics);
    }
    found
}

fn timeout(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<Timeout> {
    if text(value).as_deref() == Some("none") {
        return Some(Timeout::None);
    }
    match duration(name, value, diagnostics)? {
        0 => {
            bad(at(name, value), "timeout", "a time above zero, or `\"none\"` for no limit", diagnostics);
            None
        }
        millis => Some(Timeout::Millis(millis)),
    }
}

fn retry(name: &Ident, value: Value, diagnostics: &mut Diagnostics) -> Retry {
    const KNOWN: &[&str] = &["max", "delay", "factor", "max_delay"];
    let mut retry = Retry { max: 3, delay: 200, factor: 2.0, max_delay: 30_000 };
    let Value::List(list) = value else {
        bad(
            name,
            "retry",
            "`retry(max = 5)`, with `delay`, `factor` and `max_delay` if you like",
            diagnostics,
        );
        return retry;
    };
    let mut seen: Vec<String> = Vec::new();
    for Opt { name, value } in &list {
        let text = name.to_string();
        if seen.contains(&text) {
            diagnostics.report(name, code::DUPLICATE_OPTION, format_args!("option `{text}` is given twice"));
        }
        match text.as_str() {
            "max" => retry.max = retries(name, value, diagnostics).unwrap_or(retry.max),
            "delay" => retry.delay = duration(name, value, diagnostics).unwrap_or(retry.delay),
            "max_delay" => retry.max_delay = duration(name, value, diagnostics).unwrap_or(retry.max_delay),
            "factor" => retry.factor = factor(name, value, diagnostics).unwrap_or(retry.factor),
            _ => unknown(name, KNOWN, diagnostics),
        }
        seen.push(text);
    }
    if !seen.iter().any(|name| name == "max") {
        bad(name, "retry", "how many retries follow the first attempt: `retry(max = 5)`", diagnostics);
    }
    retry
}

fn retries(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<u32> {
    let number = match literal(value) {
        Some(Lit::Int(number)) => number.base10_parse::<u32>().ok().filter(|number| *number < u32::MAX),
        _ => None,
    };
    if number.is_none() {
        bad(at(name, value), "max", "a whole number of retries after the first attempt", diagnostics);
    }
    number
}

fn factor(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<f64> {
    let number = match literal(value) {
        Some(Lit::Int(number)) => number.base10_parse::<u32>().ok().map(f64::from),
        Some(Lit::Float(number)) => number.base10_parse::<f64>().ok(),
        _ => None,
    };
    let number = number.filter(|number| number.is_finite() && *number >= 1.0);
    if number.is_none() {
        bad(at(name, value), "factor", "a number from 1.0, for example `factor = 2.0`", diagnostics);
    }
    number
}

fn on_unknown(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<OnUnknown> {
    let text = text(value).unwrap_or_default();
    let found = OnUnknown::ALL.iter().find(|(policy, _)| *policy == text).map(|(_, policy)| *policy);
    if found.is_none() {
        bad(
            at(name, value),
            "on_unknown",
            "one of `\"fail\"`, `\"ask\"`, `\"retry\"`, `\"probe\"`",
            diagnostics,
        );
    }
    found
}

fn probe(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<Path> {
    if let Value::Is(expr) = value
        && let Expr::Path(path) = &**expr
        && path.qself.is_none()
    {
        return Some(path.path.clone());
    }
    bad(
        at(name, value),
        "probe",
        "the path of an async function, for example `probe = was_sent`",
        diagnostics,
    );
    None
}

fn key(name: &Ident, value: Value, diagnostics: &mut Diagnostics) -> Option<Key> {
    const FORM: &str = "a closure over arguments of the step, for example `key = |order_id| order_id`";
    let place = at(name, &value);
    let key = match value {
        Value::Is(expr) => match *expr {
            Expr::Closure(closure) => key_of(closure),
            _ => None,
        },
        _ => None,
    };
    if key.is_none() {
        bad(place, "key", FORM, diagnostics);
    }
    key
}

fn key_of(closure: ExprClosure) -> Option<Key> {
    if closure.asyncness.is_some() || closure.inputs.is_empty() {
        return None;
    }
    let params = closure.inputs.iter().map(key_param).collect::<Option<Vec<_>>>()?;
    Some(Key { params, body: *closure.body })
}

fn key_param(pat: &Pat) -> Option<(Ident, Option<syn::Type>)> {
    match pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.mutability.is_none() && pat.subpat.is_none() => {
            Some((pat.ident.clone(), None))
        }
        Pat::Type(typed) => Some((key_param(&typed.pat)?.0, Some((*typed.ty).clone()))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        assert_eq!(millis("200ms"), Some(200));
        assert_eq!(millis("30s"), Some(30_000));
        assert_eq!(millis("5m"), Some(300_000));
        assert_eq!(millis("1h"), Some(3_600_000));
        for text in ["", "30", "s", "1.5s", "-1s", "1d", "99999999999999999999s", "18446744073709551615h"] {
            assert_eq!(millis(text), None, "{text}");
        }
    }
}
