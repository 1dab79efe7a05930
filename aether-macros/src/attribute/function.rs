//! The two phases behind parsing, for one function.

use crate::check::item::check;
use crate::expand::code::Expansion;
use crate::expand::item::{expand_plan, expand_rejected};
use crate::parse::item::Parsed;

/// The code of a function, or its mistakes and a stub.
pub(crate) fn check_and_expand(parsed: Parsed) -> Expansion {
    match check(parsed) {
        Ok(plan) => expand_plan(&plan),
        Err(rejected) => expand_rejected(&rejected),
    }
}
