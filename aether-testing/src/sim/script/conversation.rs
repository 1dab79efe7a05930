//! Scripted conversations: what a model says and which tools it calls, reply after reply.
//!
//! Promise: a reply goes to the question that holds as many earlier replies, whatever else the model is asked meanwhile.

use aether_core::payload::PayloadError;
use aether_core::step::Step;
use aether_effects::llm::{ChatMessage, ChatRequest, ChatResponse, ModelError, ToolCall, Usage};

use crate::sim::report::advice::last_message;
use crate::sim::report::error::SimError;

/// One reply of a scripted model, made by [`say`], [`call_tool`] or [`call_named`]: text, or calls of tools.
///
/// ```
/// # use aether::prelude::*;
/// use aether_testing::{Sim, call_named, call_tool, say};
/// # /// Look a word up.
/// # #[step(effect = "read")] async fn look_up(cx: &mut StepCx, word: String) -> Result<u32> { unreachable!() }
/// # #[workflow] async fn helped(cx: &mut Cx, question: String) -> Result<String> {
/// #     Ok(cx.agent("helper").tools(look_up::tool()).run(question).await?.answer)
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let replies = [
///     call_tool::<look_up>("bell".into()).and::<look_up>("ring".into()).costing(100, 20),
///     call_named("open_window", "{}"),
///     say("Both are found, and the window stays closed."),
/// ];
/// let sim = Sim::new::<helped>().conversation("helper", replies).stub::<look_up>(|word| Ok(word.len() as u32));
/// sim.run("Where?".into()).await.assert_calls::<look_up>(2);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Reply {
    response: ChatResponse,
    error: Option<PayloadError>,
}

/// A reply of text: the model answers with this and calls no tool. Example at [`Sim::conversation`](crate::Sim::conversation).
pub fn say(text: impl Into<String>) -> Reply {
    let finish_reason = Some("stop".to_owned());
    let (model, content) = ("scripted".into(), Some(text.into()));
    let response = ChatResponse { model, content, finish_reason, ..ChatResponse::default() };
    Reply { response, error: None }
}

/// A reply that calls the tool `S` with these arguments; [`Reply::and`] adds more calls.
pub fn call_tool<S: Step>(args: S::Args) -> Reply {
    nothing().and::<S>(args)
}

/// A reply that calls a tool by its name, with arguments as the model writes them. They are not checked, so that a test
/// can let a model call what does not exist, or with arguments that are no JSON.
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
    /// Calls the tool `S` in the same reply, too. Example at [`Reply`].
    pub fn and<S: Step>(mut self, args: S::Args) -> Self {
        match S::encode(&args) {
            Ok(args) => self.calling(S::DEF.name, args.as_str().to_owned()),
            Err(error) => {
                self.error.get_or_insert(error);
                self
            }
        }
    }

    /// Sets what the reply costs, in tokens. Default none. Example at [`Reply`].
    pub fn costing(mut self, input_tokens: u64, output_tokens: u64) -> Self {
        self.response.usage = Usage::of(input_tokens, output_tokens);
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
    let replied =
        request.messages.iter().filter(|message| matches!(message, ChatMessage::Assistant { .. })).count();
    match replies.get(replied) {
        Some(reply) => Ok(reply.clone().into_response()),
        None => {
            let (call, asked) = (request.call.clone(), last_message(request));
            Err(SimError::ConversationOver { call, replies: replies.len(), asked })
        }
    }
}
