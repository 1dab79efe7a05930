//! The rules of the signature.

use proc_macro2::Span;
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt as _;
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Expr, FnArg, GenericArgument, GenericParam, Generics, Ident, ItemFn, Lit, Meta, Pat, PatIdent,
    PatType, Path, PathArguments, PathSegment, ReturnType, Signature, Type, TypeImplTrait, TypeParam,
    TypeParamBound, TypeTraitObject, parse_quote,
};

use super::options::Common;
use super::own::{self, Borrowed};
use crate::code;
use crate::ir::{Arg, Attrs, Context, Effect, Owner, Pass, Shape};
use crate::report::Diagnostics;

/// The name of the lifetime of a call.
pub(crate) const CALL: &str = "'__cx";

/// The shape of a step. Without an effect, no rule about the context is judged.
pub(super) fn step(
    function: &ItemFn,
    common: Common,
    owner: Option<Owner>,
    effect: Option<Effect>,
    d: &mut Diagnostics,
) -> Shape {
    let wanted = match effect {
        Some(Effect::Pure) => Wanted::Nothing,
        Some(_) => Wanted::Context("StepCx"),
        None => Wanted::Anything,
    };
    shape(function, common, owner, wanted, d)
}

/// The shape of a workflow.
pub(super) fn workflow(
    function: &ItemFn,
    common: Common,
    owner: Option<Owner>,
    d: &mut Diagnostics,
) -> Shape {
    shape(function, common, owner, Wanted::Context("Cx"), d)
}

/// What the first parameter has to be.
#[derive(Clone, Copy)]
enum Wanted {
    Context(&'static str),
    Nothing,
    Anything,
}

fn shape(
    function: &ItemFn,
    common: Common,
    owner: Option<Owner>,
    wanted: Wanted,
    d: &mut Diagnostics,
) -> Shape {
    let sig = &own::without_self(&function.sig, owner.as_ref());
    qualifiers(sig, d);
    let mut generics = generics(&sig.generics, d);
    let mut params = parameters(sig, d);
    let context = context(&mut params, wanted, sig, d);
    let args = params.iter().enumerate().map(|(at, param)| argument(at, param, &mut generics, d)).collect();
    bind(&mut generics, &common.krate);
    Shape {
        vis: function.vis.clone(),
        name: common.name.unwrap_or_else(|| match &owner {
            Some(owner) => format!("{}_{}", owner.name.unraw(), sig.ident.unraw()),
            None => sig.ident.unraw().to_string(),
        }),
        ident: match &owner {
            Some(owner) => format_ident!("{}_{}", owner.name, sig.ident, span = sig.ident.span()),
            None => sig.ident.clone(),
        },
        function: sig.ident.clone(),
        owner,
        warnings: Vec::new(),
        line: line(&sig.ident),
        attrs: attributes(&function.attrs),
        generics,
        context,
        args,
        ret: result(sig, &common.krate, d),
        allows: common.allows,
        krate: common.krate,
    }
}

fn line(ident: &Ident) -> u32 {
    u32::try_from(ident.span().start().line).unwrap_or(0)
}

fn qualifiers(sig: &Signature, d: &mut Diagnostics) {
    if sig.asyncness.is_none() {
        d.report(sig.fn_token, code::NOT_ASYNC, format_args!("`{}` is not async", sig.ident));
    }
    let mut refuse = |at: &dyn ToTokens, what: &str| {
        d.report(at.to_token_stream(), code::QUALIFIER, format_args!("`{}` is {what}", sig.ident));
    };
    sig.constness.iter().for_each(|at| refuse(at, "`const`"));
    sig.unsafety.iter().for_each(|at| refuse(at, "`unsafe`"));
    sig.abi.iter().for_each(|at| refuse(at, "`extern`"));
    sig.variadic.iter().for_each(|at| refuse(at, "variadic"));
}

fn generics(generics: &Generics, d: &mut Diagnostics) -> Generics {
    let mut kept = generics.clone();
    let all = std::mem::take(&mut kept.params);
    for param in all {
        if let GenericParam::Lifetime(lifetime) = &param {
            d.report(lifetime, code::LIFETIME, "a step or workflow has no lifetime parameters");
        } else {
            kept.params.push(param);
        }
    }
    kept
}

/// Every type parameter stands in a recorded value, so it is recordable.
fn bind(generics: &mut Generics, krate: &Path) {
    for param in generics.type_params_mut() {
        param.default = None;
        param.bounds.push(parse_quote!(#krate::__private::Recordable));
    }
}

fn parameters<'a>(sig: &'a Signature, d: &mut Diagnostics) -> Vec<&'a PatType> {
    let mut params = Vec::new();
    for param in &sig.inputs {
        match param {
            FnArg::Typed(param) => params.push(param),
            FnArg::Receiver(receiver) => {
                d.report(receiver, code::RECEIVER, "a step or workflow takes no `self`");
            }
        }
    }
    params
}

/// Takes the context off the parameters.
fn context(
    params: &mut Vec<&PatType>,
    wanted: Wanted,
    sig: &Signature,
    d: &mut Diagnostics,
) -> Option<Context> {
    let first = params.first().copied();
    let found = first.and_then(seems_context);
    match wanted {
        Wanted::Nothing => {
            if let (Some(first), Some(_)) = (first, found) {
                d.report(first, code::PURE_CONTEXT, "a pure step takes no context");
                params.remove(0);
            }
            None
        }
        Wanted::Anything => found.and_then(|_| take(params)),
        Wanted::Context(name) => match (first, found) {
            (Some(first), Some(Seems { name: other, by_mut })) => {
                if !by_mut {
                    let help = format!("write `&mut {name}`");
                    d.report_with(&first.ty, code::CONTEXT, "the context is not borrowed mutably", help);
                } else if other != name && (other == "Cx" || other == "StepCx") {
                    let message = format!("the context is of type `{other}`");
                    d.report_with(&first.ty, code::CONTEXT, message, format_args!("write `&mut {name}`"));
                }
                take(params)
            }
            _ if sig.receiver().is_some() => None,
            _ => {
                let help = format!("let the first parameter be `cx: &mut {name}`");
                d.report_with(
                    &sig.ident,
                    code::CONTEXT,
                    format_args!("`{}` takes no context", sig.ident),
                    help,
                );
                None
            }
        },
    }
}

/// What a first parameter seems to be; types decide in the end.
struct Seems {
    name: String,
    by_mut: bool,
}

fn seems_context(param: &PatType) -> Option<Seems> {
    let (ty, by_mut) = match &*param.ty {
        Type::Reference(reference) => (&*reference.elem, reference.mutability.is_some()),
        ty => (ty, false),
    };
    let Type::Path(path) = ty else { return None };
    let name = path.path.segments.last()?.ident.to_string();
    (by_mut || name == "Cx" || name == "StepCx").then_some(Seems { name, by_mut })
}

fn take(params: &mut Vec<&PatType>) -> Option<Context> {
    let param = params.remove(0);
    let ident = match &*param.pat {
        Pat::Ident(pat) => pat.ident.clone(),
        _ => Ident::new("_cx", Span::mixed_site()),
    };
    let PatType { pat, ty, .. } = param;
    Some(Context { ident, param: quote!(#pat: #ty), ty: (**ty).clone() })
}

fn argument(at: usize, param: &PatType, generics: &mut Generics, d: &mut Diagnostics) -> Arg {
    let (ident, mutable) = named(at, param, d);
    let ty = nameable(&own::elided(&param.ty), &ident, generics);
    let (owned, pass) = own::owned(&ty).unwrap_or_else(|borrowed| {
        refuse_borrowed(param, &ident, borrowed, d);
        (parse_quote!(()), Pass::Owned)
    });
    let docs: Vec<&Attribute> = param.attrs.iter().filter(|attr| attr.path().is_ident("doc")).collect();
    Arg {
        name: ident.unraw().to_string(),
        mutable,
        doc: doc_text(&docs),
        call_ty: own::with_lifetime(&ty, CALL),
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
                self.generics.params.push(param.into());
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

/// The return type, or one that lets callers compile when it is refused.
fn result(sig: &Signature, krate: &Path, d: &mut Diagnostics) -> Type {
    let substitute = parse_quote!(::core::result::Result<(), #krate::__private::Failure>);
    let ReturnType::Type(_, ty) = &sig.output else {
        d.report(&sig.ident, code::NO_RESULT, format_args!("`{}` returns nothing", sig.ident));
        return substitute;
    };
    if never_result(ty) {
        d.report(ty, code::NO_RESULT, format_args!("`{}` returns no `Result`", sig.ident));
        return substitute;
    }
    if opaque(ty) {
        d.report(ty, code::OPAQUE_RESULT, "the result is an `impl Trait`");
        return substitute;
    }
    if let Some(error) = erased_error(ty) {
        let message = format!("the error of `{}` has no type of its own", sig.ident);
        d.report(error, code::ERASED_ERROR, message);
        return substitute;
    }
    if own::borrows(ty) {
        d.report(ty, code::BORROWED_RESULT, "the result borrows");
        return substitute;
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

fn attributes(all: &[Attribute]) -> Attrs {
    let mut attrs = Attrs::default();
    for attr in all {
        let name = attr.path().get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "cfg" => attrs.cfgs.push(attr.clone()),
            "doc" => attrs.docs.push(attr.clone()),
            "deprecated" | "must_use" => attrs.call.push(attr.clone()),
            _ => attrs.body.push(attr.clone()),
        }
    }
    attrs.doc = doc_text(&attrs.docs.iter().collect::<Vec<_>>());
    attrs
}

/// The text of doc comments: one space in front of each line is not part of it.
fn doc_text(docs: &[&Attribute]) -> String {
    let lines: Vec<String> = docs.iter().filter_map(|attr| doc_line(attr)).collect();
    lines.join("\n").trim().to_owned()
}

fn doc_line(attr: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attr.meta else { return None };
    let Expr::Lit(literal) = &meta.value else { return None };
    let Lit::Str(text) = &literal.lit else { return None };
    let text = text.value();
    Some(text.strip_prefix(' ').unwrap_or(&text).to_owned())
}
