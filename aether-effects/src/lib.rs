//! Contact with the world, recorded: HTTP, language models, agents, and the real clock.
//!
//! Promise: every exchange goes through the effect gate of `aether-core`, so a replay makes none; secrets never reach
//! the journal; a malformed, hanging or lost answer is a typed error and never a panic.

pub mod agent;
pub mod cassette;
mod defaults;
pub mod environment;
mod holds;
pub mod http;
pub mod llm;
mod model;
mod plain_file;
#[doc(hidden)]
pub mod recorded_error;
pub mod resource;
pub mod retry_after;
pub mod secret;
