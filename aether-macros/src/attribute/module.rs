//! `#[workflow_mod]`: shows the imports of a module to the attributes in it, and options that hold for all of them.
//!
//! Promise: the module's items stay as they are; only the attributes of its workflows and steps get a note of what
//! names mean. Items that `cfg` takes away are taken away before their attributes run.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Expr, Item, ItemMod, Meta, parse_quote};

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

/// What an item says about names, without what it does.
fn note(item: &Item) -> Option<Item> {
    let name = match item {
        Item::Use(_) | Item::ExternCrate(_) | Item::Type(_) => return Some(item.clone()),
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
