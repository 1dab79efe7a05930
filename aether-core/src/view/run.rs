//! What a journal says of a run, as values.

use crate::view::execution::{Execution, Lifecycle};
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::event::uncompensated::Uncompensated;
use crate::journal::event::{StateChanged, StateConfirmed};
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId, Position, RunId};
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::Payload;

/// One run as its journal tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunView {
    /// The run.
    pub run: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// Version of the workflow's definition when it was created.
    pub version: u32,
    /// Its input.
    pub input: Option<Payload>,
    /// Where it stands.
    pub status: Status,
    /// How it came to stand there.
    pub lifecycle: Lifecycle,
    /// Its steps and other commands, in the order in which they first appear.
    pub steps: Vec<StepView>,
    /// Everything that crossed the border of the run, in order.
    pub effects: Vec<EffectRecord>,
    /// Number of events folded.
    pub position: Position,
    /// Result or error, once it ended.
    pub result: Option<Result<Payload, Payload>>,
    /// Steps that could not be undone.
    #[serde(default)]
    pub uncompensated: Vec<Uncompensated>,
    /// Moves of a status that the table does not have; empty unless a journal was tampered with.
    pub illegal: Vec<String>,
    /// Every execution of every step, in the order in which their contracts were made.
    pub executions: Vec<Execution>,
    pub(super) index: BTreeMap<String, usize>,
    /// The newest execution of each command, and of each approval.
    pub(super) newest: BTreeMap<String, usize>,
    /// Executions that have not ended.
    pub(super) open: BTreeSet<usize>,
    /// Who advances the run.
    pub(super) worker: String,
}

/// One command as the journal tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepView {
    /// The command.
    pub command: CommandId,
    /// What kind of contact with the world it is.
    pub class: EffectClass,
    /// Where it stands.
    pub status: Status,
    /// Its outcome, once it has one.
    pub outcome: Option<Outcome>,
    /// Its arguments, as the workflow asked for them.
    pub input: Option<Payload>,
    /// Its arguments, as a person edited them before agreeing to the call.
    #[serde(default)]
    pub edited: Option<Payload>,
    /// Its value, or its step error.
    pub result: Option<Result<Payload, Payload>>,
    /// Attempts that were begun, as far as the journal tells.
    pub attempts: u32,
    /// When the next attempt is due, while one is.
    #[serde(default)]
    pub retry_due: Option<Timestamp>,
    /// The newest invocation, for world-changing steps.
    pub invocation: Option<InvocationId>,
    /// Its idempotency key.
    pub key: Option<IdempotencyKey>,
    /// Nobody knows whether it happened.
    pub in_doubt: bool,
    /// Where in the source it was awaited.
    pub site: Option<String>,
    /// Whether `node_finished` was written.
    pub finished: bool,
    /// The resources it reported as changed, in order.
    pub changes: Vec<StateChanged>,
    /// What every look at them since came to, in order.
    pub confirmations: Vec<StateConfirmed>,
}

impl StepView {
    /// Whether the step is known to have changed the world.
    pub fn world_changed(&self) -> bool {
        self.outcome == Some(Outcome::SideEffectCommitted)
    }
}

/// One effect, as recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectRecord {
    /// Number of the event that holds its outcome.
    pub position: Position,
    /// The command.
    pub command: CommandId,
    /// What kind of effect it is.
    pub class: EffectClass,
    /// What went out.
    pub input: Option<Payload>,
    /// What came back: a value, or a step error.
    pub output: Result<Payload, Payload>,
    /// What it means for the world.
    pub outcome: Outcome,
}
