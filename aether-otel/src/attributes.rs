//! What the span of a command says: its name, its kind, and its attributes.
//!
//! Promise: no key and no identity of a person; what was said only with `capture_content`, and then with its secrets
//! replaced.

use aether_core::failure::StepError;
use aether_core::outcome::EffectClass;
use aether_core::payload::Payload;
use aether_core::view::StepView;
use aether_effects::llm::{ChatRequest, ChatResponse};
use opentelemetry::trace::{SpanKind, Status};
use opentelemetry::{Array, KeyValue, StringValue, Value};

use crate::content::{arguments_and_result, said};
use crate::semconv::gen_ai::operation;
use crate::semconv::{aether, gen_ai, general};
use crate::settings::Settings;

/// How a span is shown.
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) attributes: Vec<KeyValue>,
}

/// What kind of span a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A question to a model.
    Model,
    /// A tool, or any other step.
    Tool,
    /// A request over HTTP.
    Http,
    /// A child run.
    Child,
    /// A wait.
    Wait,
    /// A plan.
    Plan,
    /// A value that was drawn: no span.
    Drawn,
}

impl Role {
    pub(crate) fn of(step: &StepView, waits: bool) -> Self {
        match step.class {
            EffectClass::Llm => Self::Model,
            EffectClass::Read | EffectClass::Http if step.command.name().starts_with("http.") => Self::Http,
            EffectClass::Read
            | EffectClass::Http
            | EffectClass::Tool
            | EffectClass::External
            | EffectClass::Transaction => Self::Tool,
            EffectClass::Workflow => Self::Child,
            EffectClass::Human => Self::Wait,
            EffectClass::Time if waits => Self::Wait,
            EffectClass::Pure if step.command.name() == "plan" => Self::Plan,
            _ => Self::Drawn,
        }
    }

    /// Whether its attempts have spans.
    pub(crate) fn has_attempts(self) -> bool {
        matches!(self, Self::Model | Self::Tool | Self::Http)
    }
}

pub(crate) fn text(key: &'static str, value: impl Into<StringValue>) -> KeyValue {
    KeyValue::new(key, Value::String(value.into()))
}

pub(crate) fn count(key: &'static str, value: u64) -> KeyValue {
    KeyValue::new(key, i64::try_from(value).unwrap_or(i64::MAX))
}

/// The span of a command.
pub(crate) fn shown(step: &StepView, role: Role, wait: Option<&str>, settings: &Settings) -> Shown {
    let name = step.command.name().to_owned();
    let (kind, title, mut attributes) = match role {
        Role::Model => model(step, settings),
        Role::Tool => {
            let attributes = vec![
                text(gen_ai::OPERATION_NAME, operation::EXECUTE_TOOL),
                text(gen_ai::TOOL_NAME, name.clone()),
            ];
            (SpanKind::Internal, format!("{} {name}", operation::EXECUTE_TOOL), attributes)
        }
        Role::Http => (SpanKind::Client, name, Vec::new()),
        Role::Child => {
            let attributes = vec![
                text(gen_ai::OPERATION_NAME, operation::INVOKE_WORKFLOW),
                text(gen_ai::WORKFLOW_NAME, name.clone()),
            ];
            (SpanKind::Internal, format!("{} {name}", operation::INVOKE_WORKFLOW), attributes)
        }
        Role::Plan => {
            let attributes = vec![text(gen_ai::OPERATION_NAME, operation::PLAN)];
            (SpanKind::Internal, operation::PLAN.to_owned(), attributes)
        }
        Role::Wait | Role::Drawn => {
            let kind = wait.unwrap_or("wait").to_owned();
            let attributes = vec![text(aether::WAIT_KIND, kind.clone()), text(aether::WAIT_NAME, name)];
            (SpanKind::Internal, format!("aether.wait {kind}"), attributes)
        }
    };
    if settings.content && role == Role::Tool {
        attributes.extend(arguments_and_result(step, settings));
    }
    attributes.extend([
        text(aether::COMMAND, step.command.to_string()),
        text(aether::EFFECT, step.class.as_str()),
        text(aether::STATUS, step.status.as_str()),
    ]);
    attributes.extend(step.outcome.map(|outcome| text(aether::OUTCOME, outcome.as_str())));
    attributes.extend(step.site.clone().map(|site| text(general::CODE_LOCATION, site)));
    Shown { name: title, kind, attributes }
}

/// The question of a step that asks a model.
pub(crate) fn question(step: &StepView) -> Option<ChatRequest> {
    step.input.as_ref()?.decode().ok()
}

/// The answer that a step got from a model.
pub(crate) fn answer(step: &StepView) -> Option<ChatResponse> {
    step.result.as_ref()?.as_ref().ok()?.decode().ok()
}

fn model(step: &StepView, settings: &Settings) -> (SpanKind, String, Vec<KeyValue>) {
    let (question, answer) = (question(step), answer(step));
    let asked = question.as_ref().and_then(|question| question.model.clone());
    let model = asked.clone().or_else(|| answer.as_ref().map(|answer| answer.model.clone()));
    let title = match &model {
        Some(model) => format!("{} {model}", operation::CHAT),
        // Another library asks it: the name of the step is all that is known.
        None => format!("{} {}", operation::CHAT, step.command.name()),
    };
    let provider = (settings.provider_of)(model.as_deref().unwrap_or_default());
    let mut attributes =
        vec![text(gen_ai::OPERATION_NAME, operation::CHAT), text(gen_ai::PROVIDER_NAME, provider)];
    attributes.extend(model.map(|model| text(gen_ai::REQUEST_MODEL, model)));
    if let Some(question) = &question {
        attributes.extend(question.temperature.map(|t| KeyValue::new(gen_ai::REQUEST_TEMPERATURE, t)));
        attributes.extend(question.max_tokens.map(|max| count(gen_ai::REQUEST_MAX_TOKENS, max.into())));
    }
    if let Some(answer) = &answer {
        attributes.extend(answered(answer));
    }
    if settings.content {
        attributes.extend(said(question.as_ref(), answer.as_ref(), settings));
    }
    (SpanKind::Client, title, attributes)
}

fn answered(answer: &ChatResponse) -> Vec<KeyValue> {
    let usage = &answer.usage;
    let mut attributes = vec![text(gen_ai::RESPONSE_MODEL, answer.model.clone())];
    attributes.extend(answer.request_id.clone().map(|id| text(gen_ai::RESPONSE_ID, id)));
    attributes.extend(answer.finish_reason.clone().map(|reason| {
        let reasons = Array::String(vec![reason.into()]);
        KeyValue::new(gen_ai::RESPONSE_FINISH_REASONS, Value::Array(reasons))
    }));
    // 0 where the provider does not tell.
    let tokens = [
        (gen_ai::USAGE_INPUT_TOKENS, usage.input_tokens),
        (gen_ai::USAGE_OUTPUT_TOKENS, usage.output_tokens),
        (gen_ai::USAGE_CACHE_READ_INPUT_TOKENS, usage.cached_tokens),
        (gen_ai::USAGE_REASONING_OUTPUT_TOKENS, usage.reasoning_tokens),
    ];
    attributes.extend(tokens.into_iter().filter(|(_, n)| *n > 0).map(|(key, n)| count(key, n)));
    attributes
}

/// What a span says of an error: its class, and its text only where content may be exported, because it may quote what was
/// sent.
pub(crate) fn failed(
    class: &'static str,
    message: Option<String>,
    settings: &Settings,
) -> (Status, KeyValue) {
    let message = message.filter(|_| settings.content).map(|message| {
        let quoted = serde_json::Value::String(message);
        let masked = settings.masking.redact(&quoted.to_string());
        serde_json::from_str::<String>(&masked).unwrap_or_default()
    });
    (Status::error(message.unwrap_or_default()), text(general::ERROR_TYPE, class))
}

/// The class of a recorded step error, as `error.type`.
pub(crate) fn error_class(error: &Payload) -> &'static str {
    match error.decode::<StepError<Payload>>() {
        Ok(StepError::App(_)) => "app",
        Ok(StepError::Exhausted(_)) => "exhausted",
        Ok(StepError::TimedOut(_)) => "timed_out",
        Ok(StepError::Rejected(_)) => "rejected",
        Ok(StepError::OverBudget(_)) => "over_budget",
        Ok(StepError::Taken(_)) => "taken",
        Ok(StepError::InDoubt(_)) => "in_doubt",
        Ok(StepError::Cancelled(_)) => "cancelled",
        Ok(StepError::Panicked(_)) => "panicked",
        Ok(StepError::Unrecordable(_)) => "unrecordable",
        _ => "_OTHER",
    }
}
