//! `cx.llm(..)`: building a question, asking it as a recorded effect, and reading the answer as text or as a type.

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
use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::model::chat::{ChatMessage, ChatRequest, ChatResponse, ToolSpec};
use crate::model::client::{ModelError, Models};
use crate::recorded_error::{body_error, start_of};

/// A model's answer, or why there is none.
pub(crate) type ModelResult<T> = Result<T, StepError<Failure>>;

/// `cx.llm(..)` in workflows.
pub trait CxLlm {
    /// Begins a question. `call` names the place that asks; it chooses the client and stands in the journal.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let reply = cx.llm("greet").user("Say hello.").text().await?;
    /// # Ok(())
    /// # }
    /// ```
    fn llm(&mut self, call: impl Into<String>) -> LlmRequest<'_>;
}

impl CxLlm for Cx {
    fn llm(&mut self, call: impl Into<String>) -> LlmRequest<'_> {
        let request = ChatRequest { call: call.into(), ..ChatRequest::default() };
        LlmRequest { cx: self, request, limits: CallLimits::default() }
    }
}

/// A question to a model under construction.
///
/// ```
/// # use aether_core::failure::Result;
/// # use aether_core::workflow::Cx;
/// # use aether_effects::llm::CxLlm;
/// # async fn workflow(cx: &mut Cx) -> Result<()> {
/// let text = cx
///     .llm("summarize")
///     .system("You summarize tickets in one sentence.")
///     .user("My key does not open the door since Monday.")
///     .max_tokens(60)
///     .text()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a model is asked by `.send()`, `.text()` or `.json()`"]
#[derive(Debug)]
pub struct LlmRequest<'c> {
    cx: &'c mut Cx,
    request: ChatRequest,
    limits: CallLimits,
}

/// What one call allows its attempts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallLimits {
    /// Time for one attempt.
    pub(crate) timeout: Option<Duration>,
    /// When another attempt is made, where the call says so.
    pub(crate) retry: Option<Retry>,
}

impl<'c> LlmRequest<'c> {
    /// Asks this model instead of the client's own.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.llm("greet").model("gpt-4o").user("Say hello.").text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.request.model = Some(model.into());
        self
    }

    /// Says what the model is to do and to be.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.llm("greet").system("You are polite.").user("Say hello.").text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn system(self, content: impl Into<String>) -> Self {
        self.message(ChatMessage::system(content))
    }

    /// Says something as the user.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.llm("greet").user("Say hello.").text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn user(self, content: impl Into<String>) -> Self {
        self.message(ChatMessage::user(content))
    }

    /// Adds a message of any kind.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # use aether_effects::llm::ChatMessage;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let before = ChatMessage::assistant("Hello!");
    /// cx.llm("greet").user("Say hello.").message(before).user("Once more.").text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn message(mut self, message: ChatMessage) -> Self {
        self.request.messages.push(message);
        self
    }

    /// How freely the model chooses its words: 0 for the likeliest, the provider's default if it is not set.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.llm("greet").temperature(0.0).user("Say hello.").text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.request.temperature = Some(temperature);
        self
    }

    /// Limits the answer to so many tokens; the provider's limit if it is not set.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.llm("greet").max_tokens(20).user("Say hello.").text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.request.max_tokens = Some(tokens);
        self
    }

    /// Time for one attempt. Without it, the client's own timeout holds.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.llm("greet").timeout(std::time::Duration::from_secs(20)).user("Say hello.").text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = Some(timeout);
        self
    }

    /// When another attempt is made. Without it, the engine's policy for model calls holds: an hour of attempts by default,
    /// and three retries at most where the model answers, but not with what it was asked for.
    ///
    /// ```
    /// # use aether_core::definition::def::Retry;
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.llm("greet").retry(Retry::times(5)).user("Say hello.").text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry(mut self, retry: Retry) -> Self {
        self.limits.retry = Some(retry);
        self
    }

    /// Asks, and returns the whole answer, whatever is in it.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let answer = cx.llm("greet").user("Say hello.").send().await?;
    /// let (text, tokens) = (answer.content, answer.usage.output_tokens);
    /// # Ok(())
    /// # }
    /// ```
    pub fn send(self) -> BoxEffect<'c, ModelResult<ChatResponse>> {
        self.ask(Expect::Anything)
    }

    /// Asks, and returns the text of the answer. An answer without text is asked for again.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let text: String = cx.llm("greet").user("Say hello.").text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn text(self) -> BoxEffect<'c, ModelResult<String>> {
        self.ask(Expect::Text).map(|answer| Ok(answer?.content.unwrap_or_default()))
    }

    /// Asks for JSON after the schema of `T`, and returns the value. A code fence around it is tolerated; an answer that is no
    /// `T` is asked for again, and after the last attempt the error shows its start.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// struct Verdict { urgent: bool }
    ///
    /// let Verdict { urgent } = cx.llm("triage").user("The door is open.").json().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn json<T: Recordable + JsonSchema>(mut self) -> BoxEffect<'c, ModelResult<T>> {
        self.request.response_schema = Some(schema_for!(T).to_value());
        let expect = Expect::Json(|answer| parse::<T>(answer).map(drop));
        ask_for::<Parsed<T>>(self.cx, self.request, expect, self.limits).map(|answer| Ok(answer?.0))
    }

    fn ask(self, expect: Expect) -> BoxEffect<'c, ModelResult<ChatResponse>> {
        ask(self.cx, self.request, expect, self.limits)
    }
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
fn ask_for<T: Recordable>(
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
struct Parsed<T>(T);

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
    let answer = models.client(&request.call).chat(request).await?;
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
fn parse<T: DeserializeOwned>(answer: &ChatResponse) -> Result<T, ModelError> {
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
