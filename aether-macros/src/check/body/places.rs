//! What an expression or type is, as far as its shape tells: a static, a hash collection, an address, a file path.

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Expr, ExprCast, ExprPath, ExprUnary, GenericArgument, Ident, Path, PathArguments, Token, Type, TypePath,
    UnOp,
};

/// The expression behind parentheses, borrows, derefs, fields and indices.
pub(crate) fn place(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => place(&inner.expr),
        Expr::Group(inner) => place(&inner.expr),
        Expr::Reference(inner) => place(&inner.expr),
        Expr::RawAddr(inner) => place(&inner.expr),
        Expr::Unary(inner) => place(&inner.expr),
        expr => expr,
    }
}

/// The name of the context that an expression is, perhaps with something said of its next command: `cx.budget(..)`.
pub(crate) fn context(expr: &Expr) -> Option<&Ident> {
    match place(expr) {
        Expr::Path(path) => path.path.get_ident(),
        Expr::MethodCall(call)
            if matches!(call.method.to_string().as_str(), "budget" | "irreversible" | "limit" | "retry") =>
        {
            context(&call.receiver)
        }
        _ => None,
    }
}

/// The last name of the path that a place begins with, if it looks like a static or constant.
pub(crate) fn static_name(expr: &Expr) -> Option<String> {
    match place(expr) {
        Expr::Field(field) => static_name(&field.base),
        Expr::Index(index) => static_name(&index.expr),
        Expr::Path(path) if path.qself.is_none() => {
            let name = path.path.segments.last()?.ident.to_string();
            is_capital(&name).then_some(name)
        }
        _ => None,
    }
}

/// The path that a place begins with.
pub(crate) fn path_of_place(expr: &Expr) -> Option<&Path> {
    match place(expr) {
        Expr::Field(field) => path_of_place(&field.base),
        Expr::Index(index) => path_of_place(&index.expr),
        Expr::Path(path) if path.qself.is_none() => Some(&path.path),
        _ => None,
    }
}

/// Whether a path may be one of a static by the way it is written: not that of a unit struct, or of a variant or constant
/// of a type.
pub(crate) fn may_be_static(path: &[String]) -> bool {
    let is_type = |name: &String| name.starts_with(char::is_uppercase);
    let mut names = path.iter().rev();
    names.next().is_some_and(|last| last.len() == 1 || !is_type(last)) && !names.any(is_type)
}

/// Whether an expression is an order of memory accesses, which only atomics take.
pub(crate) fn is_memory_order(expr: &Expr) -> bool {
    let Expr::Path(path) = place(expr) else { return false };
    let mut names = path.path.segments.iter().rev().map(|segment| segment.ident.to_string());
    let last = names.next().unwrap_or_default();
    matches!(last.as_str(), "Relaxed" | "Acquire" | "Release" | "AcqRel" | "SeqCst")
        && names.next().is_none_or(|owner| owner == "Ordering")
}

/// Whether a name is written in capitals, as statics and constants are.
pub(crate) fn is_capital(name: &str) -> bool {
    name.len() > 1
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        && name.chars().any(|c| c.is_ascii_uppercase())
}

/// Whether an operator is `*`.
pub(crate) fn derefs(expr: &ExprUnary) -> bool {
    matches!(expr.op, UnOp::Deref(_))
}

/// What is dereferenced, behind parentheses, borrows and derefs.
pub(crate) fn dereferenced(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Paren(inner) => dereferenced(&inner.expr),
        Expr::Group(inner) => dereferenced(&inner.expr),
        Expr::Reference(inner) => dereferenced(&inner.expr),
        Expr::Field(inner) => dereferenced(&inner.base),
        Expr::Index(inner) => dereferenced(&inner.expr),
        Expr::Unary(inner) if derefs(inner) => dereferenced(&inner.expr).or(Some(&inner.expr)),
        _ => None,
    }
}

/// The name of a path in capitals that is no constant of a type.
pub(crate) fn free_static(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Paren(inner) => free_static(&inner.expr),
        Expr::Group(inner) => free_static(&inner.expr),
        Expr::Path(path) if path.qself.is_none() => {
            let mut names = path.path.segments.iter().rev().map(|segment| segment.ident.to_string());
            let name = names.next().filter(|name| is_capital(name))?;
            let of_a_type = names.next().is_some_and(|owner| owner.starts_with(char::is_uppercase));
            (!of_a_type).then_some(name)
        }
        _ => None,
    }
}

/// The path that a value is made of: `a::B` in `(a::B + c).d()?`, `a::b` in `a::b(c)`.
pub(crate) fn origin(expr: &Expr) -> Option<&Path> {
    match expr {
        Expr::Paren(inner) => origin(&inner.expr),
        Expr::Group(inner) => origin(&inner.expr),
        Expr::Reference(inner) => origin(&inner.expr),
        Expr::Try(inner) => origin(&inner.expr),
        Expr::Binary(inner) => origin(&inner.left),
        Expr::Call(call) => origin(&call.func),
        Expr::MethodCall(call) => {
            let same = ["checked_add", "checked_sub", "unwrap", "expect", "unwrap_or", "clone"];
            same.iter().any(|name| call.method == name).then(|| origin(&call.receiver)).flatten()
        }
        Expr::Path(path) if path.qself.is_none() => Some(&path.path),
        _ => None,
    }
}

/// The function in `function as integer`, by the way its name is written.
pub(crate) fn cast_function(cast: &ExprCast) -> Option<&ExprPath> {
    fn function(expr: &Expr) -> Option<&ExprPath> {
        match expr {
            Expr::Paren(inner) => function(&inner.expr),
            Expr::Group(inner) => function(&inner.expr),
            Expr::Path(path) => path
                .path
                .segments
                .last()
                .is_some_and(|last| {
                    last.ident.to_string().starts_with(|c: char| c.is_lowercase() || c == '_')
                })
                .then_some(path),
            _ => None,
        }
    }
    is_integer(&cast.ty).then(|| function(&cast.expr)).flatten()
}

/// Whether a type is a hash collection, perhaps behind a reference.
pub(crate) fn hash_type(ty: &Type) -> bool {
    match ty {
        Type::Reference(reference) => hash_type(&reference.elem),
        Type::Paren(inner) => hash_type(&inner.elem),
        Type::Path(path) => hashed(&path.path).is_some(),
        _ => false,
    }
}

/// The hash collections in a type, each with its name.
pub(crate) fn hash_types(ty: &Type) -> Vec<(&Path, String)> {
    #[derive(Default)]
    struct Finder<'ast>(Vec<(&'ast Path, String)>);
    impl<'ast> Visit<'ast> for Finder<'ast> {
        fn visit_type_path(&mut self, ty: &'ast TypePath) {
            if let Some(name) = hashed(&ty.path) {
                self.0.push((&ty.path, name));
            }
            visit::visit_type_path(self, ty);
        }
    }
    let mut finder = Finder::default();
    finder.visit_type(ty);
    finder.0
}

/// The first set in a type whose elements are in another order in every process.
pub(crate) fn hash_set(ty: &Type) -> Option<&Path> {
    let named = hash_types(ty).into_iter().find(|(_, name)| name == "HashSet");
    named.map(|(path, _)| path)
}

/// The name of a hash collection of the standard library with its default, randomly keyed hasher.
fn hashed(path: &Path) -> Option<String> {
    let last = path.segments.last()?;
    let name = last.ident.to_string();
    let default_arguments = match name.as_str() {
        "HashMap" => 2,
        "HashSet" => 1,
        _ => return None,
    };
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) if count(&arguments.args) > default_arguments => None,
        _ => Some(name),
    }
}

fn count(arguments: &Punctuated<GenericArgument, Token![,]>) -> usize {
    arguments.iter().filter(|argument| matches!(argument, GenericArgument::Type(_))).count()
}

/// What makes a cast one to or from an address.
pub(crate) fn is_address(cast: &ExprCast) -> Option<&'static str> {
    match &*cast.ty {
        Type::Ptr(_) => Some("as *const _"),
        ty if is_integer(ty) && points(&cast.expr) => Some("pointer as integer"),
        ty if is_integer(ty) && is_function_pointer(&cast.expr) => Some("function as integer"),
        _ => None,
    }
}

/// Whether an expression is cast to a type of functions.
fn is_function_pointer(expr: &Expr) -> bool {
    match expr {
        Expr::Paren(inner) => is_function_pointer(&inner.expr),
        Expr::Group(inner) => is_function_pointer(&inner.expr),
        Expr::Cast(cast) => matches!(&*cast.ty, Type::FnPtr(_)),
        _ => false,
    }
}

fn is_integer(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.get_ident().is_some_and(|name| {
        matches!(
            name.to_string().as_str(),
            "usize" | "u64" | "u128" | "isize" | "i64" | "i128" | "u32" | "i32"
        )
    })
}

/// Whether an expression is surely a pointer.
pub(crate) fn points(expr: &Expr) -> bool {
    match expr {
        Expr::Paren(inner) => points(&inner.expr),
        Expr::Group(inner) => points(&inner.expr),
        Expr::RawAddr(_) => true,
        Expr::Cast(cast) => matches!(&*cast.ty, Type::Ptr(_)) || points(&cast.expr),
        Expr::MethodCall(call) => {
            matches!(call.method.to_string().as_str(), "as_ptr" | "as_mut_ptr" | "cast" | "addr")
        }
        Expr::Macro(mac) => mac
            .mac
            .path
            .segments
            .last()
            .is_some_and(|last| last.ident == "addr_of" || last.ident == "addr_of_mut"),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path.path.segments.last().is_some_and(|last| {
                let bare = path.path.segments.len() == 1;
                let owner = path.path.segments.iter().rev().nth(1);
                match last.ident.to_string().as_str() {
                    "as_ptr" | "into_raw" => true,
                    "from_ref" | "from_mut" => bare || owner.is_some_and(|owner| owner.ident == "ptr"),
                    _ => false,
                }
            }),
            _ => false,
        },
        _ => false,
    }
}

/// Visits what is cast, behind all casts.
pub(crate) fn without_casts<'a>(expr: &'a Expr, visit: impl FnOnce(&'a Expr)) {
    match expr {
        Expr::Paren(inner) => without_casts(&inner.expr, visit),
        Expr::Cast(inner) => without_casts(&inner.expr, visit),
        expr => visit(expr),
    }
}

/// Whether an expression is surely a path in the file system.
pub(crate) fn is_path_value(expr: &Expr) -> bool {
    match place(expr) {
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path
                .path
                .segments
                .iter()
                .rev()
                .nth(1)
                .is_some_and(|owner| owner.ident == "Path" || owner.ident == "PathBuf"),
            _ => false,
        },
        Expr::MethodCall(call) => {
            matches!(call.method.to_string().as_str(), "join" | "with_extension" | "with_file_name")
                && is_path_value(&call.receiver)
        }
        _ => false,
    }
}
