//! The arguments: each has a name, and a type with an owned form.

use proc_macro2::Span;
use quote::format_ident;
use syn::ext::IdentExt as _;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, GenericParam, Generics, Ident, Pat, PatIdent, PatType, Type, TypeImplTrait, TypeParam,
    parse_quote,
};

use super::attributes::doc_text;
use super::owned::{self, Borrowed};
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::plan::{Arg, Pass};

/// The name of the lifetime of a call.
pub(crate) const CALL: &str = "'__cx";

/// The argument at place `at`, or one that lets callers compile when it is refused.
pub(crate) fn argument(at: usize, param: &PatType, generics: &mut Generics, d: &mut Diagnostics) -> Arg {
    let (ident, mutable) = named(at, param, d);
    let ty = nameable(&owned::elided(&param.ty), &ident, generics);
    let (owned, pass) = owned::owned(&ty).unwrap_or_else(|borrowed| {
        refuse_borrowed(param, &ident, borrowed, d);
        (parse_quote!(()), Pass::Owned)
    });
    let docs: Vec<&Attribute> = param.attrs.iter().filter(|attr| attr.path().is_ident("doc")).collect();
    Arg {
        name: ident.unraw().to_string(),
        mutable,
        doc: doc_text(&docs),
        call_ty: owned::with_lifetime(&ty, CALL),
        ident,
        ty,
        owned,
        pass,
    }
}

fn named(at: usize, param: &PatType, d: &mut Diagnostics) -> (Ident, bool) {
    if let Some(attr) = param.attrs.iter().find(|attr| !attr.path().is_ident("doc")) {
        let help = "remove it; a doc comment is the only attribute an argument may have";
        d.report_with(attr, code::PATTERN, "an argument with an attribute", help);
    }
    match &*param.pat {
        Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, mutability, .. }) => {
            (ident.clone(), mutability.is_some())
        }
        Pat::Wild(wild) => {
            let help = "give it a name, `_unused` for example";
            d.report_with(wild, code::PATTERN, "an argument without a name", help);
            (format_ident!("__arg{at}", span = Span::mixed_site()), false)
        }
        pat => {
            d.report(pat, code::PATTERN, "an argument that is taken apart in the signature");
            (format_ident!("__arg{at}", span = Span::mixed_site()), false)
        }
    }
}

fn refuse_borrowed(param: &PatType, name: &Ident, borrowed: Borrowed, d: &mut Diagnostics) {
    let ty = &param.ty;
    match borrowed {
        Borrowed::Mutable => {
            let help = "take it by value and return what became of it";
            d.report_with(
                ty,
                code::BORROWED_ARGUMENT,
                format_args!("argument `{name}` is borrowed mutably"),
                help,
            );
        }
        Borrowed::Static => {
            let help = "leave `'static` out";
            d.report_with(
                ty,
                code::BORROWED_ARGUMENT,
                format_args!("argument `{name}` is borrowed for ever"),
                help,
            );
        }
        Borrowed::Unsized => {
            let help = "take a type that can be serialized, an enum for example";
            d.report_with(
                ty,
                code::BORROWED_ARGUMENT,
                format_args!("argument `{name}` is a trait object"),
                help,
            );
        }
        Borrowed::Inside => {
            d.report(
                ty,
                code::BORROWED_ARGUMENT,
                format_args!("the type of argument `{name}` borrows inside"),
            );
        }
    }
}

/// The type with a named parameter for each `impl Trait` in it.
fn nameable(ty: &Type, argument: &Ident, generics: &mut Generics) -> Type {
    struct Namer<'a> {
        generics: &'a mut Generics,
        argument: &'a Ident,
    }
    impl VisitMut for Namer<'_> {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if let Type::ImplTrait(TypeImplTrait { bounds, .. }) = ty {
                let count = self.generics.params.len();
                let name = format_ident!("__{}{count}", self.argument.unraw(), span = Span::mixed_site());
                let mut param = TypeParam::from(name.clone());
                param.bounds = bounds.clone();
                param.colon_token = Some(Default::default());
                self.generics.params.push(GenericParam::Type(param));
                *ty = parse_quote!(#name);
            } else {
                visit_mut::visit_type_mut(self, ty);
            }
        }
    }
    let mut ty = ty.clone();
    Namer { generics, argument }.visit_type_mut(&mut ty);
    ty
}
