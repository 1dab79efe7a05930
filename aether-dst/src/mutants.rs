//! Known faults that can be put back, to see that the exploration finds them.
//!
//! Promise: without a choice none is on.

use std::sync::OnceLock;

static ON: OnceLock<String> = OnceLock::new();

/// Puts a fault back, for this process.
pub fn put_back(fault: &str) {
    let _only_one = ON.set(fault.to_owned());
}

/// Whether this fault is put back.
pub fn is_on(fault: &str) -> bool {
    ON.get().is_some_and(|on| on == fault)
}
