//! How many fields the structs of a crate have, and which orders of theirs leave some out.
//!
//! Promise: a struct that no function of the crate makes has no number of fields, and its order none that is left out.

use std::collections::{BTreeSet, HashMap};

use crate::mir::text::{Function, blocks, last, local, locals};

/// The structs that functions make: by their last name, the smallest number of fields that one of this name has.
pub(super) struct Made<'a>(HashMap<&'a str, usize>);

impl<'a> Made<'a> {
    pub(super) fn of(functions: &[Function<'a>]) -> Self {
        let mut made = HashMap::new();
        for (name, fields) in functions.iter().flat_map(|function| function.body.lines()).filter_map(made_in)
        {
            made.entry(name).and_modify(|known: &mut usize| *known = (*known).min(fields)).or_insert(fields);
        }
        Self(made)
    }

    /// Whether a function is the `cmp` of a struct and reads only some of its fields: of two that differ in the others, none
    /// comes first.
    pub(super) fn compares_in_part(&self, function: &Function<'_>) -> bool {
        let is_order =
            function.head.contains(">::cmp(_1: ") && function.head.ends_with("std::cmp::Ordering {");
        let name = function.argument(1).map(name_of).filter(|_| is_order);
        let Some(fields) = name.and_then(|name| self.0.get(name)) else { return false };
        let mut read = BTreeSet::new();
        for line in blocks(function.body).iter().flat_map(|block| &block.lines) {
            let of_fields: Vec<&str> =
                line.match_indices("((*_1).").map(|(at, mark)| &line[at + mark.len()..]).collect();
            if of_fields.len() != locals(line).filter(|of| *of == 1).count() {
                return false;
            }
            read.extend(of_fields.into_iter().filter_map(|of| of.split_once(':')?.0.parse::<usize>().ok()));
        }
        !read.is_empty() && read.len() < *fields
    }
}

/// The struct that a line makes of operands for its fields, and how many there are.
fn made_in(line: &str) -> Option<(&str, usize)> {
    let (to, value) = line.trim().strip_suffix(';')?.split_once(" = ")?;
    local(to)?;
    let is_operand = |of: &&str| ["copy ", "move ", "const "].iter().any(|kind| of.starts_with(kind));
    let (name, count) = match value.strip_suffix(" }").and_then(|made| made.split_once(" { ")) {
        Some((name, fields)) => (
            name,
            fields.split(", ").filter_map(|of| of.split_once(": ")).filter(|(_, of)| is_operand(of)).count(),
        ),
        None => {
            let (name, operands) = value.strip_suffix(')')?.split_once('(')?;
            (name, operands.split(", ").filter(is_operand).count())
        }
    };
    let name = name_of(name);
    // Variants of an enum are none, and neither is what is computed.
    let is_struct = name.starts_with(char::is_uppercase) && !value.starts_with('{') && count > 0;
    is_struct.then_some((name, count))
}

/// The last name of a type, without its arguments.
fn name_of(ty: &str) -> &str {
    last(ty.split('<').next().unwrap_or(ty).trim_end_matches("::"))
}
