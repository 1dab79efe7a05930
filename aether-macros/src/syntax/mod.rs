//! What tokens and expressions say by themselves, whatever the attribute they stand under.
//!
//! Promise: imports nothing of this crate and judges nothing.

pub(crate) mod arguments;
pub(crate) mod awaits;
pub(crate) mod conditions;
pub(crate) mod known_macros;
pub(crate) mod operators;
pub(crate) mod paths;
pub(crate) mod plain_text;
pub(crate) mod span;
