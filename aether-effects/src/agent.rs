//! `cx.agent(..)`: a model in a loop with tools, every one of whose calls is a recorded command.
//!
//! Promise: killed anywhere, an agent resumes with the call it had not finished and repeats none. What a model gets
//! wrong (an unknown tool, bad arguments) and what a tool fails with is told to the model. A call whose outcome is
//! unknown is not: the agent stops with it, because a model would make the call again.

use std::fmt::Display;
use std::time::Duration;

use aether_core::definition::def::Retry;
use aether_core::failure::{Failure, StepError};
use aether_core::payload::Payload;
use aether_core::step::Tool;
use aether_core::workflow::BoxEffect;
use aether_core::workflow::Cx;
use serde::{Deserialize, Serialize};

use crate::llm::builder::{CallLimits, Expect, ask};
use crate::model::chat::{ChatMessage, ChatRequest, ToolCall, ToolSpec, Usage};

/// Default number of answers an agent may ask for.
const MAX_TURNS: u32 = 16;

/// `cx.agent(..)` in workflows.
pub trait CxAgent {
    /// Begins an agent. `name` names its model calls in the journal and chooses their client.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let report = cx.agent("support").run("How do I reset my key?").await?;
    /// # Ok(())
    /// # }
    /// ```
    fn agent(&mut self, name: impl Into<String>) -> Agent<'_>;
}

impl CxAgent for Cx {
    fn agent(&mut self, name: impl Into<String>) -> Agent<'_> {
        let request = ChatRequest { call: name.into(), ..ChatRequest::default() };
        Agent { cx: self, request, tools: Vec::new(), max_turns: MAX_TURNS, limits: CallLimits::default() }
    }
}

/// Tools for an agent: one, a list, or a tuple of up to twelve.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of tools",
    label = "give `step::tool()`, a `Vec<Tool>`, or a tuple of up to twelve tools"
)]
pub trait IntoTools {
    /// The tools as a list.
    fn into_tools(self) -> Vec<Tool>;
}

impl IntoTools for Tool {
    fn into_tools(self) -> Vec<Tool> {
        vec![self]
    }
}

impl IntoTools for Vec<Tool> {
    fn into_tools(self) -> Vec<Tool> {
        self
    }
}

impl<const N: usize> IntoTools for [Tool; N] {
    fn into_tools(self) -> Vec<Tool> {
        self.into()
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: Into<Tool>),+> IntoTools for ($($name,)+) {
            #[allow(non_snake_case)]
            fn into_tools(self) -> Vec<Tool> {
                let ($($name,)+) = self;
                vec![$($name.into()),+]
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
tuples!(A B C D E F G H I);
tuples!(A B C D E F G H I J);
tuples!(A B C D E F G H I J K);
tuples!(A B C D E F G H I J K L);

/// What an agent answered and what it took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReport {
    /// The model's final text.
    pub answer: String,
    /// Number of answers that the model was asked for.
    pub turns: u32,
    /// Tokens of all answers together.
    pub usage: Usage,
    /// The whole conversation, with every tool call and its answer.
    pub transcript: Vec<ChatMessage>,
}

/// An agent under construction.
///
/// ```
/// # use aether_core::failure::Result;
/// # use aether_core::workflow::Cx;
/// # use aether_effects::agent::CxAgent;
/// # use aether_core::step::Tool;
/// # async fn workflow(cx: &mut Cx, search: Tool, send: Tool) -> Result<()> {
/// let report = cx
///     .agent("support")
///     .system("You answer questions about accounts.")
///     .tools((search, send)) // `search::tool()` and `send::tool()` of the program's steps
///     .max_turns(8)
///     .run("How do I reset my key?")
///     .await?;
/// assert!(report.turns <= 8);
/// # Ok(())
/// # }
/// ```
#[must_use = "an agent does nothing until `.run(prompt).await`"]
#[derive(Debug)]
pub struct Agent<'c> {
    cx: &'c mut Cx,
    request: ChatRequest,
    tools: Vec<Tool>,
    max_turns: u32,
    limits: CallLimits,
}

impl<'c> Agent<'c> {
    /// Asks this model instead of the client's own.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.agent("support").model("gpt-4o").run("Hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.request.model = Some(model.into());
        self
    }

    /// Says what the agent is to do and to be.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.agent("support").system("You answer in one sentence.").run("Hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn system(mut self, content: impl Into<String>) -> Self {
        self.request.messages.push(ChatMessage::system(content));
        self
    }

    /// How freely the model chooses its words: 0 for the likeliest, the provider's default if it is not set.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.agent("support").temperature(0.2).run("Hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.request.temperature = Some(temperature);
        self
    }

    /// Gives the agent tools, besides those it has.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # use aether_core::step::Tool;
    /// # async fn workflow(cx: &mut Cx, search: Tool, send: Tool) -> Result<()> {
    /// cx.agent("support").tools((search, send)).run("Tell Ada that her order left.").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tools(mut self, tools: impl IntoTools) -> Self {
        self.tools.extend(tools.into_tools());
        self
    }

    /// How many answers may be asked for. Default 16.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.agent("support").max_turns(4).run("Hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = turns;
        self
    }

    /// Time for one attempt of one answer. Without it, the client's own timeout holds.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.agent("support").timeout(std::time::Duration::from_secs(20)).run("Hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = Some(timeout);
        self
    }

    /// When another attempt is made at an answer of the model. Without it, the engine's policy for model calls holds: an hour
    /// of attempts by default. Tools are retried as their steps declare.
    ///
    /// ```
    /// # use aether_core::definition::def::Retry;
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.agent("support").retry(Retry::within(std::time::Duration::from_secs(600))).run("Hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry(mut self, retry: Retry) -> Self {
        self.limits.retry = Some(retry);
        self
    }

    /// Runs the agent until the model answers without asking for a tool.
    ///
    /// The error is that of a model call that failed for good, a tool call in doubt, or that the turns are used up.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let report = cx.agent("support").run("How do I reset my key?").await?;
    /// let answer: String = report.answer;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(self, prompt: impl Into<String>) -> BoxEffect<'c, Result<AgentReport, StepError<Failure>>> {
        let Self { cx, mut request, tools, max_turns, limits } = self;
        request.messages.push(ChatMessage::user(prompt));
        request.tools = tools.iter().map(spec).collect();
        let running = Running { request, tools, max_turns, limits, usage: Usage::default() };
        cx.scoped(move |mut cx| async move { running.run(&mut cx).await })
    }
}

fn spec(tool: &Tool) -> ToolSpec {
    ToolSpec {
        name: tool.name().into(),
        description: tool.def.doc.trim().into(),
        schema: tool.schema.clone(),
    }
}

/// An agent in its loop.
struct Running {
    request: ChatRequest,
    tools: Vec<Tool>,
    max_turns: u32,
    limits: CallLimits,
    usage: Usage,
}

impl Running {
    async fn run(mut self, cx: &mut Cx) -> Result<AgentReport, StepError<Failure>> {
        self.check_names()?;
        for turn in 1..=self.max_turns {
            let answer = ask(cx, self.request.clone(), Expect::TextOrCalls, self.limits).await?;
            self.usage += answer.usage;
            let (content, tool_calls) = (answer.content, answer.tool_calls);
            let said = ChatMessage::Assistant { content: content.clone(), tool_calls: tool_calls.clone() };
            self.request.messages.push(said);
            if tool_calls.is_empty() {
                return Ok(AgentReport {
                    answer: content.unwrap_or_default(),
                    turns: turn,
                    usage: self.usage,
                    transcript: self.request.messages,
                });
            }
            for call in tool_calls {
                let content = self.answer_of(cx, &call).await?;
                let ToolCall { id: call_id, name, .. } = call;
                self.request.messages.push(ChatMessage::Tool { call_id, name, content });
            }
        }
        let (name, turns) = (&self.request.call, self.max_turns);
        Err(refusal(format_args!("agent `{name}` gave no answer within {turns} turns (`max_turns`)")))
    }

    fn check_names(&self) -> Result<(), StepError<Failure>> {
        for (number, tool) in self.tools.iter().enumerate() {
            if self.tools[..number].iter().any(|other| other.name() == tool.name()) {
                let (agent, tool) = (&self.request.call, tool.name());
                return Err(refusal(format_args!("agent `{agent}` has two tools named `{tool}`")));
            }
        }
        Ok(())
    }

    /// What the model is told about a call it asked for.
    async fn answer_of(&self, cx: &mut Cx, call: &ToolCall) -> Result<String, StepError<Failure>> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == call.name) else {
            let known: Vec<_> = self.tools.iter().map(Tool::name).collect();
            return Ok(format!(
                "error: there is no tool `{}`; the tools are: {}",
                call.name,
                known.join(", ")
            ));
        };
        let args = match arguments(tool, &call.arguments) {
            Ok(args) => args,
            Err(error) => return Ok(format!("error: bad arguments for `{}`: {error}", call.name)),
        };
        match cx.call_tool(tool, args).await {
            Ok(value) => Ok(value.decode::<String>().unwrap_or_else(|_| value.as_str().to_owned())),
            Err(error) => told(tool, error),
        }
    }
}

fn refusal(reason: impl Display) -> StepError<Failure> {
    StepError::App(Failure::permanent(reason))
}

/// The arguments a model wrote, if the tool takes them. No text at all means no arguments.
fn arguments(tool: &Tool, text: &str) -> Result<Payload, String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let args = Payload::from_text(text.to_owned()).map_err(|error| error.to_string())?;
    tool.check(&args).map_err(|error| error.to_string())?;
    Ok(args)
}

/// What the model is told about a failed call; or the error itself, where it is not known whether the call changed the
/// world, or where the run is to end.
fn told(tool: &Tool, error: StepError<Payload>) -> Result<String, StepError<Failure>> {
    let changes_world = tool.def.options.class.changes_world();
    let error = match error {
        StepError::App(error) => StepError::App(failure(&error)),
        StepError::Exhausted(error) => StepError::Exhausted(failure(&error)),
        // No one approved the call in time: what the run does then is not for the model to decide.
        StepError::TimedOut(failure) if failure.time_limit().is_some_and(|it| it.waiting.is_some()) => {
            return Err(StepError::TimedOut(failure));
        }
        StepError::TimedOut(failure) => StepError::TimedOut(failure),
        StepError::Rejected(failure) => StepError::Rejected(failure),
        StepError::Taken(holder) => StepError::Taken(holder),
        StepError::InDoubt(failure) => return Err(StepError::InDoubt(failure)),
        StepError::Cancelled(failure) => return Err(StepError::Cancelled(failure)),
        StepError::Panicked(failure) if changes_world => return Err(StepError::Panicked(failure)),
        StepError::Panicked(failure) => StepError::Panicked(failure),
        StepError::Unrecordable(failure) if changes_world => return Err(StepError::Unrecordable(failure)),
        StepError::Unrecordable(failure) => StepError::Unrecordable(failure),
        other => refusal(format_args!("{other:?}")),
    };
    Ok(format!("error: {error}"))
}

/// A tool's own error, whatever its type.
fn failure(error: &Payload) -> Failure {
    error.decode().unwrap_or_else(|_| Failure::new(error.as_str()))
}
