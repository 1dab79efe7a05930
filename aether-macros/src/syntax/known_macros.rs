//! Macros that are known by their name: whether awaits in their arguments can be seen, and whether they may leave the
//! function.
//!
//! Promise: what is in none of these lists is not known, and nothing is assumed about it.

use proc_macro2::{Literal, Span, TokenTree};
use quote::ToTokens as _;
use syn::spanned::Spanned as _;
use syn::{Expr, ExprLit, Ident, Lit, Macro};

use super::arguments::Arguments;

/// Macros that evaluate their arguments as expressions in the enclosing function, and leave it only by panic.
const TRANSPARENT: &[&str] = &[
    "format",
    "format_args",
    "print",
    "println",
    "eprint",
    "eprintln",
    "write",
    "writeln",
    "dbg",
    "panic",
    "todo",
    "unimplemented",
    "unreachable",
    "assert",
    "assert_eq",
    "assert_ne",
    "vec",
    "matches",
    "anyhow",
    "json",
];

/// Macros that evaluate their arguments only where a log level is on: an await in them would be there in one process and not
/// in the next.
const LOGGING: &[&str] = &[
    "trace",
    "debug",
    "info",
    "warn",
    "error",
    "event",
    "log",
    "span",
    "trace_span",
    "debug_span",
    "info_span",
    "warn_span",
    "error_span",
];

/// Macros that evaluate their arguments only in a debug build.
const DEBUG_ONLY: &[&str] = &["debug_assert", "debug_assert_eq", "debug_assert_ne"];

/// Macros of the compiler, which evaluate nothing.
const COMPILED: &[&str] = &[
    "cfg",
    "env",
    "option_env",
    "concat",
    "stringify",
    "include_str",
    "include_bytes",
    "line",
    "file",
    "column",
    "module_path",
];

/// The like, which may also return from the enclosing function.
const LEAVING: &[&str] = &["bail", "ensure"];

/// Macros that poll futures in an order of their own, or await in what they expand to.
const CONCURRENT: &[&str] = &[
    "select",
    "select_biased",
    "join",
    "try_join",
    "join_biased",
    "try_join_biased",
    "try_join_all",
    "join_all",
    "poll",
    "pending",
];

/// Other macros whose expansion holds no await and nothing unrecorded of its own.
const HARMLESS: &[&str] = &[
    "addr_of",
    "addr_of_mut",
    "assert_matches",
    "bstr",
    "btreemap",
    "btreeset",
    "compile_error",
    "concatcp",
    "const_format",
    "date",
    "datetime",
    "eyre",
    "formatcp",
    "formatdoc",
    "hashmap",
    "hashset",
    "indoc",
    "lazy_static",
    "nanoid",
    "pin",
    "smallvec",
    "task_local",
    "thread_local",
    "time",
    "try",
    "uuid",
    "writedoc",
];

/// When the arguments of a macro are evaluated.
pub(crate) enum Evaluated {
    /// Where a log level is on.
    AtLevel,
    /// In a debug build.
    InDebug,
}

/// When the arguments of a macro are evaluated, if not always.
pub(crate) fn evaluated(name: &str) -> Option<Evaluated> {
    if LOGGING.contains(&name) {
        return Some(Evaluated::AtLevel);
    }
    DEBUG_ONLY.contains(&name).then_some(Evaluated::InDebug)
}

/// Whether a macro leaves the function only by panic, and does not always evaluate its arguments.
fn is_quiet(name: &str) -> bool {
    evaluated(name).is_some() || COMPILED.contains(&name)
}

/// Last segment of the macro's path.
pub(crate) fn name(mac: &Macro) -> String {
    mac.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default()
}

/// Whether it is known that nothing hides in what the macro expands to but its arguments.
pub(crate) fn is_known(mac: &Macro) -> bool {
    let name = name(mac);
    is_quiet(&name)
        || [TRANSPARENT, LEAVING, CONCURRENT, HARMLESS].iter().any(|list| list.contains(&name.as_str()))
}

/// Whether awaits in the arguments can be seen and rewritten.
pub(crate) fn is_transparent(mac: &Macro) -> bool {
    let name = name(mac);
    TRANSPARENT.contains(&name.as_str()) || LEAVING.contains(&name.as_str())
}

/// Whether the macro prints its arguments as they are written: in other words they would be told in other words.
pub(crate) fn prints_itself(mac: &Macro) -> bool {
    matches!(name(mac).as_str(), "assert" | "dbg" | "ensure")
}

/// Whether the macro may return from the function or leave a loop.
pub(crate) fn may_leave(mac: &Macro) -> bool {
    let name = name(mac);
    !TRANSPARENT.contains(&name.as_str()) && !is_quiet(&name)
}

/// Whether the macro polls futures by itself.
pub(crate) fn is_concurrent(mac: &Macro) -> bool {
    CONCURRENT.contains(&name(mac).as_str())
}

/// The first literal of a formatting macro that prints an address.
pub(crate) fn address_format(mac: &Macro) -> Option<Literal> {
    if !is_transparent(mac) && !is_quiet(&name(mac)) {
        return None;
    }
    mac.tokens.clone().into_iter().find_map(|token| match token {
        TokenTree::Literal(literal) if prints_address(&literal.to_string()) => Some(literal),
        _ => None,
    })
}

/// Whether a format string has a `{:p}`.
fn prints_address(text: &str) -> bool {
    holes(text).iter().any(|(_, spec)| spec.ends_with('p'))
}

/// The holes of a format string, each as what is printed and how. Other literals have none.
fn holes(text: &str) -> Vec<(String, String)> {
    if !text.starts_with(['"', 'r']) {
        return Vec::new();
    }
    let text = text.replace("{{", "");
    let holes = text.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    let parts = holes.map(|(hole, _)| hole.split_once(':').unwrap_or((hole, "")));
    parts.map(|(what, how)| (what.trim().to_owned(), how.trim_end().to_owned())).collect()
}

/// The macros that make a text of their arguments which the function goes on with.
const TEXTS: &[&str] = &["format", "write", "writeln", "anyhow"];

/// What a macro that makes a text prints as `{:?}`.
pub(crate) fn debugged(mac: &Macro) -> Vec<Expr> {
    if !TEXTS.contains(&name(mac).as_str()) {
        return Vec::new();
    }
    let given: Vec<Expr> = Arguments::of(mac).pieces.into_iter().filter_map(|piece| piece.expr).collect();
    let is_text = |expr: &Expr| matches!(expr, Expr::Lit(ExprLit { lit: Lit::Str(_), .. }));
    let Some(at) = given.iter().position(is_text) else { return Vec::new() };
    let (mut next, arguments) = (0, &given[at + 1..]);
    let mut found = Vec::new();
    for (what, how) in holes(&given[at].to_token_stream().to_string()) {
        let named = |expr: &&Expr| matches!(expr, Expr::Assign(named) if named.left.to_token_stream().to_string() == what);
        let printed = match (what.as_str(), what.parse::<usize>()) {
            ("", _) => {
                next += 1;
                arguments.get(next - 1).cloned()
            }
            (_, Ok(number)) => arguments.get(number).cloned(),
            (_, Err(_)) => {
                arguments.iter().find(named).cloned().or_else(|| variable(&what, given[at].span()))
            }
        };
        let printed = printed.map(|printed| match printed {
            Expr::Assign(named) => *named.right,
            printed => printed,
        });
        found.extend(printed.filter(|_| how.ends_with('?')));
    }
    found
}

/// The variable that a hole names.
fn variable(name: &str, at: Span) -> Option<Expr> {
    let mut name: Ident = syn::parse_str(name).ok()?;
    name.set_span(at);
    Some(syn::parse_quote!(#name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_formats_are_seen() {
        let seen = |text: &str| address_format(&syn::parse_str(text).unwrap()).is_some();
        assert!(seen("format!(\"{:p}\", x)"));
        assert!(seen("info!(\"{x:#p} {y}\")"));
        assert!(!seen("format!(\"{{:p}} {p} {x:?}\", x)"));
        assert!(!seen("format!(\"{}\", \"help\")"));
    }

    #[test]
    fn what_is_debugged_is_found() {
        let seen = |text: &str| {
            let found = debugged(&syn::parse_str(text).unwrap());
            found.iter().map(|expr| expr.to_token_stream().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(seen("format!(\"{:?} {} {:#?} {c:?} {d}\", a, b, c.tags, c = e)"), "a c . tags e");
        assert_eq!(seen("write!(out, \"{1:?} {map:?} {{x:?}}\", a, b)"), "b map");
        assert_eq!(seen("info!(\"{map:?}\")"), "");
        assert_eq!(seen("format!(\"{:?} {:?}\", a)"), "a");
    }
}
