//! How sure it is that something is a mistake.

use crate::diagnostics::code::Code;

/// How sure a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Always a mistake.
    Wrong(&'static Code),
    /// Mostly a mistake.
    Suspicious(&'static Code),
}
