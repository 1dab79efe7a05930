//! What a model was asked and what it answered, message by message.

use aether_core::view::StepView;
use aether_effects::llm::{ChatMessage, ChatRequest, ChatResponse, PriceTable, ToolCall};
use serde_json::Value;

use crate::text::json::{MOST, Shown, head};
use crate::text::time::{count, money};

/// One call of a model.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) messages: Vec<Message>,
    /// Messages that are not shown: those that set the model up.
    pub(crate) hidden: usize,
    pub(crate) tools: Vec<(String, String, Shown)>,
    pub(crate) facts: Vec<(&'static str, String)>,
}

/// One message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) by: &'static str,
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) calls: Vec<(String, Shown)>,
}

impl Message {
    fn new(by: &'static str, name: &str, text: &str) -> Self {
        Self { by, name: name.to_owned(), text: cut(text), calls: Vec::new() }
    }

    fn with_calls(mut self, calls: &[ToolCall]) -> Self {
        self.calls = calls.iter().map(|call| (call.name.clone(), arguments(call))).collect();
        self
    }
}

fn arguments(call: &ToolCall) -> Shown {
    let value = serde_json::from_str::<Value>(&call.arguments);
    value.map_or_else(|_| Shown::text(&call.arguments), |value| Shown::value(&value))
}

fn cut(text: &str) -> String {
    let kept = head(text, MOST);
    if kept.len() == text.len() {
        return text.to_owned();
    }
    format!("{kept}\n… {} bytes more are not shown.", text.len() - kept.len())
}

impl Talk {
    /// What the step asked a model; `None` where it did not.
    pub(crate) fn of(step: &StepView, audits: bool, prices: Option<&PriceTable>) -> Option<Self> {
        let request: ChatRequest = step.input.as_ref()?.decode().ok()?;
        let answer = step.result.as_ref().and_then(|result| result.as_ref().ok());
        let answer = answer.and_then(|answer| answer.decode::<ChatResponse>().ok());
        let hidden =
            request.messages.iter().filter(|message| matches!(message, ChatMessage::System { .. })).count();
        let mut messages: Vec<Message> = request
            .messages
            .iter()
            .filter(|message| audits || !matches!(message, ChatMessage::System { .. }))
            .map(message)
            .collect();
        if let Some(answer) = &answer {
            let said =
                Message::new("assistant", &answer.model, answer.content.as_deref().unwrap_or_default());
            messages.push(said.with_calls(&answer.tool_calls));
        }
        let tools = request.tools.iter().filter(|_| audits);
        let tools =
            tools.map(|tool| (tool.name.clone(), tool.description.clone(), Shown::value(&tool.schema)));
        Some(Self {
            messages,
            hidden: if audits { 0 } else { hidden },
            tools: tools.collect(),
            facts: facts(&request, answer.as_ref(), audits, prices),
        })
    }
}

fn message(message: &ChatMessage) -> Message {
    match message {
        ChatMessage::System { content } => Message::new("system", "", content),
        ChatMessage::User { content, attachments } => {
            let with = match attachments.len() {
                0 => String::new(),
                count => format!("with {count} attachments"),
            };
            Message::new("user", &with, content)
        }
        ChatMessage::Assistant { content, tool_calls } => {
            Message::new("assistant", "", content.as_deref().unwrap_or_default()).with_calls(tool_calls)
        }
        ChatMessage::Tool { name, content, .. } => Message::new("tool", name, content),
    }
}

fn facts(
    request: &ChatRequest,
    answer: Option<&ChatResponse>,
    audits: bool,
    prices: Option<&PriceTable>,
) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(answer) = answer {
        facts.push(("Model", answer.model.clone()));
        let usage = &answer.usage;
        let cached = match usage.cached_tokens {
            0 => String::new(),
            cached => format!(" ({} from the cache)", count(cached)),
        };
        facts.push((
            "Tokens",
            format!("{} in{cached}, {} out", count(usage.input_tokens), count(usage.output_tokens)),
        ));
        let cost = answer.cost.clone().or_else(|| prices?.cost(&answer.model, usage));
        facts.push(match cost {
            Some(cost) => (
                "Price",
                format!("{}, by prices of {}", money(cost.nanos.into(), &cost.currency), cost.prices_of),
            ),
            None => ("Price", "not in the price table".to_owned()),
        });
        facts.extend(answer.finish_reason.clone().map(|reason| ("Finished", reason)));
    } else {
        facts.extend(request.model.clone().map(|model| ("Model", model)));
    }
    if audits {
        facts.extend(request.temperature.map(|value| ("Temperature", value.to_string())));
        facts.extend(request.max_tokens.map(|value| ("Most tokens", value.to_string())));
        facts.extend(answer.and_then(|answer| answer.request_id.clone()).map(|id| ("Request", id)));
    }
    facts
}
