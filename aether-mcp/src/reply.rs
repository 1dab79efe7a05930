//! What one request of a call is recorded with: its arguments, and what the server answered.
//!
//! Promise: a complete answer stands in the journal as a [`ToolResult`], whatever came before it in the call.

use aether_core::failure::Failure;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::input::{Requests, Responses};
use crate::result::ToolResult;

/// The recorded arguments of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CallArgs {
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) arguments: Map<String, Value>,
    /// What the tool asked for in the round before; absent in the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) round: Option<Round>,
}

/// A later round of a call: the answers to what the tool asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    /// The key under which the first round was sent: all are one call.
    pub(crate) key: String,
    #[serde(default, skip_serializing_if = "Responses::is_empty")]
    pub(crate) responses: Responses,
    /// The server's own words, which it gets back as they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
}

/// What a server answered to one request of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Reply {
    /// It asks for something first.
    Input {
        /// What it asks for.
        input_required: InputRequired,
    },
    /// It will take a while.
    Task {
        /// Where to ask how far it is.
        task: TaskBegun,
    },
    /// The answer.
    Complete(ToolResult),
}

/// A round that the server ended with questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct InputRequired {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) requests: Requests,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
}

/// A task that the server began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskBegun {
    pub(crate) id: String,
    /// When it was seen to have begun, by the clock of the program.
    pub(crate) at: Timestamp,
    /// How long the server asks to wait before it is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) poll_ms: Option<u64>,
    /// How long the server keeps it, from its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_ms: Option<u64>,
}

/// The recorded arguments of what is asked about a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TaskArgs {
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) task: String,
    /// Answers to what the task asked.
    #[serde(default, skip_serializing_if = "Responses::is_empty")]
    pub(crate) responses: Responses,
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskSeen {
    /// When it was asked, by the clock of the program.
    pub(crate) at: Timestamp,
    #[serde(flatten)]
    pub(crate) state: TaskState,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(crate) enum TaskState {
    Working {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        poll_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    InputRequired {
        requests: Requests,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        poll_ms: Option<u64>,
    },
    Completed {
        result: ToolResult,
    },
    Failed {
        code: i64,
        message: String,
    },
    Cancelled,
    /// The server does not know it (any more).
    Unknown {
        message: String,
    },
}

/// How a task ended that gave no result; see [`TaskEnd::of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskEnd {
    /// The server says that it failed.
    Failed,
    /// The server says that it was cancelled, by somebody else.
    Cancelled,
    /// The server does not know it any more: it kept it no longer, or lost it.
    Expired,
    /// It took longer than [`Contract::task_timeout`](crate::Contract::task_timeout), and the server was told to cancel it.
    TimedOut,
    /// It asked for something that it was not told, and the server was told to cancel it.
    Unanswered,
}

const KINDS: [(TaskEnd, &str); 5] = [
    (TaskEnd::Failed, "mcp.task-failed"),
    (TaskEnd::Cancelled, "mcp.task-cancelled"),
    (TaskEnd::Expired, "mcp.task-expired"),
    (TaskEnd::TimedOut, "mcp.task-timed-out"),
    (TaskEnd::Unanswered, "mcp.task-unanswered"),
];

impl TaskEnd {
    /// How the task ended that `failure` is about; `None` where it is about something else.
    ///
    /// ```
    /// use aether_core::failure::Failure;
    /// use aether_mcp::TaskEnd;
    /// assert_eq!(TaskEnd::of(&Failure::permanent("no such user")), None);
    /// ```
    pub fn of(failure: &Failure) -> Option<Self> {
        KINDS.iter().find(|(_, kind)| failure.kind() == Some(kind)).map(|(end, _)| *end)
    }

    pub(crate) fn kind(self) -> &'static str {
        KINDS.iter().find(|(end, _)| *end == self).map_or("mcp.task", |(_, kind)| kind)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_complete_answer_is_a_tools_result_and_nothing_else_is_taken_for_one() {
        for (text, is) in [
            (json!({ "content": [] }), "complete"),
            (json!({ "content": [], "structured": { "task": 1, "input_required": 2 } }), "complete"),
            (json!({ "input_required": { "key": "k", "requests": {} } }), "input"),
            (json!({ "task": { "id": "t", "at": "2026-01-01T00:00:00Z" } }), "task"),
        ] {
            let reply: Reply = serde_json::from_value(text.clone()).unwrap();
            let kind = match &reply {
                Reply::Input { .. } => "input",
                Reply::Task { .. } => "task",
                Reply::Complete(_) => "complete",
            };
            assert_eq!(kind, is, "{text}");
            assert_eq!(serde_json::to_value(&reply).unwrap(), text);
        }
    }

    #[test]
    fn each_end_of_a_task_has_a_kind() {
        for (end, kind) in KINDS {
            assert_eq!(TaskEnd::of(&Failure::unknown("x").of_kind(kind)), Some(end));
            assert_eq!(end.kind(), kind);
        }
    }
}
