//! Executions: each attempt at a step, and each question to a person, with its contract and the history of its moves.
//!
//! Promise: an execution has an id of its own and one status machine; a move that the table does not have changes
//! nothing; the move that ended an execution stays in its history whatever else is dropped from it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::event::Event;
use crate::vocabulary::contract::{Constraints, IllegalTransition, Status, Trigger};
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId, Position};
use crate::vocabulary::outcome::EffectClass;

/// Most moves that the history of one execution keeps.
pub const HISTORY_CAP: usize = 50;

/// The engine, as an actor.
pub const ENGINE: &str = "engine";
/// The clock, as an actor: timers and expiries.
pub const CLOCK: &str = "clock";

/// Who resumes an execution whose outcome was reported from outside.
pub const CALLBACK: &str = "callback";

/// An event, and when it was appended.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedEvent {
    /// When, by the clock of the worker that appended it.
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
}

impl From<(Timestamp, Event)> for TimedEvent {
    fn from((at, event): (Timestamp, Event)) -> Self {
        Self { at, event }
    }
}

/// An event of which nobody knows when it was appended counts as of 1970.
impl From<Event> for TimedEvent {
    fn from(event: Event) -> Self {
        Self { at: Timestamp::UNIX_EPOCH, event }
    }
}

/// Where in a journal something happened, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTime {
    /// Number of the event.
    pub position: Position,
    /// When it was appended.
    pub at: Timestamp,
}

/// One move of one status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The status before.
    pub from: Status,
    /// The status after.
    pub to: Status,
    /// What made it move.
    pub trigger: Trigger,
    /// Who made it move: the engine or a worker, a person, a policy, the clock.
    pub actor: String,
    /// When, and by which event.
    pub moment: EventTime,
}

/// A status with the history of its moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// Where it stands.
    pub status: Status,
    /// When it became known.
    pub created: EventTime,
    /// When it last moved.
    pub updated_at: Timestamp,
    /// Its moves, oldest first, at most [`HISTORY_CAP`].
    pub transitions: Vec<Transition>,
    /// How many older moves were dropped.
    pub dropped: u32,
}

impl Lifecycle {
    /// Pending, from `created` on.
    pub fn new(created: EventTime) -> Self {
        let updated_at = created.at;
        Self { status: Status::Pending, created, updated_at, transitions: Vec::new(), dropped: 0 }
    }

    /// Moves.
    ///
    /// # Errors
    /// [`IllegalTransition`] when the table has no such move; then nothing changes.
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
    /// To do what a step asks for.
    Call,
    /// To ask a person whether a step may be done.
    Approval,
}

/// One execution: its contract, which never changes, and its lifecycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Its id, unique in its run.
    pub id: InvocationId,
    /// The command it belongs to; what is to be done stands there.
    pub command: CommandId,
    /// What it is for.
    pub purpose: Purpose,
    /// What kind of contact with the world it is.
    pub class: EffectClass,
    /// What it may do.
    pub constraints: Constraints,
    /// The stable name the outside world sees, for world-changing executions that were started.
    pub key: Option<IdempotencyKey>,
    /// Its status and moves.
    pub lifecycle: Lifecycle,
    /// Whether it is known to have changed the world.
    pub world_changed: bool,
    /// Why it did not succeed, as far as it is not in the step's result.
    pub error: Option<String>,
    /// Who decided about it, where that was not the engine.
    pub decided_by: Option<String>,
}

impl Execution {
    /// The id of the execution that asks a person whether `command` may be done.
    pub fn approval_id(command: &CommandId) -> InvocationId {
        InvocationId::from(format!("{command}#approval"))
    }
}
