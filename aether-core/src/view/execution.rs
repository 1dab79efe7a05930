//! Executions: each attempt at a step, and each question to a person, with its contract and the history of its transitions.
//!
//! Promise: an execution has an id of its own and one status machine; a transition that the table does not have
//! changes nothing; the transition that ended an execution is never dropped from its history.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::event::Event;
use crate::vocabulary::contract::{Constraints, IllegalTransition, Status, Trigger};
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId, Position};
use crate::vocabulary::outcome::EffectClass;

/// Most transitions that the history of one execution keeps.
pub const HISTORY_CAP: usize = 50;

/// The actor of what the engine does by itself.
pub const ENGINE: &str = "engine";
/// The actor of timers and expiries: the clock.
pub const CLOCK: &str = "clock";

/// The actor that resumes an execution whose outcome was reported by a callback.
pub const CALLBACK: &str = "callback";

/// An event with the time at which it was appended.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedEvent {
    /// Time of the append, by the clock of the worker that appended it.
    pub at: Timestamp,
    /// The event.
    pub event: Event,
}

impl From<(Timestamp, Event)> for TimedEvent {
    fn from((at, event): (Timestamp, Event)) -> Self {
        Self { at, event }
    }
}

/// An event without a known time counts as appended in 1970.
impl From<Event> for TimedEvent {
    fn from(event: Event) -> Self {
        Self { at: Timestamp::UNIX_EPOCH, event }
    }
}

/// Position of an event in its journal, and the time of its append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTime {
    /// Number of the event in the journal, from 0.
    pub position: Position,
    /// When it was appended.
    pub at: Timestamp,
}

/// One transition of one status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The status before.
    pub from: Status,
    /// The status after.
    pub to: Status,
    /// What caused the transition.
    pub trigger: Trigger,
    /// Who caused it: the engine or a worker, a person, a policy, the clock.
    pub actor: String,
    /// Time and event of the transition.
    pub moment: EventTime,
}

/// A status with the history of its transitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// The current status.
    pub status: Status,
    /// When it was created.
    pub created: EventTime,
    /// When the status last changed.
    pub updated_at: Timestamp,
    /// Its transitions, oldest first, at most [`HISTORY_CAP`].
    pub transitions: Vec<Transition>,
    /// How many older transitions were dropped.
    pub dropped: u32,
}

impl Lifecycle {
    /// A lifecycle that is pending since `created`.
    pub fn new(created: EventTime) -> Self {
        let updated_at = created.at;
        Self { status: Status::Pending, created, updated_at, transitions: Vec::new(), dropped: 0 }
    }

    /// Makes the transition that `trigger` causes.
    ///
    /// # Errors
    /// [`IllegalTransition`] when the table has no such transition; then nothing changes.
    pub fn go(&mut self, trigger: Trigger, actor: &str, moment: EventTime) -> Result<(), IllegalTransition> {
        let (from, to) = (self.status, self.status.after(trigger)?);
        if self.transitions.len() >= HISTORY_CAP {
            self.transitions.remove(0);
            self.dropped += 1;
        }
        self.transitions.push(Transition { from, to, trigger, actor: actor.to_owned(), moment });
        self.status = to;
        self.updated_at = moment.at;
        Ok(())
    }
}

/// What an execution is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To make the call that a step asks for.
    Call,
    /// To ask a person for consent to a step's call.
    Approval,
}

/// One execution: its contract, which never changes, and its lifecycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Its id, unique in its run.
    pub id: InvocationId,
    /// The command it belongs to, which holds the arguments.
    pub command: CommandId,
    /// Whether it makes the call, or asks for consent to it.
    pub purpose: Purpose,
    /// What kind of contact with the world it is.
    pub class: EffectClass,
    /// What it may do: its timeout, its attempts, whether it is irreversible.
    pub constraints: Constraints,
    /// The idempotency key, for world-changing executions that were started.
    pub key: Option<IdempotencyKey>,
    /// Its status, with the history of its transitions.
    pub lifecycle: Lifecycle,
    /// Whether it is known to have changed the world.
    pub world_changed: bool,
    /// Why it did not succeed, where the step's result does not hold that.
    pub error: Option<String>,
    /// Who decided about it, where it was not the engine.
    pub decided_by: Option<String>,
}

impl Execution {
    /// The id of the execution that asks a person for consent to `command`.
    pub fn approval_id(command: &CommandId) -> InvocationId {
        InvocationId::from(format!("{command}#approval"))
    }
}
