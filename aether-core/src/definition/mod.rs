//! What the macros generate from a program: workflows as state machines, steps with their options, and drawings.
//!
//! Promise: static data that executes nothing. Imports `vocabulary`.

pub mod def;
mod graph;
pub(crate) mod linked;

pub use linked::{LinkedCode, combined_fingerprint};
