//! Type parameters that are in no recorded value: services, such as a mailer, that no replay would find again.
//!
//! Promise: a parameter that stands in an argument or in the result is data and never refused, nor is one whose bounds say
//! that it is.

use syn::visit::{self, Visit};
use syn::{Ident, ReturnType, Signature, TraitBound, Type, TypeParamBound, TypePath, WherePredicate};

use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;

/// Traits of data.
const OF_DATA: &[&str] = &["Recordable", "Argument", "Serialize", "Deserialize", "DeserializeOwned"];

/// Refuses type parameters that are in no recorded value; gives their names.
pub(crate) fn refuse(sig: &Signature, d: &mut Diagnostics) -> Vec<Ident> {
    let mut refused = Vec::new();
    for param in sig.generics.type_params() {
        let name = &param.ident;
        if is_recorded(sig, name) || bounds_of(sig, name).any(is_of_data) {
            continue;
        }
        let service = bounds_of(sig, name).find_map(trait_name);
        let message =
            format!("the type parameter `{name}` of `{}` is in no argument and not in the result", sig.ident);
        match service {
            Some(service) => {
                let help = code::SERVICE.help.replace("Mailer", &service);
                d.report_with(param, code::SERVICE, message, help);
            }
            None => d.report(param, code::SERVICE, message),
        }
        refused.push(name.clone());
    }
    refused
}

/// Whether an argument or the result names the parameter.
fn is_recorded(sig: &Signature, name: &Ident) -> bool {
    struct Finder<'a>(&'a Ident, bool);
    impl<'ast> Visit<'ast> for Finder<'_> {
        fn visit_type_path(&mut self, path: &'ast TypePath) {
            self.1 |= path.path.segments.first().is_some_and(|first| first.ident == *self.0);
            visit::visit_type_path(self, path);
        }
    }
    let mut finder = Finder(name, false);
    sig.inputs.iter().for_each(|input| finder.visit_fn_arg(input));
    if let ReturnType::Type(_, ty) = &sig.output {
        finder.visit_type(ty);
    }
    finder.1
}

/// The bounds of a parameter, in its declaration and in the `where` clause.
fn bounds_of<'a>(sig: &'a Signature, name: &'a Ident) -> impl Iterator<Item = &'a TypeParamBound> {
    let declared = sig.generics.type_params().filter(move |param| param.ident == *name);
    let clauses = sig.generics.where_clause.iter().flat_map(|clause| &clause.predicates);
    let wanted = clauses.filter_map(move |clause| match clause {
        WherePredicate::Type(clause) if is_param(&clause.bounded_ty, name) => Some(&clause.bounds),
        _ => None,
    });
    declared.flat_map(|param| &param.bounds).chain(wanted.flatten())
}

fn is_param(ty: &Type, name: &Ident) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident(name))
}

fn is_of_data(bound: &TypeParamBound) -> bool {
    trait_of(bound).is_some_and(|bound| {
        bound.path.segments.iter().any(|part| OF_DATA.iter().any(|name| part.ident == name))
    })
}

fn trait_of(bound: &TypeParamBound) -> Option<&TraitBound> {
    match bound {
        TypeParamBound::Trait(bound) => Some(bound),
        _ => None,
    }
}

/// The name of a trait that is none of the well-known markers.
fn trait_name(bound: &TypeParamBound) -> Option<String> {
    let name = trait_of(bound)?.path.segments.last()?.ident.to_string();
    (!matches!(name.as_str(), "Send" | "Sync" | "Clone" | "Copy" | "Debug" | "Default" | "Sized" | "Unpin"))
        .then_some(name)
}
