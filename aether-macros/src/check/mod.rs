//! Phase two: every rule, every mistake.
//!
//! Promise: [`item::check`] is the only way to a plan. Imports `parse`, `flow` and what lies below them.

mod body;
pub(crate) mod item;
pub(crate) mod options;
mod signature;
