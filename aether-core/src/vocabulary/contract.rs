//! The status machine of step executions and of runs: seven statuses and one visible table of moves; and the immutable
//! contract of one execution.
//!
//! Promise: a move that is not in the table is an error and changes nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::vocabulary::id::{IdempotencyKey, InvocationId};
use crate::vocabulary::outcome::EffectClass;

/// Status of a run or of a step execution.
///
/// ```
/// use aether_core::contract::{Status, Trigger};
/// assert_eq!(Status::Running.after(Trigger::Suspend)?, Status::Waiting);
/// assert!(Status::Completed.is_terminal());
/// assert!(Status::Completed.after(Trigger::Start).is_err());
/// # Ok::<(), aether_core::contract::IllegalTransition>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Created, not yet started.
    Pending,
    /// Being advanced.
    Running,
    /// Suspended until a timer fires, a message arrives or a person answers.
    Waiting,
    /// Ended with a value.
    Completed,
    /// Ended with an error.
    Failed,
    /// Refused by a person or a rule.
    Rejected,
    /// Ended on request, or because a wait expired.
    Cancelled,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Running,
        Self::Waiting,
        Self::Completed,
        Self::Failed,
        Self::Rejected,
        Self::Cancelled,
    ];

    /// Whether no move leads out of this status.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Rejected | Self::Cancelled)
    }

    /// The name in the journal and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads the name written by [`Status::as_str`].
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// A text that is no [`Status`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no status: one of {names}", names = Status::ALL.map(Status::as_str).join(", "))]
pub struct UnknownStatus(pub String);

impl std::str::FromStr for Status {
    type Err = UnknownStatus;
    fn from_str(name: &str) -> Result<Self, UnknownStatus> {
        Self::parse(name).ok_or_else(|| UnknownStatus(name.to_owned()))
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What makes an execution move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Work begins.
    Start,
    /// The body returned a value.
    Succeed,
    /// The body returned an error.
    Fail,
    /// A person or a rule refused it.
    Reject,
    /// It waits for a timer, a message or a person.
    Suspend,
    /// What it waited for has arrived.
    Resume,
    /// A caller or an operator requested its end.
    Cancel,
    /// A wait passed its time limit.
    Timeout,
}

impl Trigger {
    /// Every trigger.
    pub const ALL: [Self; 8] = [
        Self::Start,
        Self::Succeed,
        Self::Fail,
        Self::Reject,
        Self::Suspend,
        Self::Resume,
        Self::Cancel,
        Self::Timeout,
    ];

    /// The name in a trace.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Succeed => "succeed",
            Self::Fail => "fail",
            Self::Reject => "reject",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
            Self::Timeout => "timeout",
        }
    }
}

/// A move that the table does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("illegal transition: {trigger:?} is not possible from status `{from}`")]
pub struct IllegalTransition {
    /// The current status, which stays.
    pub from: Status,
    /// The trigger that the table does not have for it.
    pub trigger: Trigger,
}

impl Status {
    /// The status after `trigger`.
    ///
    /// # Errors
    /// [`IllegalTransition`] when the table has no such move.
    pub const fn after(self, trigger: Trigger) -> Result<Self, IllegalTransition> {
        Ok(match (self, trigger) {
            (Self::Pending, Trigger::Start) => Self::Running,
            (Self::Pending, Trigger::Cancel) => Self::Cancelled,
            (Self::Pending, Trigger::Reject) => Self::Rejected,
            (Self::Running, Trigger::Succeed) => Self::Completed,
            (Self::Running, Trigger::Fail) => Self::Failed,
            (Self::Running, Trigger::Reject) => Self::Rejected,
            (Self::Running, Trigger::Cancel) => Self::Cancelled,
            (Self::Running, Trigger::Suspend) => Self::Waiting,
            (Self::Waiting, Trigger::Resume) => Self::Running,
            (Self::Waiting, Trigger::Cancel | Trigger::Timeout) => Self::Cancelled,
            (Self::Waiting, Trigger::Reject) => Self::Rejected,
            (from, trigger) => return Err(IllegalTransition { from, trigger }),
        })
    }
}

/// The constraints of one execution, as they are recorded in the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraints {
    /// Whether a completed execution must not be repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub irreversible: bool,
    /// How long one attempt may take, in milliseconds; absent where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Attempts in all, the first included; absent where there is one, and where they are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// For how long attempts are made, in milliseconds; absent where no time limits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience_ms: Option<u64>,
}

impl Constraints {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The identity and the constraints of one execution of a step; see `StepCx::contract`. Made by the engine, and
/// read-only.
#[derive(Clone, Debug, PartialEq)]
pub struct Contract {
    execution: InvocationId,
    action: EffectClass,
    irreversible: bool,
    key: IdempotencyKey,
    timeout: Option<Duration>,
}

impl Contract {
    pub(crate) fn new(
        execution: InvocationId,
        key: IdempotencyKey,
        action: EffectClass,
        irreversible: bool,
        timeout: Option<Duration>,
    ) -> Self {
        Self { execution, action, irreversible, key, timeout }
    }

    /// Id of this execution inside its run.
    pub fn execution_id(&self) -> &InvocationId {
        &self.execution
    }

    /// Effect class of the step.
    pub fn action_type(&self) -> EffectClass {
        self.action
    }

    /// Whether a completed execution must not be repeated. Declared by the step; a caller cannot lower it.
    pub fn irreversible(&self) -> bool {
        self.irreversible
    }

    /// The idempotency key to give to the receiver.
    pub fn idempotency_key(&self) -> &IdempotencyKey {
        &self.key
    }

    /// How long one attempt may take; `None` for no limit.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::id::CommandId;
    use crate::vocabulary::id::RunId;

    const MOVES: [(Status, Trigger, Status); 12] = [
        (Status::Pending, Trigger::Start, Status::Running),
        (Status::Pending, Trigger::Cancel, Status::Cancelled),
        (Status::Pending, Trigger::Reject, Status::Rejected),
        (Status::Running, Trigger::Succeed, Status::Completed),
        (Status::Running, Trigger::Fail, Status::Failed),
        (Status::Running, Trigger::Reject, Status::Rejected),
        (Status::Running, Trigger::Cancel, Status::Cancelled),
        (Status::Running, Trigger::Suspend, Status::Waiting),
        (Status::Waiting, Trigger::Resume, Status::Running),
        (Status::Waiting, Trigger::Cancel, Status::Cancelled),
        (Status::Waiting, Trigger::Timeout, Status::Cancelled),
        (Status::Waiting, Trigger::Reject, Status::Rejected),
    ];

    #[test]
    fn twelve_moves_are_legal_and_every_other_one_names_both_sides() {
        for from in Status::ALL {
            for trigger in Trigger::ALL {
                let known = MOVES.iter().find(|(status, by, _)| (*status, *by) == (from, trigger));
                let expected = known.map(|(_, _, to)| *to).ok_or(IllegalTransition { from, trigger });
                assert_eq!(from.after(trigger), expected, "{from:?} by {trigger:?}");
            }
        }
        let refused = Status::Completed.after(Trigger::Start).unwrap_err().to_string();
        assert_eq!(refused, "illegal transition: Start is not possible from status `completed`");
    }

    #[test]
    fn a_status_without_a_way_out_is_terminal_and_no_other() {
        for status in Status::ALL {
            let way_out = Trigger::ALL.into_iter().any(|trigger| status.after(trigger).is_ok());
            assert_eq!(status.is_terminal(), !way_out, "{status}");
        }
    }

    #[test]
    fn a_status_has_one_name_in_the_store_in_the_journal_and_on_the_screen() {
        let names = Status::ALL.map(|status| status.to_string());
        assert_eq!(names, ["pending", "running", "waiting", "completed", "failed", "rejected", "cancelled"]);
        for (status, name) in Status::ALL.into_iter().zip(&names) {
            assert_eq!(Status::parse(name), Some(status));
            assert_eq!(serde_json::to_value(status).unwrap(), **name);
        }
        assert_eq!(Status::parse("Pending"), None);
    }

    #[test]
    fn a_trigger_has_the_same_name_in_a_trace_as_in_json() {
        for trigger in Trigger::ALL {
            assert_eq!(serde_json::to_value(trigger).unwrap(), trigger.as_str());
        }
    }

    #[test]
    fn a_contract_says_what_its_step_declares_and_who_executes_it() {
        let run = RunId::new("ticket-42").unwrap();
        let command = CommandId::new("0", "send");
        let key = IdempotencyKey::new(&run, &command, 3);
        let (execution, timeout) = (InvocationId::new(&command, 3), Some(Duration::from_secs(7)));
        let contract = Contract::new(execution.clone(), key.clone(), EffectClass::Tool, true, timeout);
        assert_eq!(contract.execution_id().as_str(), "0:send#3");
        assert_eq!(contract.action_type(), EffectClass::Tool);
        assert_eq!(contract.idempotency_key(), &key);
        assert_eq!((contract.irreversible(), contract.timeout()), (true, Some(Duration::from_secs(7))));
        let read = Contract::new(execution, key, EffectClass::Read, false, None);
        assert_eq!((read.irreversible(), read.timeout()), (false, None));
    }
}
