//! The grammar of an attribute's options.

use proc_macro2::TokenStream;
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, Item, Token, Type, token};

/// One option of an attribute.
pub(crate) struct Opt {
    pub(crate) name: Ident,
    pub(crate) value: Value,
}

/// What an option says.
pub(crate) enum Value {
    /// `name`
    Flag,
    /// `name = expr`
    Is(Box<Expr>),
    /// `name(option, ..)`
    List(Vec<Opt>),
    /// `needs(type, ..)`
    Types(Vec<Type>),
    /// `name { item .. }`: what `#[workflow_mod]` passes on.
    Items(Vec<Item>),
}

/// The option whose list holds types.
const TYPED: &str = "needs";

/// Reads what stands in the parentheses of an attribute.
pub(crate) fn read(options: TokenStream) -> syn::Result<Vec<Opt>> {
    let options = Punctuated::<Opt, Token![,]>::parse_terminated.parse2(options)?;
    Ok(options.into_iter().collect())
}

impl Parse for Opt {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.call(Ident::parse_any)?;
        let value = if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            Value::Is(input.parse()?)
        } else if input.peek(token::Paren) {
            let list;
            syn::parenthesized!(list in input);
            if name == TYPED {
                let types = Punctuated::<Type, Token![,]>::parse_terminated(&list)?;
                return Ok(Self { name, value: Value::Types(types.into_iter().collect()) });
            }
            Value::List(Punctuated::<Self, Token![,]>::parse_terminated(&list)?.into_iter().collect())
        } else if input.peek(token::Brace) {
            let items;
            syn::braced!(items in input);
            let mut all = Vec::new();
            while !items.is_empty() {
                all.push(items.parse()?);
            }
            Value::Items(all)
        } else {
            Value::Flag
        };
        Ok(Self { name, value })
    }
}
