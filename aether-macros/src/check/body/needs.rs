//! The values that a body takes from its program, by the type: `cx.dep::<T>()?` in a step, `cx.config::<T>()` in a workflow.
//!
//! Promise: only what the body cannot do without is found, and only where the type means the same beside the body as in
//! it, and where no `cfg` may take the code away; what is not found here is still reported when the body runs.

use std::collections::BTreeSet;

use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Arm, Block, Expr, ExprArray, ExprCall, ExprClosure, ExprMethodCall, ExprTry, ExprTuple, FieldValue,
    GenericArgument, Ident, Item, Local, Macro, Pat, PathArguments, Stmt, Type, TypePath, UseTree,
};

use super::linear::bound;
use super::places;
use crate::flow::gate;
use crate::parse::item::Owner;
use crate::syntax::arguments::visit_arguments;
use crate::syntax::conditions::Conditions;

/// The types of the values that a step takes, those that are `declared` first.
pub(crate) fn of_step(
    body: &Block,
    context: Option<&Ident>,
    owner: Option<&Owner>,
    declared: Vec<Type>,
) -> Vec<Type> {
    of("dep", body, context, owner, declared)
}

/// The types of the values that a workflow takes.
pub(crate) fn of_workflow(body: &Block, context: Option<&Ident>, owner: Option<&Owner>) -> Vec<Type> {
    of("config", body, context, owner, Vec::new())
}

fn of(
    method: &'static str,
    body: &Block,
    context: Option<&Ident>,
    owner: Option<&Owner>,
    types: Vec<Type>,
) -> Vec<Type> {
    let contexts = context.into_iter().cloned().collect();
    let (own, conditions) = (Own::of(body), Conditions::of(body));
    let mut found = Taken { method, contexts, types, own, conditions };
    found.visit_block(body);
    let mut seen = BTreeSet::new();
    let types = found.types.into_iter().filter_map(|ty| beside(ty, owner));
    types.filter(|ty| seen.insert(ty.to_token_stream().to_string())).collect()
}

struct Taken {
    /// The method of the context that takes a value.
    method: &'static str,
    /// The names of the context, in the body and in its branches.
    contexts: Vec<Ident>,
    types: Vec<Type>,
    own: Own,
    conditions: Conditions,
}

impl<'ast> Visit<'ast> for Taken {
    fn visit_expr_try(&mut self, expr: &'ast ExprTry) {
        self.take(&expr.expr, None);
        visit::visit_expr_try(self, expr);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        if call.method == "unwrap" || call.method == "expect" {
            self.take(&call.receiver, None);
        }
        self.visit_expr(&call.receiver);
        self.list(&call.args);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        self.visit_expr(&call.func);
        self.list(&call.args);
    }

    fn visit_expr_array(&mut self, array: &'ast ExprArray) {
        self.list(&array.elems);
    }

    fn visit_expr_tuple(&mut self, tuple: &'ast ExprTuple) {
        self.list(&tuple.elems);
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        self.contexts.extend(closure.inputs.first().filter(|_| gate::is_branch(closure)).and_then(bound));
        visit::visit_expr_closure(self, closure);
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        if !self.conditions.guard(stmt) {
            visit::visit_stmt(self, stmt);
        }
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if !self.conditions.guard(arm) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_field_value(&mut self, field: &'ast FieldValue) {
        if !self.conditions.guard(field) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if let (Pat::Type(typed), Some(init)) = (&local.pat, &local.init)
            && let Expr::Try(tried) = &*init.expr
        {
            let wanted = if self.method == "dep" { shared(&typed.ty) } else { Some(&*typed.ty) };
            self.take(&tried.expr, wanted);
        }
        visit::visit_local(self, local);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        visit_arguments(self, mac);
    }

    fn visit_item(&mut self, _: &'ast Item) {}
}

impl Taken {
    /// The elements of a list, which may carry `cfg`.
    fn list<'a>(&mut self, elements: impl IntoIterator<Item = &'a Expr>) {
        for element in elements {
            if !self.conditions.guard(element) {
                self.visit_expr(element);
            }
        }
    }

    /// Adds the type that `expr` takes, where it is `cx.dep::<T>()`, or `cx.dep()` of a value whose type is `wanted`.
    fn take(&mut self, expr: &Expr, wanted: Option<&Type>) {
        let call = match expr {
            Expr::Await(awaited) => return self.take(&awaited.base, wanted),
            Expr::MethodCall(call) => call,
            _ => return,
        };
        if call.method == "map_err" {
            return self.take(&call.receiver, wanted);
        }
        let Expr::Path(receiver) = places::place(&call.receiver) else { return };
        let on_context = receiver.path.get_ident().is_some_and(|name| self.contexts.contains(name));
        if call.method != self.method || !call.args.is_empty() || !on_context {
            return;
        }
        let written = call.turbofish.as_ref().and_then(|turbofish| match turbofish.args.first() {
            Some(GenericArgument::Type(ty)) => Some(ty),
            _ => None,
        });
        let Some(ty) = written.or(wanted) else { return };
        if !inferred(ty) && !self.own.names(ty) {
            self.types.push(ty.clone());
        }
    }
}

/// The `T` of `Arc<T>`.
fn shared(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Arc")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(ty)) => Some(ty),
        _ => None,
    }
}

/// Whether a part of the type is left to inference.
fn inferred(ty: &Type) -> bool {
    struct Finder(bool);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_type_infer(&mut self, _: &'ast syn::TypeInfer) {
            self.0 = true;
        }
    }
    let mut finder = Finder(false);
    finder.visit_type(ty);
    finder.0
}

/// The type as it is written beside the `impl` block of its step; `None` where it names something of `Self`.
fn beside(mut ty: Type, owner: Option<&Owner>) -> Option<Type> {
    struct Namer<'a> {
        owner: Option<&'a Owner>,
        lost: bool,
    }
    impl VisitMut for Namer<'_> {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            match (&*ty, self.owner) {
                (Type::Path(path), Some(owner)) if path.path.is_ident("Self") => *ty = owner.ty.clone(),
                _ => visit_mut::visit_type_mut(self, ty),
            }
        }
        fn visit_path_mut(&mut self, path: &mut syn::Path) {
            self.lost |= path.segments.first().is_some_and(|first| first.ident == "Self");
            visit_mut::visit_path_mut(self, path);
        }
    }
    let mut namer = Namer { owner, lost: false };
    namer.visit_type_mut(&mut ty);
    (!namer.lost).then_some(ty)
}

/// The names that items of the body declare, which mean nothing beside it.
#[derive(Default)]
struct Own {
    names: BTreeSet<String>,
    /// Whether any name may be one of them.
    any: bool,
}

impl Own {
    fn of(body: &Block) -> Self {
        let mut own = Self::default();
        own.visit_block(body);
        own
    }

    /// Whether the type names one of them.
    fn names(&self, ty: &Type) -> bool {
        struct Finder<'a>(&'a Own, bool);
        impl<'ast> Visit<'ast> for Finder<'_> {
            fn visit_type_path(&mut self, path: &'ast TypePath) {
                let first = path.path.segments.first().map(|first| first.ident.unraw().to_string());
                self.1 |= self.0.any || first.is_some_and(|first| self.0.names.contains(&first));
                visit::visit_type_path(self, path);
            }
            fn visit_trait_bound(&mut self, bound: &'ast syn::TraitBound) {
                let first = bound.path.segments.first().map(|first| first.ident.unraw().to_string());
                self.1 |= self.0.any || first.is_some_and(|first| self.0.names.contains(&first));
                visit::visit_trait_bound(self, bound);
            }
        }
        let mut finder = Finder(self, false);
        finder.visit_type(ty);
        finder.1
    }

    fn import(&mut self, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => self.import(&path.tree),
            UseTree::Name(name) => drop(self.names.insert(name.ident.unraw().to_string())),
            UseTree::Rename(name) => drop(self.names.insert(name.rename.unraw().to_string())),
            UseTree::Glob(_) => self.any = true,
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree)),
        }
    }
}

impl<'ast> Visit<'ast> for Own {
    fn visit_item(&mut self, item: &'ast Item) {
        let name = match item {
            Item::Use(item) => return self.import(&item.tree),
            Item::Enum(item) => &item.ident,
            Item::Mod(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Macro(_) => {
                self.any = true;
                return;
            }
            _ => return,
        };
        self.names.insert(name.unraw().to_string());
    }
}
