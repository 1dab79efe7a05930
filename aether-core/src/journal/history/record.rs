//! What a journal holds about one command.
//!
//! Promise: a fold of the command's events and nothing else; its answer is that of the first event that holds one. What few
//! commands have costs the others a pointer: a long history has millions of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use crate::journal::event::resend::Resend;
use crate::journal::event::{
    CallbackAwaited, CommandCommitted, Event, InvocationDecision, InvocationResolved, LimitAwaited,
    NodeStarted, StepRetried, ToolInvocationFinished, TransactionFinished,
};
use crate::vocabulary::budget::Budget;
use crate::vocabulary::failure::{Failure, StepError};
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId, RunId};
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::{Digest, Payload};
use crate::vocabulary::waiting::{TimeLimit, Waiting, millis};

/// The answer a journal holds for a command.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedResult {
    /// A step's outcome: its value, or its step error.
    Step(Result<Payload, Payload>),
    /// A clock reading.
    Time(Timestamp),
    /// A UUID.
    Uuid(uuid::Uuid),
    /// A random value.
    Random(Payload),
    /// The length of the journal, and the limit of it.
    Length {
        /// Number of events.
        events: u64,
        /// The most events that the engine allowed.
        limit: u64,
    },
    /// A timer fired.
    Timer,
    /// A race was won by the branch of this scope.
    Race(String),
    /// A wait ended with a value, or expired.
    Wait(Result<Payload, Expired>),
}

/// A wait whose time limit passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The limit in milliseconds, which makes it a wait that timed out. Older journals do not say; their waits end as
    /// cancelled, as they did then.
    pub limit_ms: Option<u64>,
}

impl Expired {
    /// A wait that expired under `limit`.
    pub(crate) fn under(limit: Option<Duration>) -> Self {
        Self { limit_ms: Some(millis(limit.unwrap_or_default())) }
    }

    /// The step error of the wait.
    pub(crate) fn error(self, why: Failure, waiting: Waiting, name: &str) -> StepError<Failure> {
        match self.limit_ms {
            Some(limit) => {
                let limit = TimeLimit::of_wait(waiting, name, Duration::from_millis(limit));
                StepError::TimedOut(why.because_of(limit))
            }
            None => StepError::Cancelled(why),
        }
    }
}

/// The newest attempt at a world-changing step.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// Its name.
    pub id: InvocationId,
    /// Its key.
    pub key: IdempotencyKey,
    /// Logical attempt, from 0.
    pub attempt: u32,
    /// Its outcome, where the body came back. `None` as well once the command's answer has the value.
    pub finished: Option<(Outcome, Result<Payload, Payload>)>,
    /// What was decided about its unknown outcome.
    pub decision: Option<InvocationDecision>,
    /// When it is sent again, where that is the newest decision and waits; or was, the last time.
    pub resend: Option<Resend>,
    /// The ledger refused it.
    pub refused: bool,
}

impl Invocation {
    /// One that was begun, or refused, and of which nothing else is known.
    pub(super) fn new(id: InvocationId, key: IdempotencyKey, attempt: u32, refused: bool) -> Self {
        Self { id, key, attempt, finished: None, decision: None, resend: None, refused }
    }
}

/// Name of the command that `cx.approval` issues.
pub(crate) const APPROVAL: &str = "approval";

/// A request for a person's consent or answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// When it expires.
    pub until: Option<Timestamp>,
    /// The time limit behind it, in milliseconds. Older journals do not say.
    pub limit_ms: Option<u64>,
    /// What was decided, and by whom.
    pub decided: Option<(Payload, String)>,
    /// What was shown of an approval that is no step's; `None` for all others.
    pub shown: Option<Payload>,
    /// The name that the workflow gave it.
    pub name: Option<String>,
}

impl Asked {
    /// The time limit of the request; `None` also where an older journal does not say.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.limit_ms.map(Duration::from_millis)
    }
}

/// What a request for consent to the call of a step says of the step.
#[derive(Deserialize)]
struct OfStep {
    step: String,
}

/// What a journal holds about one command.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandRecord {
    /// The command.
    pub command: CommandId,
    /// Its class, where an event tells it.
    pub class: Option<EffectClass>,
    /// Digest of its arguments.
    pub digest: Option<Digest>,
    /// Its arguments.
    pub input: Option<Payload>,
    /// Where in the source it was awaited.
    pub site: Option<Arc<str>>,
    /// Path of its step, or of the workflow of its child, where an event tells it: two may have one name.
    pub path: Option<Arc<str>>,
    /// Whether `node_started` was written.
    pub started: bool,
    /// Whether `node_finished` was written.
    pub finished: bool,
    /// Whether `step_committed` was written.
    pub committed: bool,
    /// Whether `command_emitted` was written.
    pub emitted: bool,
    /// What it answers, or its child, was taken over from the origin of a fork.
    pub kept: bool,
    /// Number of attempts that definitely failed.
    pub failed_attempts: u32,
    /// The newest invocation.
    pub invocation: Option<Box<Invocation>>,
    /// Outcome as committed.
    pub outcome: Option<Outcome>,
    /// The answer.
    pub answer: Option<RecordedResult>,
    pub(super) requested: bool,
    pub(super) details: Option<Box<CommandDetails>>,
}

/// What only some commands have: those that were retried or wait, and those that are no steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandDetails {
    /// When the next attempt is due.
    pub retry_due: Option<Timestamp>,
    /// How long the failed attempts and their waits took, in milliseconds.
    pub retry_spent_ms: u64,
    /// Retries after failures without a class.
    pub unclassified_retries: u32,
    /// The newest wait for a limit on steps, where the call was not made since.
    pub limited: Option<LimitAwaited>,
    /// The newest attempt at a transaction step, where its body came back.
    pub transaction: Option<TransactionFinished>,
    /// When its timer is due.
    pub due: Option<Timestamp>,
    /// The name of what it waits for, for a signal.
    pub waits_for: Option<String>,
    /// The child run it started.
    pub child: Option<RunId>,
    /// It ended when the child was started, and did not wait for the child's end.
    pub unawaited: bool,
    /// The budget that the child run was granted.
    pub granted: Option<Budget>,
    /// What a person was asked.
    pub asked: Option<Asked>,
    /// Which round of words from outside it is in: a refusal, and another callback, begin a new one.
    pub round: u32,
    /// The invocation whose outcome somebody outside is to report, and until when.
    pub callback: Option<(InvocationId, Option<Timestamp>)>,
    /// The newest recorded HTTP response, which is the value of an HTTP command.
    pub response: Option<Payload>,
    /// Why the code that recorded the answer could not read it, where it could not.
    pub unreadable: Option<String>,
}

/// Of a command that has none of them.
static NO_DETAILS: CommandDetails = CommandDetails {
    retry_due: None,
    retry_spent_ms: 0,
    unclassified_retries: 0,
    limited: None,
    transaction: None,
    due: None,
    waits_for: None,
    child: None,
    unawaited: false,
    granted: None,
    asked: None,
    round: 0,
    callback: None,
    response: None,
    unreadable: None,
};

impl CommandRecord {
    /// Takes in an event about this command; returns the command's answer where the event holds it. `sites` are those of
    /// the commands before, and their paths.
    pub(super) fn apply(&mut self, event: Event, sites: &mut BTreeSet<Arc<str>>) -> Option<RecordedResult> {
        let mut shared = |text: Option<String>| text.map(|text| one_of(sites, text));
        match event {
            Event::CommandCommitted(e) => return Some(self.commit(e)),
            Event::TimeRecorded(e) => return Some(RecordedResult::Time(e.value)),
            Event::UuidRecorded(e) => return Some(RecordedResult::Uuid(e.value)),
            Event::RandomRecorded(e) => return Some(RecordedResult::Random(e.value)),
            Event::HistoryMeasured(e) => {
                return Some(RecordedResult::Length { events: e.events, limit: e.limit });
            }
            Event::TimerFired(_) => return Some(RecordedResult::Timer),
            Event::RaceDecided(e) => return Some(RecordedResult::Race(e.winner)),
            Event::WaitCompleted(e) => {
                let expired = Expired { limit_ms: e.limit_ms };
                return Some(RecordedResult::Wait(e.value.ok_or(expired)));
            }
            Event::PlanGenerated(e) => return Some(RecordedResult::Step(Ok(e.plan))),
            Event::NodeStarted(mut e) => {
                self.site = shared(e.site.take());
                self.path = shared(e.path.take());
                self.start(e);
            }
            Event::NodeFinished(_) => self.finished = true,
            Event::StepCommitted(_) => self.committed = true,
            Event::CommandEmitted(e) => {
                self.emitted = true;
                self.input = self.input.take().or(e.input);
                self.use_place();
            }
            Event::StepRetried(e) => self.retry(&e),
            Event::ToolInvocationStarted(e) => {
                self.use_place();
                self.invoke(e.invocation, e.key, e.attempt, false);
            }
            Event::ToolInvocationFinished(e) => self.end_invocation(e),
            Event::ToolInvocationRefused(e) => self.invoke(e.invocation, e.key, self.failed_attempts, true),
            Event::InvocationResolved(e) => self.resolve(&e),
            Event::TimerScheduled(e) => {
                self.class = Some(EffectClass::Time);
                self.site = shared(e.site);
                self.details_mut().due = Some(e.due);
            }
            Event::WaitStarted(e) => {
                self.site = shared(e.site);
                let details = self.details_mut();
                (details.due, details.waits_for) = (e.until, Some(e.name));
            }
            Event::OutcomeKept(_) => self.kept = true,
            Event::ApprovalRequested(e) => {
                if self.started && self.path.is_none() {
                    self.path = shared(e.request.decode::<OfStep>().ok().map(|of| of.step));
                }
                let shown = (e.command.name() == APPROVAL).then_some(e.request);
                self.details_mut().asked =
                    Some(Asked { until: e.until, limit_ms: e.limit_ms, decided: None, shown, name: e.name });
                self.site = self.site.take().or_else(|| shared(e.site));
            }
            Event::LimitAwaited(e) => self.details_mut().limited = Some(e),
            Event::HttpRecorded(e) => self.details_mut().response = Some(e.response),
            Event::TransactionFinished(e) => self.details_mut().transaction = Some(e),
            Event::ChildStarted(e) => {
                let details = self.details_mut();
                (details.child, details.unawaited, details.granted) = (Some(e.child), e.unawaited, e.granted);
            }
            Event::ApprovalDecided(e) => {
                if let Some(asked) = &mut self.details_mut().asked {
                    asked.decided = Some((e.decision, e.actor));
                }
            }
            Event::AnswerRefused(_) => self.details_mut().round += 1,
            Event::ResultUnreadable(e) => self.details_mut().unreadable = Some(e.reason),
            Event::CallbackAwaited(e) => self.await_callback(e),
            Event::RunCreated(_)
            | Event::RunWaiting(_)
            | Event::RunCompleted(_)
            | Event::RunFailed(_)
            | Event::RunCancelled(_)
            | Event::RunRequeued(_)
            | Event::RunParked(_)
            | Event::CodeAdopted(_)
            | Event::RunUnwinding(_)
            | Event::RunTerminated(_)
            | Event::CompensationRecorded(_)
            | Event::ChildReleased(_)
            | Event::StepCompensated(_)
            | Event::InvocationAbandoned(_)
            | Event::StateChanged(_)
            | Event::StateConfirmed(_)
            | Event::ConfirmationDecided(_)
            | Event::SignalReceived(_)
            | Event::CallbackReceived(_)
            | Event::VersionMarked(_)
            | Event::CheckpointSaved(_)
            | Event::ContinuedAsNew(_)
            | Event::RunContinued(_)
            | Event::TransactionRolledBack(_)
            | Event::ForkDecided(_)
            | Event::AnswerReplaced(_)
            | Event::Unknown { .. } => {}
        }
        None
    }

    fn start(&mut self, started: NodeStarted) {
        self.started = true;
        self.class = Some(started.class);
        self.digest = Some(started.digest);
        self.input = started.input;
    }

    fn commit(&mut self, committed: CommandCommitted) -> RecordedResult {
        self.outcome = Some(committed.outcome);
        let result = committed_result(committed.result, committed.error).or_else(|| self.result_elsewhere());
        if let Some(details) = &mut self.details {
            // Nothing is tried again.
            (details.retry_due, details.retry_spent_ms, details.unclassified_retries) = (None, 0, 0);
        }
        self.use_place();
        RecordedResult::Step(result.unwrap_or(Ok(Payload::null())))
    }

    fn retry(&mut self, retried: &StepRetried) {
        self.failed_attempts = retried.attempt.saturating_add(1);
        self.invocation = None;
        let details = self.details_mut();
        details.retry_due = Some(retried.due);
        details.retry_spent_ms = retried.spent_ms.unwrap_or(details.retry_spent_ms);
        details.unclassified_retries =
            details.unclassified_retries.saturating_add(u32::from(retried.unclassified));
        details.transaction = None;
    }

    /// The call may have been made: the place that it waited for is used.
    fn use_place(&mut self) {
        if let Some(details) = &mut self.details {
            details.limited = None;
        }
    }

    fn invoke(&mut self, id: InvocationId, key: IdempotencyKey, attempt: u32, refused: bool) {
        self.invocation = Some(Box::new(Invocation::new(id, key, attempt, refused)));
    }

    fn end_invocation(&mut self, ended: ToolInvocationFinished) {
        let response = || self.details().response.clone().map(Ok);
        let result = committed_result(ended.result, ended.error).or_else(response);
        if let Some(invocation) = &mut self.invocation {
            invocation.finished = Some((ended.outcome, result.unwrap_or(Ok(Payload::null()))));
        }
    }

    fn await_callback(&mut self, awaited: CallbackAwaited) {
        if let Some(invocation) = &mut self.invocation
            && invocation.id == awaited.invocation
            && invocation.decision == Some(InvocationDecision::Retry)
        {
            // The body was called again, and came back: nothing is to be sent.
            invocation.decision = None;
        }
        let details = self.details_mut();
        details.round += u32::from(details.callback.is_some());
        details.callback = Some((awaited.invocation, awaited.until));
    }

    fn resolve(&mut self, resolved: &InvocationResolved) {
        if let Some(invocation) = &mut self.invocation {
            (invocation.decision, invocation.resend) = (Some(resolved.decision), resolved.resend);
        }
        if resolved.decision == InvocationDecision::DidNotHappen {
            self.failed_attempts = self.invocation.take().map_or(1, |known| known.attempt.saturating_add(1));
        }
        // A wait that comes behind the decision to send it again is that of this sending.
        self.use_place();
    }

    pub(super) fn new(command: CommandId) -> Self {
        Self {
            command,
            class: None,
            digest: None,
            input: None,
            site: None,
            path: None,
            started: false,
            finished: false,
            committed: false,
            emitted: false,
            kept: false,
            failed_attempts: 0,
            invocation: None,
            outcome: None,
            answer: None,
            requested: false,
            details: None,
        }
    }

    /// Whether no event about it is to be expected.
    pub(super) fn is_complete(&self) -> bool {
        match self.answer {
            Some(RecordedResult::Step(Ok(_))) => self.committed,
            Some(RecordedResult::Step(Err(_))) => self.finished,
            Some(RecordedResult::Time(_) | RecordedResult::Uuid(_) | RecordedResult::Random(_)) => true,
            Some(
                RecordedResult::Length { .. }
                | RecordedResult::Timer
                | RecordedResult::Race(_)
                | RecordedResult::Wait(_),
            )
            | None => false,
        }
    }

    /// Whether it has nothing of what only some commands have.
    pub(super) fn has_no_details(&self) -> bool {
        *self.details() == NO_DETAILS
    }

    /// What only some commands have.
    pub fn details(&self) -> &CommandDetails {
        self.details.as_deref().unwrap_or(&NO_DETAILS)
    }

    /// As [`CommandRecord::details`], taken out.
    pub fn take_details(&mut self) -> CommandDetails {
        self.details.take().map(|details| *details).unwrap_or_default()
    }

    fn details_mut(&mut self) -> &mut CommandDetails {
        self.details.get_or_insert_default()
    }

    /// Where in the source it was awaited, as a text of its own.
    pub(crate) fn site(&self) -> Option<String> {
        self.site.as_deref().map(str::to_owned)
    }

    /// The value of a committed command whose commit does not repeat it. The answer is then the only place that has it.
    fn result_elsewhere(&mut self) -> Option<Result<Payload, Payload>> {
        if let Some((_, result)) = self.invocation.as_mut().and_then(|i| i.finished.take()) {
            return Some(result);
        }
        let details = self.details.as_mut()?;
        let transaction = details.transaction.take();
        let in_transaction = transaction.and_then(|ended| committed_result(ended.result, ended.error));
        in_transaction.or_else(|| details.response.take().map(Ok))
    }
}

fn committed_result(result: Option<Payload>, error: Option<Payload>) -> Option<Result<Payload, Payload>> {
    error.map(Err).or(result.map(Ok))
}

/// The site as it is known already, or as it is.
fn one_of(sites: &mut BTreeSet<Arc<str>>, site: String) -> Arc<str> {
    if let Some(known) = sites.get(site.as_str()) {
        return Arc::clone(known);
    }
    let site: Arc<str> = site.into();
    sites.insert(Arc::clone(&site));
    site
}
