//! Scripted models: answers to `cx.llm(..)` and `cx.agent(..)` by call, in order, or from a closure.
//!
//! Promise: the real effect reads the scripted answer, so an answer that is no JSON fails here as it would outside.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aether_core::step::Workflow;
use aether_effects::llm::{ChatRequest, ChatResponse, ModelClient, ModelError, Models};
use futures_util::future::{BoxFuture, pending, ready};

use super::stage::Stage;
use super::{Sim, SimError};

/// What a scripted model may answer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an answer of a model",
    label = "return text, a `ChatResponse`, or a `Result` of one and a `ModelError`"
)]
pub trait ModelAnswer {
    /// The answer as a client gives it.
    ///
    /// # Errors
    /// The error that the client is to give.
    fn into_answer(self) -> Result<ChatResponse, ModelError>;
}

impl ModelAnswer for ChatResponse {
    fn into_answer(self) -> Result<ChatResponse, ModelError> {
        Ok(self)
    }
}

impl ModelAnswer for String {
    fn into_answer(self) -> Result<ChatResponse, ModelError> {
        let finish_reason = Some("stop".to_owned());
        Ok(ChatResponse {
            model: "scripted".into(),
            content: Some(self),
            finish_reason,
            ..ChatResponse::default()
        })
    }
}

impl ModelAnswer for &str {
    fn into_answer(self) -> Result<ChatResponse, ModelError> {
        self.to_owned().into_answer()
    }
}

impl<A: ModelAnswer> ModelAnswer for Result<A, ModelError> {
    fn into_answer(self) -> Result<ChatResponse, ModelError> {
        self.and_then(ModelAnswer::into_answer)
    }
}

type Answer = Arc<dyn Fn(&ChatRequest) -> Result<ChatResponse, ModelError> + Send + Sync>;

/// What models answer.
#[derive(Clone, Default)]
pub(super) struct ModelScripts {
    first: BTreeMap<String, Vec<Result<ChatResponse, ModelError>>>,
    then: BTreeMap<String, Answer>,
    otherwise: Option<Answer>,
}

impl ModelScripts {
    fn is_empty(&self) -> bool {
        self.first.is_empty() && self.then.is_empty() && self.otherwise.is_none()
    }

    /// The call whose question the effect `path` is, if it has answers.
    pub(super) fn answered_call<'a>(&self, path: &'a str) -> Option<&'a str> {
        let call = path.strip_prefix("llm.")?;
        let answered =
            self.otherwise.is_some() || self.first.contains_key(call) || self.then.contains_key(call);
        answered.then_some(call)
    }

    /// The calls that have answers.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let named = self.first.keys().chain(self.then.keys()).map(|call| format!("llm.{call}"));
        named.chain(self.otherwise.iter().map(|_| "llm.*".to_owned()))
    }
}

/// The models of one simulation, if any are scripted.
pub(super) fn scripted(stage: &Arc<Stage>) -> Option<Models> {
    (!stage.scripts.models.is_empty()).then(|| Models::new(ScriptedModel(Arc::clone(stage))))
}

/// Answers from the script.
struct ScriptedModel(Arc<Stage>);

impl ModelClient for ScriptedModel {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        let scripts = &self.0.scripts.models;
        let first = scripts.first.get(&request.call).map_or(&[][..], Vec::as_slice);
        if let Some(answer) = first.get(self.0.model_turn(&request.call)) {
            return Box::pin(ready(answer.clone()));
        }
        match scripts.then.get(&request.call).or(scripts.otherwise.as_ref()) {
            Some(answer) => {
                let answer = Arc::clone(answer);
                Box::pin(async move { answer(&request) })
            }
            None => {
                self.0.give_up(SimError::ModelUsedUp { call: request.call, answers: first.len() });
                Box::pin(pending())
            }
        }
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptedModel")
    }
}

impl<W: Workflow> Sim<W> {
    /// Answers every question to a model that has no answer of its own.
    pub fn model<A: ModelAnswer>(self, answer: impl Fn(&ChatRequest) -> A + Send + Sync + 'static) -> Self {
        self.script(|scripts| scripts.models.otherwise = Some(erased(answer)))
    }

    /// Answers the questions of the call `call`: of `cx.llm(call)`, and of the agent of that name.
    pub fn model_for<A: ModelAnswer>(
        self,
        call: &str,
        answer: impl Fn(&ChatRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        self.script(|scripts| drop(scripts.models.then.insert(call.into(), erased(answer))))
    }

    /// Answers the next questions of the call `call` in order, failed attempts included.
    pub fn model_seq<A: ModelAnswer>(self, call: &str, answers: impl IntoIterator<Item = A>) -> Self {
        let answers = answers.into_iter().map(ModelAnswer::into_answer);
        self.script(|scripts| scripts.models.first.entry(call.into()).or_default().extend(answers))
    }
}

fn erased<A: ModelAnswer>(answer: impl Fn(&ChatRequest) -> A + Send + Sync + 'static) -> Answer {
    Arc::new(move |request| answer(request).into_answer())
}
