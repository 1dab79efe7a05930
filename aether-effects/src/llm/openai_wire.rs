//! What servers of chat completions answer: whole answers, and errors.
//!
//! Promise: whatever it is, it is a value or a [`ModelError`].

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::http::error::HttpError;
use crate::model::chat::{ChatResponse, ToolCall};
use crate::model::error::ModelError;
use crate::model::usage::Usage;
use crate::recorded_error::start_of;

pub(super) fn of_http(error: HttpError) -> ModelError {
    let message = error.to_string();
    match error {
        HttpError::Invalid { .. } => ModelError::Setup(message),
        HttpError::Timeout { .. } => ModelError::Timeout { message },
        HttpError::TooLarge { .. } => ModelError::TooLarge { message },
        HttpError::NotRecorded { refusal, .. } => ModelError::NotRecorded { refusal },
        _ => ModelError::Network { message },
    }
}

/// What an error status means, with what the provider said.
pub(super) fn of_status(status: u16, retry_after: Option<Duration>, message: String) -> ModelError {
    match status {
        401 | 403 => ModelError::Unauthorized { status, message },
        429 => ModelError::RateLimited { retry_after, message },
        408 | 425 | 500.. => ModelError::Overloaded { status, retry_after, message },
        _ => ModelError::BadRequest { status, message },
    }
}

/// The message of an error answer, or the start of it where it has none.
pub(super) fn said(text: &str) -> String {
    let message = serde_json::from_str::<Value>(text).ok().and_then(|answer| {
        let error = answer.get("error")?;
        error.get("message").unwrap_or(error).as_str().map(start_of)
    });
    message.unwrap_or_else(|| start_of(text))
}

/// An answer as the protocol defines it; all that servers are known to leave out is optional.
#[derive(Deserialize)]
struct Completion {
    id: Option<Value>,
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Choice {
    message: WireMessage,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct WireMessage {
    /// A text by the protocol; some servers send a list of parts.
    content: Option<Value>,
    refusal: Option<String>,
    tool_calls: Option<Vec<WireCall>>,
}

#[derive(Deserialize)]
pub(super) struct WireCall {
    pub(super) id: Option<String>,
    pub(super) function: WireFunction,
}

#[derive(Deserialize)]
pub(super) struct WireFunction {
    pub(super) name: String,
    /// A text by the protocol; some servers send the object itself.
    #[serde(default)]
    pub(super) arguments: Value,
}

#[derive(Deserialize)]
pub(super) struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Value>,
    completion_tokens_details: Option<Value>,
}

impl WireUsage {
    pub(super) fn counted(self) -> Usage {
        let detail = |details: Option<Value>, name| details?.get(name)?.as_u64();
        Usage {
            input_tokens: self.prompt_tokens.unwrap_or(0),
            output_tokens: self.completion_tokens.unwrap_or(0),
            cached_tokens: detail(self.prompt_tokens_details, "cached_tokens").unwrap_or(0),
            reasoning_tokens: detail(self.completion_tokens_details, "reasoning_tokens").unwrap_or(0),
        }
    }
}

/// Reads an answer. `asked` is the model that was asked, where the answer names none.
pub(super) fn read(text: &str, asked: String) -> Result<ChatResponse, ModelError> {
    let wrong = |reason: String| ModelError::WrongShape { reason, start: start_of(text) };
    let json: Value = serde_json::from_str(text)
        .map_err(|error| ModelError::NotJson { reason: error.to_string(), start: start_of(text) })?;
    let completion: Completion = serde_json::from_value(json).map_err(|error| wrong(error.to_string()))?;
    let choice = completion.choices.and_then(|choices| choices.into_iter().next());
    let Choice { message, finish_reason } = choice.ok_or_else(|| wrong("it has no choices".into()))?;
    let usage = completion.usage.map(WireUsage::counted).unwrap_or_default();
    let id = completion.id.as_ref().and_then(Value::as_str);
    let calls = message.tool_calls.unwrap_or_default();
    Ok(ChatResponse {
        model: completion.model.unwrap_or(asked),
        content: message.content.and_then(plain).or(message.refusal),
        tool_calls: calls.into_iter().enumerate().map(|(number, call)| tool_call(number, call)).collect(),
        finish_reason,
        usage,
        request_id: id.map(str::to_owned),
        cost: None,
    })
}

/// The text of a content, where there is one.
pub(super) fn plain(content: Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text),
        Value::Array(parts) => {
            let texts: Vec<_> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
            (!texts.is_empty()).then(|| texts.concat())
        }
        _ => None,
    }
}

pub(super) fn tool_call(number: usize, WireCall { id, function }: WireCall) -> ToolCall {
    let arguments = match function.arguments {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let id = id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{number}"));
    ToolCall { id, name: function.name, arguments }
}
