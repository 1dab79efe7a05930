//! The arguments of a macro: expressions where they are some, so that awaits in them can be found and rewritten.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::parse::{ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::visit::Visit;
use syn::{Block, Expr, Macro, Token};

use super::awaits::contains_await;

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
        Self { pieces: split_at_commas(tokens).into_iter().map(Piece::from).collect(), separator: comma }
    }

    /// Whether an await hides where no expression was found.
    pub(crate) fn hides_await(&self) -> bool {
        self.pieces.iter().any(|piece| contains_await(&piece.lead))
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
pub(crate) fn split_at_commas(tokens: &TokenStream) -> Vec<TokenStream> {
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

/// What a macro was given.
pub(crate) enum Given {
    /// The statements in its braces, where its arguments are no expressions.
    Statements(Block),
    Arguments(Arguments),
}

impl Given {
    /// Reads it.
    pub(crate) fn of(mac: &Macro) -> Self {
        let arguments = Arguments::of(mac);
        if arguments.pieces.iter().any(|piece| piece.expr.is_none())
            && let Ok(stmts) = Block::parse_within.parse2(mac.tokens.clone())
        {
            return Self::Statements(Block { brace_token: Default::default(), stmts });
        }
        Self::Arguments(arguments)
    }
}

/// Visits what stands in a macro's arguments: its statements, or else its expressions.
pub(crate) fn visit_arguments<V: for<'ast> Visit<'ast>>(visitor: &mut V, mac: &Macro) {
    match Given::of(mac) {
        Given::Statements(block) => visitor.visit_block(&block),
        Given::Arguments(arguments) => {
            arguments
                .pieces
                .iter()
                .filter_map(|piece| piece.expr.as_ref())
                .for_each(|expr| visitor.visit_expr(expr));
        }
    }
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
                .filter(|piece| piece.expr.as_ref().is_some_and(|e| contains_await(&e.to_token_stream())));
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
