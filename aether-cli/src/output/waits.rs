//! What runs wait for.

use aether_core::payload::Payload;
use aether_core::view::pending::{Pending, UnreadableWait};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// One open wait.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WaitReport {
    /// The run that waits.
    pub(crate) run: String,
    /// Name of its workflow.
    workflow: String,
    /// Whether the run is parked: a reply is kept, and takes effect when code that it fits resumes it.
    parked: bool,
    /// The command that waits.
    pub(crate) command: String,
    /// What for: approval, question, callback, resolution, confirmation, signal, timer, child, retry, limit.
    pub(crate) waiting: String,
    /// Name of the signal, the step, the matter or the question.
    pub(crate) name: String,
    /// Since when.
    #[schemars(with = "String")]
    pub(crate) since: Timestamp,
    /// When it expires, fires, or is tried again.
    #[schemars(with = "Option<String>")]
    pub(crate) until: Option<Timestamp>,
    /// Digest of this very wait with its question and arguments: `inbox approve --digest` binds to it.
    pub(crate) digest: String,
    /// What is shown to the person who decides.
    #[schemars(with = "Option<Value>")]
    pub(crate) question: Option<Payload>,
    /// The arguments of the call in question.
    #[schemars(with = "Option<Value>")]
    pub(crate) args: Option<Payload>,
    /// Effect class of the command.
    class: String,
    /// The invocation in question.
    pub(crate) invocation: Option<String>,
    /// The child run whose end is waited for.
    child: Option<String>,
    /// Where in the source, as `file:line`.
    pub(crate) site: Option<String>,
    /// Replies that did not fit.
    pub(crate) refused: Vec<Refusal>,
}

/// A reply that did not fit.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Refusal {
    /// Who gave it.
    pub(crate) actor: String,
    /// Why it was refused.
    pub(crate) reason: String,
}

impl WaitReport {
    pub(crate) fn of(wait: &Pending) -> Self {
        let refusal =
            |(actor, reason): &(String, String)| Refusal { actor: actor.clone(), reason: reason.clone() };
        Self {
            run: wait.run.to_string(),
            workflow: wait.workflow.clone(),
            parked: wait.parked,
            command: wait.command.to_string(),
            waiting: wait.waiting.as_str().into(),
            name: wait.name.clone(),
            since: wait.since,
            until: wait.until,
            digest: wait.shown(),
            question: wait.question.clone(),
            args: wait.args.clone(),
            class: wait.class.as_str().into(),
            invocation: wait.invocation.as_ref().map(ToString::to_string),
            child: wait.child.as_ref().map(ToString::to_string),
            site: wait.site.clone(),
            refused: wait.refused.iter().map(refusal).collect(),
        }
    }
}

/// A wait that is open and cannot be read.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UnreadableReport {
    /// The run that waits.
    pub(crate) run: String,
    /// Name of its workflow.
    workflow: String,
    /// The command that waits, where the list has it.
    command: Option<String>,
    /// What for, where the list has it.
    waiting: Option<String>,
    /// Why it cannot be read.
    pub(crate) error: String,
}

impl UnreadableReport {
    pub(crate) fn of(wait: &UnreadableWait) -> Self {
        Self {
            run: wait.run.to_string(),
            workflow: wait.workflow.clone(),
            command: wait.command.as_ref().map(ToString::to_string),
            waiting: wait.waiting.map(|waiting| waiting.as_str().into()),
            error: wait.error.to_string(),
        }
    }
}

/// `inbox list`, and `inbox show`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WaitList {
    /// The waits, in the order in which they were opened.
    pub(crate) waits: Vec<WaitReport>,
    /// Waits that are open and cannot be read, for want of a key or because a journal is damaged. The command then exits
    /// with 4.
    pub(crate) unreadable: Vec<UnreadableReport>,
    /// Where the next page begins: `--after`.
    pub(crate) next: Option<String>,
}
