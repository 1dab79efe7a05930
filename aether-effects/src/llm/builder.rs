//! `cx.llm(..)`: building a question, and choosing how the answer is read.

use std::time::Duration;

use aether_core::definition::def::Retry;
use aether_core::step::Recordable;
use aether_core::workflow::BoxEffect;
use aether_core::workflow::Cx;
use schemars::{JsonSchema, schema_for};

use super::call::{CallSettings, Expect, ModelResult, Parsed, ask_for, check_json};
use super::rounds::{Repair, ask_in_turn, ask_repaired};
use crate::model::attachment::Attachment;
use crate::model::chat::{ChatMessage, ChatRequest, ChatResponse};

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
        LlmRequest { cx: self, request, settings: CallSettings::default(), fallbacks: Vec::new(), repairs: 0 }
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
    settings: CallSettings,
    fallbacks: Vec<String>,
    repairs: u32,
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
        self.settings.timeout = Some(timeout);
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
        self.settings.retry = Some(retry);
        self
    }

    /// Sends the text of the answer to the stream `name` of the run while it comes, as strings: see
    /// `RunHandle::stream`. What is recorded is the whole answer, as without this, which may be added to a call of which
    /// there are recordings already.
    ///
    /// When the recorded answer is there, the text of the stream is its text. An attempt that fails, a model that another
    /// one follows, and an answer that is sent back for repair leave nothing in it. A client that does not stream sends
    /// the text as one piece.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.llm("greet").user("Say hello.").stream("reply").text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(mut self, name: impl Into<String>) -> Self {
        self.settings.stream = Some(name.into());
        self
    }

    /// Counts in this limit on steps, with everything else that names it: see `Engine::step_limits`. A call that the limit
    /// does not let through waits, durably; a provider that answers "too many requests" lowers it for all runs.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.llm("greet").limit("openai").user("Say hello.").text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn limit(self, limit: impl Into<String>) -> Self {
        self.cx.limit(limit);
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

    /// Sends an image or a file along with the last message, if that is the user's; else with a message of its own.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::{Attachment, CxLlm};
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let damage = Attachment::url("image/jpeg", "https://files.example.com/claims/7.jpg");
    /// let report = cx.llm("claim").user("What is broken?").attach(damage).text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn attach(mut self, attachment: Attachment) -> Self {
        if let Some(ChatMessage::User { attachments, .. }) = self.request.messages.last_mut() {
            attachments.push(attachment);
            return self;
        }
        self.message(ChatMessage::user_with("", vec![attachment]))
    }

    /// Asks this model if the one before it gave no answer; may be said several times. Each model is a command of its own
    /// in the journal, with its own attempts: two retries for every model that another one follows, unless `.retry(..)`
    /// says otherwise for all of them. [`ChatResponse::model`] names the one that answered.
    ///
    /// A call that was cancelled, or that a person refused or did not approve in time, goes to no other model.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.llm("greet").model("large").or("small").or("local").user("Say hello.").text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn or(mut self, model: impl Into<String>) -> Self {
        self.fallbacks.push(model.into());
        self
    }

    /// With [`LlmRequest::json`]: an answer that is no `T` is shown to the model together with what is wrong with it, up to
    /// so many times. Each round is a command of its own, and is paid for like any question. Without it, such an answer is
    /// a failed attempt, and the same question is asked again.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::llm::CxLlm;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let names: Vec<String> = cx.llm("names").user("Name two rivers.").repair(2).json().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn repair(mut self, rounds: u32) -> Self {
        self.repairs = rounds;
        self
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
        let Self { cx, request, settings, fallbacks, repairs } = self;
        if repairs > 0 {
            let repair = Repair { request, settings, fallbacks, rounds: repairs };
            return cx.scoped(move |mut cx| async move { ask_repaired(&mut cx, repair).await });
        }
        ask_or::<Parsed<T>>(cx, request, Expect::Json(check_json::<T>), settings, fallbacks)
            .map(|answer| Ok(answer?.0))
    }

    fn ask(self, expect: Expect) -> BoxEffect<'c, ModelResult<ChatResponse>> {
        ask_or(self.cx, self.request, expect, self.settings, self.fallbacks)
    }
}

/// Asks as the next command of `cx`; with fallbacks, in a scope of its own.
fn ask_or<T: Recordable>(
    cx: &mut Cx,
    request: ChatRequest,
    expect: Expect,
    settings: CallSettings,
    fallbacks: Vec<String>,
) -> BoxEffect<'_, ModelResult<T>> {
    if fallbacks.is_empty() {
        return ask_for(cx, request, expect, settings);
    }
    cx.scoped(
        move |mut cx| async move { ask_in_turn(&mut cx, &request, expect, &settings, &fallbacks).await },
    )
}
