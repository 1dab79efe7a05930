//! Keyed starts: one run per key, one per window, the last input of several starts, many inputs in one run.
//!
//! Promise: each start is decided by one compare-and-swap of the record of its key, in which everything stands that is
//! needed to create the run. So whoever finds a decided record completes it, and a crash between any two writes loses
//! no start that was answered and starts no run twice.

pub(crate) mod due;
pub(crate) mod key;
pub(crate) mod record;
pub(crate) mod start;

mod batch;
mod complete;

pub use key::{KeyError, Singleton};
