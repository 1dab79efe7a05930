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
use crate::sim::script::conversation::Reply;

/// The models of one simulation, if any are scripted.
pub(crate) fn scripted(dispatcher: &Arc<StubDispatcher>) -> Option<Models> {
    (!dispatcher.scripts.models.is_empty()).then(|| Models::new(ScriptedModel(Arc::clone(dispatcher))))
}

/// Answers from the script.
struct ScriptedModel(Arc<StubDispatcher>);

impl ScriptedModel {
    async fn reply(&self, request: &ChatRequest) -> Reply {
        let Self(dispatcher) = self;
        match dispatcher.model_reply(request) {
            Ok(reply) => reply,
            Err(error) => {
                dispatcher.give_up(error);
                pending().await
            }
        }
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
            reply.into_response()
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
            reply.into_response()
        })
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptedModel")
    }
}
