//! The client of the scripted models: asks the dispatcher for the next answer of a call.
//!
//! Promise: a question that no script answers stops the simulation; no model is ever asked for real.

use std::fmt;
use std::sync::Arc;

use aether_effects::llm::{ChatRequest, ChatResponse, ModelClient, ModelError, Models};
use futures_util::future::{BoxFuture, pending};

use super::dispatcher::StubDispatcher;

/// The models of one simulation, if any are scripted.
pub(crate) fn scripted(dispatcher: &Arc<StubDispatcher>) -> Option<Models> {
    (!dispatcher.scripts.models.is_empty()).then(|| Models::new(ScriptedModel(Arc::clone(dispatcher))))
}

/// Answers from the script.
struct ScriptedModel(Arc<StubDispatcher>);

impl ModelClient for ScriptedModel {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        let dispatcher = Arc::clone(&self.0);
        Box::pin(async move {
            match dispatcher.scripts.models.answer(&request, dispatcher.model_turn(&request.call)) {
                Ok(answer) => answer,
                Err(error) => {
                    dispatcher.give_up(error);
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
