//! The decisions of people and operators, as they pass through the inbox and are recorded in the journal.
//!
//! Promise: a rejection or an expiry is a typed value and never a success.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::inbox::replies::{ExternalReply, Reply};
use crate::inbox::topics::APPROVAL;
use crate::journal::event::ConfirmationDecision;
use crate::vocabulary::failure::{Failure, StepError};
use crate::vocabulary::id::CommandId;
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::{Payload, PayloadError};
use crate::vocabulary::waiting::{TimeLimit, Waiting};

/// A person's decision about a call, as it is recorded in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApprovalOutcome {
    /// Make the call.
    Approved,
    /// Make the call with these arguments in place of the recorded ones.
    ApprovedWith(Payload),
    /// Do not make the call, for this reason.
    Rejected(String),
    /// No decision came before the time limit.
    Expired,
}

impl ApprovalOutcome {
    /// The decision in a reply.
    pub(crate) fn of(reply: &ExternalReply) -> Result<Self, PayloadError> {
        match &reply.reply {
            Reply::Value(outcome) => outcome.decode(),
            Reply::Error(error) => error.decode().map(Self::Rejected),
            Reply::Expired => Ok(Self::Expired),
        }
    }
}

/// Result of an approval that a workflow requested.
///
/// ```
/// use aether_core::inbox::Decision;
/// let decision = Decision::Rejected { by: "ann".into(), reason: "too expensive".into() };
/// assert!(!decision.is_approved());
/// let error = decision.granted().unwrap_err();
/// assert_eq!(error.to_string(), "rejected: ann said no: too expensive");
/// ```
#[must_use = "a rejection is not a success: look at the decision, or use `.granted()?`"]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", from = "AnyDecision")]
pub enum Decision {
    /// A person approved it.
    Approved {
        /// Who approved it.
        by: String,
    },
    /// A person rejected it.
    Rejected {
        /// Who rejected it.
        by: String,
        /// The reason that this person gave.
        reason: String,
    },
    /// No decision came before the time limit.
    Expired(Expiry),
}

/// How long an approval was open that expired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expiry {
    /// The limit that passed; `None` where an older build recorded it and did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<TimeLimit>,
}

impl Expiry {
    /// The expiry of the approval about `what`.
    pub(crate) fn of(what: String, limit_ms: Option<u64>) -> Self {
        let waiting = Some(Waiting::Approval);
        Self { limit: limit_ms.map(|limit_ms| TimeLimit { waiting, name: what, limit_ms }) }
    }
}

/// A decision as it is read: an older build wrote an expiry as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum AnyDecision {
    Older(OlderDecision),
    Now(DecisionNow),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum OlderDecision {
    Expired,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum DecisionNow {
    Approved { by: String },
    Rejected { by: String, reason: String },
    Expired(Expiry),
}

impl From<AnyDecision> for Decision {
    fn from(read: AnyDecision) -> Self {
        match read {
            AnyDecision::Older(OlderDecision::Expired) => Self::Expired(Expiry { limit: None }),
            AnyDecision::Now(DecisionNow::Approved { by }) => Self::Approved { by },
            AnyDecision::Now(DecisionNow::Rejected { by, reason }) => Self::Rejected { by, reason },
            AnyDecision::Now(DecisionNow::Expired(expiry)) => Self::Expired(expiry),
        }
    }
}

impl Decision {
    pub(crate) fn of(outcome: ApprovalOutcome, by: &str) -> Self {
        match outcome {
            ApprovalOutcome::Approved | ApprovalOutcome::ApprovedWith(_) => Self::Approved { by: by.into() },
            ApprovalOutcome::Rejected(reason) => Self::Rejected { by: by.into(), reason },
            ApprovalOutcome::Expired => Self::Expired(Expiry { limit: None }),
        }
    }

    /// Whether a person approved it.
    pub fn is_approved(&self) -> bool {
        matches!(self, Self::Approved { .. })
    }

    /// Who approved it; with `?`, a workflow continues only after an approval.
    ///
    /// # Errors
    /// [`StepError::Rejected`] with person and reason, or [`StepError::TimedOut`] when no decision came in time
    /// ([`StepError::Cancelled`] in runs that an older build recorded).
    pub fn granted(self) -> Result<String, StepError<Failure>> {
        match self {
            Self::Approved { by } => Ok(by),
            Self::Rejected { by, reason } => {
                Err(StepError::Rejected(Failure::permanent(format_args!("{by} said no: {reason}"))))
            }
            Self::Expired(Expiry { limit }) => {
                let why = Failure::permanent("no decision came in time");
                Err(match limit {
                    Some(limit) => StepError::TimedOut(why.because_of(limit)),
                    None => StepError::Cancelled(why),
                })
            }
        }
    }
}

/// Whether `command`, of this class, is a question, which wants an answer, and not an approval.
pub(crate) fn is_question(command: &CommandId, class: EffectClass) -> bool {
    class == EffectClass::Human && command.name() != APPROVAL
}

/// Whether `command` is an approval and `value` its rejection.
pub(crate) fn is_rejection(command: &CommandId, value: &Payload) -> bool {
    command.name() == APPROVAL && matches!(value.decode(), Ok(Decision::Rejected { .. }))
}

/// An operator's decision about an invocation in doubt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It happened, with this result as JSON.
    Happened(Payload),
    /// It did not happen; the step makes a new attempt.
    DidNotHappen,
    /// Its outcome stays unknown; the step fails as in doubt.
    Abandon,
}

/// An operator's resolution as a message carries it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Resolved {
    pub(crate) resolution: Resolution,
    pub(crate) actor: String,
}

/// An operator's decision about a changed resource, as a message carries it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConfirmationReply {
    pub(crate) decision: ConfirmationDecision,
    pub(crate) actor: String,
}

/// A request to cancel or terminate, as a message carries it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EndRequest {
    pub(crate) reason: String,
    pub(crate) actor: String,
}
