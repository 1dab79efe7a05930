//! What is wrong with an item, told so that it can be mended: a catalogue of codes, and reports that name them.
//!
//! Promise: imports nothing of this crate.

pub(crate) mod code;
pub(crate) mod report;
pub(crate) mod suggestion;
