//! Why an agent is refused, and why a model or a tool gave no answer.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use aether_core::failure::{ErrorHints, KnownError};
use aether_core::outcome::{Classify, FailureClass};
use aether_effects::retry_after;
use rig_core::error::{ErrorKind, ErrorReport};
use rig_core::tool::{ToolErrorKind, ToolExecutionError, ToolResult};
use serde::{Deserialize, Serialize};

/// Why [`RigAgents::with`](crate::RigAgents::with) does not take an agent: it has something that runs beside the model calls
/// and the tool calls, and that would not be recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The agent has hooks. They would run again on every replay.
    #[error(
        "agent `{agent}` has hooks ({}): they are not recorded; build it without `add_hook`, and do in the workflow what \
         they do",
        hooks.join(", ")
    )]
    Hooks {
        /// Name of the agent.
        agent: String,
        /// What rig calls the hooks.
        hooks: Vec<String>,
    },
    /// The agent has a conversation memory, which it would read and write beside the journal.
    #[error(
        "agent `{agent}` has a conversation memory: it would be read and written beside the journal; build it without \
         `memory`, and give `cx.rig(..).history(..)` what was said before"
    )]
    Memory {
        /// Name of the agent.
        agent: String,
    },
    /// The agent retrieves context or tools from an index before each model call.
    #[error(
        "agent `{agent}` retrieves from an index ({}): that is not recorded; build it without `dynamic_context` and \
         `retrieved_tools`, and search in a step or a tool",
        indexes.join(", ")
    )]
    Retrieval {
        /// Name of the agent.
        agent: String,
        /// Keys of the indexes.
        indexes: Vec<String>,
    },
    /// The agent was built over the bus of a host, which decides when it is served.
    #[error(
        "agent `{agent}` was built over a host's bus (`AgentBuilder::over_bus`): build it with a model of its own"
    )]
    HostBus {
        /// Name of the agent.
        agent: String,
    },
    /// Another clone of the agent is alive.
    #[error("agent `{agent}` is shared with a clone of it: give the only one, or build it a second time")]
    Shared {
        /// Name of the agent.
        agent: String,
    },
    /// The agent's bus serves one call of a tool at a time, over all runs.
    #[error(
        "agent `{agent}` serves its tools one call at a time (`ServingPolicy::serial_per_handler`), which does not hold \
         over several runs and processes: lock in the tool instead"
    )]
    SerialTools {
        /// Name of the agent.
        agent: String,
    },
    /// No name, or one that another agent has.
    #[error("`{agent}` cannot be the name of an agent: {reason}")]
    Name {
        /// The name.
        agent: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Why a model gave no answer. `?` turns it into a `Failure` of the right class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rig agent `{agent}`: {what}: {reason}")]
pub struct ModelFailed {
    /// Name of the agent.
    pub agent: String,
    /// What was asked of it.
    pub what: &'static str,
    /// What went wrong, as rig tells it.
    pub reason: String,
    /// Whether another attempt may help.
    pub class: FailureClass,
    /// How long the provider asks to wait, if it said so.
    pub retry_after: Option<Duration>,
}

impl ModelFailed {
    /// Something that this program does not have.
    pub(crate) fn missing(agent: &str, what: &'static str, reason: impl fmt::Display) -> Self {
        let (agent, reason) = (agent.to_owned(), reason.to_string());
        Self { agent, what, reason, class: FailureClass::Permanent, retry_after: None }
    }

    /// The run is being cancelled, and nothing waits for the answer.
    pub(crate) fn dropped(agent: &str) -> Self {
        let (agent, reason) = (agent.to_owned(), "dropped, because the run is being cancelled".to_owned());
        Self { agent, what: "model", reason, class: FailureClass::Retryable, retry_after: None }
    }

    /// What rig reports about a model call.
    pub(crate) fn reported(agent: &str, report: &ErrorReport) -> Self {
        let class = match report.kind {
            _ if report.retryable => FailureClass::Retryable,
            // An answer that rig could not read: each is paid for, so few are asked for.
            ErrorKind::Json | ErrorKind::Response => FailureClass::Unclassified,
            _ => FailureClass::Permanent,
        };
        let header = |name: &str| report.provider_response_headers()?.get(name)?.to_str().ok();
        let retry_after = header("retry-after").and_then(|wait| retry_after::wait(wait, header("date")));
        Self { agent: agent.to_owned(), what: "model", reason: report.to_string(), class, retry_after }
    }
}

impl Classify for ModelFailed {
    fn class(&self) -> FailureClass {
        self.class
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

inventory::submit! {
    KnownError(|error| error.downcast_ref::<ModelFailed>().map(ErrorHints::of))
}

/// A tool's own error, with what rig would tell the model about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ToolFailed {
    /// What went wrong, for people.
    pub(crate) message: String,
    /// What the model is told.
    pub(crate) result: ToolResult,
}

impl fmt::Display for ToolFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ToolFailed {}

/// The class of a tool's error.
///
/// A tool that may change the world is in doubt where its error says that an answer was lost. Where it says something else,
/// or nothing, it has failed and the model is told, as rig does it.
pub(crate) fn class_of(error: &ToolExecutionError, changes_world: bool) -> FailureClass {
    if changes_world && lost(error) {
        return FailureClass::Unknown;
    }
    let again = error.retryable().unwrap_or_else(|| !changes_world && transport(error).is_some());
    if again { FailureClass::Retryable } else { FailureClass::Permanent }
}

/// Whether the error says that something was sent, and not what became of it.
fn lost(error: &ToolExecutionError) -> bool {
    match error.kind() {
        ToolErrorKind::InvalidArgs
        | ToolErrorKind::NotFound
        | ToolErrorKind::PermissionDenied
        | ToolErrorKind::RateLimited => false,
        // A source knows better than the kind: a connection that was refused carried nothing.
        kind => transport(error).unwrap_or(matches!(
            kind,
            ToolErrorKind::Timeout | ToolErrorKind::Cancelled | ToolErrorKind::Network
        )),
    }
}

/// Whether an answer was lost, as the first source tells it that knows something of a transport.
fn transport(error: &ToolExecutionError) -> Option<bool> {
    let mut next = error.source();
    while let Some(source) = next {
        if let Some(known) = of_request(source).or_else(|| of_connection(source)) {
            return Some(known);
        }
        if known_class(source) == FailureClass::Unknown {
            return Some(true);
        }
        next = source.source();
    }
    None
}

fn of_request(error: &(dyn Error + 'static)) -> Option<bool> {
    let error = error.downcast_ref::<reqwest::Error>()?;
    Some(match error.status() {
        // A server that drops work which takes too long says 408.
        Some(status) => status.is_server_error() || status.as_u16() == 408,
        None => !error.is_connect() && !error.is_builder(),
    })
}

fn of_connection(error: &(dyn Error + 'static)) -> Option<bool> {
    use io::ErrorKind as Kind;
    match error.downcast_ref::<io::Error>()?.kind() {
        Kind::ConnectionReset
        | Kind::ConnectionAborted
        | Kind::BrokenPipe
        | Kind::TimedOut
        | Kind::UnexpectedEof
        | Kind::WriteZero
        | Kind::NotConnected
        // Systems report these of open connections, too.
        | Kind::HostUnreachable
        | Kind::NetworkUnreachable
        | Kind::NetworkDown => Some(true),
        Kind::ConnectionRefused | Kind::AddrNotAvailable => Some(false),
        _ => None,
    }
}

/// The class that a type of error is known for.
fn known_class(error: &(dyn Error + 'static)) -> FailureClass {
    inventory::iter::<KnownError>
        .into_iter()
        .find_map(|known| known.0(error))
        .map_or(FailureClass::Unclassified, |hints| hints.class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connection_that_was_not_made_lost_nothing() {
        use io::ErrorKind as Kind;
        let lost = |kind: Kind| of_connection(&io::Error::from(kind));
        for kind in
            [Kind::ConnectionReset, Kind::HostUnreachable, Kind::NetworkUnreachable, Kind::NetworkDown]
        {
            assert_eq!(lost(kind), Some(true), "{kind}");
        }
        assert_eq!(lost(Kind::ConnectionRefused), Some(false));
        assert_eq!(lost(Kind::NotFound), None);
    }
}
