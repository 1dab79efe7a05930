//! One question as one command: what its answer must be, its body, and reading the answer.

use std::any::type_name;
use std::sync::Arc;
use std::time::Duration;

use aether_core::definition::def::{Retry, StepOptions};
use aether_core::failure::{Failure, StepError};
use aether_core::outcome::EffectClass;
use aether_core::payload::{Payload, PayloadError};
use aether_core::step::StepCx;
use aether_core::step::{Body, BodyResult, Recordable};
use aether_core::workflow::BoxEffect;
use aether_core::workflow::Cx;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::model::chat::{ChatRequest, ChatResponse, ToolSpec};
use crate::model::client::Models;
use crate::model::error::ModelError;
use crate::recorded_error::{body_error, start_of};

/// A model's answer, or why there is none.
pub(crate) type ModelResult<T> = Result<T, StepError<Failure>>;

/// What one call allows its attempts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallLimits {
    /// Time for one attempt.
    pub(crate) timeout: Option<Duration>,
    /// When another attempt is made, where the call says so.
    pub(crate) retry: Option<Retry>,
}

/// What an answer must be; anything else is a failed attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expect {
    Anything,
    Text,
    TextOrCalls,
    Json(fn(&ChatResponse) -> Result<(), ModelError>),
}

impl Expect {
    fn check(self, answer: &ChatResponse) -> Result<(), ModelError> {
        match self {
            Self::Anything => Ok(()),
            Self::TextOrCalls if !answer.tool_calls.is_empty() => Ok(()),
            Self::Text | Self::TextOrCalls => text_of(answer, "text").map(drop),
            Self::Json(check) => check(answer),
        }
    }
}

/// Asks a model as the next command of `cx`.
pub(crate) fn ask(
    cx: &mut Cx,
    request: ChatRequest,
    expect: Expect,
    limits: CallLimits,
) -> BoxEffect<'_, ModelResult<ChatResponse>> {
    ask_for(cx, request, expect, limits)
}

/// As [`ask`], reading the recorded answer as a `T`.
pub(crate) fn ask_for<T: Recordable>(
    cx: &mut Cx,
    request: ChatRequest,
    expect: Expect,
    limits: CallLimits,
) -> BoxEffect<'_, ModelResult<T>> {
    let CallLimits { timeout, retry } = limits;
    let options = StepOptions { timeout, retry, ..StepOptions::of(EffectClass::Llm) };
    let name = format!("llm.{}", request.call);
    let args = Payload::encode(&request);
    let ChatRequest { response_schema, tools, .. } = request;
    cx.effect(name, options, args, Arc::new(ModelCall { expect, response_schema, tools }))
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

/// The body of a question: asks the client that the program provided. Schemas follow from types of the program; a recorded
/// question that differs in nothing else is the same question.
#[derive(Debug)]
struct ModelCall {
    expect: Expect,
    response_schema: Option<Value>,
    tools: Vec<ToolSpec>,
}

impl Body for ModelCall {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        let (request, expect) = (args.decode::<ChatRequest>(), self.expect);
        Box::pin(async move {
            match answer(&cx, request?, expect).await {
                Ok(answer) => Ok(Ok(Payload::encode(&answer)?)),
                Err(error) => Ok(Err(body_error(error)?)),
            }
        })
    }

    fn check(&self, args: &Payload) -> Result<(), PayloadError> {
        args.decode::<ChatRequest>().map(drop)
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
        Payload::encode(&request)
    }
}

async fn answer(cx: &StepCx, request: ChatRequest, expect: Expect) -> Result<ChatResponse, ModelError> {
    let models = cx.dep::<Models>().map_err(|error| ModelError::Setup(error.to_string()))?;
    let answer = models.ask(request).await?;
    expect.check(&answer)?;
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
        reason: error.to_string(),
        start: start_of(text),
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
    fn any_other_answer_is_an_error_that_shows_its_start() {
        for text in ["", "```", "no idea", "{\"a\":1}", "```json\nnope\n```"] {
            let error = read(text).unwrap_err();
            assert!(matches!(error, ModelError::WrongAnswer { .. }), "{error}");
        }
        assert!(read("no idea").unwrap_err().to_string().contains("no idea"));
    }
}
