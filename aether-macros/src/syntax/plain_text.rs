//! Tokens as a text that does not depend on the layout of the source, and its hash.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ItemFn;

/// 64-bit FNV-1a over signature and body without documentation, in hexadecimal.
pub(crate) fn fingerprint(function: &ItemFn) -> String {
    let mut text = String::new();
    plain_text(function.sig.to_token_stream(), &mut text);
    plain_text(function.block.to_token_stream(), &mut text);
    hash(&text)
}

/// Tokens as a text that is the same whatever the layout of the source.
pub(crate) fn plain(tokens: &impl ToTokens) -> String {
    let mut text = String::new();
    plain_text(tokens.to_token_stream(), &mut text);
    text
}

/// 64-bit FNV-1a in hexadecimal.
pub(crate) fn hash(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// One space between any two tokens, and no documentation: the same text whatever the layout of the source.
fn plain_text(tokens: TokenStream, out: &mut String) {
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

fn is_doc(group: &Group) -> bool {
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket
        && matches!(first, Some(TokenTree::Ident(ident)) if ident == "doc")
}
