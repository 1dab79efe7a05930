//! Hostile input: bytes that pretend to be journals, recordings and values, and what must hold for all of them.
//!
//! Promise of what is tried here: no input makes it panic, hang, or use memory out of proportion; a replay that may
//! execute nothing executes nothing. The targets panic when that is broken, and are for a fuzzer as well as for
//! [`Mutator`], which needs no tool.

mod mutate;
mod targets;

pub use mutate::{Mutator, seeds};
pub use targets::{decode_events, digest, replay};
