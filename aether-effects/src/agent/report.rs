//! What an agent answered and what it took.

use serde::{Deserialize, Serialize};

use crate::model::chat::ChatMessage;
use crate::model::usage::Usage;

/// What an agent answered and what it took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReport {
    /// The model's final text; where the agent was stopped, the last text that the model said.
    pub answer: String,
    /// Number of answers that models were asked for, over all hand-offs. Summaries are not among them.
    pub turns: u32,
    /// Tokens of all answers and summaries together.
    pub usage: Usage,
    /// The conversation, with every tool call and its answer, as the agent that was at work last has it: with its system
    /// messages, and with what a [`Compaction`](super::Compaction) put in place of older messages. What was replaced is in
    /// the journal alone. Where `Agent::stop_when` ended it at a hand-off, the system messages are still those of the agent
    /// that handed over.
    pub transcript: Vec<ChatMessage>,
    /// Whether the rule of `Agent::stop_when` ended it, and not the model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// Every hand-off to another agent, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hand_offs: Vec<HandOff>,
    /// How often older messages were replaced by something shorter.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub compactions: u32,
}

impl AgentReport {
    /// Name of the agent that was at work last, to whom the answer is owed; `None` where nothing was handed over, so that it
    /// is the agent that was begun. Where `Agent::stop_when` ended it at a hand-off, this agent was never asked, and
    /// `transcript` still has the system messages of the one that handed over.
    pub fn handed_to(&self) -> Option<&str> {
        self.hand_offs.last().map(|hand_off| &*hand_off.to)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// One agent handed its conversation over to another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOff {
    /// Name of the agent whose model asked for it.
    pub from: String,
    /// Name of the agent that took over.
    pub to: String,
    /// What the model said about it, where it said something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Which answer asked for it, counted over all agents from 1.
    pub turn: u32,
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
    /// Name of the agent that is asked next.
    pub agent: &'a str,
    /// Answers so far.
    pub turns: u32,
    /// Tool calls that were answered so far, errors included.
    pub tool_calls: u32,
    /// Tokens of all answers and summaries so far.
    pub usage: Usage,
    /// The conversation so far; its last messages are answers of tools.
    pub messages: &'a [ChatMessage],
}
