//! Requests to models and their answers, as they stand in the journal.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

/// Words for an answer that the model said to its end, in small letters; some providers say none.
const WHOLE: [&str; 11] = [
    "",
    "stop",
    "end_turn",
    "tool_calls",
    "tool_call",
    "tool_use",
    "function_call",
    "complete",
    "completed",
    "eos",
    "eos_token",
];

/// More words for an answer that ended before the model was done.
const ENDED_EARLY: [&str; 3] = ["incomplete", "model_length", "model_context_window_exceeded"];

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
        matches!(self.reason().as_str(), "length" | "max_tokens" | "max_output_tokens")
    }

    /// Whether a call of this answer may lack arguments that the model was about to write: it has none at all, and the answer
    /// is not known to be whole; or they are `{}`, which clients make of what does not parse, at the end of an answer that was
    /// cut off.
    pub(crate) fn may_lack_arguments(&self, call: &ToolCall) -> bool {
        let (reason, arguments) = (self.reason(), call.arguments.trim());
        if arguments.is_empty() {
            return !WHOLE.contains(&&*reason);
        }
        let is_last = self.tool_calls.last().is_some_and(|last| last == call);
        let has_none = || serde_json::from_str::<Map<String, Value>>(arguments).is_ok_and(|it| it.is_empty());
        is_last && (self.is_cut_off() || ENDED_EARLY.contains(&&*reason)) && has_none()
    }

    /// Why it stopped, in small letters; nothing where it does not say so.
    fn reason(&self) -> String {
        self.finish_reason.as_deref().unwrap_or_default().trim().to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_arguments_is_one_where_the_answer_is_whole() {
        let lacks = |arguments: &str, reason: Option<&str>| {
            let call = ToolCall { id: "c1".into(), name: "list".into(), arguments: arguments.into() };
            let finish_reason = reason.map(str::to_owned);
            let answer =
                ChatResponse { finish_reason, tool_calls: vec![call.clone()], ..ChatResponse::default() };
            answer.may_lack_arguments(&call)
        };
        for whole in [None, Some(""), Some("STOP"), Some("tool_use"), Some("end_turn")] {
            assert!(!lacks("", whole) && !lacks("{}", whole), "{whole:?}");
        }
        for broken in ["content_filter", "refusal", "max_tokens", "model_context_window_exceeded"] {
            assert!(lacks(" ", Some(broken)), "{broken}");
        }
        assert!(lacks("{ }", Some("MAX_TOKENS")) && lacks("{}", Some("model_context_window_exceeded")));
        assert!(!lacks("{\"a\":1}", Some("max_tokens")), "they are there");
        assert!(!lacks("{}", Some("content_filter")), "the model wrote them");
    }

    #[test]
    fn only_the_last_call_of_an_answer_is_cut_off() {
        let call = |id: &str| ToolCall { id: id.into(), name: "list".into(), arguments: "{}".into() };
        let tool_calls = vec![call("c1"), call("c2")];
        let finish_reason = Some("max_tokens".into());
        let answer = ChatResponse { finish_reason, tool_calls, ..ChatResponse::default() };
        let lacks = |number: usize| answer.may_lack_arguments(&answer.tool_calls[number]);
        assert_eq!((lacks(0), lacks(1)), (false, true));
    }
}
