//! Which owned type stands in the record for a type as written.
//!
//! Promise: `&str` is recorded as `String`, `&[T]` as `Vec<T>`, `&Path` as `PathBuf`, `&T` as `T`, and `Option<&T>`
//! likewise; what has no owned form is refused.

use proc_macro2::Span;
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};
use syn::{GenericArgument, Lifetime, PathArguments, Signature, Type, TypeReference, parse_quote};

use crate::parse::item::Owner;
use crate::plan::Pass;

/// Why a type has no owned form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Borrowed {
    Mutable,
    Static,
    Unsized,
    Inside,
}

/// The owned type, and how its value is handed to a body that wants `ty`.
pub(crate) fn owned(ty: &Type) -> Result<(Type, Pass), Borrowed> {
    match ty {
        Type::Paren(inner) => owned(&inner.elem),
        Type::Group(inner) => owned(&inner.elem),
        Type::Reference(reference) => Ok((referent(reference)?.0, Pass::Ref)),
        _ => match optional(ty) {
            Some(reference) => {
                let (inner, derefs) = referent(reference)?;
                let pass = if derefs { Pass::AsDeref } else { Pass::AsRef };
                Ok((parse_quote!(::core::option::Option<#inner>), pass))
            }
            None => free(ty.clone()).map(|ty| (ty, Pass::Owned)),
        },
    }
}

/// The reference in `Option<&T>`.
fn optional(ty: &Type) -> Option<&TypeReference> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(Type::Reference(reference)) if arguments.args.len() == 1 => Some(reference),
        _ => None,
    }
}

/// The owned form of what is referred to, and whether it derefs into what the body wants.
fn referent(reference: &TypeReference) -> Result<(Type, bool), Borrowed> {
    if reference.mutability.is_some() {
        return Err(Borrowed::Mutable);
    }
    if reference.lifetime.as_ref().is_some_and(|lifetime| lifetime.ident == "static") {
        return Err(Borrowed::Static);
    }
    match &*reference.elem {
        Type::Slice(slice) => {
            let elem = free((*slice.elem).clone())?;
            Ok((parse_quote!(::std::vec::Vec<#elem>), true))
        }
        Type::TraitObject(_) => Err(Borrowed::Unsized),
        elem if last_is(elem, "str") => Ok((parse_quote!(::std::string::String), true)),
        elem if last_is(elem, "Path") => Ok((parse_quote!(::std::path::PathBuf), true)),
        elem => free(elem.clone()).map(|ty| (ty, false)),
    }
}

fn last_is(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Path(path) => {
            path.path.segments.last().is_some_and(|last| last.ident == name && last.arguments.is_none())
        }
        _ => false,
    }
}

/// `ty`, if nothing in it is borrowed.
fn free(ty: Type) -> Result<Type, Borrowed> {
    if borrows(&ty) { Err(Borrowed::Inside) } else { Ok(ty) }
}

/// Whether a type names a reference, or a lifetime other than `'static`.
pub(crate) fn borrows(ty: &Type) -> bool {
    #[derive(Default)]
    struct Finder(bool);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_type_reference(&mut self, _: &'ast TypeReference) {
            self.0 = true;
        }
        fn visit_lifetime(&mut self, lifetime: &'ast Lifetime) {
            self.0 |= lifetime.ident != "static";
        }
        fn visit_type_fn_ptr(&mut self, _: &'ast syn::TypeFnPtr) {}
    }
    let mut finder = Finder::default();
    finder.visit_type(ty);
    finder.0
}

/// The type without named lifetimes, which are refused elsewhere.
pub(crate) fn elided(ty: &Type) -> Type {
    struct Eraser;
    impl VisitMut for Eraser {
        fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
            if lifetime.ident != "static" {
                *lifetime = Lifetime::new("'_", lifetime.span());
            }
        }
        fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
            if reference.lifetime.as_ref().is_some_and(|lifetime| lifetime.ident != "static") {
                reference.lifetime = None;
            }
            visit_mut::visit_type_reference_mut(self, reference);
        }
        fn visit_type_fn_ptr_mut(&mut self, _: &mut syn::TypeFnPtr) {}
    }
    let mut ty = ty.clone();
    Eraser.visit_type_mut(&mut ty);
    ty
}

/// The type with `lifetime` wherever one is left out in a reference.
pub(crate) fn with_lifetime(ty: &Type, name: &str) -> Type {
    struct Filler(Lifetime);
    impl VisitMut for Filler {
        fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
            reference.lifetime.get_or_insert_with(|| self.0.clone());
            visit_mut::visit_type_reference_mut(self, reference);
        }
        fn visit_type_fn_ptr_mut(&mut self, _: &mut syn::TypeFnPtr) {}
    }
    let mut ty = ty.clone();
    Filler(Lifetime::new(name, Span::mixed_site())).visit_type_mut(&mut ty);
    ty
}

/// The signature with the owner's type in place of `Self`, which means another type in generated code.
pub(crate) fn without_self(signature: &Signature, owner: Option<&Owner>) -> Signature {
    struct Namer<'a>(&'a Type);
    impl VisitMut for Namer<'_> {
        fn visit_receiver_mut(&mut self, _: &mut syn::Receiver) {}
        fn visit_type_mut(&mut self, ty: &mut Type) {
            match ty {
                Type::Path(path) if path.path.is_ident("Self") => *ty = self.0.clone(),
                ty => visit_mut::visit_type_mut(self, ty),
            }
        }
    }
    let mut signature = signature.clone();
    if let Some(owner) = owner {
        Namer(&owner.ty).visit_signature_mut(&mut signature);
    }
    signature
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens as _;

    fn own(ty: &str) -> Result<(String, Pass), Borrowed> {
        let (ty, pass) = owned(&syn::parse_str(ty).unwrap())?;
        Ok((ty.to_token_stream().to_string().replace(' ', ""), pass))
    }

    #[test]
    fn borrowed_types_have_owned_forms() {
        let ok = |ty: &str, pass| Ok((ty.to_owned(), pass));
        assert_eq!(own("&str"), ok("::std::string::String", Pass::Ref));
        assert_eq!(own("&[u8]"), ok("::std::vec::Vec<u8>", Pass::Ref));
        assert_eq!(own("&std::path::Path"), ok("::std::path::PathBuf", Pass::Ref));
        assert_eq!(own("&Ticket"), ok("Ticket", Pass::Ref));
        assert_eq!(own("Option<&str>"), ok("::core::option::Option<::std::string::String>", Pass::AsDeref));
        assert_eq!(own("Option<&Ticket>"), ok("::core::option::Option<Ticket>", Pass::AsRef));
        assert_eq!(own("Option<Vec<u8>>"), ok("Option<Vec<u8>>", Pass::Owned));
        assert_eq!(own("Cow<'static, str>"), ok("Cow<'static,str>", Pass::Owned));
    }

    #[test]
    fn what_has_no_owned_form_is_refused() {
        assert_eq!(own("&mut u8"), Err(Borrowed::Mutable));
        assert_eq!(own("&'static str"), Err(Borrowed::Static));
        assert_eq!(own("&dyn Debug"), Err(Borrowed::Unsized));
        assert_eq!(own("&[&str]"), Err(Borrowed::Inside));
        assert_eq!(own("Vec<&str>"), Err(Borrowed::Inside));
        assert_eq!(own("Cow<'_, str>"), Err(Borrowed::Inside));
    }
}
