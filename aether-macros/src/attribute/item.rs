//! `#[step]` and `#[workflow]`: the three phases, on whatever item they stand on.

use proc_macro2::TokenStream;

use super::block;
use super::function::check_and_expand;
use crate::parse::item::{Item, parse};
use crate::parse::kind::Kind;

/// The code of an item.
pub(crate) fn compile(kind: Kind, options: TokenStream, item: TokenStream) -> TokenStream {
    match parse(kind, options, item) {
        Item::Function(function) => check_and_expand(*function).together(),
        Item::Block(options, block) => block::compile(&options, *block),
        Item::Refused(tokens) => tokens,
    }
}
