//! Awaits inside macro invocations: where the arguments are known to be expressions they are looked into, and
//! everywhere else a hidden await is a mistake.

use proc_macro2::{Delimiter, Literal, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::parse::{ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{Block, Expr, Macro, Path, Token};

/// Macros that evaluate their arguments as expressions in the enclosing function, and leave it only by panic.
const TRANSPARENT: &[&str] = &[
    "format",
    "format_args",
    "print",
    "println",
    "eprint",
    "eprintln",
    "write",
    "writeln",
    "dbg",
    "panic",
    "todo",
    "unimplemented",
    "unreachable",
    "assert",
    "assert_eq",
    "assert_ne",
    "vec",
    "matches",
    "anyhow",
    "json",
];

/// Macros that leave the function only by panic, but evaluate their arguments only under some log level or build
/// profile: an await in them would be there in one process and not in the next.
const QUIET: &[&str] = &[
    "trace",
    "debug",
    "info",
    "warn",
    "error",
    "event",
    "log",
    "span",
    "trace_span",
    "debug_span",
    "info_span",
    "warn_span",
    "error_span",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "cfg",
    "env",
    "option_env",
    "concat",
    "stringify",
    "include_str",
    "include_bytes",
    "line",
    "file",
    "column",
    "module_path",
];

/// The like, which may also return from the enclosing function.
const LEAVING: &[&str] = &["bail", "ensure"];

/// Macros that poll several futures in an order of their own.
const CONCURRENT: &[&str] = &[
    "select",
    "select_biased",
    "join",
    "try_join",
    "join_biased",
    "try_join_biased",
    "try_join_all",
    "join_all",
];

/// Other macros whose expansion holds no await and nothing unrecorded of its own.
const HARMLESS: &[&str] = &[
    "addr_of",
    "addr_of_mut",
    "assert_matches",
    "bstr",
    "btreemap",
    "btreeset",
    "compile_error",
    "concatcp",
    "const_format",
    "date",
    "datetime",
    "eyre",
    "formatcp",
    "formatdoc",
    "hashmap",
    "hashset",
    "indoc",
    "lazy_static",
    "nanoid",
    "pin",
    "poll",
    "smallvec",
    "task_local",
    "thread_local",
    "time",
    "try",
    "uuid",
    "writedoc",
];

/// Whether it is known that nothing hides in what the macro expands to but its arguments.
pub(crate) fn is_known(mac: &Macro) -> bool {
    let name = name(mac);
    [TRANSPARENT, QUIET, LEAVING, CONCURRENT, HARMLESS].iter().any(|list| list.contains(&name.as_str()))
}

/// The paths in tokens that are no expression, as far as they can be told: two names or more.
pub(crate) fn paths(tokens: &TokenStream) -> Vec<Path> {
    let mut found = Vec::new();
    let mut path = TokenStream::new();
    let mut colons = 0;
    let mut finish = |path: &mut TokenStream| {
        let path = std::mem::take(path);
        if let Ok(path) = Path::parse_mod_style.parse2(path)
            && path.segments.len() > 1
        {
            found.push(path);
        }
    };
    let mut inner = Vec::new();
    for token in tokens.clone() {
        match &token {
            TokenTree::Ident(_) => {
                if colons != 2 {
                    finish(&mut path);
                }
                path.extend([token]);
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() && colons < 2 => {
                colons += 1;
                if colons == 2 {
                    path.extend(<Token![::]>::default().to_token_stream());
                }
            }
            other => {
                finish(&mut path);
                colons = 0;
                if let TokenTree::Group(group) = other {
                    inner.extend(paths(&group.stream()));
                }
            }
        }
    }
    finish(&mut path);
    found.extend(inner);
    found
}

/// The first literal of a formatting macro that prints an address.
pub(crate) fn address_format(mac: &Macro) -> Option<Literal> {
    if !is_transparent(mac) && !QUIET.contains(&name(mac).as_str()) {
        return None;
    }
    mac.tokens.clone().into_iter().find_map(|token| match token {
        TokenTree::Literal(literal) if prints_address(&literal.to_string()) => Some(literal),
        _ => None,
    })
}

/// Whether a format string has a `{:p}`.
fn prints_address(text: &str) -> bool {
    let text = text.replace("{{", "");
    text.starts_with(['"', 'r'])
        && text
            .split('{')
            .skip(1)
            .filter_map(|rest| rest.split_once('}'))
            .any(|(hole, _)| hole.split_once(':').is_some_and(|(_, spec)| spec.trim_end().ends_with('p')))
}

/// The statements in a macro's braces, where its arguments are no expressions.
pub(crate) fn statements(mac: &Macro) -> Option<Block> {
    if Arguments::of(mac).pieces.iter().all(|piece| piece.expr.is_some()) {
        return None;
    }
    let stmts = Block::parse_within.parse2(mac.tokens.clone()).ok()?;
    Some(Block { brace_token: Default::default(), stmts })
}

/// Last segment of the macro's path.
pub(crate) fn name(mac: &Macro) -> String {
    mac.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default()
}

/// Whether awaits in the arguments can be seen and rewritten.
pub(crate) fn is_transparent(mac: &Macro) -> bool {
    let name = name(mac);
    TRANSPARENT.contains(&name.as_str()) || LEAVING.contains(&name.as_str())
}

/// Whether the macro may return from the function or leave a loop.
pub(crate) fn may_leave(mac: &Macro) -> bool {
    let name = name(mac);
    !TRANSPARENT.contains(&name.as_str()) && !QUIET.contains(&name.as_str())
}

/// Whether the macro polls several futures.
pub(crate) fn is_concurrent(mac: &Macro) -> bool {
    CONCURRENT.contains(&name(mac).as_str())
}

/// Whether tokens hold an `.await`.
pub(crate) fn awaits(tokens: &TokenStream) -> bool {
    let mut after_dot = false;
    for token in tokens.clone() {
        match &token {
            TokenTree::Ident(ident) if after_dot && ident == "await" => return true,
            TokenTree::Group(group) if awaits(&group.stream()) => return true,
            _ => {}
        }
        after_dot = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '.');
    }
    false
}

/// The arguments of a macro, one by one.
pub(crate) struct Arguments {
    pub(crate) pieces: Vec<Piece>,
    separator: TokenStream,
}

/// One argument: tokens before an expression, as in `name = %expr`, and the expression if it is one.
pub(crate) struct Piece {
    pub(crate) lead: TokenStream,
    pub(crate) expr: Option<Expr>,
}

impl Arguments {
    /// Reads arguments that are separated by commas, or `value; count`.
    pub(crate) fn of(mac: &Macro) -> Self {
        let tokens = &mac.tokens;
        let comma = <Token![,]>::default().to_token_stream();
        if let Ok(exprs) = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens.clone()) {
            return Self { pieces: exprs.into_iter().map(Piece::from).collect(), separator: comma };
        }
        let repeat = |input: ParseStream<'_>| {
            let value: Expr = input.parse()?;
            input.parse::<Token![;]>()?;
            Ok((value, input.parse::<Expr>()?))
        };
        if let Ok((value, count)) = repeat.parse2(tokens.clone()) {
            let separator = <Token![;]>::default().to_token_stream();
            return Self { pieces: vec![value.into(), count.into()], separator };
        }
        Self { pieces: split(tokens).into_iter().map(Piece::from).collect(), separator: comma }
    }

    /// Whether an await hides where no expression was found.
    pub(crate) fn hides_await(&self) -> bool {
        self.pieces.iter().any(|piece| awaits(&piece.lead))
    }

    /// The tokens again.
    pub(crate) fn into_tokens(self) -> TokenStream {
        let mut out = TokenStream::new();
        for (at, piece) in self.pieces.into_iter().enumerate() {
            if at > 0 {
                out.extend(self.separator.clone());
            }
            out.extend(piece.lead);
            piece.expr.to_tokens(&mut out);
        }
        out
    }
}

impl From<Expr> for Piece {
    fn from(expr: Expr) -> Self {
        Self { lead: TokenStream::new(), expr: Some(expr) }
    }
}

impl From<TokenStream> for Piece {
    /// Finds the expression behind `name = `, `name.part = `, `%` and `?`.
    fn from(tokens: TokenStream) -> Self {
        if let Ok(expr) = syn::parse2(tokens.clone()) {
            return Self { lead: TokenStream::new(), expr: Some(expr) };
        }
        let all: Vec<TokenTree> = tokens.clone().into_iter().collect();
        let sigil = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if matches!(p.as_char(), '=' | '%' | '?'));
        for at in (0..all.len()).filter(|at| sigil(&all[*at])) {
            let rest: TokenStream = all[at + 1..].iter().cloned().collect();
            let lead: TokenStream = all[..=at].iter().cloned().collect();
            if let Ok(expr) = syn::parse2(rest) {
                return Self { lead, expr: Some(expr) };
            }
        }
        Self { lead: tokens, expr: None }
    }
}

/// Splits at commas outside of groups.
pub(crate) fn split(tokens: &TokenStream) -> Vec<TokenStream> {
    let mut pieces = Vec::new();
    let mut piece = TokenStream::new();
    for token in tokens.clone() {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => pieces.push(std::mem::take(&mut piece)),
            _ => piece.extend([token]),
        }
    }
    pieces.push(piece);
    pieces
}

/// One space between any two tokens, and no documentation: the same text whatever the layout of the source.
pub(crate) fn plain_text(tokens: TokenStream, out: &mut String) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let doc = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#')
            && tokens.peek().is_some_and(|next| matches!(next, TokenTree::Group(group) if is_doc(group)));
        if doc {
            tokens.next();
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("( ", ") "),
                    Delimiter::Brace => ("{ ", "} "),
                    Delimiter::Bracket => ("[ ", "] "),
                    Delimiter::None => ("", ""),
                };
                out.push_str(open);
                plain_text(group.stream(), out);
                out.push_str(close);
            }
            token => {
                out.push_str(&token.to_string());
                out.push(' ');
            }
        }
    }
}

fn is_doc(group: &proc_macro2::Group) -> bool {
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket
        && matches!(first, Some(TokenTree::Ident(ident)) if ident == "doc")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Arguments {
        Arguments::of(&syn::parse_str(text).unwrap())
    }

    #[test]
    fn awaits_in_arguments_are_found() {
        let seen = |text: &str| {
            let arguments = arguments(text);
            let exprs = arguments
                .pieces
                .iter()
                .filter(|piece| piece.expr.as_ref().is_some_and(|e| awaits(&e.to_token_stream())));
            (exprs.count(), arguments.hides_await())
        };
        assert_eq!(seen("format!(\"{}\", f(cx).await?)"), (1, false));
        assert_eq!(seen("format!(\"{x}\", x = f(cx).await?)"), (1, false));
        assert_eq!(seen("vec![f(cx).await; 3]"), (1, false));
        assert_eq!(seen("matches!(f(cx).await, Some(x) if x > 3)"), (1, false));
        assert_eq!(seen("info!(user = %f(cx).await?, a.b = ?g(cx).await, \"text\")"), (2, false));
        assert_eq!(seen("foo!(let x = f(cx).await;)"), (0, true));
    }

    #[test]
    fn paths_in_opaque_tokens_are_found() {
        let found: Vec<String> = paths(&"let t = a::b(c: d::e, [f::g::h]); i".parse().unwrap())
            .iter()
            .map(|path| path.to_token_stream().to_string().replace(' ', ""))
            .collect();
        assert_eq!(found, ["a::b", "d::e", "f::g::h"]);
    }

    #[test]
    fn address_formats_are_seen() {
        let seen = |text: &str| address_format(&syn::parse_str(text).unwrap()).is_some();
        assert!(seen("format!(\"{:p}\", x)"));
        assert!(seen("info!(\"{x:#p} {y}\")"));
        assert!(!seen("format!(\"{{:p}} {p} {x:?}\", x)"));
        assert!(!seen("format!(\"{}\", \"help\")"));
    }

    #[test]
    fn arguments_survive_the_way_back() {
        for text in ["info!(user = %a, b.c = ?d, \"{}\", e)", "matches!(a, Some(x) if x > 3)", "vec![a; 3]"] {
            let mac: Macro = syn::parse_str(text).unwrap();
            let before = mac.tokens.to_string().replace(' ', "");
            assert_eq!(Arguments::of(&mac).into_tokens().to_string().replace(' ', ""), before);
        }
    }
}
