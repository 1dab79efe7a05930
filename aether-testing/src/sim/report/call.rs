//! One call of a step's body, as a simulation writes it down.
//!
//! Promise: every call is written down, whether a stub or the real body answers it.

use aether_core::definition::def::StepOptions;
use aether_core::id::{CommandId, IdempotencyKey, RunId};
use aether_core::payload::Payload;

/// One call of a body, real or not.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// Unique name of the step, or name of the effect, such as `http.get`.
    pub path: String,
    /// The run that called; it may be a child of the simulated one.
    pub run: RunId,
    /// The command that called: its place in the run, and the name.
    pub command: CommandId,
    /// Which attempt at the step it is, from 0; a crash does not count as one.
    pub attempt: u32,
    /// The options of the step: its class, policies and timeout.
    pub options: StepOptions,
    /// The arguments, as they stand in the journal.
    pub args: Payload,
    /// The idempotency key that a system outside would see.
    pub key: IdempotencyKey,
}
