//! One call of a step's body, as a simulation writes it down.
//!
//! Promise: every call is written down, whether a stub or the real body answers it.

use aether_core::def::StepOptions;
use aether_core::id::{CommandId, IdempotencyKey, RunId};
use aether_core::payload::Payload;

/// One call of a body, real or not.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// Unique name of the step, or name of the effect.
    pub path: String,
    /// The run.
    pub run: RunId,
    /// The command.
    pub command: CommandId,
    /// Logical attempt, from 0.
    pub attempt: u32,
    /// How the step is executed.
    pub options: StepOptions,
    /// The arguments.
    pub args: Payload,
    /// The key that the outside would see.
    pub key: IdempotencyKey,
}
