//! A chat completion that comes piece by piece, as server-sent events.
//!
//! Promise: an answer is returned only when its server said that it is complete; one that was cut off anywhere is an error
//! that another attempt may mend. What the pieces make is what the same answer would be as a whole.

use std::sync::atomic::Ordering;

use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use serde::Deserialize;
use serde_json::{Map, Value};
use sse_stream::{Error as SseError, SseStream};

use super::openai_wire::{WireCall, WireFunction, WireUsage, of_http, of_status, plain, tool_call};
use crate::http::error::HttpError;
use crate::http::exchange::Arriving;
use crate::model::chat::ChatResponse;
use crate::model::client::OnText;
use crate::model::error::ModelError;
use crate::recorded_error::start_of;

/// Most calls of tools in one answer.
const MOST_CALLS: usize = 1024;

/// The last event of an answer.
const DONE: &str = "[DONE]";

/// One event; all that servers are known to leave out is optional.
#[derive(Deserialize)]
struct Piece {
    id: Option<Value>,
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<WireUsage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    index: Option<u64>,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

/// What is new of the message. A model's reasoning comes in fields of its own and is no part of its text.
#[derive(Deserialize)]
struct Delta {
    content: Option<Value>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallPart>>,
    /// Its role, and what models say in fields that this client does not know.
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl Delta {
    /// Whether it holds what the model has said beside text and calls, such as its reasoning.
    fn says_more(&self) -> bool {
        self.more.iter().any(|(field, value)| field != "role" && !is_empty(value))
    }
}

/// Whether there is nothing in a field.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[derive(Deserialize)]
struct CallPart {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionPart>,
}

#[derive(Deserialize)]
struct FunctionPart {
    name: Option<String>,
    #[serde(default)]
    arguments: Value,
}

/// Reads an answer while it comes. `asked` is the model that was asked; `masked` takes the key out of what the server says.
pub(super) async fn read_events(
    arriving: Arriving,
    asked: String,
    on_text: OnText<'_>,
    masked: &(dyn Fn(&str) -> String + Send + Sync),
) -> Result<ChatResponse, ModelError> {
    let request_id = arriving.headers.get("x-request-id").cloned();
    let (read, (limit, too_large)) = (arriving.read(), arriving.limit_to());
    let bytes = unfold(arriving, |mut arriving| async move {
        let piece = arriving.next().await.transpose()?;
        Some((piece, arriving))
    });
    let mut events = SseStream::from_bytes_stream(Box::pin(bytes));
    let mut answer = Answer::default();
    while let Some(event) = events.next().await {
        // Each event is limited, and so is what they make; their frames are many times as long as the text.
        read.store(0, Ordering::Relaxed);
        let Some(data) = event.map_err(of_event)?.data else { continue };
        let data = data.trim();
        if data == DONE {
            answer.is_done = true;
            break;
        }
        if !data.is_empty() {
            answer.add(&masked(data), on_text)?;
            if answer.len() > limit {
                return Err(of_http(too_large));
            }
        }
    }
    let mut answer = answer.whole(asked)?;
    // The id of the exchange, where the server gives one: that of the answer is no help to every provider.
    answer.request_id = request_id.or(answer.request_id);
    Ok(answer)
}

/// An answer as far as it has come.
#[derive(Default)]
struct Answer {
    id: Option<String>,
    model: Option<String>,
    text: Option<String>,
    calls: Vec<Begun>,
    finish_reason: Option<String>,
    usage: Option<WireUsage>,
    is_done: bool,
}

/// A call of a tool as far as it has come.
struct Begun {
    index: Option<u64>,
    call: WireCall,
    /// What its arguments have, in bytes of JSON.
    arguments: usize,
}

impl Begun {
    fn len(&self) -> usize {
        self.arguments + self.call.function.name.len() + self.call.id.as_ref().map_or(0, String::len)
    }
}

impl Answer {
    /// Bytes of what is kept: text, and calls of tools with all that they hold.
    fn len(&self) -> usize {
        let calls: usize = self.calls.iter().map(Begun::len).sum();
        calls + self.text.as_ref().map_or(0, String::len)
    }

    fn add(&mut self, data: &str, on_text: OnText<'_>) -> Result<(), ModelError> {
        let json: Value = serde_json::from_str(data)
            .map_err(|error| ModelError::NotJson { reason: error.to_string(), start: start_of(data) })?;
        let wrong = |error: serde_json::Error| {
            let reason = format!("an event of it: {error}");
            ModelError::WrongShape { reason, start: start_of(data) }
        };
        let piece: Piece = serde_json::from_value(json).map_err(wrong)?;
        if let Some(error) = piece.error.filter(|error| !error.is_null()) {
            return Err(of_said(&error));
        }
        self.id = self.id.take().or_else(|| piece.id?.as_str().map(str::to_owned));
        self.model = self.model.take().or(piece.model);
        self.usage = piece.usage.or(self.usage.take());
        // Other choices than the first were not asked for.
        for choice in piece.choices.into_iter().flatten().filter(|choice| choice.index.unwrap_or(0) == 0) {
            let reason = choice.finish_reason.filter(|reason| !reason.is_empty());
            self.finish_reason = reason.or(self.finish_reason.take());
            if let Some(delta) = choice.delta {
                // The model has begun to answer: what comes behind this is no refusal.
                if delta.says_more() {
                    on_text("");
                }
                let text = delta.content.and_then(plain).or(delta.refusal);
                if let Some(text) = text {
                    on_text(&text);
                    self.text.get_or_insert_default().push_str(&text);
                }
                for part in delta.tool_calls.into_iter().flatten() {
                    // The model has begun to answer.
                    on_text("");
                    self.add_call(part)?;
                }
            }
        }
        Ok(())
    }

    /// A call begins with its name; its arguments follow in pieces. Servers that send whole calls may leave the index out,
    /// or count none of them.
    fn add_call(&mut self, CallPart { index, id, function }: CallPart) -> Result<(), ModelError> {
        let FunctionPart { name, arguments } =
            function.unwrap_or(FunctionPart { name: None, arguments: Value::Null });
        let id = id.filter(|id| !id.is_empty());
        let name = name.filter(|name| !name.is_empty());
        let known = self.calls.iter().rposition(|Begun { index: known, call, .. }| {
            let has_another_id = id.is_some() && call.id.is_some() && call.id != id;
            // A name that comes again is not that of the call whose arguments are whole.
            let begins = name.is_some() && id.is_none() && is_whole(&call.function);
            *known == index && !has_another_id && !begins
        });
        if known.is_none() {
            if self.calls.len() == MOST_CALLS {
                let message = format!("the answer has more than {MOST_CALLS} calls of tools");
                return Err(ModelError::TooLarge { message });
            }
            let function = WireFunction { name: String::new(), arguments: Value::Null };
            self.calls.push(Begun { index, call: WireCall { id: None, function }, arguments: 0 });
        }
        let place = known.unwrap_or(self.calls.len().saturating_sub(1));
        let Some(Begun { call, arguments: length, .. }) = self.calls.get_mut(place) else { return Ok(()) };
        call.id = call.id.take().or(id);
        if let (true, Some(name)) = (call.function.name.is_empty(), name) {
            call.function.name = name;
        }
        call.function.arguments = match (call.function.arguments.take(), arguments) {
            (before, Value::Null) => before,
            (Value::String(before), Value::String(more)) => {
                *length += more.len();
                Value::String(before + &more)
            }
            (_, whole) => {
                *length = whole.as_str().map_or_else(|| whole.to_string().len(), str::len);
                whole
            }
        };
        Ok(())
    }

    fn whole(self, asked: String) -> Result<ChatResponse, ModelError> {
        if !self.is_done && self.finish_reason.is_none() {
            let message = match &self.text {
                Some(text) => format!("the answer was cut off after {} bytes of text", text.len()),
                None => "the answer was cut off before its text began".into(),
            };
            return Err(ModelError::Network { message });
        }
        if let Some(Begun { call, .. }) = self.calls.iter().find(|it| it.call.function.name.is_empty()) {
            let reason = "a call of a tool has no name".into();
            return Err(ModelError::WrongShape {
                reason,
                start: start_of(&call.function.arguments.to_string()),
            });
        }
        let calls = self.calls.into_iter().enumerate();
        Ok(ChatResponse {
            model: self.model.unwrap_or(asked),
            content: self.text,
            tool_calls: calls.map(|(number, Begun { call, .. })| tool_call(number, call)).collect(),
            finish_reason: self.finish_reason,
            usage: self.usage.map(WireUsage::counted).unwrap_or_default(),
            request_id: self.id,
            cost: None,
        })
    }
}

/// Whether a call has its name and all of its arguments.
fn is_whole(function: &WireFunction) -> bool {
    let has_arguments = match &function.arguments {
        Value::String(text) => serde_json::from_str::<Value>(text).is_ok(),
        arguments => !arguments.is_null(),
    };
    !function.name.is_empty() && has_arguments
}

/// Why the events cannot be read on.
fn of_event(error: SseError) -> ModelError {
    match error {
        SseError::Body(error) => match error.downcast::<HttpError>() {
            Ok(error) => of_http(*error),
            Err(error) => ModelError::Network { message: start_of(&error.to_string()) },
        },
        other => {
            ModelError::NotJson { reason: format!("its events do not parse: {other}"), start: String::new() }
        }
    }
}

/// What a server says in the middle of an answer: an error, mostly with the status that it would have had before.
pub(super) fn of_said(error: &Value) -> ModelError {
    let word = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let message = match error.get("message").unwrap_or(error).as_str() {
        Some(message) => start_of(message),
        None => start_of(&error.to_string()),
    };
    // Some gateways write the number as a text.
    let number = |name: &str| match error.get(name)? {
        Value::String(text) => text.parse().ok(),
        number => number.as_u64(),
    };
    let status = ["code", "status"].into_iter().find_map(number);
    let status = status.and_then(|status| u16::try_from(status).ok()).filter(|it| (400..600).contains(it));
    let says = |text: &str| word("type").contains(text) || word("code").contains(text);
    let status = status.unwrap_or(match () {
        () if says("rate_limit") => 429,
        () if says("authentication") || says("permission") => 401,
        () if says("invalid_request") || says("context_length") => 400,
        () => 500,
    });
    of_status(status, None, message)
}
