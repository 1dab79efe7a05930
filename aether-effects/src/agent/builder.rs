//! Building an agent.

use std::time::Duration;

use aether_core::budget::Budget;
use aether_core::definition::def::Retry;
use aether_core::failure::{Failure, StepError};
use aether_core::step::Recordable;
use aether_core::workflow::BoxEffect;
use aether_core::workflow::Cx;
use schemars::{JsonSchema, schema_for};

use super::compaction::Compaction;
use super::history::Opening;
use super::report::{AgentAnswer, AgentReport, Progress};
use super::running::{Running, StopRule, Terms};
use super::spec::AgentSpec;
use super::team::refusal;
use super::toolbox::Toolbox;
use super::tools::{IntoTools, Parallel};
use crate::llm::call::{check_json, parse};
use crate::model::attachment::Attachment;
use crate::model::chat::ChatMessage;

/// `cx.agent(..)` in workflows.
pub trait CxAgent {
    /// Begins an agent: one that is described by an [`AgentSpec`], or one of this name, which names its model calls in the
    /// journal and chooses their client.
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
    fn agent(&mut self, spec: impl Into<AgentSpec>) -> Agent<'_>;
}

impl CxAgent for Cx {
    fn agent(&mut self, spec: impl Into<AgentSpec>) -> Agent<'_> {
        Agent { cx: self, spec: spec.into(), terms: Terms::default(), opening: Opening::default() }
    }
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
    spec: AgentSpec,
    terms: Terms,
    opening: Opening,
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
        self.spec = self.spec.model(model);
        self
    }

    /// Asks this model for an answer if the one before it gave none; may be said several times. Each answer is asked of the
    /// agent's own model first. Each model is a command of its own in the journal, with its own attempts: two retries for
    /// every model that another one follows, unless [`Agent::retry`] says otherwise for all of them. It holds for summaries,
    /// too, unless the [`Compaction`] names a model.
    ///
    /// A call that was cancelled, or that a budget does not allow, goes to no other model.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.agent("support").model("large").or("small").run("Hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn or(mut self, model: impl Into<String>) -> Self {
        self.spec = self.spec.or(model);
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
        self.spec = self.spec.system(content);
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
        self.spec = self.spec.temperature(temperature);
        self
    }

    /// Limits each answer to so many tokens; the provider's limit if it is not set. Budgets reserve less with it. Summaries
    /// have a limit of their own: [`Compaction::max_tokens`].
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.agent("support").max_tokens(500).run("Hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.spec = self.spec.max_tokens(tokens);
        self
    }

    /// Continues a conversation: these messages stand before the prompt, for example the transcript of an earlier
    /// [`AgentReport`]. Said several times, they follow each other. They are recorded with every question, as all messages
    /// are.
    ///
    /// System messages are left out, for the agent has its own. A call of a tool without an answer is never made: the model
    /// is told that it is not known what became of it. The answer of a tool whose call is not there is left out.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let first = cx.agent("support").run("My key does not open the door.").await?;
    /// let second = cx.agent("support").history(first.transcript).run("It does now. Why?").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn history(mut self, messages: impl IntoIterator<Item = ChatMessage>) -> Self {
        self.opening.history.extend(messages);
        self
    }

    /// Sends an image or a file along with the prompt; may be said several times.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # use aether_effects::llm::Attachment;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let damage = Attachment::url("image/jpeg", "https://files.example.com/claims/7.jpg");
    /// cx.agent("claims").attach(damage).run("What is broken, and what does it cost?").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn attach(mut self, attachment: Attachment) -> Self {
        self.opening.attachments.push(attachment);
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
        self.spec = self.spec.tools(tools);
        self
    }

    /// Gives the agent the tools of `toolbox`, besides those it has: for example those of an MCP server. They are asked for
    /// when the agent begins, by a recorded command, and stay what they were then for this agent.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::{CxAgent, Toolbox};
    /// # async fn workflow(cx: &mut Cx, tracker: impl Toolbox + Clone + 'static) -> Result<()> {
    /// cx.agent("support").toolbox(&tracker).run("Is there a ticket about leaks?").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn toolbox(mut self, toolbox: &(impl Toolbox + Clone + 'static)) -> Self {
        self.spec = self.spec.toolbox(toolbox);
        self
    }

    /// What the agent is for. The models of others that may hand back to it decide by this.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::{AgentSpec, CxAgent};
    /// # async fn workflow(cx: &mut Cx, billing: AgentSpec) -> Result<()> {
    /// cx.agent("support").description("Answers everything else.").hand_off(billing).run("Hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.spec = self.spec.description(description);
        self
    }

    /// Lets the model hand the conversation over to this agent, by a tool `hand_off_to_<name>`. Then that agent answers:
    /// with its own words, model and tools, the conversation so far, and what is left of the turns and budgets of this one.
    ///
    /// The first hand-off of an answer counts. Other calls of tools beside it are made before the other agent is at work.
    ///
    /// Agents have names of their own: describe each once, and hand over to it by name elsewhere. Names that are not clear
    /// are a permanent error of [`Agent::run`].
    ///
    /// Some providers refuse a question without tools once tools were called: give each agent a tool, or a hand-off back.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::{AgentSpec, CxAgent};
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let billing = AgentSpec::new("billing").description("Answers what is about invoices.").hand_off_named("support");
    /// let report = cx.agent("support").hand_off(billing).run("My invoice is wrong.").await?;
    /// let answered_by = report.handed_to().unwrap_or("support");
    /// # Ok(())
    /// # }
    /// ```
    pub fn hand_off(mut self, to: AgentSpec) -> Self {
        self.spec = self.spec.hand_off(to);
        self
    }

    /// As [`Agent::hand_off`], to an agent that is described elsewhere: back to the one that was begun, or to one that
    /// another agent hands over to.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::{AgentSpec, CxAgent};
    /// # async fn workflow(cx: &mut Cx, refunds: AgentSpec) -> Result<()> {
    /// let billing = AgentSpec::new("billing").hand_off(refunds).hand_off_named("support");
    /// cx.agent("support").hand_off(billing).hand_off_named("refunds").run("I want my money back.").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn hand_off_named(mut self, name: impl Into<String>) -> Self {
        self.spec = self.spec.hand_off_named(name);
        self
    }

    /// Makes the conversation shorter where it becomes too long: see [`Compaction`].
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::{Compaction, CxAgent};
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let compaction = Compaction::summarize_above(60_000).model("small");
    /// let report = cx.agent("support").compact(compaction).run("Read everything.").await?;
    /// let summaries = report.compactions;
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact(mut self, compaction: Compaction) -> Self {
        self.terms.compaction = Some(compaction);
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
        self.terms.max_turns = turns;
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
        self.terms.settings.timeout = Some(timeout);
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
        self.terms.settings.retry = Some(retry);
        self
    }

    /// Sends the text of the model's final answer to the stream `name` of the run while it comes, as strings: see
    /// `RunHandle::stream`. Whether an answer is the final one shows only when it is whole. So what a model says before it
    /// asks for tools, or what is sent back to it, is in the stream while it comes and is taken out again then. An agent
    /// that is stopped leaves no text.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.agent("support").stream("reply").run("Hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(mut self, name: impl Into<String>) -> Self {
        self.terms.settings.stream = Some(name.into());
        self
    }

    /// Has the questions of the agent count in this limit on steps; its tools count as their steps say. See
    /// `Engine::step_limits`.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.agent("support").limit("openai").run("Hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn limit(self, limit: impl Into<String>) -> Self {
        self.cx.limit(limit);
        self
    }

    /// Limits what the agent may take: tokens, cost, calls and time of its questions and tools together. It ends with
    /// [`StepError::OverBudget`] where a budget does not allow its next call; budgets around it hold as well.
    ///
    /// ```
    /// # use aether_core::budget::Budget;
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.agent("support").budget(Budget::new().tokens(50_000).calls(20)).run("Hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn budget(self, budget: Budget) -> Self {
        self.cx.budget(budget);
        self
    }

    /// Makes tool calls of one answer at the same time, at most 16 of them; by default they are made one after the other.
    /// Each of several has a branch of its own in the journal, so this is a change of code for runs that are in such an
    /// answer.
    ///
    /// An error that stops the agent does so when the calls beside it have ended.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::{CxAgent, Parallel};
    /// # use aether_core::step::Tool;
    /// # async fn workflow(cx: &mut Cx, search: Tool, send: Tool) -> Result<()> {
    /// cx.agent("support").tools((search, send)).parallel(Parallel::Reads).run("Compare the two orders.").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn parallel(mut self, parallel: Parallel) -> Self {
        self.spec = self.spec.parallel(parallel);
        self
    }

    /// Stops the agent when `rule` says so: it is asked after the tool calls of each answer, and its report then has
    /// `stopped`. The rule runs as workflow code does, so it must follow from what it is given.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # use aether_core::step::Tool;
    /// # async fn workflow(cx: &mut Cx, search: Tool) -> Result<()> {
    /// let enough = |so_far: &aether_effects::agent::Progress<'_>| so_far.usage.total() > 50_000;
    /// let report = cx.agent("support").tools(search).stop_when(enough).run("Read everything.").await?;
    /// if report.stopped {
    ///     // `report.transcript` is what it had found until then.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stop_when(mut self, rule: impl Fn(&Progress<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.terms.stop = Some(StopRule(Box::new(rule)));
        self
    }

    /// Runs the agent until the model answers without asking for a tool.
    ///
    /// The error is that of a model call that failed for good, also one for a summary; a tool call in doubt; that the turns
    /// are used up; or permanent, where names of agents or tools are not clear.
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
        let (Self { cx, spec, terms, opening }, prompt) = (self, prompt.into());
        cx.scoped(move |mut cx| async move {
            let running = Running::new(spec, terms, opening.messages(prompt), None)?;
            Ok(running.run(&mut cx, |_| Ok(()), |_| Ok(())).await?.1)
        })
    }

    /// As [`Agent::run`], with a final answer after the schema of `T`. An answer that is no `T` is shown to the model
    /// together with what is wrong with it, which uses up a turn.
    ///
    /// The error is also permanent where the agent was stopped before there was such an answer.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::agent::CxAgent;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// struct Verdict { refund: bool }
    ///
    /// let Verdict { refund } = cx.agent("support").run_json("Is order 7 to be refunded?").await?.value;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_json<T: Recordable + JsonSchema>(
        self,
        prompt: impl Into<String>,
    ) -> BoxEffect<'c, Result<AgentAnswer<T>, StepError<Failure>>> {
        let (Self { cx, spec, terms, opening }, prompt) = (self, prompt.into());
        cx.scoped(move |mut cx| async move {
            let schema = Some(schema_for!(T).to_value());
            let running = Running::new(spec, terms, opening.messages(prompt), schema)?;
            match running.run(&mut cx, parse::<T>, check_json::<T>).await? {
                (Some(value), report) => Ok(AgentAnswer { value, report }),
                (None, report) => Err(refusal(format_args!(
                    "the agent was stopped after {} turns, before it gave an answer (`stop_when`)",
                    report.turns
                ))),
            }
        })
    }
}
