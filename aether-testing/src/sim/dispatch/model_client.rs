//! The client of the scripted models: asks the dispatcher for the next answer of a call.
//!
//! Promise: a question that no script answers stops the simulation; no model is ever asked for real. An answer takes the
//! same virtual time whether it is streamed or not.

use std::fmt;
use std::sync::Arc;

use aether_effects::llm::{ChatRequest, ChatResponse, ModelClient, ModelError, Models, OnText};
use futures_util::future::{BoxFuture, pending};

use super::dispatcher::StubDispatcher;
use super::pieces::between_pieces;
use crate::sim::script::conversation::{Reply, SCRIPTED};

/// The models of one simulation, if any are scripted: those that were `given`, with their prices and the names of their
/// models, and with the script in the place of their clients.
pub(crate) fn scripted(dispatcher: &Arc<StubDispatcher>, given: Option<&Models>) -> Option<Models> {
    if dispatcher.scripts.models.is_empty() {
        return None;
    }
    let script = |model: Option<&str>| ScriptedModel(Arc::clone(dispatcher), model.map(str::to_owned));
    Some(given.map_or_else(|| Models::new(script(None)), |given| given.replaced(|of| script(of.model()))))
}

/// Answers from the script, in the place of a client that asks this model.
struct ScriptedModel(Arc<StubDispatcher>, Option<String>);

impl ScriptedModel {
    async fn reply(&self, request: &ChatRequest) -> Reply {
        let Self(dispatcher, _) = self;
        match dispatcher.model_reply(request) {
            Ok(reply) => reply,
            Err(error) => {
                dispatcher.give_up(error);
                pending().await
            }
        }
    }
}

impl ScriptedModel {
    /// What the reply comes to: an answer of the client's own model, where neither question nor script name one.
    fn answer(&self, request: &ChatRequest, reply: Reply) -> Result<ChatResponse, ModelError> {
        let mut answer = reply.into_response()?;
        if let (None, Some(model), SCRIPTED) = (&request.model, self.model(), &*answer.model) {
            answer.model = model.to_owned();
        }
        Ok(answer)
    }
}

impl ModelClient for ScriptedModel {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        Box::pin(async move {
            let reply = self.reply(&request).await;
            let pauses = u32::try_from(reply.pieces().len().saturating_sub(1)).unwrap_or(u32::MAX);
            if !reply.pause().is_zero() {
                tokio::time::sleep(reply.pause().saturating_mul(pauses)).await;
            }
            self.answer(&request, reply)
        })
    }

    fn chat_streamed<'a>(
        &'a self,
        request: ChatRequest,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<ChatResponse, ModelError>> {
        Box::pin(async move {
            let reply = self.reply(&request).await;
            for (number, piece) in reply.pieces().into_iter().enumerate() {
                if number > 0 {
                    between_pieces(reply.pause()).await;
                }
                on_text(piece);
            }
            self.answer(&request, reply)
        })
    }

    fn model(&self) -> Option<&str> {
        self.1.as_deref()
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptedModel")
    }
}
