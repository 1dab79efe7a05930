//! Phase one: tokens to an attribute's options and a function.
//!
//! Promise: nothing is judged here but the grammar.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::parse::Parser as _;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, Item, ItemFn, ItemImpl, Token, token};

use crate::block;
use crate::code;
use crate::ir::Owner;
use crate::report::Diagnostics;

/// Which attribute it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Step,
    Workflow,
}

impl Kind {
    pub(crate) fn attribute(self) -> &'static str {
        match self {
            Self::Step => "#[step]",
            Self::Workflow => "#[workflow]",
        }
    }
}

/// What the attribute stands on, and what stands in it.
pub(crate) struct Parsed {
    pub(crate) kind: Kind,
    /// An error when the options do not follow the grammar.
    pub(crate) options: syn::Result<Vec<Opt>>,
    pub(crate) function: ItemFn,
    /// The type of the `impl` block it stands in.
    pub(crate) owner: Option<Owner>,
}

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
    /// `name { item .. }`: what `#[workflow_mod]` passes on.
    Items(Vec<Item>),
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

/// Reads attribute and item. The error is what to emit when the item is no function: an `impl` block of workflows, or
/// the item and a message.
pub(crate) fn parse(kind: Kind, options: TokenStream, item: TokenStream) -> Result<Parsed, TokenStream> {
    match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => Ok(function_of(kind, options, function, None)),
        Err(_) => Err(match syn::parse2::<ItemImpl>(item.clone()) {
            Ok(block) if kind == Kind::Workflow => block::compile(&options, block),
            _ => not_a_function(kind, item),
        }),
    }
}

/// Reads the attribute of a function.
pub(crate) fn function_of(
    kind: Kind,
    options: TokenStream,
    function: ItemFn,
    owner: Option<Owner>,
) -> Parsed {
    let options = Punctuated::<Opt, Token![,]>::parse_terminated
        .parse2(options)
        .map(|options| options.into_iter().collect());
    Parsed { kind, options, function, owner }
}

fn not_a_function(kind: Kind, item: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let head: TokenStream = item.clone().into_iter().take(2).collect();
    diagnostics.report(
        head,
        code::NOT_A_FUNCTION,
        format_args!("`{}` stands on something else than a function", kind.attribute()),
    );
    let errors = diagnostics.into_error().map(|error| error.to_compile_error());
    let mut out = item;
    errors.to_tokens(&mut out);
    out
}
