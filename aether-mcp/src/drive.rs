//! A call from its first request to its answer: rounds of questions, and tasks.
//!
//! Promise: every request is a recorded command, and follows from what is recorded before it; a task is asked about by its
//! id, and the call that began it is never made again.

use std::sync::Arc;
use std::time::Duration;

use aether_core::definition::def::{Retry, StepOptions};
use aether_core::failure::{Failure, StepError};
use aether_core::outcome::{EffectClass, FailureClass};
use aether_core::payload::Payload;
use aether_core::waiting::TimeLimit;
use aether_core::workflow::Cx;
use jiff::Timestamp;
use serde_json::Value;

use crate::bodies::{Call, REPEATABLE, SeeTask, StopTask, UpdateTask};
use crate::contract::Contract;
use crate::error::{Asked, McpError};
use crate::input::{InputAnswer, InputQuestion, Requests, Responses};
use crate::reply::{
    CallArgs, InputRequired, Reply, Round, TaskArgs, TaskBegun, TaskEnd, TaskSeen, TaskState,
};
use crate::result::ToolResult;

/// Rounds of one call in which the tool may ask.
const MAX_ROUNDS: usize = 20;
/// Shortest and longest wait before a server is asked about a task, whatever it says.
const POLL: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60 * 60);
/// Wait before a server is asked about a task, where it does not say how long.
const POLL_DEFAULT: Duration = Duration::from_secs(1);
/// The wait grows with the age of the task up to this, so that a task of a day does not fill the journal.
const POLL_GROWN: Duration = Duration::from_secs(5 * 60);
/// How often a task is asked about after its server was told to cancel it.
const LAST_LOOKS: u32 = 3;
/// Wait before the next round where the server asks for nothing but another try.
const NEXT_TRY: Duration = Duration::from_secs(1);
/// Characters of the server's key that stand in the name of a question.
const KEY_IN_NAME: usize = 80;

type Answered = Result<ToolResult, StepError<Failure>>;

/// A call that is about to be made.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) args: CallArgs,
    pub(crate) contract: Contract,
    /// Why the call cannot be made.
    pub(crate) problem: Option<String>,
    /// The limit on steps that its requests count in.
    pub(crate) limit: Option<Arc<str>>,
}

impl Driven {
    /// Makes the call, with all its rounds.
    pub(crate) async fn run(self, cx: &mut Cx) -> Answered {
        let mut reply = self.request(cx, 0, None).await?;
        for number in 1..=MAX_ROUNDS {
            reply = match reply {
                Reply::Complete(result) => return Ok(result),
                Reply::Task { task } => return self.follow(cx, task).await,
                Reply::Input { input_required: InputRequired { key, requests, state } } => {
                    let responses = self.ask_all(cx, &requests, None).await?;
                    if responses.is_empty() {
                        cx.sleep(NEXT_TRY).await;
                    }
                    self.request(cx, number, Some(Round { key, responses, state })).await?
                }
            };
        }
        match reply {
            Reply::Complete(result) => Ok(result),
            Reply::Task { task } => self.follow(cx, task).await,
            Reply::Input { .. } => {
                Err(self.ends(&format!("input for more than {MAX_ROUNDS} rounds, and was not asked again")))
            }
        }
    }

    /// Request `number` of the call, from 0.
    async fn request(
        &self,
        cx: &mut Cx,
        number: usize,
        round: Option<Round>,
    ) -> Result<Reply, StepError<Failure>> {
        let (options, suffix) = match round {
            None => (self.contract.step_options(), ""),
            Some(_) => (self.contract.later_options(), ".answer"),
        };
        let args = Payload::encode(&CallArgs { round, ..self.args.clone() });
        let (server, tool) = (self.args.server.clone(), self.args.tool.clone());
        let (contract, problem) = (self.contract.clone(), self.problem.clone());
        let body = Call { server, tool, contract, problem, round: number };
        if let Some(limit) = &self.limit {
            cx.limit(&**limit);
        }
        cx.effect(self.name(suffix), options, args, Arc::new(body)).await
    }

    fn name(&self, suffix: &str) -> String {
        format!("mcp.{}.{}{suffix}", self.args.server, self.args.tool)
    }

    fn asked(&self) -> Asked {
        let CallArgs { server, tool, .. } = &self.args;
        let changes_world = self.contract.changes_world();
        Asked { server: server.clone(), tool: Some(tool.clone()), changes_world }
    }

    /// The error of a call whose tool is not told what it asks for. A task may go on all the same.
    fn ends(&self, reason: &str) -> StepError<Failure> {
        StepError::App(Failure::from(McpError::Asks { asked: self.asked(), reason: reason.into() }))
    }

    /// Has every question of a round answered. `until` ends the wait for people.
    async fn ask_all(
        &self,
        cx: &mut Cx,
        requests: &Requests,
        until: Option<Timestamp>,
    ) -> Result<Responses, StepError<Failure>> {
        let CallArgs { server, tool, .. } = &self.args;
        let read = |(key, request): (&String, &Value)| InputQuestion::read(server, tool, key, request);
        let questions: Result<Vec<_>, String> = requests.iter().map(read).collect();
        let questions = questions.map_err(|reason| self.ends(&reason))?;
        let mut responses = Responses::new();
        for question in questions {
            let key = question.key.clone();
            responses.insert(key, self.answer(cx, question, until).await?);
        }
        Ok(responses)
    }

    async fn answer(
        &self,
        cx: &mut Cx,
        question: InputQuestion,
        until: Option<Timestamp>,
    ) -> Result<InputAnswer, StepError<Failure>> {
        let of_program = self.contract.responder.as_ref().and_then(|responder| (responder.0)(&question));
        if let Some(answer) = of_program {
            let wrong = |reason: String| {
                let reason =
                    format!("`{}`, and the answer of `answered_by` does not fit: {reason}", question.key);
                self.ends(&reason)
            };
            question.check(&answer).map_err(wrong)?;
            return Ok(answer);
        }
        let key: String = question.key.chars().take(KEY_IN_NAME).collect();
        let name = format!("{}.{}: {key}", self.args.server, self.args.tool);
        let limit = match until {
            Some(until) => {
                let left = left(until, cx.now().await);
                Some(self.contract.input_expires.map_or(left, |limit| limit.min(left)))
            }
            None => self.contract.input_expires,
        };
        let shown = question.clone();
        let asked =
            cx.ask::<InputAnswer>(shown).named(name).accepted_if(move |answer| question.check(answer));
        let answer = match limit {
            Some(limit) => asked.expires(limit).await,
            None => asked.await,
        };
        match answer {
            Err(StepError::TimedOut(_)) => Ok(InputAnswer::Cancel),
            answer => answer,
        }
    }

    /// Waits for the end of a task.
    async fn follow(&self, cx: &mut Cx, task: TaskBegun) -> Answered {
        let mut pace = Pace::new(task.poll_ms, task.at);
        let until = task.at.checked_add(self.contract.task_timeout).unwrap_or(Timestamp::MAX);
        let (mut now, mut given, mut told) = (task.at, Responses::new(), 0);
        loop {
            if now >= until {
                return self.overdue(cx, &task, pace).await;
            }
            cx.sleep(pace.wait(now).min(left(until, now))).await;
            let seen = self.see(cx, &task).await?;
            now = seen.at;
            let asks = match seen.state {
                TaskState::Working { poll_ms, .. } => {
                    pace.said(poll_ms);
                    continue;
                }
                TaskState::InputRequired { requests, poll_ms } => {
                    pace.said(poll_ms);
                    requests
                }
                ended => return self.end_of(ended),
            };
            let new = asks.iter().filter(|(key, _)| !given.contains_key(*key));
            let new: Requests = new.map(|(key, request)| (key.clone(), request.clone())).collect();
            match self.ask_all(cx, &new, Some(until)).await {
                Ok(answers) => given.extend(answers),
                Err(error) => return self.unanswered(cx, &task, pace, error).await,
            }
            // Also those that were given before: the server asks as if it had not got them.
            let answers = given.iter().filter(|(key, _)| asks.contains_key(*key));
            let answers = answers.map(|(key, answer)| (key.clone(), answer.clone())).collect();
            self.update(cx, &task, told, answers).await?;
            told += 1;
        }
    }

    async fn see(&self, cx: &mut Cx, task: &TaskBegun) -> Result<TaskSeen, StepError<Failure>> {
        // The server may be away for as long as the task may take.
        let retry = Retry { unclassified: 20, ..Retry::within(self.contract.task_timeout) };
        let options = StepOptions { retry: Some(retry), timeout: None, ..StepOptions::of(EffectClass::Read) };
        let args = Payload::encode(&self.task_args(task, Responses::new()));
        let seen = cx.effect(self.name(".task"), options, args, Arc::new(SeeTask)).await;
        seen.map_err(|error| match error {
            StepError::App(failure) | StepError::Exhausted(failure) => self.lost(failure),
            error => error,
        })
    }

    fn task_args(&self, task: &TaskBegun, responses: Responses) -> TaskArgs {
        let CallArgs { server, tool, .. } = self.args.clone();
        TaskArgs { server, tool, task: task.id.clone(), responses }
    }

    async fn update(
        &self,
        cx: &mut Cx,
        task: &TaskBegun,
        before: usize,
        responses: Responses,
    ) -> Result<(), StepError<Failure>> {
        let args = Payload::encode(&self.task_args(task, responses));
        let told: Result<(), StepError<Failure>> =
            cx.effect(self.name(".update"), REPEATABLE, args, Arc::new(UpdateTask { before })).await;
        match told {
            Err(error @ StepError::Cancelled(_)) => Err(error),
            // What became of the task says the next look at it.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The task took too long.
    async fn overdue(&self, cx: &mut Cx, task: &TaskBegun, pace: Pace) -> Answered {
        let looked = match self.cancel(cx, task, pace).await? {
            Cancelled::Completed(result) => return Ok(result),
            Cancelled::NoResult(looked) => looked,
        };
        let limit = TimeLimit::of_body(self.name(""), self.contract.task_timeout);
        let took = left(looked, task.at);
        let reason = format!(
            "its task took longer than {:?} (`Contract::task_timeout`), after {took:?} it was cancelled",
            self.contract.task_timeout
        );
        Err(self.unknown(TaskEnd::TimedOut, reason, |failure| StepError::TimedOut(failure.because_of(limit))))
    }

    /// The task asks for something that it is not told. It would wait for that, or goes on without it.
    async fn unanswered(
        &self,
        cx: &mut Cx,
        task: &TaskBegun,
        pace: Pace,
        error: StepError<Failure>,
    ) -> Answered {
        if matches!(error, StepError::Cancelled(_)) {
            let _cancelled = self.tell_to_cancel(cx, task).await;
            return Err(error);
        }
        match self.cancel(cx, task, pace).await? {
            Cancelled::Completed(result) => Ok(result),
            Cancelled::NoResult(_) => {
                let reason =
                    format!("its task was cancelled, because it was not told what it asked for: {error}");
                Err(self.unknown(TaskEnd::Unanswered, reason, |_| error))
            }
        }
    }

    /// Has the server end the task. How it ended is what counts: one that is told to end may complete all the same.
    async fn cancel(
        &self,
        cx: &mut Cx,
        task: &TaskBegun,
        mut pace: Pace,
    ) -> Result<Cancelled, StepError<Failure>> {
        let told = self.tell_to_cancel(cx, task).await;
        if let Err(error @ StepError::Cancelled(_)) = told {
            return Err(error);
        }
        let mut looked = task.at;
        for _ in 0..LAST_LOOKS {
            cx.sleep(pace.wait(task.at)).await;
            let seen = self.see(cx, task).await?;
            looked = seen.at;
            match seen.state {
                TaskState::Working { poll_ms, .. } | TaskState::InputRequired { poll_ms, .. } => {
                    pace.said(poll_ms);
                }
                TaskState::Completed { result } => return Ok(Cancelled::Completed(result)),
                _ => break,
            }
        }
        Ok(Cancelled::NoResult(looked))
    }

    async fn tell_to_cancel(&self, cx: &mut Cx, task: &TaskBegun) -> Result<bool, StepError<Failure>> {
        let args = Payload::encode(&self.task_args(task, Responses::new()));
        cx.effect(self.name(".cancel"), REPEATABLE, args, Arc::new(StopTask)).await
    }

    /// What the end of a task means for the call.
    fn end_of(&self, ended: TaskState) -> Answered {
        let (end, reason) = match ended {
            TaskState::Completed { result } => return Ok(result),
            TaskState::Failed { code, message } => {
                (TaskEnd::Failed, format!("its task failed: {message} (code {code})"))
            }
            TaskState::Cancelled => (TaskEnd::Cancelled, "its task was cancelled on the server".into()),
            TaskState::Unknown { message } => {
                (TaskEnd::Expired, format!("the server does not know its task any more: {message}"))
            }
            TaskState::Working { .. } | TaskState::InputRequired { .. } => {
                (TaskEnd::Failed, "its task still runs".into())
            }
        };
        Err(self.unknown(end, reason, StepError::App))
    }

    /// A task that gave no result. How far it came nobody knows: a call that may have changed the world is in doubt.
    fn unknown(
        &self,
        end: TaskEnd,
        reason: String,
        harmless: impl FnOnce(Failure) -> StepError<Failure>,
    ) -> StepError<Failure> {
        if self.contract.changes_world() {
            StepError::InDoubt(self.failure(end, reason, FailureClass::Unknown))
        } else {
            harmless(self.failure(end, reason, FailureClass::Permanent))
        }
    }

    fn failure(&self, end: TaskEnd, reason: String, class: FailureClass) -> Failure {
        let error = McpError::Task { asked: self.asked(), end, reason };
        Failure::from(error).classified(class).of_kind(end.kind())
    }

    /// The server cannot be asked about the task.
    fn lost(&self, failure: Failure) -> StepError<Failure> {
        if self.contract.changes_world() {
            let class = FailureClass::Unknown;
            return StepError::InDoubt(failure.context("its task cannot be asked about").classified(class));
        }
        StepError::App(failure)
    }
}

/// How a task ended that its server was told to cancel.
enum Cancelled {
    Completed(ToolResult),
    /// It had no result when it was looked at last.
    NoResult(Timestamp),
}

/// The waits between two looks at a task.
struct Pace {
    said: Duration,
    began: Timestamp,
}

impl Pace {
    fn new(poll_ms: Option<u64>, began: Timestamp) -> Self {
        let mut pace = Self { said: POLL_DEFAULT, began };
        pace.said(poll_ms);
        pace
    }

    /// The server says how often it wants to be asked.
    fn said(&mut self, poll_ms: Option<u64>) {
        if let Some(millis) = poll_ms {
            self.said = Duration::from_millis(millis).clamp(*POLL.start(), *POLL.end());
        }
    }

    /// The wait at `now`: what the server says, or a tenth of the task's age if that is more.
    fn wait(&self, now: Timestamp) -> Duration {
        let grown = (left(now, self.began) / 10).min(POLL_GROWN);
        self.said.max(grown)
    }
}

/// The time from `now` to `until`; none where that is past.
fn left(until: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_the_servers_within_limits_and_grows_with_the_age_of_the_task() {
        let began = Timestamp::UNIX_EPOCH;
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let waits = |said: Option<u64>, age: u64| Pace::new(said, began).wait(at(age));
        assert_eq!(waits(None, 0), Duration::from_secs(1));
        assert_eq!(waits(Some(0), 0), Duration::from_millis(100));
        assert_eq!(waits(Some(5_000), 1), Duration::from_secs(5));
        assert_eq!(waits(Some(u64::MAX), 0), Duration::from_secs(3600));
        assert_eq!(waits(Some(5_000), 100), Duration::from_secs(10));
        assert_eq!(waits(Some(5_000), 1_000_000), Duration::from_secs(300));
        let mut pace = Pace::new(Some(5_000), began);
        pace.said(None);
        assert_eq!(
            pace.wait(began),
            Duration::from_secs(5),
            "what it said holds until it says something else"
        );
    }
}
