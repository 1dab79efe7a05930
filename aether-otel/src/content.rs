//! What was said, in the form of the conventions: messages made of parts.
//!
//! Promise: its secrets are replaced. Bytes of attachments are not part of it.

use aether_core::payload::Payload;
use aether_core::view::StepView;
use aether_effects::llm::{Attachment, AttachmentSource, ChatMessage, ChatRequest, ChatResponse, ToolCall};
use opentelemetry::KeyValue;
use serde_json::{Value, json};

use crate::semconv::gen_ai;
use crate::settings::Settings;

/// Why a model stopped, where it did not say.
const UNKNOWN: &str = "unknown";

/// The question to a model, and its answer.
pub(crate) fn said(
    question: Option<&ChatRequest>,
    answer: Option<&ChatResponse>,
    settings: &Settings,
) -> Vec<KeyValue> {
    let json = |key, value: Value| KeyValue::new(key, settings.masking.redact(&value.to_string()));
    let mut attributes = Vec::new();
    if let Some(question) = question {
        let messages: Vec<_> = question.messages.iter().filter_map(input).collect();
        attributes.push(json(gen_ai::INPUT_MESSAGES, json!(messages)));
        let instructions: Vec<_> = question.messages.iter().filter_map(instruction).collect();
        if !instructions.is_empty() {
            attributes.push(json(gen_ai::SYSTEM_INSTRUCTIONS, json!(instructions)));
        }
        if !question.tools.is_empty() {
            let tool = |tool: &aether_effects::llm::ToolSpec| {
                json!({
                    "type": "function", "name": tool.name, "description": tool.description,
                    "parameters": tool.schema,
                })
            };
            let tools: Vec<_> = question.tools.iter().map(tool).collect();
            attributes.push(json(gen_ai::TOOL_DEFINITIONS, json!(tools)));
        }
    }
    if let Some(answer) = answer {
        let reason = answer.finish_reason.as_deref().unwrap_or(UNKNOWN);
        let parts = assistant(answer.content.as_deref(), &answer.tool_calls);
        let said = json!([{ "role": "assistant", "parts": parts, "finish_reason": reason }]);
        attributes.push(json(gen_ai::OUTPUT_MESSAGES, said));
    }
    attributes
}

fn text_part(content: &str) -> Value {
    json!({ "type": "text", "content": content })
}

fn instruction(message: &ChatMessage) -> Option<Value> {
    match message {
        ChatMessage::System { content } => Some(text_part(content)),
        _ => None,
    }
}

fn input(message: &ChatMessage) -> Option<Value> {
    let (role, parts) = match message {
        ChatMessage::System { .. } => return None,
        ChatMessage::User { content, attachments } => {
            ("user", std::iter::once(text_part(content)).chain(attachments.iter().map(attached)).collect())
        }
        ChatMessage::Assistant { content, tool_calls } => {
            ("assistant", assistant(content.as_deref(), tool_calls))
        }
        ChatMessage::Tool { call_id, content, .. } => {
            let response = parsed(content);
            ("tool", vec![json!({ "type": "tool_call_response", "id": call_id, "response": response })])
        }
    };
    Some(json!({ "role": role, "parts": parts }))
}

fn assistant(content: Option<&str>, calls: &[ToolCall]) -> Vec<Value> {
    let call = |call: &ToolCall| {
        let arguments = parsed(&call.arguments);
        json!({ "type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments })
    };
    content.map(text_part).into_iter().chain(calls.iter().map(call)).collect()
}

/// JSON as such, and any other text as a text.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// That there was an attachment, and its URL where it has one; not its bytes.
fn attached(attachment: &Attachment) -> Value {
    let modality =
        attachment.media_type.split('/').next().filter(|kind| ["image", "video", "audio"].contains(kind));
    match &attachment.source {
        AttachmentSource::Url(url) => json!({
            "type": "uri", "modality": modality.unwrap_or("document"), "mime_type": attachment.media_type,
            "uri": url,
        }),
        _ => json!({
            "type": "attachment", "mime_type": attachment.media_type, "name": attachment.name,
        }),
    }
}

/// The arguments and the result of a tool.
pub(crate) fn arguments_and_result(step: &StepView, settings: &Settings) -> Vec<KeyValue> {
    let masked = |key, value: &Payload| KeyValue::new(key, settings.masking.redact(value.as_str()));
    let arguments = step.edited.as_ref().or(step.input.as_ref());
    let arguments = arguments.map(|value| masked(gen_ai::TOOL_CALL_ARGUMENTS, value));
    let result = step.result.as_ref().and_then(|result| result.as_ref().ok());
    arguments.into_iter().chain(result.map(|value| masked(gen_ai::TOOL_CALL_RESULT, value))).collect()
}
