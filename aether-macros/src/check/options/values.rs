//! What the options of an attribute say: literals, paths and closures, read or refused with the form they have.

use quote::ToTokens;
use syn::{Expr, ExprLit, Ident, Lit, Pat, Path, Type};

use super::written::Of;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::diagnostics::suggestion::{did_you_mean, nearest};
use crate::parse::options::{Opt, Value};
use crate::plan::{Approval, ArgumentClosure, Effect, Retry, Timeout};

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

pub(crate) fn text(value: &Value) -> Option<String> {
    match literal(value)? {
        Lit::Str(text) => Some(text.value()),
        _ => None,
    }
}

fn is_journal_name(text: &str) -> bool {
    let legal = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !text.is_empty() && text.len() <= 128 && text.chars().all(legal)
}

pub(crate) fn journal_name(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<String> {
    let text = text(value).filter(|text| is_journal_name(text));
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

/// `"name"`, or `"module::path::name"` of a workflow or a step in another module.
pub(crate) fn of(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<Of> {
    let of = text(value).and_then(|text| match text.rsplit_once("::") {
        None => is_journal_name(&text).then_some(Of { name: text, module: None }),
        Some((module, last)) => {
            // Checked by itself: only a path from the crate's name says the same in every module.
            let path = syn::parse_str::<Path>(module).ok().filter(|path| path.leading_colon.is_none());
            let first = path?.segments.first()?.ident.to_string();
            let absolute = !matches!(first.as_str(), "crate" | "self" | "super" | "Self");
            let module: String = module.split_whitespace().collect();
            (absolute && is_journal_name(last)).then(|| Of { name: last.into(), module: Some(module) })
        }
    });
    if of.is_none() {
        let form = "the name of the workflow or step, for example `of = \"triage\"`; of one in another module with the whole path of that module, `of = \"shop::flows::triage\"`";
        bad(at(name, value), "of", form, diagnostics);
    }
    of
}

pub(crate) fn crate_path(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<Path> {
    let path = match literal(value) {
        Some(Lit::Str(text)) => text.parse_with(Path::parse_mod_style).ok(),
        _ => None,
    };
    if path.is_none() {
        bad(at(name, value), "crate", "a path in quotes, for example `crate = \"my_aether\"`", diagnostics);
    }
    path
}

pub(crate) fn macros(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Vec<String> {
    if let Value::List(list) = value
        && !list.is_empty()
        && list.iter().all(|opt| matches!(opt.value, Value::Flag))
    {
        return list.iter().map(|opt| opt.name.to_string()).collect();
    }
    bad(at(name, value), "macros", "the names of macros, for example `macros(my_macro)`", diagnostics);
    Vec::new()
}

pub(crate) fn version(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> u32 {
    let number = match literal(value) {
        Some(Lit::Int(number)) => number.base10_parse::<u32>().ok().filter(|number| *number > 0),
        _ => None,
    };
    if number.is_none() {
        bad(at(name, value), "version", "a number from 1, for example `version = 2`", diagnostics);
    }
    number.unwrap_or(1)
}

pub(crate) fn effect(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<Effect> {
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

pub(crate) fn flag(name: Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<Ident> {
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

pub(crate) fn timeout(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<Timeout> {
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

pub(crate) fn heartbeat(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<u64> {
    let silence = duration(name, value, diagnostics)?;
    if silence == 0 {
        bad(
            at(name, value),
            "heartbeat",
            "a time above zero, for example `heartbeat = \"10s\"`",
            diagnostics,
        );
    }
    Some(silence)
}

pub(crate) fn limit(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<String> {
    let text = text(value).filter(|text| is_journal_name(text));
    if text.is_none() {
        let form = "the name of a limit, 1 to 128 letters, digits, `_`, `-` or `.`, for example `limit = \"openai\"`";
        bad(at(name, value), "limit", form, diagnostics);
    }
    text
}

pub(crate) fn retry(name: &Ident, value: Value, diagnostics: &mut Diagnostics) -> Retry {
    const KNOWN: &[&str] = &["max_retries", "patience", "delay", "factor", "max_delay", "jitter"];
    let mut retry = Retry {
        max_retries: u32::MAX,
        patience: None,
        delay: 200,
        factor: 2.0,
        max_delay: 60_000,
        jitter: 0.2,
    };
    let Value::List(list) = value else {
        bad(
            name,
            "retry",
            "`retry(patience = \"10m\")` or `retry(max_retries = 5)`, with `delay`, `factor`, `max_delay` and `jitter` if you like",
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
            "max_retries" => {
                retry.max_retries = retries(name, value, diagnostics).unwrap_or(retry.max_retries)
            }
            "patience" => retry.patience = patience(name, value, diagnostics),
            "delay" => retry.delay = duration(name, value, diagnostics).unwrap_or(retry.delay),
            "max_delay" => retry.max_delay = duration(name, value, diagnostics).unwrap_or(retry.max_delay),
            "jitter" => retry.jitter = jitter(name, value, diagnostics).unwrap_or(retry.jitter),
            "factor" => retry.factor = factor(name, value, diagnostics).unwrap_or(retry.factor),
            _ => unknown_option(name, KNOWN, diagnostics),
        }
        seen.push(text);
    }
    // An option that is not known may be one of the two, misspelt: that is said already.
    let known = seen.iter().all(|name| KNOWN.contains(&name.as_str()));
    if known && !seen.iter().any(|name| name == "max_retries" || name == "patience") {
        bad(
            name,
            "retry",
            "for how long, or how many times, it is tried again: `retry(patience = \"10m\")` or `retry(max_retries = 5)`",
            diagnostics,
        );
    }
    retry
}

fn patience(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<u64> {
    let patience = duration(name, value, diagnostics)?;
    if patience == 0 {
        let form =
            "a time above zero, for example `patience = \"10m\"`; `max_retries = 0` is for a single attempt";
        bad(at(name, value), "patience", form, diagnostics);
    }
    Some(patience)
}

fn retries(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<u32> {
    let number = match literal(value) {
        Some(Lit::Int(number)) => number.base10_parse::<u32>().ok().filter(|number| *number < u32::MAX),
        _ => None,
    };
    if number.is_none() {
        bad(at(name, value), "max_retries", "a whole number of retries after the first attempt", diagnostics);
    }
    number
}

fn factor(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<f64> {
    let number = number(value).filter(|number| *number >= 1.0);
    if number.is_none() {
        bad(at(name, value), "factor", "a number from 1.0, for example `factor = 2.0`", diagnostics);
    }
    number
}

fn jitter(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<f64> {
    let number = number(value).filter(|number| (0.0..=1.0).contains(number));
    if number.is_none() {
        let form = "the part of a wait that is left to chance, from 0.0 to 1.0, for example `jitter = 0.2`";
        bad(at(name, value), "jitter", form, diagnostics);
    }
    number
}

/// A finite number, whole or not.
fn number(value: &Value) -> Option<f64> {
    match literal(value)? {
        Lit::Int(number) => number.base10_parse::<u32>().ok().map(f64::from),
        Lit::Float(number) => number.base10_parse::<f64>().ok().filter(|number| number.is_finite()),
        _ => None,
    }
}

/// The types of values that a body takes through functions that it calls.
pub(crate) fn needs(name: &Ident, value: Value, diagnostics: &mut Diagnostics) -> Vec<Type> {
    match value {
        Value::Types(types) if !types.is_empty() => types,
        value => {
            let form = "the types that the functions take which the body calls, for example `needs(Mailer, Box<dyn Clock>)`";
            bad(at(name, &value), "needs", form, diagnostics);
            Vec::new()
        }
    }
}

/// A list of kinds of resources.
pub(crate) fn changes(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Vec<String> {
    let kinds = match value {
        Value::Is(expr) => kinds(expr),
        _ => None,
    };
    if kinds.is_none() {
        let form = "the kinds of resources that the body changes, each once, for example `changes = [\"http\", \"file\"]`";
        bad(at(name, value), "changes", form, diagnostics);
    }
    kinds.unwrap_or_default()
}

fn kinds(expr: &Expr) -> Option<Vec<String>> {
    let Expr::Array(array) = expr else { return None };
    let mut kinds: Vec<String> = Vec::new();
    for element in &array.elems {
        let Expr::Lit(ExprLit { lit: Lit::Str(kind), .. }) = element else { return None };
        let kind = kind.value();
        if kind.trim().is_empty() || kinds.contains(&kind) {
            return None;
        }
        kinds.push(kind);
    }
    (!kinds.is_empty()).then_some(kinds)
}

/// One of the words of a table.
pub(crate) fn word<T: Copy>(
    name: &Ident,
    value: &Value,
    words: &[(&str, T)],
    diagnostics: &mut Diagnostics,
) -> Option<T> {
    let text = text(value).unwrap_or_default();
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, meant)| *meant);
    if found.is_none() {
        let words: Vec<String> = words.iter().map(|(word, _)| format!("`\"{word}\"`")).collect();
        let form = format!("one of {}", words.join(", "));
        bad(at(name, value), &name.to_string(), &form, diagnostics);
    }
    found
}

pub(crate) fn probe(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<Path> {
    path(name, value, "the path of an async function, for example `probe = was_sent`", diagnostics)
}

pub(crate) fn compensate(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Option<Path> {
    path(
        name,
        value,
        "the path of the step that undoes this one, for example `compensate = refund`",
        diagnostics,
    )
}

fn path(name: &Ident, value: &Value, form: &str, diagnostics: &mut Diagnostics) -> Option<Path> {
    if let Value::Is(expr) = value
        && let Expr::Path(path) = &**expr
        && path.qself.is_none()
    {
        return Some(path.path.clone());
    }
    bad(at(name, value), &name.to_string(), form, diagnostics);
    None
}

pub(crate) fn key(name: &Ident, value: Value, diagnostics: &mut Diagnostics) -> Option<ArgumentClosure> {
    const FORM: &str = "a closure over arguments of the step, for example `key = |order_id| order_id`";
    let place = at(name, &value);
    let key = closure(value);
    if key.is_none() {
        bad(place, "key", FORM, diagnostics);
    }
    key
}

pub(crate) fn approval(name: &Ident, value: Value, diagnostics: &mut Diagnostics) -> Option<Approval> {
    const FORM: &str = "`approval = \"required\"`, or a closure over arguments of the step that tells whether a \
                        person must agree, for example `approval = |cents| *cents > 10_000`";
    if text(&value).as_deref() == Some("required") {
        return Some(Approval::Required);
    }
    let place = at(name, &value);
    let approval = closure(value).map(|closure| Approval::ByArguments(Box::new(closure)));
    if approval.is_none() {
        bad(place, "approval", FORM, diagnostics);
    }
    approval
}

fn closure(value: Value) -> Option<ArgumentClosure> {
    let Value::Is(expr) = value else { return None };
    let Expr::Closure(closure) = *expr else { return None };
    if closure.asyncness.is_some() || closure.inputs.is_empty() {
        return None;
    }
    let params = closure.inputs.iter().map(param).collect::<Option<Vec<_>>>()?;
    Some(ArgumentClosure { params, body: *closure.body })
}

fn param(pat: &Pat) -> Option<(Ident, Option<Type>)> {
    match pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.mutability.is_none() && pat.subpat.is_none() => {
            Some((pat.ident.clone(), None))
        }
        Pat::Type(typed) => Some((param(&typed.pat)?.0, Some((*typed.ty).clone()))),
        _ => None,
    }
}

/// Refuses an option that is not among the `known`.
pub(crate) fn unknown_option(name: &Ident, known: &[&str], diagnostics: &mut Diagnostics) {
    let text = name.to_string();
    let message = format!("unknown option `{text}`{}", did_you_mean(&text, known));
    let help = match nearest(&text, known) {
        Some(near) => format!("write `{near}`"),
        None => format!("known options: {}", known.join(", ")),
    };
    diagnostics.report_with(name, code::UNKNOWN_OPTION, message, help);
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
