//! What `--json` prints: types with a JSON Schema each.
//!
//! Promise: fields are added and never change their meaning; times are RFC 3339, names are those of the engine.

pub(crate) mod code;
pub(crate) mod errors;
pub(crate) mod files;
pub(crate) mod hold;
pub(crate) mod queues;
pub(crate) mod runs;
pub(crate) mod schemas;
pub(crate) mod steering;
pub(crate) mod waits;
