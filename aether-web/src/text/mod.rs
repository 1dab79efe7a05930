//! What pages say of values: JSON with colours, times, durations, and what differs between two texts.
//!
//! Promise: every text of a run is escaped, and cut at 64 KiB with a note of how much is left out; what somebody decides
//! about is cut at 1 MiB.

pub(crate) mod difference;
pub(crate) mod exact;
pub(crate) mod json;
pub(crate) mod markup;
pub(crate) mod time;
