//! What the macros generate from a program: workflows as state machines, steps with their options, and drawings.
//!
//! Promise: static data that executes nothing. Imports `vocabulary`.

pub mod def;
pub(crate) mod diff;
mod graph;
pub(crate) mod linked;
pub(crate) mod owned;

pub use diff::diff;
pub use diff::report::{DefinitionDiff, Difference, PlaceDiff, RaisedMark, Site, Verdict};
pub use linked::{LinkedCode, combined_fingerprint};
pub use owned::{DefinedAllow, DefinedChange, DefinedCode, DefinedState, Definition, DefinitionError};
