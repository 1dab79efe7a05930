//! The result: a `Result` of owned types with names.

use syn::visit::Visit;
use syn::{
    GenericArgument, Path, PathArguments, PathSegment, ReturnType, Signature, Type, TypeImplTrait,
    TypeParamBound, TypeTraitObject, parse_quote,
};

use super::owned;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;

/// The return type, or one that lets callers compile when it is refused.
pub(crate) fn result(sig: &Signature, krate: &Path, d: &mut Diagnostics) -> Type {
    let substitute = || parse_quote!(::core::result::Result<(), #krate::__private::Failure>);
    let ReturnType::Type(_, ty) = &sig.output else {
        d.report(&sig.ident, code::NO_RESULT, format_args!("`{}` returns nothing", sig.ident));
        return substitute();
    };
    if never_result(ty) {
        d.report(ty, code::NO_RESULT, format_args!("`{}` returns no `Result`", sig.ident));
        return substitute();
    }
    if opaque(ty) {
        d.report(ty, code::OPAQUE_RESULT, "the result is an `impl Trait`");
        return substitute();
    }
    if let Some(error) = erased_error(ty) {
        let message = format!("the error of `{}` has no type of its own", sig.ident);
        d.report(error, code::ERASED_ERROR, message);
        return substitute();
    }
    if owned::borrows(ty) {
        d.report(ty, code::BORROWED_RESULT, "the result borrows");
        return substitute();
    }
    (**ty).clone()
}

/// Whether a type is surely no `Result`; of all others the types decide.
fn never_result(ty: &Type) -> bool {
    const OTHERS: &[&str] = &[
        "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64",
        "u128", "usize", "String", "Vec", "Option", "Box", "BTreeMap", "BTreeSet", "HashMap", "HashSet",
    ];
    match ty {
        Type::Tuple(_) | Type::Array(_) | Type::Never(_) => true,
        Type::Path(path) => {
            path.path.segments.last().is_some_and(|last| OTHERS.iter().any(|name| last.ident == name))
        }
        _ => false,
    }
}

/// The error type of a `Result` that is `Box<dyn Error>` or the like of a well-known crate.
fn erased_error(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let owner = path.path.segments.iter().rev().nth(1).map(|owner| owner.ident.to_string());
    let types = generic_types(last);
    match (owner.as_deref(), &types[..]) {
        (Some("anyhow" | "eyre" | "color_eyre"), [_]) if last.ident == "Result" => Some(ty),
        (_, [_, error]) if last.ident == "Result" && is_erased(error) => Some(error),
        _ => None,
    }
}

fn generic_types(segment: &PathSegment) -> Vec<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return Vec::new() };
    let of_types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    of_types.collect()
}

fn is_erased(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    let names: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let Some(last) = path.path.segments.last() else { return false };
    match names.last().map(String::as_str) {
        Some("Box" | "Arc" | "Rc") => {
            matches!(&generic_types(last)[..], [Type::TraitObject(object)] if is_dyn_error(object))
        }
        Some("Error") => names.len() > 1 && names[names.len() - 2] == "anyhow",
        Some("Report") => names.len() > 1 && names[names.len() - 2].ends_with("eyre"),
        _ => false,
    }
}

fn is_dyn_error(object: &TypeTraitObject) -> bool {
    object.bounds.iter().any(|bound| match bound {
        TypeParamBound::Trait(bound) => {
            let last = bound.path.segments.last();
            last.is_some_and(|last| last.ident == "Error" || last.ident == "StdError")
        }
        _ => false,
    })
}

fn opaque(ty: &Type) -> bool {
    #[derive(Default)]
    struct Finder(bool);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_type_impl_trait(&mut self, _: &'ast TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut finder = Finder::default();
    finder.visit_type(ty);
    finder.0
}
