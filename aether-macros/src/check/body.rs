//! The rules of bodies: what is recorded nowhere, by the name it is used under.
//!
//! Promise: judged by use, never by what a file imports; a name that the visible source declares itself is not
//! mistaken for another crate's.

use std::borrow::Cow;

use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Expr, ExprAssign, ExprBinary, ExprCall, ExprCast, ExprForLoop, ExprMethodCall,
    ExprPath, ExprRawAddr, ExprReference, ExprUnary, ExprUnsafe, GenericArgument, Ident, ImplItem, Item,
    Macro, Pat, Path, PointerMutability, Signature, Stmt, TraitItem, Type,
};

use super::allow::allowed;
use super::linear;
use super::locals::Locals;
use super::names::{Meaning, Names, segments};
use super::places::{self, is_address, is_path_value, static_name};
use super::rules::{self, Verdict};
use crate::code::{self, Code};
use crate::hidden::{self, Arguments};
use crate::ir::{Allow, Effect};
use crate::report::Diagnostics;

/// What is known about a body besides its tokens.
pub(super) struct Around<'a> {
    pub(super) signature: &'a Signature,
    pub(super) allows: &'a [Allow],
    /// Macros that the user vouches for.
    pub(super) macros: &'a [String],
    /// The items of the module, where `#[workflow_mod]` shows them.
    pub(super) module: &'a [Item],
}

/// Judges the body of a workflow.
pub(super) fn workflow(body: &Block, around: &Around<'_>, diagnostics: &mut Diagnostics) {
    judge(body, Place::Workflow, around, diagnostics);
}

/// Judges the body of a step.
pub(super) fn step(body: &Block, effect: Option<Effect>, around: &Around<'_>, diagnostics: &mut Diagnostics) {
    let place = match effect {
        Some(Effect::Pure) => Place::Pure,
        Some(Effect::Http) => Place::Http,
        Some(Effect::Transaction) => Place::Transaction,
        Some(_) => Place::Step,
        None => return,
    };
    judge(body, place, around, diagnostics);
}

fn judge(body: &Block, place: Place, around: &Around<'_>, diagnostics: &mut Diagnostics) {
    let mut names = Names::default();
    names.enter(around.module);
    let Around { allows, macros, .. } = *around;
    let locals = Locals::of(around.signature, body);
    let context = around.signature.inputs.first().and_then(linear::parameter);
    Judge { place, allows, macros, names, locals, context, unsafety: false, diagnostics }.visit_block(body);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Workflow,
    Pure,
    Step,
    Http,
    Transaction,
}

impl Place {
    /// What `code` is called here, if it is a mistake here.
    fn judges(self, code: &'static Code, client: bool) -> Option<&'static Code> {
        match self {
            Self::Step if client => Some(code::RAW_HTTP),
            Self::Step | Self::Http => is_drawn(code).then_some(code),
            Self::Workflow | Self::Pure | Self::Transaction => Some(code),
        }
    }

    /// What to do instead, where the catalogue's answer is made for workflows.
    fn help(self, code: &Code) -> Cow<'static, str> {
        match self {
            Self::Workflow => code.help.into(),
            Self::Pure => {
                "pass the value as an argument, or choose the effect class that says what the body does"
                    .into()
            }
            Self::Transaction if !is_drawn(code) => {
                "let the transaction change the store's own database only, and move this into a step of its own"
                    .into()
            }
            Self::Step | Self::Http | Self::Transaction => code.help.replace(".await", "").into(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Workflow => "a workflow",
            Self::Pure => "a pure step",
            Self::Step | Self::Http => "a step",
            Self::Transaction => "a transaction",
        }
    }
}

/// Whether it is about a value that the context of a step draws.
fn is_drawn(code: &Code) -> bool {
    [code::CLOCK, code::RANDOM, code::UUID].iter().any(|drawn| drawn.id == code.id)
}

/// A path that is judged.
struct Found {
    verdict: Verdict,
    /// What the path means.
    path: Vec<String>,
    /// Whether it is a raw HTTP client.
    client: bool,
}

struct Judge<'a> {
    place: Place,
    allows: &'a [Allow],
    macros: &'a [String],
    names: Names,
    locals: Locals,
    /// The first parameter.
    context: Option<Ident>,
    /// Inside `unsafe { .. }`.
    unsafety: bool,
    diagnostics: &'a mut Diagnostics,
}

impl Judge<'_> {
    fn deterministic(&self) -> bool {
        matches!(self.place, Place::Workflow | Place::Pure | Place::Transaction)
    }

    fn report(&mut self, at: impl ToTokens, verdict: Verdict, what: &str) {
        self.tell(at, verdict, what, false);
    }

    fn tell(&mut self, at: impl ToTokens, verdict: Verdict, what: &str, client: bool) {
        let (Verdict::Wrong(code) | Verdict::Suspicious(code)) = verdict;
        let Some(code) = self.place.judges(code, client) else { return };
        if allowed(code, self.allows) {
            return;
        }
        let message = format!("`{what}` in {}", self.place.name());
        let help = self.place.help(code);
        match verdict {
            Verdict::Wrong(_) => self.diagnostics.report_with(at, code, message, help),
            Verdict::Suspicious(_) if self.deterministic() => self.diagnostics.warn(at, code, message, help),
            Verdict::Suspicious(_) => {}
        }
    }

    fn value(&mut self, path: &Path, arguments: Option<usize>) {
        let written = segments(path);
        if let Some(found) = self.verdict(written.clone(), arguments) {
            let written = written.join("::");
            let what = match found.path.join("::") {
                meant if meant.ends_with(&written) => written,
                meant => format!("{written}`, which is `{meant}"),
            };
            self.tell(path, found.verdict, &what, found.client);
        }
    }

    /// What naming a value by this path is, and whether it is a raw HTTP client.
    fn verdict(&self, written: Vec<String>, arguments: Option<usize>) -> Option<Found> {
        let bare = written.len() == 1;
        if bare && self.locals.binds(&written[0]) {
            return None;
        }
        // A `Command` with other arguments than a program's name is a type of the user's own.
        if written == ["Command", "new"] && arguments.is_some_and(|count| count != 1) {
            return None;
        }
        let paths = match self.names.meaning(written) {
            Meaning::Own => return None,
            Meaning::Path(path) => vec![path],
            Meaning::Maybe(paths) => paths,
        };
        paths.into_iter().find_map(|path| {
            Some(Found { verdict: rules::judge(&path)?, client: rules::is_http_client(&path), path })
        })
    }

    fn ty(&mut self, ty: &Type) {
        for (path, name) in places::hash_types(ty) {
            if self.names.meaning(segments(path)) != Meaning::Own {
                self.report(path, Verdict::Wrong(code::HASH_ORDER), &name);
            }
        }
    }

    /// A static that is read, locked or written.
    fn used_static(&mut self, root: &Expr, at: &dyn ToTokens, method: &str, arguments: usize) {
        let Some(name) = static_name(root) else { return };
        if self.names.is_changing_static(&name) || self.dereferenced_static(root).is_some() {
            return;
        }
        if let Some(verdict) = rules::method_of_static(method, arguments) {
            self.report(at.to_token_stream(), verdict, &format!("{name}.{method}(..)"));
        }
    }

    /// The static in a place like `(*NAME).field`.
    fn dereferenced_static(&self, expr: &Expr) -> Option<String> {
        self.static_behind(places::dereferenced(expr)?)
    }

    /// The static in `*expr`, which may be computed at its first use. Constants are seldom dereferenced, and never
    /// judged where their declaration is in sight.
    fn static_behind(&self, expr: &Expr) -> Option<String> {
        let name = places::free_static(expr)?;
        let elsewhere = !self.locals.binds(&name) && !self.names.declares(&name);
        (!self.unsafety && elsewhere).then_some(name)
    }

    /// Whether a method called `elapsed` reads the clock for sure: on the epoch, or on what is made of a time.
    fn is_elapsed_time(&self, receiver: &Expr) -> bool {
        let Some(path) = places::origin(receiver) else { return false };
        let paths = match self.names.meaning(segments(path)) {
            Meaning::Own => return false,
            Meaning::Path(path) => vec![path],
            Meaning::Maybe(paths) => paths,
        };
        paths.iter().any(|path| rules::is_time(path))
    }

    /// Whether an expression is refused for the address that it makes.
    fn makes_address(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Paren(inner) => self.makes_address(&inner.expr),
            Expr::Group(inner) => self.makes_address(&inner.expr),
            Expr::RawAddr(_) => true,
            Expr::Macro(mac) => rules::macro_named(&hidden::name(&mac.mac)).is_some(),
            Expr::Cast(cast) => is_address(cast).is_some() || self.makes_address(&cast.expr),
            Expr::MethodCall(call) => call.method == "cast" && self.makes_address(&call.receiver),
            Expr::Call(call) => match &*call.func {
                Expr::Path(path) if path.qself.is_none() => self
                    .verdict(segments(&path.path), Some(call.args.len()))
                    .is_some_and(|found| found.verdict == Verdict::Wrong(code::ADDRESS)),
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether a cast to an integer is one of a function.
    fn is_function_address(&self, cast: &ExprCast) -> bool {
        let Some(path) = places::cast_function(cast) else { return false };
        match path.path.get_ident() {
            Some(name) if path.qself.is_none() => !self.locals.may_bind(name),
            _ => true,
        }
    }

    /// Going through a parameter that is a hash collection.
    fn iterated(&mut self, root: &Expr, at: &dyn ToTokens, how: &str) {
        if let Expr::Path(path) = places::place(root)
            && let Some(name) = path.path.get_ident().map(ToString::to_string)
            && self.locals.is_hashed(&name)
        {
            self.report(at.to_token_stream(), Verdict::Wrong(code::HASH_ORDER), &how.replace("{}", &name));
        }
    }

    /// Whether an expression is the context that the function takes.
    fn is_context(&self, expr: &Expr) -> bool {
        let Expr::Path(path) = places::place(expr) else { return false };
        path.path.get_ident().is_some() && path.path.get_ident() == self.context.as_ref()
    }

    /// A macro whose expansion is not known.
    fn foreign_macro(&mut self, mac: &Macro) {
        let name = hidden::name(mac);
        let known = hidden::is_known(mac) || self.macros.contains(&name);
        if self.place == Place::Workflow && !known && !hidden::awaits(&mac.tokens) {
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

    /// Paths in tokens that are no expression.
    fn opaque(&mut self, tokens: &proc_macro2::TokenStream) {
        for path in hidden::paths(tokens) {
            self.value(&path, None);
        }
    }

    fn functions_of(&mut self, item: &Item) {
        match item {
            Item::Impl(item) => {
                for item in &item.items {
                    if let ImplItem::Fn(function) = item {
                        self.visit_block(&function.block);
                    }
                }
            }
            Item::Trait(item) => {
                for item in &item.items {
                    if let TraitItem::Fn(function) = item {
                        function.default.iter().for_each(|block| self.visit_block(block));
                    }
                }
            }
            Item::Mod(item) => {
                let Some((_, items)) = &item.content else { return };
                self.names.enter(items);
                items.iter().for_each(|item| self.visit_item(item));
                self.names.leave();
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Judge<'_> {
    fn visit_block(&mut self, block: &'ast Block) {
        let items = block.stmts.iter().filter_map(|stmt| match stmt {
            Stmt::Item(item) => Some(item),
            _ => None,
        });
        self.names.enter(items);
        visit::visit_block(self, block);
        self.names.leave();
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        self.qualified(path, None);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        match &*call.func {
            Expr::Path(path) => self.qualified(path, Some(call.args.len())),
            func => self.visit_expr(func),
        }
        call.args.iter().for_each(|argument| self.visit_expr(argument));
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        for argument in call.turbofish.iter().flat_map(|turbofish| &turbofish.args) {
            if let GenericArgument::Type(ty) = argument {
                self.ty(ty);
            }
        }
        let name = call.method.to_string();
        let count = call.args.len();
        if count == 0 && rules::looks_at_files(&name) && is_path_value(&call.receiver) {
            self.report(&call.method, Verdict::Wrong(code::FILES), &format!(".{name}()"));
        } else if count == 0 && name == "elapsed" && self.is_elapsed_time(&call.receiver) {
            self.report(&call.method, Verdict::Wrong(code::CLOCK), &format!(".{name}()"));
        } else if count == 0 && name == "addr" && places::points(&call.receiver) {
            if !self.makes_address(&call.receiver) {
                self.report(&call.method, Verdict::Wrong(code::ADDRESS), &format!(".{name}()"));
            }
        } else if let Some(verdict) = rules::method(&name, count) {
            self.report(&call.method, verdict, &format!(".{name}(..)"));
        }
        if rules::iterates(&name) {
            self.iterated(&call.receiver, &call.method, &format!("{{}}.{name}()"));
        }
        if self.place == Place::Transaction && name == "http" && self.is_context(&call.receiver) {
            self.report(&call.method, Verdict::Wrong(code::NETWORK), "cx.http()");
        }
        self.used_static(&call.receiver, &call.method, &name, count);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_for_loop(&mut self, expr: &'ast ExprForLoop) {
        self.iterated(&expr.expr, &expr.expr, "for .. in {}");
        visit::visit_expr_for_loop(self, expr);
    }

    fn visit_expr_assign(&mut self, expr: &'ast ExprAssign) {
        self.written(&expr.left);
        visit::visit_expr_assign(self, expr);
    }

    fn visit_expr_binary(&mut self, expr: &'ast ExprBinary) {
        if places::is_assignment(expr.op) {
            self.written(&expr.left);
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_reference(&mut self, expr: &'ast ExprReference) {
        if expr.mutability.is_some() && self.unsafety {
            self.written(&expr.expr);
        }
        visit::visit_expr_reference(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast ExprUnary) {
        match places::derefs(expr).then(|| self.static_behind(&expr.expr)).flatten() {
            Some(name) => self.report(expr, Verdict::Wrong(code::STATIC), &format!("*{name}")),
            None => visit::visit_expr_unary(self, expr),
        }
    }

    fn visit_expr_raw_addr(&mut self, expr: &'ast ExprRawAddr) {
        let what = match expr.mutability {
            PointerMutability::Const(_) => "&raw const",
            PointerMutability::Mut(_) => "&raw mut",
        };
        self.report(expr, Verdict::Wrong(code::ADDRESS), what);
        visit::visit_expr_raw_addr(self, expr);
    }

    fn visit_expr_unsafe(&mut self, expr: &'ast ExprUnsafe) {
        let outer = std::mem::replace(&mut self.unsafety, true);
        visit::visit_expr_unsafe(self, expr);
        self.unsafety = outer;
    }

    fn visit_expr_cast(&mut self, cast: &'ast ExprCast) {
        if let Some(what) = is_address(cast) {
            return places::without_casts(&cast.expr, |inner| {
                if !self.makes_address(inner) {
                    self.report(&cast.ty, Verdict::Wrong(code::ADDRESS), what);
                }
                self.visit_expr(inner);
            });
        }
        if self.is_function_address(cast) {
            self.report(&cast.ty, Verdict::Wrong(code::ADDRESS), "function as integer");
        }
        visit::visit_expr_cast(self, cast);
    }

    fn visit_pat(&mut self, pat: &'ast Pat) {
        if let Pat::Type(typed) = pat {
            self.ty(&typed.ty);
        }
        visit::visit_pat(self, pat);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        let name = hidden::name(mac);
        if let Some(code) = rules::macro_named(&name) {
            self.report(&mac.path, Verdict::Wrong(code), &format!("{name}!"));
        } else if mac.path.segments.len() > 1
            && let Some(found) = self.verdict(segments(&mac.path), None)
        {
            let what = format!("{}!", segments(&mac.path).join("::"));
            self.tell(&mac.path, found.verdict, &what, found.client);
        } else {
            self.foreign_macro(mac);
        }
        if let Some(literal) = hidden::address_format(mac) {
            self.report(literal, Verdict::Wrong(code::ADDRESS), "{:p}");
        }
        if let Some(statements) = hidden::statements(mac) {
            return self.visit_block(&statements);
        }
        for piece in &Arguments::of(mac).pieces {
            match &piece.expr {
                Some(expr) => self.visit_expr(expr),
                None => self.opaque(&piece.lead),
            }
        }
    }

    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Static(item) => {
                let what = format!("static {}", item.ident);
                self.report(&item.ident, Verdict::Wrong(code::STATIC), &what);
            }
            Item::Fn(function) if !function.attrs.iter().any(is_ours) => self.visit_block(&function.block),
            Item::Macro(item) if item.ident.is_none() => self.visit_macro(&item.mac),
            Item::Macro(item) => self.opaque(&item.mac.tokens),
            item => self.functions_of(item),
        }
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        if !matches!(expr, Expr::Const(_)) {
            visit::visit_expr(self, expr);
        }
    }
}

impl Judge<'_> {
    /// A path, with the type in front of it where it is `<Type>::name`.
    fn qualified(&mut self, path: &ExprPath, arguments: Option<usize>) {
        match &path.qself {
            Some(qself) => {
                let Type::Path(ty) = &*qself.ty else { return };
                let mut whole = ty.path.clone();
                whole.segments.extend(path.path.segments.iter().skip(qself.position).cloned());
                self.value(&whole, arguments);
            }
            None => {
                if !self.read_in_unsafe(path) {
                    self.value(&path.path, arguments);
                }
            }
        }
        for segment in &path.path.segments {
            if let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments {
                for argument in &arguments.args {
                    if let GenericArgument::Type(ty) = argument {
                        self.ty(ty);
                    }
                }
            }
        }
    }

    /// A name in capitals in an unsafe block is most likely a `static mut`.
    fn read_in_unsafe(&mut self, path: &ExprPath) -> bool {
        let Some(name) = static_name(&Expr::Path(path.clone())).filter(|name| places::is_capital(name))
        else {
            return false;
        };
        if self.names.is_changing_static(&name) {
            self.report(path, Verdict::Wrong(code::STATIC), &name);
            return true;
        }
        if self.unsafety {
            self.report(path, Verdict::Suspicious(code::STATIC), &name);
        }
        self.unsafety
    }

    /// A name in capitals that is written to is a `static mut`.
    fn written(&mut self, place: &Expr) {
        if let Some(name) = static_name(place).filter(|name| places::is_capital(name))
            && !self.names.is_changing_static(&name)
            && self.dereferenced_static(place).is_none()
        {
            self.report(place, Verdict::Wrong(code::STATIC), &name);
        }
    }
}

/// A nested step or workflow is judged by its own attribute.
fn is_ours(attr: &Attribute) -> bool {
    attr.path().segments.last().is_some_and(|last| last.ident == "step" || last.ident == "workflow")
}
