//! Scripted conversations: what a model says and which tools it calls, reply after reply.
//!
//! Promise: a reply goes to the question that holds as many earlier replies, whatever else the model is asked meanwhile.

use aether_core::payload::PayloadError;
use aether_core::step::Step;
use aether_effects::llm::{ChatMessage, ChatRequest, ChatResponse, ModelError, ToolCall, Usage};

use crate::sim::report::advice::last_message;
use crate::sim::report::error::SimError;

/// One reply of a scripted model: text, calls of tools, or both.
#[derive(Clone, Debug)]
pub struct Reply {
    response: ChatResponse,
    error: Option<PayloadError>,
}

/// The model says this.
pub fn say(text: impl Into<String>) -> Reply {
    let finish_reason = Some("stop".to_owned());
    let (model, content) = ("scripted".into(), Some(text.into()));
    let response = ChatResponse { model, content, finish_reason, ..ChatResponse::default() };
    Reply { response, error: None }
}

/// The model calls the tool `S` with these arguments.
pub fn call_tool<S: Step>(args: S::Args) -> Reply {
    nothing().and::<S>(args)
}

/// The model calls a tool by its name, with arguments as it writes them: what they are is not checked, as it is outside.
pub fn call_named(tool: &str, arguments: impl Into<String>) -> Reply {
    nothing().calling(tool, arguments.into())
}

fn nothing() -> Reply {
    let finish_reason = Some("tool_calls".to_owned());
    Reply {
        response: ChatResponse { model: "scripted".into(), finish_reason, ..ChatResponse::default() },
        error: None,
    }
}

impl Reply {
    /// Calls the tool `S` in the same reply.
    pub fn and<S: Step>(mut self, args: S::Args) -> Self {
        match S::encode(&args) {
            Ok(args) => self.calling(S::DEF.name, args.as_str().to_owned()),
            Err(error) => {
                self.error.get_or_insert(error);
                self
            }
        }
    }

    /// What the reply costs, in tokens.
    pub fn costing(mut self, input_tokens: u64, output_tokens: u64) -> Self {
        self.response.usage = Usage { input_tokens, output_tokens };
        self
    }

    /// The reply as a client gives it; the arguments of a call may be beyond encoding.
    pub(super) fn into_response(self) -> Result<ChatResponse, ModelError> {
        match self.error {
            Some(error) => Err(ModelError::Setup(format!("the arguments of a scripted call: {error}"))),
            None => Ok(self.response),
        }
    }

    fn calling(mut self, tool: &str, arguments: String) -> Self {
        let id = format!("call-{}-{tool}", self.response.tool_calls.len() + 1);
        self.response.tool_calls.push(ToolCall { id, name: tool.into(), arguments });
        self
    }
}

/// The reply that is due.
pub(super) fn reply(
    replies: &[Reply],
    request: &ChatRequest,
) -> Result<Result<ChatResponse, ModelError>, SimError> {
    let said =
        request.messages.iter().filter(|message| matches!(message, ChatMessage::Assistant { .. })).count();
    match replies.get(said) {
        Some(reply) => Ok(reply.clone().into_response()),
        None => {
            let (call, asked) = (request.call.clone(), last_message(request));
            Err(SimError::ConversationOver { call, replies: replies.len(), asked })
        }
    }
}
