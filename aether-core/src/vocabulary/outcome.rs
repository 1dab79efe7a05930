//! Effect classes, the outcomes of steps, and the classes of failures.
//!
//! Promise: what a class or an outcome means is decided here, in one place, by methods without a wildcard.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Effect class: the kind of contact with the world that a command has.
///
/// ```
/// use aether_core::outcome::EffectClass;
/// assert!(EffectClass::Tool.changes_world());
/// assert!(!EffectClass::Read.changes_world());
/// assert_eq!(EffectClass::Llm.to_string(), "llm");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Has no contact with the world; writes no event and runs again on replay.
    Pure,
    /// Reads from the world and does not change it.
    Read,
    /// Asks a language model; changes nothing but costs money.
    Llm,
    /// Changes the world through a tool.
    Tool,
    /// Changes the world through some other system.
    External,
    /// A raw HTTP exchange that may change the world.
    Http,
    /// Changes the store's own database, in the transaction that records its outcome.
    Transaction,
    /// Reads the clock or waits for it.
    Time,
    /// Draws a UUID.
    Uuid,
    /// Draws random bytes.
    Random,
    /// Waits for a person.
    Human,
    /// Starts another run.
    Workflow,
}

impl EffectClass {
    /// Whether a body of this class may change the world, so that its intent must be durable first.
    pub const fn changes_world(self) -> bool {
        matches!(self, Self::Tool | Self::External | Self::Http)
    }

    /// The name used in `#[step(effect = "…")]` and in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Read => "read",
            Self::Llm => "llm",
            Self::Tool => "tool",
            Self::External => "external",
            Self::Http => "http",
            Self::Transaction => "transaction",
            Self::Time => "time",
            Self::Uuid => "uuid",
            Self::Random => "random",
            Self::Human => "human",
            Self::Workflow => "workflow",
        }
    }
}

impl std::fmt::Display for EffectClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a step ended, as it is recorded in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Computed without contact with the world. Older journals write the empty string for it.
    #[serde(alias = "")]
    Pure,
    /// Done; the world is unchanged.
    Success,
    /// Done; the world was changed.
    SideEffectCommitted,
    /// Definitely failed; another attempt may succeed.
    RetryableFailure,
    /// Definitely failed; another attempt will not help.
    PermanentFailure,
    /// Failed half-way; the changes made so far must be undone.
    CompensatableFailure,
    /// Undone by a compensation. Final.
    Compensated,
}

impl Outcome {
    /// Whether a step with this outcome counts as complete, so that replay injects its result.
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Pure | Self::Success | Self::SideEffectCommitted | Self::Compensated)
    }

    /// Whether a scheduler may queue the step again.
    pub const fn may_requeue(self) -> bool {
        matches!(self, Self::RetryableFailure)
    }

    /// The exact string in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Success => "success",
            Self::SideEffectCommitted => "side_effect_committed",
            Self::RetryableFailure => "retryable_failure",
            Self::PermanentFailure => "permanent_failure",
            Self::CompensatableFailure => "compensatable_failure",
            Self::Compensated => "compensated",
        }
    }

    /// The outcome of a body of `class` that returned a value.
    pub const fn of_success(class: EffectClass) -> Self {
        if class.changes_world() || matches!(class, EffectClass::Transaction) {
            Self::SideEffectCommitted
        } else if matches!(class, EffectClass::Pure) {
            Self::Pure
        } else {
            Self::Success
        }
    }
}

/// Class of a failure: whether the step is tried again, undone, or in doubt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The error has no class; the step's retry policy decides.
    #[default]
    Unclassified,
    /// Definitely failed; trying again may help.
    Retryable,
    /// Definitely failed; trying again will not help.
    Permanent,
    /// Failed half-way; the changes made so far must be undone.
    Compensatable,
    /// It is not known whether the world was changed.
    Unknown,
}

impl FailureClass {
    /// The outcome recorded for a failure of this class once no attempt is left.
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::Retryable => Outcome::RetryableFailure,
            Self::Compensatable => Outcome::CompensatableFailure,
            Self::Unclassified | Self::Permanent | Self::Unknown => Outcome::PermanentFailure,
        }
    }
}

/// Gives an error of a step its class. Implement it for your own error type to control retries; without it an error is
/// [`FailureClass::Unclassified`].
///
/// ```
/// use std::time::Duration;
/// use aether_core::outcome::{Classify, FailureClass};
/// enum MailError { Busy { seconds: u64 }, NoSuchAddress }
/// impl Classify for MailError {
///     fn class(&self) -> FailureClass {
///         match self {
///             Self::Busy { .. } => FailureClass::Retryable,
///             Self::NoSuchAddress => FailureClass::Permanent,
///         }
///     }
///     fn retry_after(&self) -> Option<Duration> {
///         match self {
///             Self::Busy { seconds } => Some(Duration::from_secs(*seconds)),
///             Self::NoSuchAddress => None,
///         }
///     }
/// }
/// assert_eq!(MailError::Busy { seconds: 3 }.retry_after(), Some(Duration::from_secs(3)));
/// ```
pub trait Classify {
    /// The class of this error.
    fn class(&self) -> FailureClass;

    /// Minimum wait before the next attempt, as the other side asks for it. Default: none.
    fn retry_after(&self) -> Option<Duration> {
        None
    }

    /// Whether an answer was lost, so that what was asked for may have been done all the same. A step that may change the
    /// world (`tool`, `external`, `http`) is in doubt then, as with [`FailureClass::Unknown`]; for all others the class
    /// alone decides. Default: no.
    fn is_lost(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_outcome_of_old_journals_counts_as_complete() {
        assert!(serde_json::from_str::<Outcome>("\"\"").unwrap().is_complete());
    }
}
