//! Why a server gave no usable answer, and what that says about the world.

use std::fmt;
use std::time::Duration;

use aether_core::failure::{ErrorHints, KnownError};
use aether_core::outcome::{Classify, FailureClass};

use crate::reply::TaskEnd;

/// What was asked of which server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Name of the server, as the program calls it.
    pub server: String,
    /// Name of the tool; `None` for a list of the tools.
    pub tool: Option<String>,
    /// Whether the call may change the world.
    pub changes_world: bool,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tool {
            Some(tool) => write!(f, "tool `{tool}` of MCP server `{}`", self.server),
            None => write!(f, "list of the tools of MCP server `{}`", self.server),
        }
    }
}

/// Why a server gave no usable answer. `?` turns it into a `Failure` of the right class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The program has no server of this name. Nothing was sent.
    #[error("{asked}: there is no server of this name; add it with `Mcp::server` (there are: {known})")]
    UnknownServer {
        /// What was asked for.
        asked: Asked,
        /// Names of the servers that there are.
        known: String,
    },
    /// The server's settings or the call's arguments cannot be used. Nothing was sent.
    #[error("{asked}: {reason}")]
    Invalid {
        /// What was asked for.
        asked: Asked,
        /// What is wrong.
        reason: String,
    },
    /// No connection to the server, or no agreement with it. The call was not sent.
    #[error("{asked}: no connection: {reason}")]
    NotConnected {
        /// What was asked for.
        asked: Asked,
        /// What went wrong.
        reason: String,
    },
    /// The server says that it did not take the call: too many requests, or a session that it does not know any more.
    #[error("{asked}: the server did not take the call: {reason}")]
    NotTaken {
        /// What was asked for.
        asked: Asked,
        /// What the server said.
        reason: String,
        /// How long the server asks to wait, if it said so.
        retry_after: Option<Duration>,
    },
    /// The server wants an authorization that the call did not have. It did not take the call.
    #[error("{asked}: not authorized: {reason}")]
    Unauthorized {
        /// What was asked for.
        asked: Asked,
        /// What the server said.
        reason: String,
    },
    /// The server refused the call as it is: unknown tool, wrong arguments. A call that may change the world never ends
    /// so, because servers answer this also after the tool has run: it ends with [`McpError::Failed`].
    #[error("{asked}: refused: {reason}")]
    Refused {
        /// What was asked for.
        asked: Asked,
        /// What the server said.
        reason: String,
    },
    /// The server answered that something went wrong. It does not say how far the tool came.
    #[error("{asked}: the server failed: {reason}")]
    Failed {
        /// What was asked for.
        asked: Asked,
        /// What the server said.
        reason: String,
    },
    /// No answer within the timeout; the call may have been received.
    #[error("{asked}: no answer within {timeout:?} (`Contract::timeout`)")]
    Timeout {
        /// What was asked for.
        asked: Asked,
        /// The time the call was given.
        timeout: Duration,
    },
    /// The connection broke before the answer was there; the call may have been received.
    #[error("{asked}: the connection broke before the answer was there: {reason}")]
    Lost {
        /// What was asked for.
        asked: Asked,
        /// What the transport reported.
        reason: String,
    },
    /// The server answered with something that is no result of a tool.
    #[error("{asked}: the answer is not a tool's result: {reason}")]
    Unexpected {
        /// What was asked for.
        asked: Asked,
        /// What it is instead.
        reason: String,
    },
    /// The tool asks for something that this client does not offer, or asks without end. It was not told an answer.
    #[error("{asked}: the tool asks for {reason}")]
    Asks {
        /// What was asked for.
        asked: Asked,
        /// What the tool asks for.
        reason: String,
    },
    /// The call became a task of the server, which gave no result.
    #[error("{asked}: {reason}")]
    Task {
        /// What was asked for.
        asked: Asked,
        /// How it ended.
        end: TaskEnd,
        /// What the server said.
        reason: String,
    },
    /// The run is being cancelled, and the call changes nothing: it was dropped.
    #[error("{asked}: dropped, because the run is being cancelled")]
    Cancelled {
        /// What was asked for.
        asked: Asked,
    },
}

impl McpError {
    /// This error as the answer to a call. What looks like a refusal may have been made after the tool has run: servers
    /// answer so where a result does not fit its schema, and pass on the codes of errors that tools throw.
    pub(crate) fn of_call(self) -> Self {
        match self {
            Self::Refused { asked, reason } if asked.changes_world => Self::Failed { asked, reason },
            error => error,
        }
    }

    /// What was asked of which server.
    pub fn asked(&self) -> &Asked {
        match self {
            Self::UnknownServer { asked, .. }
            | Self::Invalid { asked, .. }
            | Self::NotConnected { asked, .. }
            | Self::NotTaken { asked, .. }
            | Self::Unauthorized { asked, .. }
            | Self::Refused { asked, .. }
            | Self::Failed { asked, .. }
            | Self::Timeout { asked, .. }
            | Self::Lost { asked, .. }
            | Self::Unexpected { asked, .. }
            | Self::Asks { asked, .. }
            | Self::Task { asked, .. }
            | Self::Cancelled { asked } => asked,
        }
    }
}

impl Classify for McpError {
    /// A call that may have changed the world without telling how is `Unknown`: its outcome must not be taken for a
    /// failure.
    fn class(&self) -> FailureClass {
        match self {
            Self::UnknownServer { .. }
            | Self::Invalid { .. }
            | Self::Unauthorized { .. }
            | Self::Refused { .. }
            | Self::Asks { .. } => FailureClass::Permanent,
            Self::NotConnected { .. } | Self::NotTaken { .. } | Self::Cancelled { .. } => {
                FailureClass::Retryable
            }
            _ if self.asked().changes_world => FailureClass::Unknown,
            Self::Timeout { .. } | Self::Lost { .. } => FailureClass::Retryable,
            Self::Failed { .. } => FailureClass::Unclassified,
            Self::Unexpected { .. } | Self::Task { .. } => FailureClass::Permanent,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::NotTaken { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

inventory::submit! {
    KnownError(|error| error.downcast_ref::<McpError>().map(ErrorHints::of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_that_changes_nothing_was_surely_refused() {
        for (changes_world, class) in [(true, FailureClass::Unknown), (false, FailureClass::Permanent)] {
            let asked = Asked { server: "bank".into(), tool: Some("pay".into()), changes_world };
            let refused = McpError::Refused { asked, reason: "no (code -32602)".into() };
            assert_eq!(refused.of_call().class(), class);
        }
    }
}
