//! The other attributes of an item, sorted by where they go.

use syn::{Attribute, Expr, Lit, Meta};

use crate::plan::Attrs;

/// Sorts the attributes of an item.
pub(crate) fn attributes(all: &[Attribute]) -> Attrs {
    let mut attrs = Attrs::default();
    for attr in all {
        let name = attr.path().get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "cfg" => attrs.cfgs.push(attr.clone()),
            "doc" => attrs.docs.push(attr.clone()),
            "deprecated" | "must_use" => attrs.call.push(attr.clone()),
            _ => attrs.body.push(attr.clone()),
        }
    }
    attrs.doc = doc_text(&attrs.docs.iter().collect::<Vec<_>>());
    attrs
}

/// The text of doc comments: one space in front of each line is not part of it.
pub(crate) fn doc_text(docs: &[&Attribute]) -> String {
    let lines: Vec<String> = docs.iter().filter_map(|attr| doc_line(attr)).collect();
    lines.join("\n").trim().to_owned()
}

fn doc_line(attr: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attr.meta else { return None };
    let Expr::Lit(literal) = &meta.value else { return None };
    let Lit::Str(text) = &literal.lit else { return None };
    let text = text.value();
    Some(text.strip_prefix(' ').unwrap_or(&text).to_owned())
}
