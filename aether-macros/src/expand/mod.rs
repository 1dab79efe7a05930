//! Phase three: a plan to code.
//!
//! Promise: cannot fail, and emits thin code: names, literals and calls of `aether::__private`. Imports `plan` and what
//! lies below it.

pub(crate) mod arguments;
pub(crate) mod body;
pub(crate) mod code;
pub(crate) mod declarations;
pub(crate) mod definition;
pub(crate) mod item;
pub(crate) mod names;
pub(crate) mod step;
#[cfg(test)]
mod tests;
pub(crate) mod workflow;
