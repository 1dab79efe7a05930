//! The view of one run: plain values, folded from its journal.

use crate::view::ending::Ending;
use crate::view::execution::{Execution, Lifecycle};
use crate::view::window::Window;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::event::uncompensated::Uncompensated;
use crate::journal::event::{RunParked, StateChanged, StateConfirmed};
use crate::journal::spending::Spending;
use crate::run::renewal::ADVICE;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId, Position, RunId};
use crate::vocabulary::limits::near;
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::Payload;

/// The view of one run, folded from its journal: its status, steps, effects, executions and result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunView {
    /// Id of the run.
    pub run: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// Version of the workflow's definition when its present generation began.
    pub version: u32,
    /// Input of its workflow.
    pub input: Option<Payload>,
    /// Its current status.
    pub status: Status,
    /// Who asked it to end, while it is still open: it is in its grace period, or its steps are being undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// Why it is parked: it does not fit the code that tried it, and waits for code that it fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<RunParked>,
    /// The history of its status.
    pub lifecycle: Lifecycle,
    /// Its steps and other commands, in the order in which they first appear: all, or those of one page, see
    /// [`RunView::page`].
    pub steps: Vec<StepView>,
    /// Every effect that has an outcome, in the order of the outcomes.
    pub effects: Vec<EffectRecord>,
    /// Position of the next event: the number of events in all generations.
    pub position: Position,
    /// How often its workflow continued as new. Steps, effects and executions are those of this generation.
    #[serde(default)]
    pub generation: u32,
    /// How long the journal of this generation is.
    #[serde(default)]
    pub history: HistoryUse,
    /// Result or error, once it ended.
    pub result: Option<Result<Payload, Payload>>,
    /// Steps that could not be undone.
    #[serde(default)]
    pub uncompensated: Vec<Uncompensated>,
    /// Transitions that the table does not have; empty unless a journal was tampered with.
    pub illegal: Vec<String>,
    /// Every execution of every step, in the order in which their contracts were made.
    pub executions: Vec<Execution>,
    /// Position of the first event of this generation.
    #[serde(default)]
    pub(super) began: Position,
    #[serde(default)]
    pub(super) spending: Spending,
    pub(super) index: BTreeMap<String, usize>,
    /// The newest execution of each command, and of each approval.
    pub(super) newest: BTreeMap<String, usize>,
    /// Executions that have not ended.
    pub(super) open: BTreeSet<usize>,
    /// The worker that advances the run, as an actor.
    pub(super) worker: String,
    /// Which steps are kept, where not all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) window: Option<Window>,
}

/// How much of the longest journal that an engine allows a run has used.
///
/// ```
/// use aether_core::view::HistoryUse;
/// let used = HistoryUse { events: 850, limit: Some(1_000) };
/// assert!(used.warning().is_some_and(|text| text.contains("continue_as_new")));
/// assert_eq!(HistoryUse { events: 10, ..used }.warning(), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryUse {
    /// Number of events in the present journal.
    pub events: u64,
    /// The most that the engine which made the view allows; `None` for a view that was made without an engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

impl HistoryUse {
    /// What to tell people when the journal has reached four fifths of its limit.
    pub fn warning(&self) -> Option<String> {
        let limit = self.limit.filter(|limit| self.events >= near(*limit))?;
        let events = self.events;
        Some(format!("the journal has {events} of at most {limit} events: {ADVICE}"))
    }
}

/// The view of one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepView {
    /// Id of the command.
    pub command: CommandId,
    /// What kind of contact with the world it is.
    pub class: EffectClass,
    /// Its current status.
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
    /// Number of attempts that were started, as far as the journal shows.
    pub attempts: u32,
    /// When the next attempt is due, while one is.
    #[serde(default)]
    pub retry_due: Option<Timestamp>,
    /// How the newest attempt failed, while another one is due or being made.
    #[serde(default)]
    pub last_failure: Option<LastFailure>,
    /// The newest invocation, for world-changing steps.
    pub invocation: Option<InvocationId>,
    /// Its idempotency key.
    pub key: Option<IdempotencyKey>,
    /// Whether it was started and its outcome is unknown.
    pub in_doubt: bool,
    /// Where in the source it was awaited.
    pub site: Option<String>,
    /// Whether `node_finished` was written.
    pub finished: bool,
    /// The resources it reported as changed, in order.
    pub changes: Vec<StateChanged>,
    /// The result of every later inspection of those resources, in order.
    pub confirmations: Vec<StateConfirmed>,
}

/// How an attempt failed after which another one is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastFailure {
    /// When it was recorded.
    pub at: Timestamp,
    /// The step error.
    pub error: Payload,
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
    /// Id of the command.
    pub command: CommandId,
    /// What kind of effect it is.
    pub class: EffectClass,
    /// What was sent or asked: its arguments.
    pub input: Option<Payload>,
    /// What was returned: a value, or a step error.
    pub output: Result<Payload, Payload>,
    /// What the outcome means: for the workflow and for the world.
    pub outcome: Outcome,
}
