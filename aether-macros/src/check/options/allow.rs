//! `allow(what, reason = "..")`: which checks can be switched off, and by which name.

use syn::{Expr, Ident, Lit};

use crate::diagnostics::code::{self, Code};
use crate::diagnostics::report::Diagnostics;
use crate::diagnostics::suggestion::did_you_mean;
use crate::parse::options::{Opt, Value};
use crate::plan::Allow;

/// The names of the checks that can be switched off.
const NAMES: &[(&str, &Code)] = &[
    ("clock", code::CLOCK),
    ("random", code::RANDOM),
    ("uuid", code::UUID),
    ("env", code::ENVIRONMENT),
    ("fs", code::FILES),
    ("net", code::NETWORK),
    ("process", code::PROCESS),
    ("thread", code::THREAD),
    ("spawn", code::SPAWN),
    ("timer", code::TIMER),
    ("hash", code::HASH_ORDER),
    ("print", code::OUTPUT),
    ("static", code::STATIC),
    ("thread_local", code::THREAD_LOCAL),
    ("address", code::ADDRESS),
    ("blocking", code::BLOCKING),
    ("http", code::RAW_HTTP),
    ("macro", code::HIDDEN_AWAIT),
];

/// The names of what no lint sees, and `cargo aether check` finds.
const FOUND_BY_CHECK: &[&str] = &["backtrace", "foreign"];

/// Whether `code` was switched off.
pub(crate) fn allowed(code: &Code, allows: &[Allow]) -> bool {
    NAMES
        .iter()
        .find(|(_, named)| named.id == code.id)
        .is_some_and(|(name, _)| allows.iter().any(|allow| allow.what == *name))
}

/// Reads one `allow(..)`.
pub(crate) fn read(name: &Ident, value: &Value, diagnostics: &mut Diagnostics) -> Vec<Allow> {
    let Value::List(list) = value else {
        diagnostics.report(name, code::ALLOW, "`allow` names a check and a reason");
        return Vec::new();
    };
    let reason = list.iter().find(|opt| opt.name == "reason").and_then(reason);
    let Some(reason) = reason else {
        diagnostics.report(name, code::ALLOW, "`allow` without a reason");
        return Vec::new();
    };
    let mut allows = Vec::new();
    for opt in list.iter().filter(|opt| opt.name != "reason") {
        let what = opt.name.to_string();
        let known: Vec<&str> =
            NAMES.iter().map(|(name, _)| *name).chain(FOUND_BY_CHECK.iter().copied()).collect();
        if !known.contains(&what.as_str()) || !matches!(opt.value, Value::Flag) {
            let near = did_you_mean(&what, &known);
            let help = format!("one of: {}", known.join(", "));
            diagnostics.report_with(
                &opt.name,
                code::ALLOW,
                format_args!("no check is named `{what}`{near}"),
                help,
            );
        } else {
            allows.push(Allow { what, reason: reason.clone() });
        }
    }
    if list.len() < 2 {
        diagnostics.report(name, code::ALLOW, "`allow` names no check");
    }
    allows
}

fn reason(opt: &Opt) -> Option<String> {
    let Value::Is(expr) = &opt.value else { return None };
    let Expr::Lit(literal) = &**expr else { return None };
    match &literal.lit {
        Lit::Str(text) if !text.value().trim().is_empty() => Some(text.value()),
        _ => None,
    }
}
