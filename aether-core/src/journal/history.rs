//! The replay matcher: one run's journal as the answers it holds, handed out in the order of the first delivery.
//!
//! Promise: a recorded answer goes only to the command that has its place, kind, name and arguments; answers are
//! handed out in the order in which the workflow saw them first; no wildcard decides a match.

use std::task::{Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;

use crate::journal::event::{
    CommandCommitted, Event, ForkDecided, InvocationDecision, LimitAwaited, NodeStarted, StepRetried,
    ToolInvocationFinished, TransactionFinished,
};
use crate::journal::kept::{KeptCall, KeptCalls};
use crate::journal::resources::Resources;
use crate::journal::version_marks::{Mark, VersionMarks};
use crate::sched::HashMap;
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
    /// Its outcome, where the body came back.
    pub finished: Option<(Outcome, Result<Payload, Payload>)>,
    /// What was decided about its unknown outcome.
    pub decision: Option<InvocationDecision>,
    /// The ledger refused it.
    pub refused: bool,
}

/// A request for a person's consent or answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// When it expires.
    pub until: Option<Timestamp>,
    /// The time limit behind it, in milliseconds. Older journals do not say.
    pub limit_ms: Option<u64>,
    /// What was decided, and by whom.
    pub decided: Option<(Payload, String)>,
}

impl Asked {
    /// The time limit of the request; `None` also where an older journal does not say.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.limit_ms.map(Duration::from_millis)
    }
}

/// What a journal holds about one command.
#[derive(Clone, Debug)]
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
    pub site: Option<String>,
    /// Whether `node_started` was written.
    pub started: bool,
    /// Whether `node_finished` was written.
    pub finished: bool,
    /// Whether `step_committed` was written.
    pub committed: bool,
    /// Number of attempts that definitely failed.
    pub failed_attempts: u32,
    /// When the next attempt is due.
    pub retry_due: Option<Timestamp>,
    /// How long the failed attempts and their waits took, in milliseconds.
    pub retry_spent_ms: u64,
    /// Retries after failures without a class.
    pub unclassified_retries: u32,
    /// Whether `command_emitted` was written.
    pub emitted: bool,
    /// The newest invocation.
    pub invocation: Option<Invocation>,
    /// The newest wait for a limit on steps.
    pub limited: Option<LimitAwaited>,
    /// The newest attempt at a transaction step, where its body came back.
    pub transaction: Option<TransactionFinished>,
    /// When its timer is due.
    pub due: Option<Timestamp>,
    /// The name of what it waits for, for a signal.
    pub waits_for: Option<String>,
    /// The child run it started.
    pub child: Option<RunId>,
    /// The budget that the child run was granted.
    pub granted: Option<Budget>,
    /// What it answers, or its child, was taken over from the origin of a fork.
    pub kept: bool,
    /// What a person was asked.
    pub asked: Option<Asked>,
    /// Which round of words from outside it is in: a refusal, and another callback, begin a new one.
    pub round: u32,
    /// The invocation whose outcome somebody outside is to report, and until when.
    pub callback: Option<(InvocationId, Option<Timestamp>)>,
    /// The newest recorded HTTP response, which is the value of an HTTP command.
    pub response: Option<Payload>,
    /// Outcome as committed.
    pub outcome: Option<Outcome>,
    /// The answer.
    pub answer: Option<RecordedResult>,
    /// Why the code that recorded the answer could not read it, where it could not.
    pub unreadable: Option<String>,
    requested: bool,
}

impl CommandRecord {
    /// Takes in an event about this command; returns the command's answer where the event holds it.
    fn apply(&mut self, event: Event) -> Option<RecordedResult> {
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
            Event::NodeStarted(e) => self.start(e),
            Event::NodeFinished(_) => self.finished = true,
            Event::StepCommitted(_) => self.committed = true,
            Event::CommandEmitted(e) => {
                (self.emitted, self.limited) = (true, None);
                self.input = self.input.take().or(e.input);
            }
            Event::StepRetried(e) => self.retry(&e),
            Event::LimitAwaited(e) => self.limited = Some(e),
            Event::ToolInvocationStarted(e) => self.invoke(e.invocation, e.key, e.attempt, false),
            Event::ToolInvocationFinished(e) => self.end_invocation(e),
            Event::ToolInvocationRefused(e) => self.invoke(e.invocation, e.key, self.failed_attempts, true),
            Event::InvocationResolved(e) => self.resolve(e.decision),
            Event::HttpRecorded(e) => self.response = Some(e.response),
            Event::TransactionFinished(e) => self.transaction = Some(e),
            Event::TimerScheduled(e) => {
                self.class = Some(EffectClass::Time);
                (self.due, self.site) = (Some(e.due), e.site);
            }
            Event::WaitStarted(e) => {
                (self.due, self.site, self.waits_for) = (e.until, e.site, Some(e.name));
            }
            Event::ChildStarted(e) => (self.child, self.granted) = (Some(e.child), e.granted),
            Event::OutcomeKept(_) => self.kept = true,
            Event::ApprovalRequested(e) => {
                self.asked = Some(Asked { until: e.until, limit_ms: e.limit_ms, decided: None });
                self.site = self.site.take().or(e.site);
            }
            Event::ApprovalDecided(e) => {
                if let Some(asked) = &mut self.asked {
                    asked.decided = Some((e.decision, e.actor));
                }
            }
            Event::AnswerRefused(_) => self.round += 1,
            Event::ResultUnreadable(e) => self.unreadable = Some(e.reason),
            Event::CallbackAwaited(e) => {
                self.round += u32::from(self.callback.is_some());
                self.callback = Some((e.invocation, e.until));
            }
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
        self.site = started.site;
    }

    fn commit(&mut self, committed: CommandCommitted) -> RecordedResult {
        self.outcome = Some(committed.outcome);
        let result = committed_result(committed.result, committed.error).or_else(|| self.result_elsewhere());
        RecordedResult::Step(result.unwrap_or(Ok(Payload::null())))
    }

    fn retry(&mut self, retried: &StepRetried) {
        self.failed_attempts = retried.attempt.saturating_add(1);
        self.retry_due = Some(retried.due);
        self.retry_spent_ms = retried.spent_ms.unwrap_or(self.retry_spent_ms);
        self.unclassified_retries = self.unclassified_retries.saturating_add(u32::from(retried.unclassified));
        self.invocation = None;
        self.transaction = None;
    }

    fn invoke(&mut self, id: InvocationId, key: IdempotencyKey, attempt: u32, refused: bool) {
        self.invocation = Some(Invocation { id, key, attempt, finished: None, decision: None, refused });
    }

    fn end_invocation(&mut self, ended: ToolInvocationFinished) {
        if let Some(invocation) = &mut self.invocation {
            let response = self.response.clone().map(Ok);
            let result =
                committed_result(ended.result, ended.error).or(response).unwrap_or(Ok(Payload::null()));
            invocation.finished = Some((ended.outcome, result));
        }
    }

    fn resolve(&mut self, decision: InvocationDecision) {
        if let Some(invocation) = &mut self.invocation {
            invocation.decision = Some(decision);
        }
        if decision == InvocationDecision::DidNotHappen {
            self.failed_attempts = self.invocation.take().map_or(1, |known| known.attempt.saturating_add(1));
        }
    }

    fn new(command: CommandId) -> Self {
        Self {
            command,
            class: None,
            digest: None,
            input: None,
            site: None,
            started: false,
            finished: false,
            committed: false,
            failed_attempts: 0,
            retry_due: None,
            retry_spent_ms: 0,
            unclassified_retries: 0,
            emitted: false,
            invocation: None,
            limited: None,
            transaction: None,
            due: None,
            waits_for: None,
            child: None,
            granted: None,
            kept: false,
            asked: None,
            round: 0,
            callback: None,
            response: None,
            outcome: None,
            answer: None,
            unreadable: None,
            requested: false,
        }
    }

    /// The value of a committed command whose commit does not repeat it.
    fn result_elsewhere(&self) -> Option<Result<Payload, Payload>> {
        let finished = self.invocation.as_ref().and_then(|i| i.finished.as_ref());
        let finished = finished.map(|(_, result)| result.clone());
        let in_transaction = || {
            committed_result(
                self.transaction.as_ref()?.result.clone(),
                self.transaction.as_ref()?.error.clone(),
            )
        };
        finished.or_else(in_transaction).or_else(|| self.response.clone().map(Ok))
    }
}

/// One run's journal, folded for replay.
#[derive(Debug, Default)]
pub struct History {
    resources: Resources,
    commands: HashMap<Box<str>, CommandRecord>,
    deliveries: Vec<Box<str>>,
    delivered: usize,
    waiting: HashMap<Box<str>, Waker>,
    at_frontier: Vec<(CommandId, Waker)>,
    /// Where in `at_frontier` a place is.
    frontier_index: HashMap<Box<str>, usize>,
    /// By scope: commands in it and below that were begun, have no answer, and were not requested again.
    begun: HashMap<Box<str>, usize>,
    /// The run was suspended after the newest event of a command: all code up to there ran until it waited.
    suspended: bool,
    /// The code was not yet seen to ask for all that is recorded; until then nothing live may happen.
    unproven: bool,
    marks: VersionMarks,
    /// Of a fork: calls of its origin whose outcomes it takes over when it asks for them.
    kept: KeptCalls,
    /// It took something over from an origin.
    took_over: bool,
}

impl History {
    /// Folds `events` from position 0 on.
    pub fn fold(events: impl IntoIterator<Item = Event>) -> Self {
        let mut history = Self::default();
        let mut decided = Vec::new();
        for event in events {
            match &event {
                Event::RaceDecided(e) => decided.push((e.command.place().to_owned(), Some(e.winner.clone()))),
                Event::PlanGenerated(e) => decided.push((e.command.place().to_owned(), None)),
                _ => {}
            }
            history.apply(event);
        }
        for (place, winner) in decided {
            history.forget_below(&place, winner.as_deref());
        }
        history.count_begun();
        history.unproven = !history.commands.is_empty() || !history.deliveries.is_empty();
        history
    }

    fn count_begun(&mut self) {
        self.begun.clear();
        for (place, record) in &self.commands {
            if record.answer.is_none() && !record.requested {
                scopes_of(place).for_each(|scope| *self.begun.entry(scope.into()).or_default() += 1);
            }
        }
    }

    /// Whether the code that runs next in `scope` is known to have run before. What the code did after the newest event
    /// is known only where the run was suspended then.
    pub fn replays(&self, scope: &str) -> bool {
        !self.is_exhausted() || self.suspended || self.begun.get(scope).is_some_and(|begun| *begun > 0)
    }

    /// Whether there is anything to replay.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.deliveries.is_empty() && !self.suspended
    }

    /// The run has recorded something new about a command.
    pub fn proceed(&mut self) {
        self.suspended = false;
    }

    fn apply(&mut self, event: Event) {
        // A mark is neither delivered nor left over, and says nothing of the code behind it.
        if let Event::VersionMarked(marked) = event {
            return self.marks.apply(marked);
        }
        self.kept.apply(&event);
        self.took_over |= matches!(event, Event::OutcomeKept(_));
        let Some(command) = event.command().cloned() else {
            self.suspended |= matches!(event, Event::RunWaiting(_));
            return;
        };
        self.suspended = false;
        self.resources.apply(&event);
        let place = command.place();
        // Most events are about a command that is there: no key is made for them.
        if !self.commands.contains_key(place) {
            self.commands.insert(place.into(), CommandRecord::new(command.clone()));
        }
        let Some(record) = self.commands.get_mut(place) else { return };
        if let Some(answer) = record.apply(event)
            && record.answer.is_none()
        {
            record.class = record.class.or(class_of(&answer));
            record.answer = Some(answer);
            self.deliveries.push(place.into());
        }
    }

    /// The calls of the origin that `command` may take over.
    pub(crate) fn kept(&self, command: &CommandId) -> Vec<KeptCall> {
        self.kept.candidates(command)
    }

    /// Notes that a command takes this call over.
    pub(crate) fn take_kept(&mut self, taken: &ForkDecided) {
        self.kept.take(taken);
        self.took_over = true;
    }

    /// The calls of the origin that nothing has taken over yet.
    pub(crate) fn open_decisions(&self) -> impl Iterator<Item = &ForkDecided> {
        self.kept.open()
    }

    /// Whether the run took something over from an origin: it may wait for a child run that is not its own.
    pub(crate) fn took_over(&self) -> bool {
        self.took_over
    }

    /// What is recorded about resources.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Commands other than `but` whose newest invocation was started and has no known end.
    pub fn unsettled<'a>(&'a self, but: &'a CommandId) -> impl Iterator<Item = &'a CommandId> {
        let open = |record: &&CommandRecord| {
            let unfinished = record.invocation.as_ref().is_some_and(|i| i.finished.is_none() && !i.refused);
            unfinished && record.answer.is_none() && record.command != *but
        };
        self.commands.values().filter(open).map(|record| &record.command)
    }

    /// On replay only the winner of a race is polled, and of a recorded plan nothing: what the others got is not handed
    /// out again.
    fn forget_below(&mut self, scope: &str, winner: Option<&str>) {
        let lost = |place: &str| {
            let below = |scope: &str| place.strip_prefix(scope).is_some_and(|rest| rest.starts_with('.'));
            below(scope) && !winner.is_some_and(below)
        };
        self.deliveries.retain(|place| !lost(place));
        self.commands.retain(|place, _| !lost(place));
    }

    /// What is recorded at `place`.
    pub fn peek(&self, place: &str) -> Option<&CommandRecord> {
        self.commands.get(place)
    }

    /// What is recorded at `place`; marks it as asked for.
    pub fn request(&mut self, place: &str) -> Option<&CommandRecord> {
        let record = self.commands.get_mut(place)?;
        let first = !std::mem::replace(&mut record.requested, true);
        if first && record.answer.is_none() {
            for scope in scopes_of(place) {
                if let Some(begun) = self.begun.get_mut(scope) {
                    *begun = begun.saturating_sub(1);
                }
            }
            if self.is_all_requested() {
                self.marks.wake();
            }
        }
        self.commands.get(place)
    }

    /// Whether every recorded answer was handed out.
    pub fn is_exhausted(&self) -> bool {
        self.delivered == self.deliveries.len()
    }

    /// Number of answers handed out, and number of answers recorded.
    pub fn progress(&self) -> (usize, usize) {
        (self.delivered, self.deliveries.len())
    }

    /// Whether the answer at `place` is the next one in order, without taking it; remembers whom to wake when it is.
    pub fn is_due(&mut self, place: &str, waker: &Waker) -> bool {
        self.waiting.insert(place.into(), waker.clone());
        self.deliveries.get(self.delivered).is_some_and(|next| **next == *place)
    }

    /// Takes the answer at `place` if it is the next one in order; else remembers whom to wake when it is.
    pub fn take_delivery(&mut self, place: &str, waker: &Waker) -> Option<CommandRecord> {
        if self.deliveries.get(self.delivered).is_none_or(|next| **next != *place) {
            self.waiting.insert(place.into(), waker.clone());
            return None;
        }
        self.delivered += 1;
        self.waiting.remove(place);
        if let Some(next) = self.deliveries.get(self.delivered) {
            if let Some(waker) = self.waiting.get(next) {
                waker.wake_by_ref();
            }
        } else {
            self.marks.wake();
            if !self.unproven {
                self.prove();
            }
        }
        self.commands.remove(place)
    }

    /// Whether the code was seen to ask for all that is recorded.
    pub fn is_proven(&self) -> bool {
        !self.unproven
    }

    /// Everything that is recorded was delivered, and every command that was begun was asked for again: live effects may
    /// go on, in every branch.
    pub fn prove(&mut self) {
        self.unproven = false;
        self.frontier_index.clear();
        self.at_frontier.drain(..).for_each(|(_, waker)| waker.wake());
    }

    /// Whether live effects may go on; else remembers whom to wake when they may.
    pub fn pass_frontier(&mut self, command: &CommandId, waker: &Waker) -> bool {
        if self.is_exhausted() && !self.unproven {
            return true;
        }
        let known = self.frontier_index.get(command.place()).and_then(|at| self.at_frontier.get_mut(*at));
        match known {
            Some((_, known)) => known.clone_from(waker),
            None => {
                self.frontier_index.insert(command.place().into(), self.at_frontier.len());
                self.at_frontier.push((command.clone(), waker.clone()));
            }
        }
        false
    }

    /// Drops what is recorded inside of `scopes`: of branches that lost a race before they asked for it.
    pub fn forget(&mut self, scopes: &[String]) {
        let lost = |record: &CommandRecord| scopes.iter().any(|scope| record.command.is_within(scope));
        // A branch that asked for an answer does not wait for it any more. An answer that was not delivered to it stays: the
        // branch could not lose before it got that, so this is other code.
        let commands = &self.commands;
        self.waiting.retain(|place, _| !commands.get(place).is_some_and(lost));
        self.commands.retain(|_, record| record.requested || record.answer.is_some() || !lost(record));
        self.count_begun();
        self.marks.wake();
    }

    /// One more than the highest number of an item of the `each` at `place` that has a command.
    pub fn items_of(&self, place: &str) -> usize {
        let number = |at: &str| {
            let item = at.strip_prefix(place)?.strip_prefix(".i")?;
            item.split('.').next()?.parse::<usize>().ok()
        };
        self.commands.keys().filter_map(|at| number(at)).max().map_or(0, |number| number.saturating_add(1))
    }

    /// The next answer, when nobody asks for it.
    pub fn stuck_at(&self) -> Option<&CommandRecord> {
        let next = self.deliveries.get(self.delivered)?;
        if self.waiting.contains_key(next) { None } else { self.commands.get(next) }
    }

    /// Whether every recorded answer was delivered, and every command that was begun was requested again.
    pub fn is_all_requested(&self) -> bool {
        self.is_exhausted() && self.begun.get("").is_none_or(|begun| *begun == 0)
    }

    /// The version of the run at `mark`; `None` where the run comes to it for the first time. Pending while that is not
    /// known; remembers whom to wake when it is.
    pub fn version(&mut self, mark: &Mark, waker: &Waker) -> Poll<Option<u32>> {
        if let Some(known) = self.marks.known(mark) {
            return Poll::Ready(Some(known));
        }
        let commands = &self.commands;
        let is_race = |record: &CommandRecord| matches!(record.answer, Some(RecordedResult::Race(_)));
        let places = || commands.iter().map(|(place, record)| (&**place, is_race(record))).collect();
        if self.marks.is_passed(mark, places) {
            self.marks.pass(mark);
            return Poll::Ready(Some(mark.from));
        }
        if self.is_all_requested() { Poll::Ready(None) } else { self.marks.wait(mark, waker) }
    }

    /// Releases the marks that wait where history cannot be requested without them: the run has passed them. Returns
    /// whether there were any.
    pub fn release_marks(&mut self) -> bool {
        let released = self.marks.is_waiting()
            && (self.stuck_at().is_some() || (self.is_exhausted() && !self.is_all_requested()));
        if released {
            self.marks.release();
        }
        released
    }

    /// The journal holds the end of the workflow.
    pub fn end(&mut self) {
        self.marks.end();
    }

    /// The run's marks.
    pub fn marks(&mut self) -> &mut VersionMarks {
        &mut self.marks
    }

    /// A command that waits for something history does not hold.
    pub fn frontier_request(&self) -> Option<&CommandId> {
        self.at_frontier.first().map(|(command, _)| command)
    }

    /// A command that history holds and nobody asked for.
    pub fn leftover(&self) -> Option<&CommandRecord> {
        let unasked = || self.commands.values().filter(|record| !record.requested);
        self.stuck_at().or_else(|| unasked().min_by_key(|record| in_order(record.command.place())))
    }
}

/// The scopes that a place is in, from the inside out; the root scope is the empty text.
fn scopes_of(place: &str) -> impl Iterator<Item = &str> {
    place.rmatch_indices('.').filter_map(|(at, _)| place.get(..at)).chain(std::iter::once(""))
}

/// Orders places as the code reaches them in one scope.
fn in_order(place: &str) -> Vec<(&str, u32)> {
    let part = |part: &str| part.find(|c: char| c.is_ascii_digit()).unwrap_or(part.len());
    place.split('.').map(|p| p.split_at(part(p))).map(|(kind, n)| (kind, n.parse().unwrap_or(0))).collect()
}

fn committed_result(result: Option<Payload>, error: Option<Payload>) -> Option<Result<Payload, Payload>> {
    error.map(Err).or(result.map(Ok))
}

fn class_of(answer: &RecordedResult) -> Option<EffectClass> {
    match answer {
        RecordedResult::Time(_) | RecordedResult::Timer => Some(EffectClass::Time),
        RecordedResult::Uuid(_) => Some(EffectClass::Uuid),
        RecordedResult::Random(_) => Some(EffectClass::Random),
        RecordedResult::Wait(_) => Some(EffectClass::Human),
        RecordedResult::Length { .. } => Some(EffectClass::Time),
        RecordedResult::Step(_) | RecordedResult::Race(_) => None,
    }
}

#[cfg(test)]
mod tests;
