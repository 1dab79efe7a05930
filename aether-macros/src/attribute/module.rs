//! `#[workflow_mod]`: shows the imports of a module to the attributes in it, and options that hold for all of them.
//!
//! Promise: the module's items stay as they are; only the attributes of its workflows and steps get a note of what
//! names mean. Items that `cfg` takes away are taken away before their attributes run.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{
    Attribute, Expr, GenericArgument, Item, ItemMod, ItemStatic, Meta, Path, PathArguments, Stmt, Type,
    parse_quote,
};

use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::parse::inherit::{first_name, inherited, merged};
use crate::parse::kind::Kind;

/// The module with its attributes filled in.
pub(crate) fn compile(options: &TokenStream, item: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let inherited = inherited(options, &mut diagnostics);
    let mut out = match syn::parse2::<ItemMod>(item.clone()) {
        Ok(mut module) if module.content.is_some() => {
            fill(&mut module, &inherited);
            module.into_token_stream()
        }
        _ => {
            let head: TokenStream = item.clone().into_iter().take(2).collect();
            diagnostics.report(
                head,
                code::MODULE,
                "`#[workflow_mod]` stands on something else than an inline module",
            );
            item
        }
    };
    if let Some(error) = diagnostics.into_error() {
        error.to_compile_error().to_tokens(&mut out);
    }
    out
}

fn fill(module: &mut ItemMod, inherited: &[TokenStream]) {
    let Some((_, items)) = &mut module.content else { return };
    let uses = items.iter().filter_map(note);
    let mut inherited: Vec<TokenStream> =
        inherited.iter().filter(|option| first_name(option) != "__uses").cloned().collect();
    let noted = quote!(__uses { #(#uses)* });
    inherited.push(noted);
    for item in items {
        match item {
            Item::Fn(function) => function.attrs.iter_mut().for_each(|attr| extend(attr, &inherited)),
            Item::Impl(block) => block.attrs.iter_mut().for_each(|attr| extend(attr, &inherited)),
            Item::Mod(module) => fill(module, &inherited),
            _ => {}
        }
    }
}

fn extend(attr: &mut Attribute, inherited: &[TokenStream]) {
    let Some(kind) = Kind::of(attr) else { return };
    let own = match &attr.meta {
        Meta::List(list) => list.tokens.clone(),
        Meta::Path(_) => TokenStream::new(),
        Meta::NameValue(_) => return,
    };
    let path = attr.path().clone();
    let options = merged(kind, &own, inherited);
    attr.meta = parse_quote!(#path(#options));
}

/// Whether a static is computed at its first use and is the same whenever that is: a pattern of which every part stands here.
fn is_fixed_pattern(item: &ItemStatic) -> bool {
    let Type::Path(ty) = &*item.ty else { return false };
    let Some(lazy) = ty.path.segments.last() else { return false };
    let PathArguments::AngleBracketed(arguments) = &lazy.arguments else { return false };
    let Some(GenericArgument::Type(Type::Path(of))) = arguments.args.first() else { return false };
    (lazy.ident == "LazyLock" || lazy.ident == "Lazy") && names_pattern(&of.path) && is_fixed(&item.expr)
}

fn names_pattern(path: &Path) -> bool {
    const PATTERNS: [&str; 3] = ["Regex", "RegexSet", "AhoCorasick"];
    path.segments.iter().any(|segment| PATTERNS.iter().any(|name| segment.ident == name))
}

/// Whether an expression is made of literals by calls of patterns: `LazyLock::new(|| Regex::new("^a").unwrap())`.
fn is_fixed(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) => true,
        Expr::Reference(inner) => is_fixed(&inner.expr),
        Expr::Array(array) => array.elems.iter().all(is_fixed),
        Expr::Closure(closure) => closure.inputs.is_empty() && is_fixed(&closure.body),
        Expr::Block(block) => match block.block.stmts.as_slice() {
            [Stmt::Expr(expr, None)] => is_fixed(expr),
            _ => false,
        },
        Expr::MethodCall(call) => is_fixed(&call.receiver) && call.args.iter().all(is_fixed),
        Expr::Call(call) => {
            let Expr::Path(path) = &*call.func else { return false };
            let is_lazy = path.path.segments.iter().any(|s| s.ident == "LazyLock" || s.ident == "Lazy");
            (is_lazy || names_pattern(&path.path)) && call.args.iter().all(is_fixed)
        }
        _ => false,
    }
}

/// What an item says about names, without what it does.
fn note(item: &Item) -> Option<Item> {
    let name = match item {
        Item::Use(_) | Item::ExternCrate(_) | Item::Type(_) => return Some(item.clone()),
        Item::Static(item) if is_fixed_pattern(item) => &item.ident,
        Item::Static(item) => {
            let mut item = item.clone();
            *item.expr = Expr::Verbatim(quote!(()));
            item.attrs.clear();
            return Some(Item::Static(item));
        }
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Mod(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        _ => return None,
    };
    Some(parse_quote!(struct #name;))
}
