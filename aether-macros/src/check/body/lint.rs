//! What the names, calls and places of a body are, and what is reported of them.
//!
//! Promise: judged by use, never by what a file imports; a name that the visible source declares itself is not
//! mistaken for another crate's.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{
    Expr, ExprCast, ExprMethodCall, ExprPath, GenericArgument, Ident, Macro, Path, PathArguments, Type,
};

use super::context::BodyKind;
use super::locals::Locals;
use super::names::{Meaning, Names, segments};
use super::places::{self, is_address, static_name};
use super::rules::finding::Finding;
use super::rules::{methods, paths};
use crate::check::options::allow::allowed;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::plan::Allow;
use crate::syntax::awaits::contains_await;
use crate::syntax::known_macros;
use crate::syntax::paths::paths_in;

/// How many arguments functions of the world take, of types whose names people give to types of their own.
const TAKEN: [(&str, &str, usize); 9] = [
    ("Command", "new", 1),
    ("File", "open", 1),
    ("File", "create", 1),
    ("File", "create_new", 1),
    ("File", "options", 0),
    ("Notify", "new", 0),
    ("Semaphore", "new", 1),
    ("Barrier", "new", 1),
    ("Condvar", "new", 0),
];

/// What to do instead of a semaphore.
const SEMAPHORE: &str = "bound how many branches run at a time with `cx.each(items, ..).limit(n)`";

/// What to do instead of taking a value of the program that is not recorded.
const DEP: &str = "take configuration with `cx.config::<T>().await?`, which records it; use a service in a step, where `cx.dep::<T>()?` gives it";

/// A path that is judged.
pub(crate) struct PathFinding {
    pub(crate) finding: Finding,
    /// What the path means.
    pub(crate) path: Vec<String>,
    /// Whether it is a raw HTTP client.
    pub(crate) is_http_client: bool,
}

/// The walk over one body, and what it has seen so far.
pub(crate) struct BodyLint<'a> {
    pub(crate) kind: BodyKind,
    pub(crate) allows: &'a [Allow],
    pub(crate) macros: &'a [String],
    pub(crate) names: Names,
    pub(crate) locals: Locals,
    /// The first parameter.
    pub(crate) context: Option<Ident>,
    /// What calls around the one that is looked at go through in any order.
    pub(crate) in_any_order: Vec<*const Expr>,
    /// Inside `unsafe { .. }`.
    pub(crate) unsafety: bool,
    pub(crate) diagnostics: &'a mut Diagnostics,
}

impl BodyLint<'_> {
    pub(crate) fn is_deterministic(&self) -> bool {
        !matches!(self.kind, BodyKind::Step | BodyKind::Http)
    }

    pub(crate) fn report(&mut self, at: impl ToTokens, finding: Finding, what: &str) {
        self.emit(at, finding, what, false);
    }

    /// Reports a finding, unless it is none in a body of this kind or its check was switched off.
    pub(crate) fn emit(&mut self, at: impl ToTokens, finding: Finding, what: &str, client: bool) {
        let (Finding::Wrong(code) | Finding::Suspicious(code)) = finding;
        let Some(code) = self.kind.code_here(code, client) else { return };
        if allowed(code, self.allows) {
            return;
        }
        let message = format!("`{what}` in {}", self.kind.name());
        let help = match self.kind {
            BodyKind::Workflow if what.contains("Semaphore") => SEMAPHORE.into(),
            BodyKind::Workflow if what.ends_with(".dep()") => DEP.into(),
            kind => kind.help(code),
        };
        match finding {
            Finding::Wrong(_) => self.diagnostics.report_with(at, code, message, help),
            Finding::Suspicious(_) if self.is_deterministic() => {
                self.diagnostics.warn(at, code, message, help)
            }
            Finding::Suspicious(_) => {}
        }
    }

    /// A path that names a value, with the number of arguments where it is called.
    pub(crate) fn check_value_path(&mut self, path: &Path, arguments: Option<usize>) {
        let written = segments(path);
        if let Some(found) = self.judge_path(written.clone(), arguments) {
            let written = written.join("::");
            let what = match found.path.join("::") {
                meant if meant.ends_with(&written) => written,
                meant => format!("{written}`, which is `{meant}"),
            };
            self.emit(path, found.finding, &what, found.is_http_client);
        }
    }

    /// What naming a value by this path is, and whether it is a raw HTTP client.
    pub(crate) fn judge_path(&self, written: Vec<String>, arguments: Option<usize>) -> Option<PathFinding> {
        let bare = written.len() == 1;
        if bare && self.locals.binds(&written[0]) {
            return None;
        }
        // With another number of arguments it is a type of the user's own.
        if let [ty, function] = written.as_slice()
            && let Some((.., count)) = TAKEN.iter().find(|(of, name, _)| of == ty && name == function)
            && arguments.is_some_and(|given| given != *count)
        {
            return None;
        }
        // An id that is made of something is a type of the user's own.
        let is_id =
            matches!(written.as_slice(), [.., ty, new] if new == "new" && (ty == "ObjectId" || ty == "Ulid"));
        if is_id && arguments.is_some_and(|count| count != 0) {
            return None;
        }
        // No clock takes an argument: that is a function of the user's own.
        let last = written.last().map_or("", String::as_str);
        let tells_time = matches!(last, "now" | "now_utc" | "now_local" | "today" | "recent");
        if tells_time && arguments.is_some_and(|count| count != 0) {
            return None;
        }
        let paths = match self.names.meaning(written) {
            Meaning::Own => return None,
            Meaning::Path(path) => vec![path],
            Meaning::Maybe(paths) => paths,
        };
        paths.into_iter().find_map(|path| {
            Some(PathFinding {
                finding: paths::judge_path(&path)?,
                is_http_client: paths::is_http_client(&path),
                path,
            })
        })
    }

    pub(crate) fn check_type(&mut self, ty: &Type) {
        for (path, name) in places::hash_types(ty) {
            if self.names.meaning(segments(path)) != Meaning::Own {
                self.report(path, Finding::Wrong(code::HASH_ORDER), &name);
            }
        }
    }

    /// A static that is read, locked or written by a call of a method.
    pub(crate) fn report_static_use(&mut self, call: &ExprMethodCall) {
        let (root, method, count) = (&call.receiver, call.method.to_string(), call.args.len());
        let Some(name) = static_name(root) else { return self.report_shared_use(call, &method) };
        if self.names.is_changing_static(&name) || self.dereferenced_static(root).is_some() {
            return;
        }
        if let Some(finding) = methods::judge_method_of_static(&method, count) {
            self.report(&call.method, finding, &format!("{name}.{method}(..)"));
        }
    }

    /// The same of a name that does not look like a static, by methods that no constant has.
    fn report_shared_use(&mut self, call: &ExprMethodCall, method: &str) {
        let Some(path) = places::path_of_place(&call.receiver) else { return };
        let written = segments(path);
        let name = written.join("::");
        let local = path.get_ident().is_some_and(|name| self.locals.may_bind(name));
        if local || !places::may_be_static(&written) || self.names.is_changing_static(&name) {
            return;
        }
        let ordered = call.args.iter().any(places::is_memory_order);
        let with = method == "with" && matches!(call.args.first(), Some(Expr::Closure(_)));
        let keyed = matches!((method, call.args.len()), ("set" | "replace", 1) | ("take" | "get", 0));
        let finding = match methods::judge_method_of_shared(method, call.args.len(), ordered) {
            None if with && call.args.len() == 1 => Some(Finding::Wrong(code::THREAD_LOCAL)),
            None if keyed => Some(Finding::Suspicious(code::STATIC)),
            found => found,
        };
        if let Some(finding) = finding {
            self.report(&call.method, finding, &format!("{name}.{method}(..)"));
        }
    }

    /// The static in a place like `(*NAME).field`.
    pub(crate) fn dereferenced_static(&self, expr: &Expr) -> Option<String> {
        self.static_behind(places::dereferenced(expr)?)
    }

    /// The static in `*expr`, which may be computed at its first use. Constants are seldom dereferenced, and never
    /// judged where their declaration is in sight.
    pub(crate) fn static_behind(&self, expr: &Expr) -> Option<String> {
        let name = places::free_static(expr)?;
        let elsewhere = !self.locals.binds(&name) && !self.names.declares(&name);
        (!self.unsafety && elsewhere).then_some(name)
    }

    /// Whether a method called `elapsed` reads the clock for sure: on the epoch, or on what is made of a time.
    pub(crate) fn is_elapsed_time(&self, receiver: &Expr) -> bool {
        let Some(path) = places::origin(receiver) else { return false };
        let paths = match self.names.meaning(segments(path)) {
            Meaning::Own => return false,
            Meaning::Path(path) => vec![path],
            Meaning::Maybe(paths) => paths,
        };
        paths.iter().any(|path| paths::is_time(path))
    }

    /// Whether an expression is refused for the address that it makes.
    pub(crate) fn makes_address(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Paren(inner) => self.makes_address(&inner.expr),
            Expr::Group(inner) => self.makes_address(&inner.expr),
            Expr::RawAddr(_) => true,
            Expr::Macro(mac) => methods::judge_macro(&known_macros::name(&mac.mac)).is_some(),
            Expr::Cast(cast) => is_address(cast).is_some() || self.makes_address(&cast.expr),
            Expr::MethodCall(call) => call.method == "cast" && self.makes_address(&call.receiver),
            Expr::Call(call) => match &*call.func {
                Expr::Path(path) if path.qself.is_none() => self
                    .judge_path(segments(&path.path), Some(call.args.len()))
                    .is_some_and(|found| found.finding == Finding::Wrong(code::ADDRESS)),
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether a cast to an integer is one of a function.
    pub(crate) fn is_function_address(&self, cast: &ExprCast) -> bool {
        let Some(path) = places::cast_function(cast) else { return false };
        match path.path.get_ident() {
            Some(name) if path.qself.is_none() => !self.locals.may_bind(name),
            _ => true,
        }
    }

    /// Going through a parameter that is a hash collection.
    pub(crate) fn report_iteration(&mut self, root: &Expr, at: &dyn ToTokens, how: &str) {
        if let Expr::Path(path) = places::place(root)
            && let Some(name) = path.path.get_ident().map(ToString::to_string)
            && self.locals.is_hashed(&name)
        {
            self.report(at.to_token_stream(), Finding::Wrong(code::HASH_ORDER), &how.replace("{}", &name));
        }
    }

    /// Whether an expression is the context that the function takes.
    pub(crate) fn is_context(&self, expr: &Expr) -> bool {
        let Expr::Path(path) = places::place(expr) else { return false };
        path.path.get_ident().is_some() && path.path.get_ident() == self.context.as_ref()
    }

    /// A macro whose expansion is not known.
    pub(crate) fn warn_unknown_macro(&mut self, mac: &Macro) {
        let name = known_macros::name(mac);
        let known = known_macros::is_known(mac) || self.macros.contains(&name);
        if self.kind == BodyKind::Workflow && !known && !contains_await(&mac.tokens) {
            let vouched = self.allows.iter().any(|allow| allow.what == "macro");
            if !vouched {
                let message = format!("what `{name}!` expands to is not seen in a workflow");
                let help = format!(
                    "if it hides no await and nothing unrecorded, write `#[workflow(macros({name}))]`; else use a function"
                );
                self.diagnostics.warn(&mac.path, code::HIDDEN_AWAIT, message, help);
            }
        }
    }

    /// Nothing that a pure step awaits is recorded.
    pub(crate) fn report_pure_await(&mut self, at: impl ToTokens, what: &str) {
        if self.kind == BodyKind::Pure {
            self.diagnostics.report(at, code::PURE_AWAIT, what);
        }
    }

    /// Paths in tokens that are no expression.
    pub(crate) fn check_opaque_tokens(&mut self, tokens: &TokenStream) {
        for path in paths_in(tokens) {
            self.check_value_path(&path, None);
        }
    }

    /// A path, with the type in front of it where it is `<Type>::name`.
    pub(crate) fn check_path(&mut self, path: &ExprPath, arguments: Option<usize>) {
        match &path.qself {
            Some(qself) => {
                let Type::Path(ty) = &*qself.ty else { return };
                let mut whole = ty.path.clone();
                whole.segments.extend(path.path.segments.iter().skip(qself.position).cloned());
                self.check_value_path(&whole, arguments);
            }
            None => {
                if !self.read_in_unsafe(path) {
                    self.check_value_path(&path.path, arguments);
                }
            }
        }
        self.check_arguments_of(path);
    }

    /// The types in the type arguments of a path.
    pub(crate) fn check_arguments_of(&mut self, path: &ExprPath) {
        for segment in &path.path.segments {
            if let PathArguments::AngleBracketed(arguments) = &segment.arguments {
                for argument in &arguments.args {
                    if let GenericArgument::Type(ty) = argument {
                        self.check_type(ty);
                    }
                }
            }
        }
    }

    /// A name in capitals in an unsafe block is most likely a `static mut`.
    pub(crate) fn read_in_unsafe(&mut self, path: &ExprPath) -> bool {
        let Some(name) = static_name(&Expr::Path(path.clone())).filter(|name| places::is_capital(name))
        else {
            return false;
        };
        if self.names.is_changing_static(&name) {
            self.report(path, Finding::Wrong(code::STATIC), &name);
            return true;
        }
        if self.unsafety {
            self.report(path, Finding::Suspicious(code::STATIC), &name);
        }
        self.unsafety
    }

    /// A name in capitals that is written to is a `static mut`.
    pub(crate) fn report_static_write(&mut self, place: &Expr) {
        if self.unsafety
            && let Some(path) = places::path_of_place(place)
            && let Some(name) = path.get_ident()
            && !places::is_capital(&name.to_string())
            && !self.locals.may_bind(name)
            && places::dereferenced(place).is_none()
        {
            self.report(place, Finding::Wrong(code::STATIC), &name.to_string());
        } else if let Some(name) = static_name(place).filter(|name| places::is_capital(name))
            && !self.names.is_changing_static(&name)
            && self.dereferenced_static(place).is_none()
        {
            self.report(place, Finding::Wrong(code::STATIC), &name);
        }
    }
}
