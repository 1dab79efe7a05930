//! Agents of [rig](https://docs.rs/rig-agent) as durable runs: `cx.rig("support").prompt("..")`.
//!
//! Promise: an agent that was built for rig runs unchanged. Its sans-I/O protocol is driven by the workflow; every model
//! call and every tool call is one recorded command, so a replay makes none, and a tool whose answer was lost is not called
//! again. What an agent has that could not be recorded is refused, and never left out.

pub mod agents;
pub mod contract;
pub mod error;
pub mod prompt;
pub mod settings;

mod drive;
mod model;
mod tool;

pub use agents::RigAgents;
pub use contract::Contract;
pub use error::{ModelFailed, Refused};
pub use prompt::{CxRig, RigPrompt};
/// The version of rig that this crate drives.
pub use rig_agent;
pub use settings::Settings;
pub use tool::IdempotencyKey;

/// The page of the documentation, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rig.md")]
mod page {}
