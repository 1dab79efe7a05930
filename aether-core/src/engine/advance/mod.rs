//! One run from its claim to its end: loading, polling, ending, undoing, releasing.
//!
//! Promise: a fault of one run does not affect the others. Imports `workflow` and below, and the engine's state.

pub(crate) mod completion;
pub(crate) mod drive;
pub(crate) mod forking;
mod late_child;
pub(crate) mod launch;
pub(crate) mod load;
pub(crate) mod place;
pub(crate) mod read;
pub(crate) mod renewal;
pub(crate) mod unread;
pub(crate) mod unwinding;
