//! The arguments.
//!
//! Promise: plain data; what a command does with them is said in `commands/`.

pub(crate) mod command;
pub(crate) mod inbox;
pub(crate) mod queues;
pub(crate) mod runs;
pub(crate) mod store;
