//! The rules of bodies: what is recorded nowhere, by the name it is used under. This is the walk over a body.

use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Expr, ExprAssign, ExprAwait, ExprBinary, ExprCall, ExprCast, ExprForLoop,
    ExprMethodCall, ExprPath, ExprRawAddr, ExprReference, ExprUnary, ExprUnsafe, GenericArgument, ImplItem,
    Item, Local, Macro, Pat, PointerMutability, Stmt, TraitItem,
};

use super::context::{BodyContext, BodyKind};
use super::iteration;
use super::linear;
use super::lint::BodyLint;
use super::locals::Locals;
use super::names::{Names, segments};
use super::places::{self, is_address, is_path_value};
use super::rules::finding::Finding;
use super::rules::methods;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::parse::kind::Kind;
use crate::plan::{ArgumentClosure, Effect};
use crate::syntax::arguments::Given;
use crate::syntax::awaits::contains_await;
use crate::syntax::known_macros;
use crate::syntax::operators::is_assignment;

/// Judges the body of a workflow.
pub(crate) fn workflow(body: &Block, context: &BodyContext<'_>, diagnostics: &mut Diagnostics) {
    lint_body(body, BodyKind::Workflow, context, diagnostics);
}

/// Judges the body of a step.
pub(crate) fn step(
    body: &Block,
    effect: Option<Effect>,
    context: &BodyContext<'_>,
    diagnostics: &mut Diagnostics,
) {
    let kind = match effect {
        Some(Effect::Pure) => BodyKind::Pure,
        Some(Effect::Http) => BodyKind::Http,
        Some(Effect::Transaction) => BodyKind::Transaction,
        Some(_) => BodyKind::Step,
        None => return,
    };
    lint_body(body, kind, context, diagnostics);
}

/// Judges a closure over the arguments of a step: a key that another try would compute otherwise is no key.
pub(crate) fn closure(closure: &ArgumentClosure, context: &BodyContext<'_>, diagnostics: &mut Diagnostics) {
    let stmts = vec![Stmt::Expr(closure.body.clone(), None)];
    let body = Block { brace_token: syn::token::Brace::default(), stmts };
    lint_body(&body, BodyKind::OfArguments, context, diagnostics);
}

fn lint_body(body: &Block, kind: BodyKind, context: &BodyContext<'_>, diagnostics: &mut Diagnostics) {
    let mut names = Names::default();
    names.enter(context.module);
    let BodyContext { allows, macros, .. } = *context;
    let locals = Locals::of(context.signature, body);
    let context = context.signature.inputs.first().and_then(linear::parameter);
    BodyLint {
        kind,
        allows,
        macros,
        names,
        locals,
        context,
        unsafety: false,
        in_any_order: Vec::new(),
        diagnostics,
    }
    .visit_block(body);
}

impl<'ast> Visit<'ast> for BodyLint<'_> {
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
        self.check_path(path, None);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        match &*call.func {
            // What takes the context is a step or a workflow, in a module of whatever name.
            Expr::Path(path) if call.args.first().is_some_and(|first| self.is_context(first)) => {
                self.check_arguments_of(path);
            }
            Expr::Path(path) => self.check_path(path, Some(call.args.len())),
            func => self.visit_expr(func),
        }
        call.args.iter().for_each(|argument| self.visit_expr(argument));
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        for argument in call.turbofish.iter().flat_map(|turbofish| &turbofish.args) {
            if let GenericArgument::Type(ty) = argument {
                self.check_type(ty);
            }
        }
        let name = call.method.to_string();
        let count = call.args.len();
        if count == 0 && methods::looks_at_files(&name) && is_path_value(&call.receiver) {
            self.report(&call.method, Finding::Wrong(code::FILES), &format!(".{name}()"));
        } else if count == 0 && name == "elapsed" && self.is_elapsed_time(&call.receiver) {
            self.report(&call.method, Finding::Wrong(code::CLOCK), &format!(".{name}()"));
        } else if count == 0 && name == "addr" && places::points(&call.receiver) {
            if !self.makes_address(&call.receiver) {
                self.report(&call.method, Finding::Wrong(code::ADDRESS), &format!(".{name}()"));
            }
        } else if let Some(finding) = methods::judge_method(&name, count) {
            self.report(&call.method, finding, &format!(".{name}(..)"));
        }
        self.in_any_order.extend(iteration::gone_through_in_any_order(call).map(std::ptr::from_ref));
        let is_in_any_order = self.in_any_order.contains(&std::ptr::from_ref(&*call.receiver));
        if methods::iterates(&name) && name != "retain" && !is_in_any_order {
            self.report_iteration(&call.receiver, &call.method, &format!("{{}}.{name}()"));
        }
        if self.kind == BodyKind::Transaction && name == "http" && self.is_context(&call.receiver) {
            self.report(&call.method, Finding::Wrong(code::NETWORK), "cx.http()");
        }
        if self.kind == BodyKind::Workflow && name == "dep" && count == 0 && self.is_context(&call.receiver) {
            self.report(&call.method, Finding::Wrong(code::ENVIRONMENT), "cx.dep()");
        }
        self.report_static_use(call);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_local(&mut self, local: &'ast Local) {
        self.in_any_order.extend(iteration::fills_in_any_order(local).map(std::ptr::from_ref));
        // What an effect gives is only named here; whoever goes through it is told by its type.
        if let Pat::Type(typed) = &local.pat
            && let Some(init) = &local.init
            && is_awaited(&init.expr)
        {
            self.visit_pat(&typed.pat);
            self.visit_local_init(init);
            return;
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_for_loop(&mut self, expr: &'ast ExprForLoop) {
        self.report_iteration(&expr.expr, &expr.expr, "for .. in {}");
        visit::visit_expr_for_loop(self, expr);
    }

    fn visit_expr_assign(&mut self, expr: &'ast ExprAssign) {
        self.report_static_write(&expr.left);
        visit::visit_expr_assign(self, expr);
    }

    fn visit_expr_binary(&mut self, expr: &'ast ExprBinary) {
        if is_assignment(expr.op) {
            self.report_static_write(&expr.left);
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_reference(&mut self, expr: &'ast ExprReference) {
        if expr.mutability.is_some() && self.unsafety {
            self.report_static_write(&expr.expr);
        }
        visit::visit_expr_reference(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast ExprUnary) {
        match places::derefs(expr).then(|| self.static_behind(&expr.expr)).flatten() {
            Some(name) => self.report(expr, Finding::Wrong(code::STATIC), &format!("*{name}")),
            None => visit::visit_expr_unary(self, expr),
        }
    }

    fn visit_expr_raw_addr(&mut self, expr: &'ast ExprRawAddr) {
        let what = match expr.mutability {
            PointerMutability::Const(_) => "&raw const",
            PointerMutability::Mut(_) => "&raw mut",
        };
        self.report(expr, Finding::Wrong(code::ADDRESS), what);
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
                    self.report(&cast.ty, Finding::Wrong(code::ADDRESS), what);
                }
                self.visit_expr(inner);
            });
        }
        if self.is_function_address(cast) {
            self.report(&cast.ty, Finding::Wrong(code::ADDRESS), "function as integer");
        }
        visit::visit_expr_cast(self, cast);
    }

    fn visit_pat(&mut self, pat: &'ast Pat) {
        if let Pat::Type(typed) = pat {
            self.check_type(&typed.ty);
        }
        visit::visit_pat(self, pat);
    }

    fn visit_expr_await(&mut self, awaited: &'ast ExprAwait) {
        self.report_pure_await(awaited.await_token, "`.await` in a pure step");
        visit::visit_expr_await(self, awaited);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        let name = known_macros::name(mac);
        let given = Given::of(mac);
        let hides_await = matches!(&given, Given::Arguments(arguments) if arguments.hides_await());
        if known_macros::is_concurrent(mac) || hides_await {
            self.report_pure_await(&mac.path, &format!("`{name}!` awaits in a pure step"));
        }
        if let Some(code) = methods::judge_macro(&name) {
            self.report(&mac.path, Finding::Wrong(code), &format!("{name}!"));
        } else if mac.path.segments.len() > 1
            && let Some(found) = self.judge_path(segments(&mac.path), None)
        {
            let what = format!("{}!", segments(&mac.path).join("::"));
            self.emit(&mac.path, found.finding, &what, found.is_http_client);
        } else {
            self.warn_unknown_macro(mac);
        }
        self.report_optional_changes(mac);
        if let Some(literal) = known_macros::address_format(mac) {
            self.report(literal, Finding::Wrong(code::ADDRESS), "{:p}");
        }
        // What is parsed here is gone afterwards, and another expression may have its address.
        let known = self.in_any_order.len();
        match &given {
            Given::Statements(block) => self.visit_block(block),
            Given::Arguments(arguments) => arguments.pieces.iter().for_each(|piece| match &piece.expr {
                Some(expr) => self.visit_expr(expr),
                None => self.check_opaque_tokens(&piece.lead),
            }),
        }
        self.in_any_order.truncate(known);
    }

    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Static(item) => {
                let what = format!("static {}", item.ident);
                self.report(&item.ident, Finding::Wrong(code::STATIC), &what);
            }
            Item::Fn(function) if !function.attrs.iter().any(is_ours) => self.visit_block(&function.block),
            Item::Macro(item) if item.ident.is_none() => self.visit_macro(&item.mac),
            Item::Macro(item) => self.check_opaque_tokens(&item.mac.tokens),
            item => self.functions_of(item),
        }
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Const(_) => {}
            Expr::Verbatim(tokens) if contains_await(tokens) => {
                self.report_pure_await(tokens, "an await in a pure step");
            }
            expr => visit::visit_expr(self, expr),
        }
    }
}

impl BodyLint<'_> {
    /// The functions in an item that stands in a body.
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

/// A nested step or workflow is judged by its own attribute.
fn is_ours(attr: &Attribute) -> bool {
    Kind::of(attr).is_some()
}

/// Whether a value is what an await gives, or what `?` takes out of that.
fn is_awaited(expr: &Expr) -> bool {
    match expr {
        Expr::Await(_) => true,
        Expr::Try(tried) => is_awaited(&tried.expr),
        Expr::Paren(inner) => is_awaited(&inner.expr),
        _ => false,
    }
}
