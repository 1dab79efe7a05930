//! Options of a block or module that hold for the functions in it.
//!
//! Promise: a function's own option comes before an inherited one; `allow` adds up.

use proc_macro2::TokenStream;
use quote::quote;

use super::kind::Kind;
use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;
use crate::syntax::arguments::split_at_commas;

/// The options of a block or module that hold for what is in it.
pub(crate) fn inherited(options: &TokenStream, diagnostics: &mut Diagnostics) -> Vec<TokenStream> {
    let mut kept = Vec::new();
    for option in split_at_commas(options).into_iter().filter(|option| !option.is_empty()) {
        match first_name(&option).as_str() {
            "crate" | "allow" | "macros" | "__uses" => kept.push(option),
            name => {
                let message = format!("option `{name}` does not stand on a block or module");
                let help = "known options here: allow, macros, crate; put others on the function";
                diagnostics.report_with(&option, code::UNKNOWN_OPTION, message, help);
            }
        }
    }
    kept
}

/// A function's own options and what it inherits.
pub(crate) fn merged(kind: Kind, own: &TokenStream, inherited: &[TokenStream]) -> TokenStream {
    let mut options: Vec<TokenStream> =
        split_at_commas(own).into_iter().filter(|option| !option.is_empty()).collect();
    let names: Vec<String> = options.iter().map(first_name).collect();
    for option in inherited {
        let name = first_name(option);
        let meant = kind == Kind::Workflow || name != "macros";
        if meant && (name == "allow" || !names.contains(&name)) {
            options.push(option.clone());
        }
    }
    quote!(#(#options),*)
}

/// The word that an option begins with.
pub(crate) fn first_name(option: &TokenStream) -> String {
    option.clone().into_iter().next().map(|token| token.to_string()).unwrap_or_default()
}
