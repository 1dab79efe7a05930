//! Scripted models: answers to `cx.llm(..)` and `cx.agent(..)` by call, in order, or from a closure.
//!
//! Promise: the real effect reads the scripted answer, so an answer that is no JSON fails here as it would outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use aether_effects::llm::{ChatRequest, ChatResponse, ModelError};

use super::conversation::{Reply, reply, say};
use crate::sim::report::advice::last_message;
use crate::sim::report::error::SimError;

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

    /// The same with the pieces in which it comes; by default word by word.
    fn into_reply(self) -> Reply
    where
        Self: Sized,
    {
        Reply::of(self.into_answer())
    }
}

impl ModelAnswer for ChatResponse {
    fn into_answer(self) -> Result<ChatResponse, ModelError> {
        Ok(self)
    }
}

impl ModelAnswer for Reply {
    fn into_answer(self) -> Result<ChatResponse, ModelError> {
        self.into_response()
    }

    fn into_reply(self) -> Reply {
        self
    }
}

impl ModelAnswer for String {
    fn into_answer(self) -> Result<ChatResponse, ModelError> {
        say(self).into_answer()
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

    fn into_reply(self) -> Reply {
        self.map_or_else(|error| Reply::of(Err(error)), ModelAnswer::into_reply)
    }
}

/// Answers one question.
pub(crate) type ModelFn = Arc<dyn Fn(&ChatRequest) -> Reply + Send + Sync>;

/// Whether an answer is for this question.
pub(crate) type Asked = Arc<dyn Fn(&ChatRequest) -> bool + Send + Sync>;

/// What models answer.
#[derive(Clone, Default)]
pub(crate) struct ModelScripts {
    pub(crate) first: BTreeMap<String, Vec<Reply>>,
    pub(crate) conversations: BTreeMap<String, Vec<Reply>>,
    pub(crate) when: Vec<(Asked, ModelFn)>,
    pub(crate) then: BTreeMap<String, ModelFn>,
    pub(crate) otherwise: Option<ModelFn>,
}

impl ModelScripts {
    pub(crate) fn is_empty(&self) -> bool {
        self.names().next().is_none()
    }

    /// The call whose question the effect `path` is, if it may have answers.
    pub(crate) fn answered_call<'a>(&self, path: &'a str) -> Option<&'a str> {
        let call = path.strip_prefix("llm.")?;
        let by_call = self.first.contains_key(call)
            || self.conversations.contains_key(call)
            || self.then.contains_key(call);
        (by_call || self.otherwise.is_some() || !self.when.is_empty()).then_some(call)
    }

    /// What has answers.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        let calls = self.first.keys().chain(self.conversations.keys()).chain(self.then.keys());
        let any = self.otherwise.iter().chain(self.when.iter().map(|(_, answer)| answer));
        calls.map(|call| format!("llm.{call}")).chain(any.map(|_| "llm.*".to_owned()))
    }

    /// The answer to a question, or why there is none. `turn` is the question's number among those of its call,
    /// `place` that of the reply in a conversation.
    pub(crate) fn answer(&self, request: &ChatRequest, turn: usize, place: usize) -> Result<Reply, SimError> {
        let call = &request.call;
        let first = self.first.get(call).map_or(&[][..], Vec::as_slice);
        if let Some(answer) = first.get(turn) {
            return Ok(answer.clone());
        }
        if let Some(replies) = self.conversations.get(call) {
            return reply(replies, request, place);
        }
        let when = self.when.iter().find(|(asked, _)| asked(request)).map(|(_, answer)| answer);
        match when.or_else(|| self.then.get(call)).or(self.otherwise.as_ref()) {
            Some(answer) => Ok(answer(request)),
            None if !first.is_empty() => {
                Err(SimError::ModelUsedUp { call: call.clone(), answers: first.len() })
            }
            None => {
                let (call, asked) = (call.clone(), last_message(request));
                Err(SimError::NoModelAnswer { call, asked, scripts: self.names().collect() })
            }
        }
    }
}

/// An answer without its type.
pub(crate) fn erased<A: ModelAnswer>(answer: impl Fn(&ChatRequest) -> A + Send + Sync + 'static) -> ModelFn {
    Arc::new(move |request| answer(request).into_reply())
}
