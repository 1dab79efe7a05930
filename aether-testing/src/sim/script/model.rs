//! Scripted models: answers to `cx.llm(..)` and `cx.agent(..)` by call, in order, or from a closure.
//!
//! Promise: the real effect reads the scripted answer, so an answer that is no JSON fails here as it would outside.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aether_core::step::Workflow;
use aether_effects::llm::{ChatRequest, ChatResponse, ModelClient, ModelError, Models};
use futures_util::future::{BoxFuture, pending};

use super::conversation::{self, Reply, say};
use super::error::last_message;
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
}

type Answer = Arc<dyn Fn(&ChatRequest) -> Result<ChatResponse, ModelError> + Send + Sync>;

type Asked = Arc<dyn Fn(&ChatRequest) -> bool + Send + Sync>;

/// What models answer.
#[derive(Clone, Default)]
pub(super) struct ModelScripts {
    first: BTreeMap<String, Vec<Result<ChatResponse, ModelError>>>,
    conversations: BTreeMap<String, Vec<Reply>>,
    when: Vec<(Asked, Answer)>,
    then: BTreeMap<String, Answer>,
    otherwise: Option<Answer>,
}

impl ModelScripts {
    fn is_empty(&self) -> bool {
        self.names().next().is_none()
    }

    /// The call whose question the effect `path` is, if it may have answers.
    pub(super) fn answered_call<'a>(&self, path: &'a str) -> Option<&'a str> {
        let call = path.strip_prefix("llm.")?;
        let by_call = self.first.contains_key(call)
            || self.conversations.contains_key(call)
            || self.then.contains_key(call);
        (by_call || self.otherwise.is_some() || !self.when.is_empty()).then_some(call)
    }

    /// What has answers.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let calls = self.first.keys().chain(self.conversations.keys()).chain(self.then.keys());
        let any = self.otherwise.iter().chain(self.when.iter().map(|(_, answer)| answer));
        calls.map(|call| format!("llm.{call}")).chain(any.map(|_| "llm.*".to_owned()))
    }

    /// The answer to a question, or why there is none. `turn` is the question's number among those of its call.
    fn answer(
        &self,
        request: &ChatRequest,
        turn: usize,
    ) -> Result<Result<ChatResponse, ModelError>, SimError> {
        let call = &request.call;
        let first = self.first.get(call).map_or(&[][..], Vec::as_slice);
        if let Some(answer) = first.get(turn) {
            return Ok(answer.clone());
        }
        if let Some(replies) = self.conversations.get(call) {
            return conversation::reply(replies, request);
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

/// The models of one simulation, if any are scripted.
pub(super) fn scripted(stage: &Arc<Stage>) -> Option<Models> {
    (!stage.scripts.models.is_empty()).then(|| Models::new(ScriptedModel(Arc::clone(stage))))
}

/// Answers from the script.
struct ScriptedModel(Arc<Stage>);

impl ModelClient for ScriptedModel {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        let stage = Arc::clone(&self.0);
        Box::pin(async move {
            match stage.scripts.models.answer(&request, stage.model_turn(&request.call)) {
                Ok(answer) => answer,
                Err(error) => {
                    stage.give_up(error);
                    pending().await
                }
            }
        })
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

    /// Answers the questions that `asked` takes, of any call: a look into the prompt. The first that fits counts, before
    /// [`Sim::model_for`] and [`Sim::model`].
    pub fn model_when<A: ModelAnswer>(
        self,
        asked: impl Fn(&ChatRequest) -> bool + Send + Sync + 'static,
        answer: impl Fn(&ChatRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        self.script(|scripts| scripts.models.when.push((Arc::new(asked), erased(answer))))
    }

    /// Answers the call `call`, mostly an agent, with these replies: to each question the one whose number is that of
    /// the replies the question holds. So concurrent and repeated conversations do not get into each other's way.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// use aether_testing::{Sim, call_tool, say};
    /// # /// Look a word up.
    /// # #[step(effect = "read")] async fn look_up(cx: &mut StepCx, word: String) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn helped(cx: &mut Cx, question: String) -> Result<String> {
    /// #     Ok(cx.agent("helper").tools(look_up::tool()).run(question).await?.answer)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<helped>()
    ///     .conversation("helper", [call_tool::<look_up>("bell".to_owned()), say("It is found on page 4.")])
    ///     .stub::<look_up>(|word| Ok(word.len() as u32));
    /// let report = sim.run("Where?".to_owned()).await;
    /// assert_eq!(report.assert_completed(), "It is found on page 4.");
    /// # }
    /// ```
    pub fn conversation(self, call: &str, replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = replies.into_iter().collect();
        self.script(|scripts| drop(scripts.models.conversations.insert(call.into(), replies)))
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
