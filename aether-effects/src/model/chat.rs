//! Requests to models and their answers, as they stand in the journal.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::attachment::Attachment;
use super::price::Cost;
use super::usage::Usage;

/// One question to a model: everything its answer depends on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// Name of the place in the workflow that asks, for example `plan`.
    pub call: String,
    /// The model; the client's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The conversation so far.
    pub messages: Vec<ChatMessage>,
    /// Tools the model may ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Sampling temperature; the provider's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Longest answer, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// JSON Schema that the answer is to follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Value>,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ChatMessage {
    /// What the model is to do and to be.
    System {
        /// The instructions.
        content: String,
    },
    /// What the user says.
    User {
        /// The user's words.
        content: String,
        /// Images and files that go along.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
    /// What the model said.
    Assistant {
        /// The text, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// Calls it asked for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// What a tool answered.
    Tool {
        /// [`ToolCall::id`] of the call it answers.
        call_id: String,
        /// Name of the tool that was called.
        name: String,
        /// The tool's result, or its error, as text.
        content: String,
    },
}

impl ChatMessage {
    /// What the model is to do and to be.
    pub fn system(content: impl Into<String>) -> Self {
        Self::System { content: content.into() }
    }

    /// What the user says.
    pub fn user(content: impl Into<String>) -> Self {
        Self::user_with(content, Vec::new())
    }

    /// What the user says, with images and files.
    pub fn user_with(content: impl Into<String>, attachments: Vec<Attachment>) -> Self {
        Self::User { content: content.into(), attachments }
    }

    /// What the model said, without tool calls.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::Assistant { content: Some(content.into()), tool_calls: Vec::new() }
    }
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name to call it by.
    pub name: String,
    /// What the tool does, for the model to decide by: the doc comment of a step.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub schema: Value,
}

/// A call that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id that the answer refers to.
    pub id: String,
    /// Name of the tool; may be one that does not exist.
    pub name: String,
    /// The arguments as the model wrote them; may be anything.
    pub arguments: String,
}

/// One answer of a model: text, or calls of tools, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// The model that answered.
    pub model: String,
    /// The text, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Calls it asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Why it stopped, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Tokens that the question and the answer took.
    #[serde(default)]
    pub usage: Usage,
    /// The provider's id of the exchange, to name it by in a report to the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What it cost by the table of prices that the program provided; `None` without a table, or where it does not have
    /// the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl ChatResponse {
    /// Whether the answer ended because it reached the limit of its length, by the words of the providers known here.
    pub fn is_cut_off(&self) -> bool {
        let reason = self.finish_reason.as_deref().map(str::to_ascii_lowercase);
        matches!(reason.as_deref(), Some("length" | "max_tokens" | "max_output_tokens"))
    }
}
