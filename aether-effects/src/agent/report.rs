//! What an agent answered and what it took.

use serde::{Deserialize, Serialize};

use crate::model::chat::ChatMessage;
use crate::model::usage::Usage;

/// What an agent answered and what it took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReport {
    /// The model's final text; where the agent was stopped, the last text that the model said.
    pub answer: String,
    /// Number of answers that the model was asked for.
    pub turns: u32,
    /// Tokens of all answers together.
    pub usage: Usage,
    /// The whole conversation, with every tool call and its answer.
    pub transcript: Vec<ChatMessage>,
    /// Whether the rule of `Agent::stop_when` ended it, and not the model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

/// A typed answer, and what it took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAnswer<T> {
    /// The value in the model's final answer.
    pub value: T,
    /// What the agent took.
    pub report: AgentReport,
}

/// How far an agent has come, for the rule that may stop it.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Answers so far.
    pub turns: u32,
    /// Tool calls that were answered so far, errors included.
    pub tool_calls: u32,
    /// Tokens of all answers so far.
    pub usage: Usage,
    /// The conversation so far; its last messages are answers of tools.
    pub messages: &'a [ChatMessage],
}
