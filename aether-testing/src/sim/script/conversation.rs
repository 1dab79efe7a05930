//! Scripted replies and conversations: what a model says, in which pieces it says it, and which tools it calls.
//!
//! Promise: a reply goes to the question behind as many answers of its conversation, whatever else the model is asked
//! meanwhile.

use std::time::Duration;

use aether_core::step::Step;
use aether_effects::llm::{ChatRequest, ChatResponse, ModelError, ToolCall, Usage};

use crate::sim::report::advice::last_message;
use crate::sim::report::error::SimError;

/// One reply of a scripted model, made by [`say`], [`say_in_pieces`], [`call_tool`] or [`call_named`]: text, or calls of
/// tools.
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
    /// What the client gives in place of the response.
    error: Option<ModelError>,
    /// How the text comes, where the test says so.
    pieces: Option<Vec<String>>,
    /// How much virtual time passes between two pieces.
    every: Duration,
    /// Whether another attempt at the question gets the reply behind this one.
    once: bool,
}

/// The model of an answer, where a script names none.
pub(crate) const SCRIPTED: &str = "scripted";

/// A reply of text: the model answers with this and calls no tool. Example at [`Sim::conversation`](crate::Sim::conversation).
pub fn say(text: impl Into<String>) -> Reply {
    let finish_reason = Some("stop".to_owned());
    let (model, content) = (SCRIPTED.into(), Some(text.into()));
    Reply::of(Ok(ChatResponse { model, content, finish_reason, ..ChatResponse::default() }))
}

/// A reply of text that comes in these pieces where the call streams it. The text of [`say`] comes word by word.
///
/// ```
/// # use aether::prelude::*;
/// use aether::llm::ModelError;
/// use aether_testing::{Sim, say_in_pieces};
/// # use std::time::Duration;
/// # #[workflow] async fn greet(cx: &mut Cx) -> Result<String> { Ok(cx.llm("greet").stream("reply").text().await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// // A second lies between the pieces; and the connection breaks, so that the model is asked again.
/// let broken = ModelError::Network { message: "connection reset".into() };
/// let replies = [say_in_pieces(["Hel", "lo w"]).breaks_off(broken), say_in_pieces(["Hello ", "you"])];
/// let sim = Sim::new::<greet>().model_seq("greet", replies.map(|reply| reply.every(Duration::from_secs(1))));
/// assert_eq!(sim.run(()).await.stream::<String>("reply").text(), "Hello you");
/// # }
/// ```
pub fn say_in_pieces<T: Into<String>>(pieces: impl IntoIterator<Item = T>) -> Reply {
    let pieces: Vec<String> = pieces.into_iter().map(Into::into).collect();
    Reply { pieces: Some(pieces.clone()), ..say(pieces.concat()) }
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
    Reply::of(Ok(ChatResponse { model: SCRIPTED.into(), finish_reason, ..ChatResponse::default() }))
}

impl Reply {
    /// What a client gives, without pieces of its own.
    pub(super) fn of(answer: Result<ChatResponse, ModelError>) -> Self {
        let (response, error) = match answer {
            Ok(response) => (response, None),
            Err(error) => (ChatResponse::default(), Some(error)),
        };
        Self { response, error, pieces: None, every: Duration::ZERO, once: false }
    }

    /// Lets this much virtual time pass between two pieces of the text. Default none. Example at [`say_in_pieces`].
    #[must_use]
    pub fn every(mut self, pause: Duration) -> Self {
        self.every = pause;
        self
    }

    /// Fails with `error` when the text has come: what the model said is all that comes of its answer. Example at
    /// [`say_in_pieces`].
    #[must_use]
    pub fn breaks_off(mut self, error: ModelError) -> Self {
        self.error = Some(error);
        self
    }

    /// Gives the reply to one attempt only: where that fails, the next attempt gets the reply behind it in the conversation.
    /// Without this, every attempt at a question gets the same reply. In [`Sim::model_seq`](crate::Sim::model_seq), each
    /// attempt gets an answer of its own anyway.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// use aether::llm::ModelError;
    /// use aether_testing::{Sim, call_tool, say};
    /// # /// Look a word up.
    /// # #[step(effect = "read")] async fn look_up(cx: &mut StepCx, word: String) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn helped(cx: &mut Cx, question: String) -> Result<String> {
    /// #     Ok(cx.agent("helper").tools(look_up::tool()).run(question).await?.answer)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// // The second answer breaks off once.
    /// let broken = ModelError::Network { message: "connection reset".into() };
    /// let replies = [call_tool::<look_up>("bell".into()), say("On pa").breaks_off(broken).once(), say("On page 4.")];
    /// let sim = Sim::new::<helped>().conversation("helper", replies).stub::<look_up>(|word| Ok(word.len() as u32));
    /// let report = sim.run("Where?".into()).await;
    /// assert_eq!(report.assert_completed(), "On page 4.");
    /// report.assert_calls::<look_up>(1);
    /// # }
    /// ```
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Whether another attempt gets the reply behind this one.
    pub(crate) fn is_once(&self) -> bool {
        self.once
    }

    /// Whether the client gives an error in its place.
    pub(crate) fn fails(&self) -> bool {
        self.error.is_some()
    }

    /// The pieces of the text.
    pub(crate) fn pieces(&self) -> Vec<&str> {
        match (&self.pieces, &self.response.content) {
            (Some(pieces), _) => pieces.iter().map(String::as_str).collect(),
            (None, Some(text)) => text.split_inclusive(char::is_whitespace).collect(),
            (None, None) => Vec::new(),
        }
    }

    /// How much virtual time passes between two of them.
    pub(crate) fn pause(&self) -> Duration {
        self.every
    }

    /// Calls the tool `S` in the same reply, too. Example at [`Reply`].
    pub fn and<S: Step>(mut self, args: S::Args) -> Self {
        match S::encode(&args) {
            Ok(args) => self.calling(S::DEF.name, args.as_str().to_owned()),
            Err(error) => {
                let reason = format!("the arguments of a scripted call: {error}");
                self.error.get_or_insert(ModelError::Setup(reason));
                self
            }
        }
    }

    /// Sets what the reply costs, in tokens. Default none. Example at [`Reply`].
    pub fn costing(mut self, input_tokens: u64, output_tokens: u64) -> Self {
        self.response.usage = Usage::of(input_tokens, output_tokens);
        self
    }

    /// The reply as a client gives it.
    pub(crate) fn into_response(self) -> Result<ChatResponse, ModelError> {
        self.error.map_or(Ok(self.response), Err)
    }

    fn calling(mut self, tool: &str, arguments: String) -> Self {
        let id = format!("call-{}-{tool}", self.response.tool_calls.len() + 1);
        self.response.tool_calls.push(ToolCall { id, name: tool.into(), arguments });
        self
    }
}

/// The reply that is due.
pub(super) fn reply(replies: &[Reply], request: &ChatRequest, place: usize) -> Result<Reply, SimError> {
    match replies.get(place) {
        Some(reply) => Ok(reply.clone()),
        None => {
            let (call, asked) = (request.call.clone(), last_message(request));
            Err(SimError::ConversationOver { call, replies: replies.len(), asked })
        }
    }
}
