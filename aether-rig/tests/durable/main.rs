//! An agent of rig in a workflow, killed at every write: the provider and the tools count what they were asked for.
//!
//! Provider and tools are one real HTTP server on loopback, in the wire format of OpenAI, which counts by itself.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod crashes;
mod doubt;
mod kills;
mod kit;
mod parity;
mod refusals;
