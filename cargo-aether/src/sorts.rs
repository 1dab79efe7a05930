//! Whether a sort leaves nothing of the order of a hash map: it does where it tells all entries apart, by their keys.
//!
//! Promise: what MIR does not tell does not count.

use crate::graph::nodes::Id;
use crate::mir::told::{Oddity, Part};
use crate::names::{Name, arguments};
use crate::order::{adapter, sorts_by_closure};
use crate::program::Program;

/// Whether `sort`, which `from` calls, compares whole elements or the keys of one of the collections that `from` goes through:
/// of equal keys there are none, so that no two entries are left in the order in which they came.
pub(crate) fn sorts_by_keys(program: &Program<'_>, from: Id, sort: Id, walked: &[Id]) -> bool {
    let name = &program.named(sort).name;
    if !sorts_by_closure(name) {
        return false;
    }
    let closure = name.own_arguments().last().copied().unwrap_or_default();
    let compared: Vec<Part> = program.told_of(closure).filter_map(Oddity::compared).collect();
    compared.contains(&Part::Whole)
        || keys(program, from, name, walked).iter().any(|part| compared.contains(part))
}

/// The parts of the sorted elements that are keys of a hash map.
fn keys(program: &Program<'_>, from: Id, sort: &Name, walked: &[Id]) -> Vec<Part> {
    let of = sort.of_type().unwrap_or_default();
    let Some(element) = of.strip_prefix('[').and_then(|of| of.strip_suffix(']')) else {
        return keys_in(program, of);
    };
    let names = || program.graph.named_by(from).iter().map(|(to, _)| &program.named(*to).name);
    let makers: Vec<(&str, &str)> =
        names().filter_map(|name| maker(program, name)).filter(|(made, _)| *made == element).collect();
    if !makers.is_empty() {
        // Each of them may have made the elements.
        let kept = makers.into_iter().map(|(_, closure)| kept(program, closure));
        return kept
            .reduce(|a, b| a.into_iter().filter(|part| b.contains(part)).collect())
            .unwrap_or_default();
    }
    let pushed: Vec<Part> = program.told_by_mir(from).iter().filter_map(|told| told.kept()).collect();
    if !pushed.is_empty() {
        return pushed;
    }
    let is_entry = |walk: &Id| {
        let Some((key, Some(value))) = program.named(*walk).name.keys_and_values() else { return false };
        // Of two of one type, no name says which is first.
        bare(key) != bare(value) && pair(element) == Some((bare(key), bare(value)))
    };
    if walked.iter().any(is_entry) { vec![Part::Field(0)] } else { Vec::new() }
}

/// What a call of `map` on the entries of a hash map makes, and the closure that makes it.
fn maker<'n>(program: &Program<'_>, name: &'n Name) -> Option<(&'n str, &'n str)> {
    if !name.path.ends_with("core::iter::traits::iterator::Iterator>::map") {
        return None;
    }
    let arguments = name.own_arguments();
    let [made, closure] = arguments.as_slice() else { return None };
    keys_in(program, name.of_type()?).contains(&Part::Field(0)).then_some((*made, *closure))
}

/// The parts of what an iterator gives that are keys of a hash map.
fn keys_in(program: &Program<'_>, iterator: &str) -> Vec<Part> {
    // Elements that are left out are the same ones each time.
    const AS_THEY_ARE: [&str; 5] = ["filter", "rev", "inspect", "peekable", "fuse"];
    match adapter(iterator) {
        Some(("map", of)) => {
            let inner = arguments(of);
            let [of, closure] = inner.as_slice() else { return Vec::new() };
            let has_keys = keys_in(program, of.trim()).contains(&Part::Field(0));
            if has_keys { kept(program, closure.trim()) } else { Vec::new() }
        }
        Some((name, of)) if AS_THEY_ARE.contains(&name) => {
            arguments(of).first().map(|of| keys_in(program, of.trim())).unwrap_or_default()
        }
        Some(_) => Vec::new(),
        None => {
            let head = iterator.split('<').next().unwrap_or_default();
            let is_of_entries = ["hash::map::", "hashbrown::map::"].iter().any(|of| head.contains(of))
                && ["::Iter", "::IntoIter", "::IterMut", "::Drain"].iter().any(|of| head.ends_with(of));
            if is_of_entries { vec![Part::Field(0)] } else { Vec::new() }
        }
    }
}

/// Where a closure that is given an entry keeps its key.
fn kept(program: &Program<'_>, closure: &str) -> Vec<Part> {
    program.told_of(closure).filter_map(Oddity::kept).collect()
}

/// The two types of a pair, without borrows.
fn pair(ty: &str) -> Option<(&str, &str)> {
    let parts = arguments(ty.strip_prefix('(')?);
    let [first, second] = parts.as_slice() else { return None };
    Some((bare(first), bare(second)))
}

/// A type behind its borrows.
fn bare(ty: &str) -> &str {
    ty.trim_start_matches(['&', ' ']).trim_start_matches("mut ").trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_pair_of_key_and_value() {
        assert_eq!(pair("(&str, &mut a::B<u8, u8>)"), Some(("str", "a::B<u8, u8>")));
        assert_eq!(pair("(u8, u8, u8)"), None);
        assert_eq!(pair("alloc::string::String"), None);
    }
}
