//! What people and operators decide, as it travels through the inbox and stands in the journal.
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

/// What a person decided, as it stands in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApprovalOutcome {
    /// Go ahead.
    Approved,
    /// Go ahead, with these arguments in place of the recorded ones.
    ApprovedWith(Payload),
    /// Do not, for this reason.
    Rejected(String),
    /// Nobody decided in time.
    Expired,
}

impl ApprovalOutcome {
    /// The ruling that a letter holds.
    pub(crate) fn of(letter: &ExternalReply) -> Result<Self, PayloadError> {
        match &letter.reply {
            Reply::Value(ruling) => ruling.decode(),
            Reply::Error(error) => error.decode().map(Self::Rejected),
            Reply::Expired => Ok(Self::Expired),
        }
    }
}

/// What became of an approval that a workflow asked for.
#[must_use = "a rejection is not a success: look at the decision, or use `.granted()?`"]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// A person said yes.
    Approved {
        /// Who.
        by: String,
    },
    /// A person said no.
    Rejected {
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// Nobody decided in time.
    Expired,
}

impl Decision {
    pub(crate) fn of(ruling: ApprovalOutcome, by: &str) -> Self {
        match ruling {
            ApprovalOutcome::Approved | ApprovalOutcome::ApprovedWith(_) => Self::Approved { by: by.into() },
            ApprovalOutcome::Rejected(reason) => Self::Rejected { by: by.into(), reason },
            ApprovalOutcome::Expired => Self::Expired,
        }
    }

    /// Whether a person said yes.
    pub fn is_approved(&self) -> bool {
        matches!(self, Self::Approved { .. })
    }

    /// Who said yes.
    ///
    /// # Errors
    /// [`StepError::Rejected`] with person and reason, or [`StepError::Cancelled`] when nobody decided in time.
    pub fn granted(self) -> Result<String, StepError<Failure>> {
        match self {
            Self::Approved { by } => Ok(by),
            Self::Rejected { by, reason } => {
                Err(StepError::Rejected(Failure::permanent(format_args!("{by} said no: {reason}"))))
            }
            Self::Expired => Err(StepError::Cancelled(Failure::permanent("nobody decided in time"))),
        }
    }
}

/// Whether `command`, of this class, asks for an answer and not for a decision.
pub(crate) fn is_question(command: &CommandId, class: EffectClass) -> bool {
    class == EffectClass::Human && command.name() != APPROVAL
}

/// Whether `value` is the rejection of what an approval's `command` asked for.
pub(crate) fn is_rejection(command: &CommandId, value: &Payload) -> bool {
    command.name() == APPROVAL && matches!(value.decode(), Ok(Decision::Rejected { .. }))
}

/// What an operator says about an invocation in doubt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It happened, with this result as JSON.
    Happened(Payload),
    /// It did not happen; it may be tried again.
    DidNotHappen,
    /// It stays unknown; the step fails as in doubt.
    Abandon,
}

/// An operator's resolution as it travels through the inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Resolved {
    pub(crate) resolution: Resolution,
    pub(crate) actor: String,
}

/// An operator's word as it travels through the inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConfirmationReply {
    pub(crate) decision: ConfirmationDecision,
    pub(crate) actor: String,
}

/// A request to cancel or terminate, as it travels through the inbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EndRequest {
    pub(crate) reason: String,
    pub(crate) actor: String,
}
