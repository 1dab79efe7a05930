//! Awaits inside macro invocations: where the arguments are known to be expressions they are looked into, and
//! everywhere else a hidden await is a mistake.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::parse::{ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{Expr, Macro, Token};

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
    lead: TokenStream,
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
fn split(tokens: &TokenStream) -> Vec<TokenStream> {
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
    fn arguments_survive_the_way_back() {
        for text in ["info!(user = %a, b.c = ?d, \"{}\", e)", "matches!(a, Some(x) if x > 3)", "vec![a; 3]"] {
            let mac: Macro = syn::parse_str(text).unwrap();
            let before = mac.tokens.to_string().replace(' ', "");
            assert_eq!(Arguments::of(&mac).into_tokens().to_string().replace(' ', ""), before);
        }
    }
}
