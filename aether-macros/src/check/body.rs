//! The rules of bodies: what is recorded nowhere, by the name it is used under.
//!
//! Promise: judged by use, never by what a file imports.

use std::borrow::Cow;

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Expr, ExprMethodCall, ExprPath, GenericArgument, Item, Macro, Pat, Path, PathArguments,
    Token, Type, TypePath,
};

use super::allow::allowed;
use crate::code::{self, Code};
use crate::hidden::{self, Arguments};
use crate::ir::{Allow, Effect};
use crate::report::Diagnostics;

/// Judges the body of a workflow.
pub(super) fn workflow(body: &Block, allows: &[Allow], diagnostics: &mut Diagnostics) {
    Judge { place: Place::Workflow, allows, diagnostics }.visit_block(body);
}

/// Judges the body of a step.
pub(super) fn step(body: &Block, effect: Option<Effect>, allows: &[Allow], diagnostics: &mut Diagnostics) {
    let place = match effect {
        Some(Effect::Pure) => Place::Pure,
        Some(_) => Place::Step,
        None => return,
    };
    Judge { place, allows, diagnostics }.visit_block(body);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Workflow,
    Pure,
    Step,
}

impl Place {
    fn judges(self, code: &Code) -> bool {
        self != Self::Step || [code::CLOCK, code::RANDOM, code::UUID].iter().any(|drawn| drawn.id == code.id)
    }

    /// What to do instead, where the catalogue's answer is made for workflows.
    fn help(self, code: &Code) -> Cow<'static, str> {
        match self {
            Self::Workflow => code.help.into(),
            Self::Pure => {
                "pass the value as an argument, or choose the effect class that says what the body does"
                    .into()
            }
            Self::Step => code.help.replace(".await", "").into(),
        }
    }
}

struct Judge<'a> {
    place: Place,
    allows: &'a [Allow],
    diagnostics: &'a mut Diagnostics,
}

impl Judge<'_> {
    fn report(&mut self, at: impl ToTokens, code: &Code, what: &str) {
        if self.place.judges(code) && !allowed(code, self.allows) {
            let place = match self.place {
                Place::Workflow => "a workflow",
                Place::Pure => "a pure step",
                Place::Step => "a step",
            };
            let message = format!("`{what}` in {place}");
            self.diagnostics.report_with(at, code, message, self.place.help(code));
        }
    }

    fn value(&mut self, path: &Path) {
        let names = names(path);
        if let Some(code) = judge(&names) {
            self.report(path, code, &names.join("::"));
        }
    }

    fn ty(&mut self, ty: &Type) {
        struct Finder<'a, 'b>(&'a mut Judge<'b>);
        impl<'ast> Visit<'ast> for Finder<'_, '_> {
            fn visit_type_path(&mut self, ty: &'ast TypePath) {
                if let Some(name) = hashed(&ty.path) {
                    self.0.report(&ty.path, code::HASH_ORDER, &name);
                }
                visit::visit_type_path(self, ty);
            }
        }
        Finder(self).visit_type(ty);
    }
}

impl<'ast> Visit<'ast> for Judge<'_> {
    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        self.value(&path.path);
        visit::visit_expr_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        for argument in call.turbofish.iter().flat_map(|turbofish| &turbofish.args) {
            if let GenericArgument::Type(ty) = argument {
                self.ty(ty);
            }
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_pat(&mut self, pat: &'ast Pat) {
        if let Pat::Type(typed) = pat {
            self.ty(&typed.ty);
        }
        visit::visit_pat(self, pat);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        let name = hidden::name(mac);
        match name.as_str() {
            "print" | "println" | "eprint" | "eprintln" | "dbg" => {
                self.report(&mac.path, code::OUTPUT, &format!("{name}!"));
            }
            "thread_local" => self.report(&mac.path, code::STATIC, "thread_local!"),
            _ => {}
        }
        for expr in Arguments::of(mac).pieces.iter().filter_map(|piece| piece.expr.as_ref()) {
            self.visit_expr(expr);
        }
    }

    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Static(item) => self.report(&item.ident, code::STATIC, &format!("static {}", item.ident)),
            Item::Fn(function) if !function.attrs.iter().any(is_ours) => self.visit_block(&function.block),
            Item::Macro(item) if item.mac.path.is_ident("thread_local") => self.visit_macro(&item.mac),
            _ => {}
        }
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        if !matches!(expr, Expr::Const(_)) {
            visit::visit_expr(self, expr);
        }
    }
}

/// A nested step or workflow is judged by its own attribute.
fn is_ours(attr: &Attribute) -> bool {
    attr.path().segments.last().is_some_and(|last| last.ident == "step" || last.ident == "workflow")
}

fn names(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// The mistake that naming a value by this path is.
fn judge(names: &[String]) -> Option<&'static Code> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (last, before) = names.split_last()?;
    let owner = before.last().copied().unwrap_or_default();
    let crate_name = before.first().copied().unwrap_or_default();
    RULES.iter().find(|(_, rule)| rule(last, owner, before, crate_name)).map(|(code, _)| *code)
}

/// Last name, the one before it, all before the last, the first of these.
type Rule = fn(&str, &str, &[&str], &str) -> bool;

const RULES: &[(&Code, Rule)] = &[
    (code::CLOCK, clock),
    (code::UUID, |last, owner, _, _| {
        owner == "Uuid" && matches!(last, "new_v4" | "now_v7" | "now_v6" | "now_v1")
    }),
    (code::RANDOM, random),
    (code::ENVIRONMENT, |last, owner, before, first| {
        (first == "std" && before.get(1) == Some(&"env"))
            || owner == "env"
                && (last.starts_with("var") || last.starts_with("args") || last.ends_with("_dir"))
            || owner == "env" && last.ends_with("_var")
    }),
    (code::FILES, |last, owner, before, _| {
        before.contains(&"fs") || owner == "OpenOptions" || owner == "File" && is_file(last)
    }),
    (code::NETWORK, network),
    (code::PROCESS, |_, owner, before, _| before.contains(&"process") || owner == "Command"),
    (code::SPAWN, |last, owner, _, first| {
        let runtime = matches!(owner, "task" | "tokio" | "smol" | "async_std" | "runtime");
        (last.starts_with("spawn") && runtime)
            || first == "tokio" && owner == "task"
            || matches!(last, "spawn_blocking" | "spawn_local" | "block_in_place")
            || owner == "JoinSet"
    }),
    (code::THREAD, |_, owner, _, first| owner == "thread" || first == "rayon"),
    (code::TIMER, |last, owner, _, _| {
        owner == "time"
            && matches!(last, "sleep" | "sleep_until" | "timeout" | "timeout_at" | "interval" | "interval_at")
    }),
    (code::HASH_ORDER, |last, owner, _, _| {
        matches!(owner, "HashMap" | "HashSet" | "RandomState") && last != "with_hasher"
    }),
];

fn clock(last: &str, owner: &str, _: &[&str], _: &str) -> bool {
    match owner {
        "SystemTime" | "Instant" | "Utc" | "Local" | "Timestamp" | "Zoned" => last == "now",
        "OffsetDateTime" | "UtcDateTime" => matches!(last, "now_utc" | "now_local" | "now"),
        _ => false,
    }
}

fn random(last: &str, owner: &str, before: &[&str], first: &str) -> bool {
    let drawn = matches!(first, "rand" | "fastrand" | "getrandom") && last.starts_with(char::is_lowercase);
    let seeded = matches!(last, "from_os_rng" | "from_entropy" | "try_from_os_rng" | "from_rng");
    let bare = before.is_empty() && matches!(last, "thread_rng" | "OsRng");
    drawn && !before.contains(&"seq") && last != "seed_from_u64" && last != "from_seed"
        || bare
        || owner == "OsRng"
        || seeded && owner.ends_with("Rng")
}

fn is_file(last: &str) -> bool {
    matches!(last, "open" | "create" | "create_new" | "options" | "open_buffered" | "create_buffered")
}

fn network(last: &str, owner: &str, _: &[&str], first: &str) -> bool {
    let socket = matches!(
        owner,
        "TcpStream"
            | "TcpListener"
            | "UdpSocket"
            | "UnixStream"
            | "UnixListener"
            | "UnixDatagram"
            | "TcpSocket"
    );
    let client = matches!(first, "reqwest" | "ureq" | "isahc")
        && (last.starts_with(char::is_lowercase) || owner == "blocking")
        && !matches!(owner, "StatusCode" | "Method" | "Url" | "Version" | "HeaderMap" | "header");
    socket || client || owner == "net" && last == "lookup_host"
}

/// The name of a hash collection of the standard library with its default, randomly keyed hasher.
fn hashed(path: &Path) -> Option<String> {
    let last = path.segments.last()?;
    let name = last.ident.to_string();
    let default_arguments = match name.as_str() {
        "HashMap" => 2,
        "HashSet" => 1,
        _ => return None,
    };
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) if count(&arguments.args) > default_arguments => None,
        _ => Some(name),
    }
}

fn count(arguments: &Punctuated<GenericArgument, Token![,]>) -> usize {
    arguments.iter().filter(|argument| matches!(argument, GenericArgument::Type(_))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> Option<&'static str> {
        let path: Path = syn::parse_str(path).unwrap();
        judge(&names(&path)).map(|code| code.id)
    }

    #[test]
    fn paths_are_judged_by_their_last_names() {
        let cases = [
            ("std::time::SystemTime::now", "AE0101"),
            ("Utc::now", "AE0101"),
            ("rand::random", "AE0102"),
            ("rand::rng", "AE0102"),
            ("thread_rng", "AE0102"),
            ("uuid::Uuid::new_v4", "AE0103"),
            ("std::env::var", "AE0104"),
            ("env::args", "AE0104"),
            ("std::fs::read_to_string", "AE0105"),
            ("tokio::fs::read", "AE0105"),
            ("File::open", "AE0105"),
            ("reqwest::get", "AE0106"),
            ("reqwest::Client::new", "AE0106"),
            ("TcpStream::connect", "AE0106"),
            ("std::process::Command::new", "AE0107"),
            ("std::thread::sleep", "AE0108"),
            ("thread::spawn", "AE0108"),
            ("tokio::spawn", "AE0109"),
            ("tokio::task::spawn_blocking", "AE0109"),
            ("tokio::time::sleep", "AE0110"),
            ("HashMap::new", "AE0111"),
        ];
        for (path, code) in cases {
            assert_eq!(found(path), Some(code), "{path}");
        }
    }

    #[test]
    fn harmless_paths_pass() {
        let paths = [
            "Duration::from_secs",
            "tokio::time::Duration::from_secs",
            "SystemTime::UNIX_EPOCH",
            "Uuid::parse_str",
            "reqwest::StatusCode::OK",
            "now",
            "search",
            "random",
            "spawn",
            "sleep",
            "BTreeMap::new",
            "HashMap::with_hasher",
            "StdRng::seed_from_u64",
            "env",
            "std::net::Ipv4Addr::LOCALHOST",
        ];
        for path in paths {
            assert_eq!(found(path), None, "{path}");
        }
    }
}
