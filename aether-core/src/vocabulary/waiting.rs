//! What a run can wait for, and what a wait or a body that took too long says of its limit.
//!
//! Promise: the names are those of stores and of recorded errors, and are never changed.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Waiting {
    /// Consent to a step's call, or a decision that a workflow asked for: `Engine::approve` and `Engine::reject`.
    Approval,
    /// An answer to a question: `Engine::answer`.
    Question,
    /// A report of an outcome: `Engine::complete_callback` and `Engine::fail_callback`.
    Callback,
    /// A decision about an invocation in doubt: `Engine::resolve`.
    Resolution,
    /// A decision about a resource that changed since the run changed it: `Engine::confirm`. The question names it.
    Confirmation,
    /// A signal: `Engine::signal`.
    Signal,
    /// A time: `cx.sleep` and `cx.sleep_until`.
    Timer,
    /// The end of a child run.
    Child,
    /// The next attempt at a step that failed.
    Retry,
    /// A limit on steps that lets no more calls through at the moment; the name is that of the limit.
    Limit,
}

/// Every kind with its name in a store; a name once released is never changed.
const NAMES: [(Waiting, &str); 10] = [
    (Waiting::Approval, "approval"),
    (Waiting::Question, "question"),
    (Waiting::Callback, "callback"),
    (Waiting::Resolution, "resolution"),
    (Waiting::Confirmation, "confirmation"),
    (Waiting::Signal, "signal"),
    (Waiting::Timer, "timer"),
    (Waiting::Child, "child"),
    (Waiting::Retry, "retry"),
    (Waiting::Limit, "limit"),
];

impl Waiting {
    /// Its name in a store.
    pub fn as_str(self) -> &'static str {
        NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// The kind of this name.
    ///
    /// ```
    /// use aether_core::view::pending::Waiting;
    /// assert_eq!(Waiting::parse("signal"), Some(Waiting::Signal));
    /// assert_eq!(Waiting::parse(Waiting::Timer.as_str()), Some(Waiting::Timer));
    /// ```
    pub fn parse(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    /// Every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(kind, _)| *kind)
    }

    /// Whether a person, an operator or another system ends it through the engine: all kinds but timers, children,
    /// retries and limits.
    pub fn is_for_reply(self) -> bool {
        !matches!(self, Self::Timer | Self::Child | Self::Retry | Self::Limit)
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approval => "an approval (`approve`, `reject`)",
            Self::Question => "an answer (`answer`)",
            Self::Callback => "a callback (`complete_callback`, `fail_callback`)",
            Self::Resolution => "a resolution (`resolve`)",
            Self::Confirmation => "a confirmation (`confirm`)",
            Self::Signal => "a signal (`signal`)",
            Self::Timer => "a time",
            Self::Child => "the end of a child run",
            Self::Retry => "its next attempt",
            Self::Limit => "a limit on steps",
        })
    }
}

/// A time limit that has passed; see [`Failure::time_limit`](crate::vocabulary::failure::Failure::time_limit).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeLimit {
    /// What was waited for; `None` where a step's body was too slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Name of the signal, of the question, of the matter or of the step.
    pub name: String,
    /// The limit in milliseconds.
    pub limit_ms: u64,
}

impl TimeLimit {
    /// The limit of a wait.
    pub fn of_wait(waiting: Waiting, name: impl Into<String>, limit: Duration) -> Self {
        Self { waiting: Some(waiting), name: name.into(), limit_ms: millis(limit) }
    }

    /// The limit of a step's body.
    pub fn of_body(step: impl Into<String>, limit: Duration) -> Self {
        Self { waiting: None, name: step.into(), limit_ms: millis(limit) }
    }

    /// The limit.
    pub fn limit(&self) -> Duration {
        Duration::from_millis(self.limit_ms)
    }
}

/// A length of time in whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
