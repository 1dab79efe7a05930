//! An agent in its loop.

use std::fmt;
use std::ops::Range;

use aether_core::budget::{BudgetKind, OverBudget};
use aether_core::failure::{Failure, StepError};
use aether_core::outcome::FailureClass;
use aether_core::payload::Payload;
use aether_core::workflow::Cx;
use serde_json::Value;

use super::compaction::{Compaction, elided, size, summary};
use super::hand_off::HandOffArgs;
use super::report::{AgentReport, HandOff, Progress};
use super::spec::AgentSpec;
use super::team::{Team, check_names};
use super::toolbox::AgentTool;
use super::tools::Parallel;
use crate::llm::call::{BAD_ARGUMENTS, CallSettings, CheckAnswer, Expect};
use crate::llm::rounds::{ask_in_turn, sent_back};
use crate::model::chat::{ChatMessage, ChatRequest, ChatResponse, ToolCall};
use crate::model::error::ModelError;
use crate::model::usage::Usage;

/// Default number of answers an agent may ask for.
const MAX_TURNS: u32 = 16;
/// Calls of one answer that are made at the same time.
const AT_ONCE: usize = 16;
/// The mark of a call whose arguments the model may not have written: at version 1 it is made.
const UNWRITTEN: &str = "agent-unwritten-arguments";

/// Whether an agent is to stop.
pub(super) struct StopRule(pub(super) Box<dyn Fn(&Progress<'_>) -> bool + Send + Sync>);

impl fmt::Debug for StopRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopRule")
    }
}

/// What holds for all agents of a conversation together.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) max_turns: u32,
    pub(super) settings: CallSettings,
    pub(super) stop: Option<StopRule>,
    pub(super) compaction: Option<Compaction>,
}

impl Default for Terms {
    fn default() -> Self {
        Self { max_turns: MAX_TURNS, settings: CallSettings::default(), stop: None, compaction: None }
    }
}

/// What was taken so far.
#[derive(Debug, Default)]
struct SoFar {
    turns: u32,
    tool_calls: u32,
    usage: Usage,
    hand_offs: Vec<HandOff>,
    compactions: u32,
    measured: Measured,
}

/// How many tokens a provider counted for so many messages from the first one on, with all that was sent beside them.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    messages: usize,
    tokens: u64,
}

/// A conversation in its loop.
pub(super) struct Running {
    team: Team,
    terms: Terms,
    /// The next question of the agent at work.
    request: ChatRequest,
    /// How many messages of the history stand before the prompt.
    history: usize,
    so_far: SoFar,
}

impl Running {
    /// An agent whose conversation begins with these messages; the last one is the prompt.
    ///
    /// # Errors
    /// Permanent where names of agents or of their tools are not clear.
    pub(super) fn new(
        spec: AgentSpec,
        terms: Terms,
        messages: Vec<ChatMessage>,
        response_schema: Option<Value>,
    ) -> Result<Self, StepError<Failure>> {
        let history = messages.len().saturating_sub(1);
        let request = ChatRequest { messages, response_schema, ..ChatRequest::default() };
        Ok(Self { team: Team::of(spec)?, terms, request, history, so_far: SoFar::default() })
    }

    /// Runs until `read` takes an answer without tool calls, which is when `check` lets it pass. There is no value where the agent was stopped.
    pub(super) async fn run<T: Send>(
        mut self,
        cx: &mut Cx,
        read: fn(&ChatResponse) -> Result<T, ModelError>,
        check: CheckAnswer,
    ) -> Result<(Option<T>, AgentReport), StepError<Failure>> {
        self.begin_work(cx).await?;
        while self.so_far.turns < self.terms.max_turns {
            self.compact(cx).await?;
            let (settings, fallbacks) = (&self.terms.settings, &self.team.at_work().fallbacks);
            let answer: ChatResponse =
                ask_in_turn(cx, &self.request, Expect::Turn(check), settings, fallbacks).await?;
            self.count(&answer);
            if answer.tool_calls.is_empty() {
                match read(&answer) {
                    Ok(value) => return Ok((Some(value), self.report(answer, false))),
                    Err(error) => self.request.messages.extend(sent_back(answer, &error)),
                }
                continue;
            }
            self.request.messages.push(said(&answer));
            let handed_over = self.call_tools(cx, &answer).await?;
            if self.is_to_stop() {
                let last = ChatResponse { content: answer.content, ..ChatResponse::default() };
                return Ok((None, self.stopped(last)));
            }
            if handed_over && self.so_far.turns < self.terms.max_turns {
                self.begin_work(cx).await?;
            }
        }
        Err(StepError::OverBudget(self.out_of_turns()))
    }

    /// Has the agent at work ask the next question: as itself, with its words in place of those of another one.
    async fn begin_work(&mut self, cx: &mut Cx) -> Result<(), StepError<Failure>> {
        let agent = self.team.at_work_mut();
        let toolboxes = std::mem::take(&mut agent.toolboxes);
        agent.tools.extend(toolboxes.open(cx).await?);
        check_names(agent)?;
        let own = agent.system.iter().map(ChatMessage::system);
        let said = std::mem::take(&mut self.request.messages);
        let said = said.into_iter().filter(|message| !matches!(message, ChatMessage::System { .. }));
        self.request.messages = own.chain(said).collect();
        self.request.call.clone_from(&agent.name);
        self.request.model.clone_from(&agent.model);
        self.request.temperature = agent.temperature;
        self.request.max_tokens = agent.max_tokens;
        self.request.tools = agent.tools.iter().map(AgentTool::spec).collect();
        self.so_far.measured = Measured::default();
        Ok(())
    }

    /// Counts an answer to the question as it stands.
    fn count(&mut self, answer: &ChatResponse) {
        let (messages, tokens) = (self.request.messages.len(), answer.usage.input_tokens);
        self.so_far.turns += 1;
        self.so_far.usage += answer.usage;
        self.so_far.measured = if tokens > 0 { Measured { messages, tokens } } else { Measured::default() };
    }

    /// Makes the conversation shorter where it is to be: the history first, then what followed the prompt.
    async fn compact(&mut self, cx: &mut Cx) -> Result<(), StepError<Failure>> {
        while let Some(older) = self.too_long() {
            let shorter = self.shorter(cx, &older).await?;
            if older.end <= self.prompt() {
                self.history = self.history.saturating_sub(older.len()).saturating_add(shorter.len());
            }
            self.request.messages.splice(older, shorter);
            self.so_far.compactions = self.so_far.compactions.saturating_add(1);
            self.so_far.measured = Measured::default();
        }
        Ok(())
    }

    /// The part of the conversation that is to be replaced, where the next question would be too large.
    fn too_long(&self) -> Option<Range<usize>> {
        let (Measured { messages: counted, tokens }, messages) =
            (self.so_far.measured, &self.request.messages);
        let tokens = tokens.saturating_add(size(messages.get(counted..).unwrap_or_default()));
        self.terms.compaction.as_ref()?.older(messages, self.prompt(), tokens)
    }

    /// What takes the place of the older part.
    async fn shorter(
        &mut self,
        cx: &mut Cx,
        older: &Range<usize>,
    ) -> Result<Vec<ChatMessage>, StepError<Failure>> {
        let compaction = self.terms.compaction.as_ref();
        let question = compaction.and_then(|it| it.question(&self.request, self.prompt(), older));
        let Some(question) = question else {
            return Ok(elided(self.request.messages.get(older.clone()).unwrap_or_default()));
        };
        let settings = CallSettings { stream: None, ..self.terms.settings.clone() };
        let has_own_model = compaction.is_some_and(Compaction::has_own_model);
        let fallbacks = if has_own_model { &[][..] } else { &self.team.at_work().fallbacks };
        let answer: ChatResponse = ask_in_turn(cx, &question, Expect::Summary, &settings, fallbacks).await?;
        self.so_far.usage += answer.usage;
        Ok(vec![summary(answer)])
    }

    /// Where the prompt stands: behind the system messages and the history.
    fn prompt(&self) -> usize {
        self.team.at_work().system.len() + self.history
    }

    fn out_of_turns(&self) -> OverBudget {
        let (budget, turns) = (self.team.first().name.clone(), u64::from(self.terms.max_turns));
        let kind = BudgetKind::Turns;
        OverBudget { budget, kind, limit: turns, spent: turns, reserved: 0, needed: Some(1), why: None }
    }

    fn is_to_stop(&self) -> bool {
        let SoFar { turns, tool_calls, usage, .. } = self.so_far;
        let agent = &self.team.at_work().name;
        let progress = Progress { agent, turns, tool_calls, usage, messages: &self.request.messages };
        self.terms.stop.as_ref().is_some_and(|rule| (rule.0)(&progress))
    }

    /// The report of an agent whose model gave its last answer.
    fn report(mut self, answer: ChatResponse, stopped: bool) -> AgentReport {
        self.request.messages.push(said(&answer));
        AgentReport { stopped, ..self.stopped(answer) }
    }

    fn stopped(self, answer: ChatResponse) -> AgentReport {
        let SoFar { turns, usage, hand_offs, compactions, .. } = self.so_far;
        let (answer, transcript) = (answer.content.unwrap_or_default(), self.request.messages);
        AgentReport { answer, turns, usage, transcript, stopped: true, hand_offs, compactions }
    }

    /// Makes the calls of one answer, and adds what the model is told about them in the order in which it asked. Whether
    /// another agent is at work then.
    async fn call_tools(&mut self, cx: &mut Cx, asked: &ChatResponse) -> Result<bool, StepError<Failure>> {
        let (calls, is_cut_off) = (&*asked.tool_calls, asked.is_cut_off());
        let mut answers = Vec::with_capacity(calls.len());
        let hand_off = calls.iter().find_map(|call| Some((call, self.hand_off_of(call, is_cut_off)?)));
        let counts = hand_off.as_ref().map(|(call, _)| *call);
        for group in calls.chunk_by(|one, next| self.go_together(one, next)) {
            if let [call] = group {
                answers.push(self.answer_of(cx, asked, call, counts).await?);
                continue;
            }
            let running = &*self;
            let body = async |cx: &mut Cx, call: &ToolCall| running.answer_of(cx, asked, call, counts).await;
            for answer in cx.each(group, body).limit(AT_ONCE).await {
                answers.push(answer?);
            }
        }
        for (call, content) in calls.iter().zip(answers) {
            let ToolCall { id: call_id, name, .. } = call.clone();
            self.request.messages.push(ChatMessage::Tool { call_id, name, content });
            self.so_far.tool_calls = self.so_far.tool_calls.saturating_add(1);
        }
        let Some((_, hand_off)) = hand_off else { return Ok(false) };
        self.team.hand_over(&hand_off.to);
        self.so_far.hand_offs.push(hand_off);
        Ok(true)
    }

    /// The hand-off that this call is, if it is one.
    fn hand_off_of(&self, call: &ToolCall, is_cut_off: bool) -> Option<HandOff> {
        if is_cut_off && call.arguments.trim().is_empty() {
            return None;
        }
        let tool = self.tool(&call.name)?;
        let AgentTool::HandOff(hand_off) = tool else { return None };
        let HandOffArgs { reason } = arguments(tool, &call.arguments).ok()?.decode().ok()?;
        let (from, to) = (self.team.at_work().name.clone(), hand_off.to.clone());
        Some(HandOff { from, to, reason, turn: self.so_far.turns })
    }

    fn tool(&self, name: &str) -> Option<&AgentTool> {
        self.team.at_work().tools.iter().find(|tool| tool.name() == name)
    }

    fn go_together(&self, one: &ToolCall, next: &ToolCall) -> bool {
        // A tool that does not exist changes nothing.
        let changes = |call: &ToolCall| self.tool(&call.name).is_some_and(AgentTool::changes_world);
        match self.team.at_work().parallel {
            Parallel::Nothing => false,
            Parallel::Reads => !changes(one) && !changes(next),
            Parallel::Everything => true,
        }
    }

    /// What the model is told about a call of its answer. `hand_off` is the call that hands over.
    async fn answer_of(
        &self,
        cx: &mut Cx,
        asked: &ChatResponse,
        call: &ToolCall,
        hand_off: Option<&ToolCall>,
    ) -> Result<String, StepError<Failure>> {
        let Some(tool) = self.tool(&call.name) else {
            let known: Vec<_> = self.team.at_work().tools.iter().map(AgentTool::name).collect();
            return Ok(format!(
                "error: there is no tool `{}`; the tools are: {}",
                call.name,
                known.join(", ")
            ));
        };
        let cut_off = || Ok(format!("{BAD_ARGUMENTS}{}`: the answer was cut off before them", call.name));
        if asked.is_cut_off() && call.arguments.trim().is_empty() {
            return cut_off();
        }
        let args = match arguments(tool, &call.arguments) {
            Ok(args) => args,
            Err(error) => return Ok(format!("{BAD_ARGUMENTS}{}`: {error}", call.name)),
        };
        if matches!(tool, AgentTool::HandOff(_)) && hand_off.is_some_and(|counts| !std::ptr::eq(counts, call))
        {
            return Ok("error: an earlier call of this answer has handed the conversation over".into());
        }
        if is_refused(cx, tool, asked, call).await {
            return cut_off();
        }
        match tool.call(cx, args).await {
            Ok(text) => Ok(text),
            Err(error) => told(tool, error),
        }
    }
}

/// Whether a call whose arguments fit is not made, because the model may not have written them. Builds before made such a
/// call: a run that has it recorded goes on with it. A hand-off changes nothing, and needs no arguments.
async fn is_refused(cx: &mut Cx, tool: &AgentTool, asked: &ChatResponse, call: &ToolCall) -> bool {
    let may_lack = !matches!(tool, AgentTool::HandOff(_)) && asked.may_lack_arguments(call);
    may_lack && cx.version_each(UNWRITTEN, 1..=2).await > 1
}

/// An answer as a message of the conversation.
fn said(answer: &ChatResponse) -> ChatMessage {
    ChatMessage::Assistant { content: answer.content.clone(), tool_calls: answer.tool_calls.clone() }
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
        // In doubt behind something else, such as a child run that failed with it.
        StepError::App(failure) | StepError::Exhausted(failure)
            if tool.changes_world() && failure.class() == FailureClass::Unknown =>
        {
            Err(error)
        }
        _ => Ok(format!("error: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aether_core::payload::PayloadError;
    use aether_core::workflow::BoxEffect;

    use super::super::toolbox::RuntimeTool;
    use super::*;

    /// A tool that only says whether it changes something.
    struct Stub {
        changes_world: bool,
    }

    impl RuntimeTool for Stub {
        fn name(&self) -> &str {
            "stub"
        }

        fn description(&self) -> &str {
            "Does nothing."
        }

        fn schema(&self) -> &Value {
            &Value::Null
        }

        fn changes_world(&self) -> bool {
            self.changes_world
        }

        fn check(&self, _args: &Payload) -> Result<(), PayloadError> {
            Ok(())
        }

        fn call<'c>(
            &'c self,
            cx: &'c mut Cx,
            _args: Payload,
        ) -> BoxEffect<'c, Result<String, StepError<Failure>>> {
            cx.scoped(|_| async { Ok(String::new()) })
        }
    }

    #[test]
    fn a_call_in_doubt_is_not_told_to_the_model_whatever_it_is_wrapped_in() {
        let in_doubt = || Failure::unknown("nobody knows").context("the child run failed");
        let plain = || Failure::permanent("no such user");
        for changes_world in [true, false] {
            let tool = AgentTool::Runtime(Arc::new(Stub { changes_world }));
            for error in [StepError::App(in_doubt()), StepError::Exhausted(in_doubt())] {
                assert_eq!(told(&tool, error).is_err(), changes_world);
            }
            for error in [StepError::App(plain()), StepError::Exhausted(plain())] {
                assert!(told(&tool, error).is_ok());
            }
            assert!(told(&tool, StepError::InDoubt(in_doubt())).is_err());
        }
    }
}
