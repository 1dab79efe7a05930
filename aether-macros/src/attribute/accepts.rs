//! `#[accepts(Old, ..)]`: a type that is also read from what older builds recorded for it.
//!
//! Promise: the item stays as it is written, but for one serde attribute; what cannot be read so is told once.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::parse::{Parse, ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{Attribute, Data, DeriveInput, Fields, Ident, LitStr, Meta, Path, Token, Type, parse_quote};

use crate::diagnostics::code;
use crate::diagnostics::report::Diagnostics;

/// What is written in the attribute.
#[derive(Default)]
struct Options {
    former: Vec<Type>,
    krate: Option<Path>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            if input.peek(Token![crate]) {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                options.krate = Some(input.parse::<LitStr>()?.parse()?);
            } else {
                options.former.push(input.parse()?);
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

/// A type that can be read from its former shapes.
struct Accepting {
    item: DeriveInput,
    former: Vec<Type>,
    krate: Path,
    /// The container attribute `#[serde(default)]` stands on it.
    has_default: bool,
}

/// The three phases.
pub(crate) fn compile(written: TokenStream, item: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let options = Options::parse.parse2(written).unwrap_or_else(|error| {
        diagnostics.add(error);
        Options::default()
    });
    let accepting = match syn::parse2::<DeriveInput>(item.clone()) {
        Ok(item) => check(item, options, &mut diagnostics),
        Err(_) => {
            let head: TokenStream = item.clone().into_iter().take(2).collect();
            let message = "`#[accepts(..)]` stands on something else than a struct or an enum";
            diagnostics.report(head, code::ACCEPTS, message);
            None
        }
    };
    match (diagnostics.into_error(), accepting) {
        (None, Some(accepting)) => expand(accepting),
        (Some(error), _) => {
            let error = error.to_compile_error();
            quote!(#error #item)
        }
        (None, None) => item,
    }
}

fn check(item: DeriveInput, options: Options, diagnostics: &mut Diagnostics) -> Option<Accepting> {
    let name = &item.ident;
    if options.former.is_empty() && diagnostics.is_empty() {
        let message = format_args!("`#[accepts()]` names no former type of `{name}`");
        diagnostics.report_with(name, code::ACCEPTS, message, "name one: `#[accepts(OldReceipt)]`");
    }
    if !item.generics.params.is_empty() {
        let message = format_args!("`{name}` has generic parameters");
        diagnostics.report(&item.generics, code::ACCEPTS, message);
    }
    if matches!(item.data, Data::Union(_)) {
        diagnostics.report(name, code::ACCEPTS, format_args!("`{name}` is a union"));
    }
    if !item.attrs.iter().any(|attribute| deserialize(attribute).is_some()) {
        let message = format_args!("no `#[derive(Deserialize)]` stands below `#[accepts(..)]` on `{name}`");
        let help = "put `#[accepts(..)]` above the derive, which reads what it adds";
        diagnostics.report_with(name, code::ACCEPTS, message, help);
    }
    let mut has_default = false;
    for meta in serde_options(&item.attrs) {
        let text = meta.path().get_ident().map(ToString::to_string).unwrap_or_default();
        let plain_default = matches!(meta, Meta::Path(_));
        match text.as_str() {
            "from" | "try_from" | "remote" | "transparent" | "bound" => {
                let message =
                    format_args!("`{name}` has `#[serde({text})]`, so it is not read as it is declared");
                diagnostics.report(&meta, code::ACCEPTS, message);
            }
            "default" if !plain_default => {
                let message = format_args!("the default of `{name}` is a function");
                let help = "implement `Default` and write `#[serde(default)]`";
                diagnostics.report_with(&meta, code::ACCEPTS, message, help);
            }
            "default" => has_default = true,
            _ => {}
        }
    }
    let krate = options.krate.unwrap_or_else(|| parse_quote!(::aether));
    let former = options.former;
    diagnostics.is_empty().then_some(Accepting { item, former, krate, has_default })
}

/// The path of serde's derive, if `attribute` is a derive with it.
fn deserialize(attribute: &Attribute) -> Option<Path> {
    if !attribute.path().is_ident("derive") {
        return None;
    }
    let derived = attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated).ok()?;
    derived.into_iter().find(|path| path.segments.last().is_some_and(|last| last.ident == "Deserialize"))
}

fn serde_options(attributes: &[Attribute]) -> Vec<Meta> {
    let options = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    let read = |attribute: &Attribute| {
        attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default()
    };
    options.flat_map(read).collect()
}

fn expand(accepting: Accepting) -> TokenStream {
    let Accepting { mut item, former, krate, has_default } = accepting;
    let name = item.ident.clone();
    let today = format_ident!("__AetherToday{name}");
    let shapes = format_ident!("__AetherShapes{name}");
    let taken = bodies(&item.data, &parse_quote!(#today), &parse_quote!(#name));
    let default = has_default.then(|| {
        let given = bodies(&item.data, &parse_quote!(#name), &parse_quote!(#today));
        quote! {
            impl ::core::default::Default for #today {
                fn default() -> Self {
                    match <#name as ::core::default::Default>::default() { #given }
                }
            }
        }
    });
    let derive =
        item.attrs.iter().find_map(deserialize).unwrap_or_else(|| parse_quote!(::serde::Deserialize));
    let serde = serde_options(&item.attrs).into_iter().filter(|meta| meta.path().is_ident("crate"));
    let serde: Vec<TokenStream> = serde.map(|meta| quote!(#[serde(#meta)])).collect();
    let read = quote!(#krate::__private::read_shapes).to_string().replace(' ', "");
    let from = shapes.to_string();
    let twin = twin(&item, &today, &derive);
    item.attrs.push(parse_quote!(#[serde(from = #from)]));
    let names = former.iter().map(|former| former.to_token_stream().to_string());
    quote! {
        #item
        #twin
        #[automatically_derived]
        impl ::core::convert::From<#today> for #name {
            fn from(today: #today) -> Self {
                match today { #taken }
            }
        }
        #default
        #[doc(hidden)]
        #[allow(dead_code, non_camel_case_types, missing_docs, missing_debug_implementations)]
        #[allow(missing_copy_implementations, unreachable_pub, unnameable_types, clippy::all, clippy::pedantic)]
        #[derive(#derive)]
        #(#serde)*
        #[serde(transparent)]
        struct #shapes(#[serde(deserialize_with = #read)] #name);
        #[automatically_derived]
        impl #krate::__private::Shaped for #name {
            type Today = #today;
            fn former() -> &'static [#krate::__private::Former<Self>] {
                &[#((#names, #krate::__private::former::<#former, #name>)),*]
            }
        }
        #[automatically_derived]
        impl ::core::convert::From<#shapes> for #name {
            fn from(shapes: #shapes) -> Self {
                shapes.0
            }
        }
    }
}

/// The item again, to be read as it is declared.
fn twin(item: &DeriveInput, today: &Ident, derive: &Path) -> DeriveInput {
    let mut twin = item.clone();
    let name = item.ident.to_string();
    twin.ident = today.clone();
    keep_serde(&mut twin.attrs);
    let renamed = serde_options(&item.attrs).iter().any(|meta| meta.path().is_ident("rename"));
    let options: Vec<Meta> =
        serde_options(&item.attrs).into_iter().filter(|meta| !meta.path().is_ident("into")).collect();
    twin.attrs.clear();
    twin.attrs.push(parse_quote!(#[doc(hidden)]));
    twin.attrs.push(parse_quote!(#[derive(#derive)]));
    if !options.is_empty() {
        twin.attrs.push(parse_quote!(#[serde(#(#options),*)]));
    }
    if !renamed {
        twin.attrs.push(parse_quote!(#[serde(rename = #name)]));
    }
    twin.attrs.push(parse_quote!(#[allow(dead_code, non_camel_case_types, missing_docs)]));
    twin.attrs.push(parse_quote!(#[allow(missing_debug_implementations, missing_copy_implementations)]));
    twin.attrs.push(parse_quote!(#[allow(unreachable_pub, unnameable_types, clippy::all, clippy::pedantic)]));
    let fields: Vec<&mut Fields> = match &mut twin.data {
        Data::Struct(data) => vec![&mut data.fields],
        Data::Enum(data) => data
            .variants
            .iter_mut()
            .map(|variant| {
                keep_serde(&mut variant.attrs);
                &mut variant.fields
            })
            .collect(),
        Data::Union(_) => Vec::new(),
    };
    fields.into_iter().flatten().for_each(|field| keep_serde(&mut field.attrs));
    twin
}

/// Drops the attributes of other derives.
fn keep_serde(attributes: &mut Vec<Attribute>) {
    attributes.retain(|attribute| attribute.path().is_ident("serde") || attribute.path().is_ident("cfg"));
}

/// The arms that make a `to` of a `from`, which has the same fields.
fn bodies(data: &Data, from: &Path, to: &Path) -> TokenStream {
    match data {
        Data::Struct(data) => arm(&quote!(#from), &quote!(#to), &data.fields),
        Data::Enum(data) => data
            .variants
            .iter()
            .map(|variant| {
                let name = &variant.ident;
                arm(&quote!(#from::#name), &quote!(#to::#name), &variant.fields)
            })
            .collect(),
        Data::Union(_) => TokenStream::new(),
    }
}

fn arm(from: &TokenStream, to: &TokenStream, fields: &Fields) -> TokenStream {
    match fields {
        Fields::Named(fields) => {
            let names: Vec<_> = fields.named.iter().filter_map(|field| field.ident.as_ref()).collect();
            quote!(#from { #(#names),* } => #to { #(#names),* },)
        }
        Fields::Unnamed(fields) => {
            let names: Vec<_> = (0..fields.unnamed.len()).map(|at| format_ident!("field{at}")).collect();
            quote!(#from(#(#names),*) => #to(#(#names),*),)
        }
        Fields::Unit => quote!(#from => #to,),
    }
}
