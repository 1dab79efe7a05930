//! One question as one command: what its answer must be, its body, and reading the answer.

use std::any::type_name;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aether_core::budget::{Spend, Spent};
use aether_core::definition::def::{Retry, StepOptions};
use aether_core::failure::{Failure, StepError};
use aether_core::outcome::{EffectClass, FailureClass};
use aether_core::payload::{Payload, PayloadError, outline, without_values};
use aether_core::step::StepCx;
use aether_core::step::{Body, BodyError, BodyResult, Estimating, Recordable};
use aether_core::workflow::BoxEffect;
use aether_core::workflow::Cx;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::model::chat::{ChatMessage, ChatRequest, ChatResponse, ToolSpec};
use crate::model::client::Models;
use crate::model::error::ModelError;
use crate::model::estimate::{estimate, spent, spent_without_answer};
use crate::recorded_error::{body_error, start_of};

/// A model's answer, or why there is none.
pub(crate) type ModelResult<T> = Result<T, StepError<Failure>>;

/// What a call says beside its question: no part of what is recorded of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallSettings {
    /// Time for one attempt.
    pub(crate) timeout: Option<Duration>,
    /// When another attempt is made, where the call says so.
    pub(crate) retry: Option<Retry>,
    /// The stream that the text of the answer goes to while it comes.
    pub(crate) stream: Option<String>,
    /// The longest wait that the provider may ask for; one that asks for more is not asked again.
    pub(crate) patience: Option<Duration>,
}

/// What an answer must be; anything else is a failed attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expect {
    Anything,
    Text,
    /// Text that the model said to its end: it stands for something longer.
    Summary,
    Json(CheckAnswer),
    /// Anything; an answer that does not pass is sent back to the model.
    Repaired(CheckAnswer),
    /// Text or calls of tools; a text that does not pass is sent back to the model.
    Turn(CheckAnswer),
}

/// Whether an answer can be used.
pub(crate) type CheckAnswer = fn(&ChatResponse) -> Result<(), ModelError>;

impl Expect {
    fn check(self, answer: &ChatResponse) -> Result<(), ModelError> {
        match self {
            Self::Anything | Self::Repaired(_) => Ok(()),
            Self::Turn(_) if !answer.tool_calls.is_empty() => Ok(()),
            Self::Text | Self::Turn(_) => text_of(answer, "text").map(drop),
            Self::Summary => whole_text(answer),
            Self::Json(check) => check(answer),
        }
    }

    /// Whether nothing follows an answer that was accepted, so that its text is the one that counts.
    fn is_last(self, answer: &ChatResponse) -> bool {
        match self {
            Self::Anything | Self::Text | Self::Summary | Self::Json(_) => true,
            Self::Repaired(check) => check(answer).is_ok(),
            Self::Turn(check) => answer.tool_calls.is_empty() && check(answer).is_ok(),
        }
    }
}

/// Asks a model as the next command of `cx`, and reads the recorded answer as a `T`.
pub(crate) fn ask_for<T: Recordable>(
    cx: &mut Cx,
    request: ChatRequest,
    expect: Expect,
    settings: CallSettings,
) -> BoxEffect<'_, ModelResult<T>> {
    let CallSettings { timeout, retry, stream, patience } = settings;
    let options = StepOptions { timeout, retry, ..StepOptions::of(EffectClass::Llm) };
    let name = format!("llm.{}", request.call);
    let args = Payload::encode(&request);
    let repairs = request
        .messages
        .iter()
        .enumerate()
        .filter_map(|(at, message)| Some((at, words_of(message)?.clone())));
    let repairs = repairs.collect();
    let ChatRequest { response_schema, tools, .. } = request;
    let body = ModelCall { expect, response_schema, tools, stream, patience, repairs };
    cx.effect(name, options, args, Arc::new(body))
}

/// How a message begins that sends an answer back.
pub(crate) const REPAIR: &str = "This answer cannot be used: ";

/// The text of a message that sends an answer back.
pub(crate) fn repair_of(message: &ChatMessage) -> Option<&String> {
    match message {
        ChatMessage::User { content, .. } => Some(content).filter(|content| content.starts_with(REPAIR)),
        _ => None,
    }
}

/// How the answer of a tool begins whose arguments cannot be read.
pub(crate) const BAD_ARGUMENTS: &str = "error: bad arguments for `";

/// What such a message begins with, whatever the words of the decoder.
fn beginning(text: &str) -> &str {
    match text.strip_prefix(BAD_ARGUMENTS).and_then(|rest| rest.find('`')) {
        Some(end) => text.get(..BAD_ARGUMENTS.len() + end).unwrap_or(text),
        None if text.starts_with(REPAIR) => REPAIR,
        None => text,
    }
}

/// The text of a message in the words of a decoder, which another build may choose in another way.
fn words_of(message: &ChatMessage) -> Option<&String> {
    match message {
        ChatMessage::Tool { content, .. } => {
            Some(content).filter(|content| content.starts_with(BAD_ARGUMENTS))
        }
        message => repair_of(message),
    }
}

/// The value in a recorded answer. Read with the answer, so that an answer which the code of today cannot read stops the
/// run as any such result does, and is not an error of its workflow.
pub(crate) struct Parsed<T>(pub(crate) T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse(&ChatResponse::deserialize(deserializer)?).map(Self).map_err(serde::de::Error::custom)
    }
}

impl<T: Serialize> Serialize for Parsed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The body of a question: asks the client that the program provided. Schemas follow from types of the program, and what is
/// wrong with an answer is said in the words of the decoder: a recorded question that differs in nothing else is the same
/// question.
#[derive(Debug)]
struct ModelCall {
    expect: Expect,
    response_schema: Option<Value>,
    tools: Vec<ToolSpec>,
    stream: Option<String>,
    patience: Option<Duration>,
    /// Messages that send an answer back, by their places.
    repairs: Vec<(usize, String)>,
}

impl Body for ModelCall {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        let (request, expect, stream) = (args.decode::<ChatRequest>(), self.expect, self.stream.clone());
        let patience = self.patience;
        Box::pin(async move {
            match answer(&cx, request?, expect, stream).await {
                Ok(answer) => Ok(Ok(Payload::encode(&answer)?)),
                Err(error) => Ok(Err(within(patience, body_error(error)?))),
            }
        })
    }

    fn check(&self, args: &Payload) -> Result<(), PayloadError> {
        args.decode::<ChatRequest>().map(drop)
    }

    fn estimate(&self, args: &Payload, facts: &Estimating<'_>) -> Result<Spend, String> {
        estimate(&args.decode().map_err(|error| error.to_string())?, facts)
    }

    fn spent(&self, value: &Payload) -> Option<Spent> {
        value.decode::<ChatResponse>().ok().map(|answer| spent(&answer))
    }

    fn canonical_args(&self, args: &Payload) -> Result<Payload, PayloadError> {
        let mut request: ChatRequest = args.decode()?;
        if request.response_schema.is_some() && self.response_schema.is_some() {
            request.response_schema.clone_from(&self.response_schema);
        }
        let names = |tools: &[ToolSpec]| tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
        if names(&request.tools) == names(&self.tools) {
            request.tools.clone_from(&self.tools);
        }
        for (at, today) in &self.repairs {
            if let Some(message) = request.messages.get_mut(*at)
                && words_of(message).is_some()
                && let ChatMessage::User { content, .. } | ChatMessage::Tool { content, .. } = message
                // What is wrong with it may be said in other words, and not that something is.
                && beginning(content) == beginning(today)
            {
                content.clone_from(today);
            }
        }
        Payload::encode(&request)
    }
}

/// The error of an attempt; the last one, where the provider asks for a longer wait than it is granted.
fn within(patience: Option<Duration>, error: BodyError) -> BodyError {
    match (patience, error.retry_after) {
        (Some(patience), Some(asked)) if asked > patience => {
            BodyError { class: FailureClass::Permanent, retry_after: None, ..error }
        }
        _ => error,
    }
}

async fn answer(
    cx: &StepCx,
    request: ChatRequest,
    expect: Expect,
    stream: Option<String>,
) -> Result<ChatResponse, ModelError> {
    let models = cx.dep::<Models>().map_err(|error| ModelError::Setup(error.to_string()))?;
    let stream = stream.map(|stream| cx.stream(&stream));
    let began = AtomicBool::new(false);
    let on_text = |text: &str| {
        began.store(true, Ordering::Relaxed);
        if let Some(stream) = stream.as_ref().filter(|_| !text.is_empty()) {
            stream.send(text);
        }
    };
    let was_held = models.is_held(&request);
    let answer = match &stream {
        Some(_) => models.ask_streamed(request, &on_text).await,
        None => models.ask(request).await,
    };
    let answer = answer.inspect_err(|error| {
        if let Some(spent) = spent_without_answer(error, was_held, began.load(Ordering::Relaxed)) {
            cx.spent(spent);
        }
        if let (ModelError::RateLimited { retry_after, .. }, false) = (error, was_held) {
            cx.slow_down(*retry_after);
        }
    })?;
    cx.spent(spent(&answer));
    expect.check(&answer)?;
    if let Some(stream) = stream.filter(|_| !expect.is_last(&answer)) {
        stream.restart();
    }
    Ok(answer)
}

fn text_of<'a>(answer: &'a ChatResponse, wanted: &str) -> Result<&'a str, ModelError> {
    match answer.content.as_deref().map(str::trim) {
        Some(text) if !text.is_empty() => Ok(text),
        _ => Err(ModelError::WrongAnswer {
            model: answer.model.clone(),
            wanted: wanted.into(),
            reason: match &answer.finish_reason {
                Some(reason) => format!("there is no text in it (it ended with `{reason}`)"),
                None => "there is no text in it".into(),
            },
            start: String::new(),
        }),
    }
}

/// Whether an answer is a text that was not cut off.
fn whole_text(answer: &ChatResponse) -> Result<(), ModelError> {
    let text = text_of(answer, "summary")?;
    if !answer.is_cut_off() {
        return Ok(());
    }
    let reason = "it was cut off; `.max_tokens(..)` of the `Compaction` may be too small";
    Err(ModelError::WrongAnswer {
        model: answer.model.clone(),
        wanted: "summary".into(),
        reason: reason.into(),
        start: start_of(text),
    })
}

/// Reads the text of an answer as a `T`.
pub(crate) fn parse<T: DeserializeOwned>(answer: &ChatResponse) -> Result<T, ModelError> {
    let text = text_of(answer, type_name::<T>())?;
    let whole = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let fenced = fenced(text).map(serde_json::from_str);
    let error = match fenced {
        Some(Ok(value)) => return Ok(value),
        Some(Err(error)) => error,
        None => whole,
    };
    Err(ModelError::WrongAnswer {
        model: answer.model.clone(),
        wanted: type_name::<T>().into(),
        reason: without_values(&error.to_string()),
        start: outline(&start_of(text)),
    })
}

/// Whether an answer is a `T`.
pub(crate) fn check_json<T: DeserializeOwned>(answer: &ChatResponse) -> Result<(), ModelError> {
    parse::<T>(answer).map(drop)
}

/// What stands in the first code fence of `text`.
fn fenced(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("```")?;
    let (_language, block) = after.split_once('\n')?;
    Some(block.split_once("```").map_or(block, |(block, _)| block))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<u8>, ModelError> {
        parse(&ChatResponse { model: "m".into(), content: Some(text.into()), ..ChatResponse::default() })
    }

    #[test]
    fn a_code_fence_is_tolerated() {
        for text in
            ["[1,2]", " [1,2]\n", "```json\n[1,2]\n```", "Sure:\n```\n[1,2]\n```\nDone.", "```json\n[1,2]"]
        {
            assert_eq!(read(text), Ok(vec![1, 2]), "{text:?}");
        }
    }

    #[test]
    fn a_question_that_sends_an_answer_back_in_other_words_is_the_same_question() {
        let request = |wrong: &str, order: &str| {
            let messages = vec![
                ChatMessage::user(order),
                ChatMessage::assistant("none"),
                ChatMessage::user(format!("{REPAIR}{wrong}. Answer again.")),
            ];
            ChatRequest { messages, ..ChatRequest::default() }
        };
        let today = request("missing field `a` at line 1", "List.");
        let repairs = vec![(2, repair_of(&today.messages[2]).unwrap().clone())];
        let body = ModelCall {
            expect: Expect::Anything,
            response_schema: None,
            tools: Vec::new(),
            stream: None,
            patience: None,
            repairs,
        };
        let normal = |request: &ChatRequest| body.canonical_args(&Payload::encode(request).unwrap()).unwrap();
        assert_eq!(normal(&request("no field a", "List.")), normal(&today));
        assert_ne!(normal(&request("no field a", "List all.")), normal(&today));
        // Another conversation has something else there.
        let mut other = today.clone();
        other.messages[2] = ChatMessage::user("Answer again.");
        assert_ne!(normal(&other), normal(&today));
    }

    #[test]
    fn any_other_answer_is_an_error_that_does_not_show_it() {
        for text in ["", "```", "no idea", "{\"a\":1}", "```json\nnope\n```"] {
            let error = read(text).unwrap_err();
            assert!(matches!(error, ModelError::WrongAnswer { .. }), "{error}");
        }
        assert!(!read("no idea").unwrap_err().to_string().contains("no idea"));
    }
}
