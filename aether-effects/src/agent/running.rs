//! An agent in its loop.

use std::fmt::{self, Display};

use aether_core::budget::{BudgetKind, OverBudget};
use aether_core::failure::{Failure, StepError};
use aether_core::payload::Payload;
use aether_core::workflow::Cx;

use super::report::{AgentReport, Progress};
use super::toolbox::{AgentTool, Toolboxes};
use super::tools::Parallel;
use crate::llm::call::{CallSettings, CheckAnswer, Expect, ask};
use crate::llm::rounds::sent_back;
use crate::model::chat::{ChatMessage, ChatRequest, ChatResponse, ToolCall};
use crate::model::error::ModelError;
use crate::model::usage::Usage;

/// Calls of one answer that are made at the same time.
const AT_ONCE: usize = 16;

/// Whether an agent is to stop.
pub(super) struct StopRule(pub(super) Box<dyn Fn(&Progress<'_>) -> bool + Send + Sync>);

impl fmt::Debug for StopRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopRule")
    }
}

/// What an agent took so far.
#[derive(Debug, Default)]
pub(super) struct SoFar {
    turns: u32,
    tool_calls: u32,
    usage: Usage,
}

/// An agent in its loop.
pub(super) struct Running {
    pub(super) request: ChatRequest,
    pub(super) tools: Vec<AgentTool>,
    pub(super) toolboxes: Toolboxes,
    pub(super) max_turns: u32,
    pub(super) settings: CallSettings,
    pub(super) parallel: Parallel,
    pub(super) stop: Option<StopRule>,
    pub(super) so_far: SoFar,
}

impl Running {
    /// Runs until `read` takes an answer without tool calls, which is when `check` lets it pass. There is no value where the agent was stopped.
    pub(super) async fn run<T: Send>(
        mut self,
        cx: &mut Cx,
        read: fn(&ChatResponse) -> Result<T, ModelError>,
        check: CheckAnswer,
    ) -> Result<(Option<T>, AgentReport), StepError<Failure>> {
        let found = self.toolboxes.open(cx).await?;
        self.tools.extend(found);
        self.request.tools = self.tools.iter().map(AgentTool::spec).collect();
        self.check_names()?;
        while self.so_far.turns < self.max_turns {
            let answer = ask(cx, self.request.clone(), Expect::Turn(check), self.settings.clone()).await?;
            self.so_far.turns += 1;
            self.so_far.usage += answer.usage;
            if answer.tool_calls.is_empty() {
                match read(&answer) {
                    Ok(value) => return Ok((Some(value), self.report(answer, false))),
                    Err(error) => self.request.messages.extend(sent_back(answer, &error)),
                }
                continue;
            }
            self.request.messages.push(said(&answer));
            self.call_tools(cx, &answer.tool_calls).await?;
            if self.is_to_stop() {
                let last = ChatResponse { content: answer.content, ..ChatResponse::default() };
                return Ok((None, self.stopped(last)));
            }
        }
        Err(StepError::OverBudget(self.out_of_turns()))
    }

    fn out_of_turns(&self) -> OverBudget {
        let (budget, turns) = (self.request.call.clone(), u64::from(self.max_turns));
        let kind = BudgetKind::Turns;
        OverBudget { budget, kind, limit: turns, spent: turns, reserved: 0, needed: Some(1), why: None }
    }

    fn is_to_stop(&self) -> bool {
        let SoFar { turns, tool_calls, usage } = self.so_far;
        let progress = Progress { turns, tool_calls, usage, messages: &self.request.messages };
        self.stop.as_ref().is_some_and(|rule| (rule.0)(&progress))
    }

    /// The report of an agent whose model gave its last answer.
    fn report(mut self, answer: ChatResponse, stopped: bool) -> AgentReport {
        self.request.messages.push(said(&answer));
        AgentReport { stopped, ..self.stopped(answer) }
    }

    fn stopped(self, answer: ChatResponse) -> AgentReport {
        let SoFar { turns, usage, .. } = self.so_far;
        let answer = answer.content.unwrap_or_default();
        AgentReport { answer, turns, usage, transcript: self.request.messages, stopped: true }
    }

    fn check_names(&self) -> Result<(), StepError<Failure>> {
        for (number, tool) in self.tools.iter().enumerate() {
            if let Some(other) = self.tools[..number].iter().find(|other| other.name() == tool.name()) {
                let (agent, name) = (&self.request.call, tool.name());
                let (one, other) = (other.source(), tool.source());
                return Err(refusal(format_args!(
                    "agent `{agent}` has two tools named `{name}`, from {one} and from {other}: give one of these \
                     another name, or leave its tool out of the toolbox"
                )));
            }
        }
        Ok(())
    }

    /// Makes the calls of one answer, and adds what the model is told about them in the order in which it asked.
    async fn call_tools(&mut self, cx: &mut Cx, calls: &[ToolCall]) -> Result<(), StepError<Failure>> {
        let mut answers = Vec::with_capacity(calls.len());
        for group in calls.chunk_by(|one, next| self.go_together(one, next)) {
            if let [call] = group {
                answers.push(self.answer_of(cx, call).await?);
                continue;
            }
            let running = &*self;
            let body = async |cx: &mut Cx, call: &ToolCall| running.answer_of(cx, call).await;
            for answer in cx.each(group, body).limit(AT_ONCE).await {
                answers.push(answer?);
            }
        }
        for (call, content) in calls.iter().zip(answers) {
            let ToolCall { id: call_id, name, .. } = call.clone();
            self.request.messages.push(ChatMessage::Tool { call_id, name, content });
            self.so_far.tool_calls = self.so_far.tool_calls.saturating_add(1);
        }
        Ok(())
    }

    fn go_together(&self, one: &ToolCall, next: &ToolCall) -> bool {
        // A tool that does not exist changes nothing.
        let changes = |call: &ToolCall| {
            let tool = self.tools.iter().find(|tool| tool.name() == call.name);
            tool.is_some_and(AgentTool::changes_world)
        };
        match self.parallel {
            Parallel::Nothing => false,
            Parallel::Reads => !changes(one) && !changes(next),
            Parallel::Everything => true,
        }
    }

    /// What the model is told about a call it asked for.
    async fn answer_of(&self, cx: &mut Cx, call: &ToolCall) -> Result<String, StepError<Failure>> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == call.name) else {
            let known: Vec<_> = self.tools.iter().map(AgentTool::name).collect();
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
        match tool.call(cx, args).await {
            Ok(text) => Ok(text),
            Err(error) => told(tool, error),
        }
    }
}

/// An answer as a message of the conversation.
fn said(answer: &ChatResponse) -> ChatMessage {
    ChatMessage::Assistant { content: answer.content.clone(), tool_calls: answer.tool_calls.clone() }
}

pub(super) fn refusal(reason: impl Display) -> StepError<Failure> {
    StepError::App(Failure::permanent(reason))
}

/// The arguments a model wrote, if the tool takes them. No text at all means no arguments.
fn arguments(tool: &AgentTool, text: &str) -> Result<Payload, String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let args = Payload::from_text(text.to_owned()).map_err(|error| error.to_string())?;
    tool.check(&args).map_err(|error| error.to_string())?;
    Ok(args)
}

/// What the model is told about a failed call; or the error itself, where it is not known whether the call changed the
/// world, or where the run is to end.
fn told(tool: &AgentTool, error: StepError<Failure>) -> Result<String, StepError<Failure>> {
    match &error {
        // No one approved the call in time: what the run does then is not for the model to decide.
        StepError::TimedOut(failure) if failure.time_limit().is_some_and(|it| it.waiting.is_some()) => {
            Err(error)
        }
        // What the budget allows is not for the model to decide, either.
        StepError::OverBudget(_) | StepError::InDoubt(_) | StepError::Cancelled(_) => Err(error),
        StepError::Panicked(_) | StepError::Unrecordable(_) if tool.changes_world() => Err(error),
        _ => Ok(format!("error: {error}")),
    }
}
