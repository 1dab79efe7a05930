//! One step call while it is being answered: what it is, its progress, and the events and rows that it writes.
//!
//! Promise: a value is written once to a journal; `step_committed` is written on success only.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::definition::def::{Retry, SourceLine, StepOptions};
use crate::journal::bill::billed;
use crate::journal::event::resend::Resend;
use crate::journal::event::reserved::Reserved;
use crate::journal::event::{
    CommandCommitted, Event, InvocationDecision, LimitAwaited, NodeStarted, StepCommitted,
    ToolInvocationFinished,
};
use crate::perform::body_outcome::{BodyOutcome, error_of};
use crate::perform::failures::Failures;
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::taken::Taken;
use crate::step::body::Body;
use crate::step::context::{Given, StepCx};
use crate::step::interceptor::BodyCall;
use crate::step::request_keys::FirstRequest;
use crate::store::intent::DurableIntent;
use crate::store::ledger::{LedgerEntry, LedgerStatus, LedgerUpdate};
use crate::stream::execution::Execution;
use crate::vocabulary::budget::{BudgetScope, Spend, Spent};
use crate::vocabulary::failure::StepError;
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId};
use crate::vocabulary::net::in_net;
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::{Answered, Digest, Payload, PayloadError};
use crate::vocabulary::trace::{SpanName, TraceContext};

impl StepCall {
    /// `node_started`, the first time; then the events that bodies reported since. With room for what ends a call.
    pub(crate) fn start_events(&mut self) -> Vec<Event> {
        self.start_events_and(3 + usize::from(self.options.class.changes_world()))
    }

    /// As [`StepCall::start_events`], with room for so many events more.
    pub(crate) fn start_events_and(&mut self, more: usize) -> Vec<Event> {
        let mut events = Vec::with_capacity(usize::from(!self.started) + self.notes.len() + more);
        if !std::mem::replace(&mut self.started, true) {
            // Two steps of one name are told apart where an outcome is kept in a fork.
            let path = billed(self.options.class).then(|| self.path.to_string());
            events.push(
                NodeStarted {
                    command: self.command.clone(),
                    class: self.options.class,
                    digest: self.digest.clone(),
                    input: (!self.emitted).then(|| self.args.clone()),
                    path,
                    site: self.site.take().map(SourceLine::text),
                    constraints: self.options.constraints(),
                }
                .into(),
            );
        }
        events.append(&mut self.notes);
        events
    }

    /// The key of this attempt.
    pub(crate) fn key(&self) -> IdempotencyKey {
        match &self.named {
            Some(named) if named.attempt == self.attempt => named.key.clone(),
            _ => IdempotencyKey::new(&self.run.id, &self.command, self.attempt),
        }
    }

    /// The invocation of this attempt.
    pub(crate) fn invocation(&self) -> InvocationId {
        match &self.named {
            Some(named) if named.attempt == self.attempt => named.invocation.clone(),
            _ => InvocationId::new(&self.command, self.attempt),
        }
    }

    /// Keeps key and invocation of this attempt: its events and its ledger row name them several times.
    pub(crate) fn name_attempt(&mut self) -> (IdempotencyKey, InvocationId) {
        let (key, invocation) = (self.key(), self.invocation());
        let named = NamedAttempt { attempt: self.attempt, key: key.clone(), invocation: invocation.clone() };
        self.named = Some(named);
        (key, invocation)
    }

    pub(crate) fn body_call(&self) -> BodyCall<'_> {
        BodyCall {
            run: &self.run.id,
            command: &self.command,
            path: &self.path,
            options: &self.options,
            attempt: self.attempt,
            args: &self.args,
        }
    }

    /// The context of this attempt's body.
    pub(crate) fn step_cx(&self, started_at: Timestamp, intent: Option<DurableIntent>) -> StepCx {
        let streams = self.execution.clone().map(|of| (Arc::clone(&self.run.shared.streams), of));
        StepCx::new(Given {
            streams,
            deps: Arc::clone(&self.run.shared.deps),
            payload_limit: self.run.shared.limits.payload,
            run: self.run.id.clone(),
            command: self.command.clone(),
            options: self.options,
            attempt: self.attempt,
            seed: self.run.seed.clone(),
            started_at,
            trace: self.run.shared.trace_bodies.as_ref().map(|_| self.trace_context()),
            intent: intent.map(Arc::new),
            cancellation: self.run.cancellation(),
            transactions: self.run.shared.store.transactions(),
            contents: Arc::clone(&self.run) as _,
            first_request: self.first_request.clone(),
        })
    }

    /// The span of this attempt.
    pub(crate) fn trace_context(&self) -> TraceContext {
        self.run.trace.context(&self.run.id, SpanName::Attempt(&self.command, self.attempt))
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.options.timeout.unwrap_or_default()
    }

    pub(crate) fn error_of(&self, ended: BodyOutcome, exhausted: bool) -> StepError<Payload> {
        error_of(&self.run, &self.command, &self.options, ended, exhausted)
    }

    /// Asks the step's declaration, which runs code of the user: a panic is an error like any other.
    pub(crate) fn ask_body<T>(
        &self,
        ask: impl FnOnce(&dyn Body) -> Result<T, PayloadError>,
    ) -> Result<T, PayloadError> {
        ask_in_net(&self.path, || ask(&*self.body))
    }

    /// What the next append writes beside its events: the inbox messages that it consumes.
    pub(crate) fn extras(&mut self) -> AppendExtras {
        AppendExtras { consumed: std::mem::take(&mut self.consumed), ..AppendExtras::default() }
    }

    /// The ledger's row under `key`.
    pub(crate) async fn row(&self, key: &IdempotencyKey) -> Option<LedgerEntry> {
        let _in_flight = self.run.in_flight();
        self.run.insist(|| self.run.shared.store.entry(&self.run.id, key)).await
    }

    /// The outcome in a committed ledger row; a large value is fetched from the effect store.
    pub(crate) async fn recorded(&self, row: &LedgerEntry) -> (Outcome, Answered) {
        let _in_flight = self.run.in_flight();
        let mut row = row.clone();
        let rows = std::slice::from_mut(&mut row);
        match crate::store::read::complete(&*self.run.shared.store, &self.run.id, rows).await {
            Ok(()) => recorded_outcome(row),
            Err(error) => self.run.stop(error).await,
        }
    }

    pub(crate) fn failed(&mut self, outcome: Outcome, error: Option<Payload>) -> Event {
        let (command, spent) = (self.command.clone(), self.spent.take());
        CommandCommitted { command, outcome, result: None, error, caught_up: false, spent }.into()
    }

    pub(crate) fn step_committed(&self, key: Option<IdempotencyKey>) -> Event {
        StepCommitted { command: self.command.clone(), step: self.name.to_string(), key }.into()
    }

    pub(crate) fn invocation_finished(
        &self,
        outcome: Outcome,
        result: Option<Payload>,
        error: Option<Payload>,
    ) -> Event {
        ToolInvocationFinished {
            command: self.command.clone(),
            invocation: self.invocation(),
            outcome,
            result,
            error,
            caught_up: false,
        }
        .into()
    }

    /// The change of this attempt's ledger row. A row that is missing is not needed: the journal is the truth.
    pub(crate) fn ledger_update(
        &self,
        status: LedgerStatus,
        result: Option<Payload>,
        error: Option<Payload>,
    ) -> Option<LedgerUpdate> {
        let committed = status != LedgerStatus::InDoubt;
        self.in_ledger.then(|| LedgerUpdate { key: self.key(), status, result, error, committed })
    }

    pub(crate) async fn wait_until(&self, due: Timestamp) {
        if due > self.run.now() {
            let _waiting = self.run.wait(self.command.clone(), Some(due));
            self.run.shared.environment.sleep_until(due).await;
        }
    }
}

/// Asks the declaration of the step at `path` for something.
pub(crate) fn ask_in_net<T>(
    path: &str,
    ask: impl FnOnce() -> Result<T, PayloadError>,
) -> Result<T, PayloadError> {
    in_net(ask).unwrap_or_else(|message| Err(PayloadError::Panicked { step: path.to_owned(), message }))
}

/// A step call as the workflow requests it.
pub(crate) struct CallSpec {
    /// Name of the step in the journal.
    pub(crate) name: Cow<'static, str>,
    /// Name of the step that is unique in the program.
    pub(crate) path: Cow<'static, str>,
    /// The options that the step declares.
    pub(crate) options: StepOptions,
    /// The encoded arguments, or why they do not encode.
    pub(crate) args: Result<Payload, PayloadError>,
    /// The step's function.
    pub(crate) body: Arc<dyn Body>,
    /// Whether the caller can read an answer.
    pub(crate) readable: Readable,
    /// The budgets that it counts in.
    pub(crate) counts_in: CountsIn,
    /// Name of the limit on steps that it counts in, where the workflow gave one.
    pub(crate) limit: Option<Arc<str>>,
}

/// The budgets that a call counts in.
#[derive(Clone, Debug)]
pub(crate) enum CountsIn {
    /// None, not even that of the run: it undoes another call.
    Nothing,
    /// That of the run, and those of the scopes that it is in.
    Budgets(Option<Arc<BudgetScope>>),
}

/// Whether an answer decodes into the caller's types.
pub(crate) type Readable = fn(&Answered) -> Result<(), PayloadError>;

/// For callers that take an answer as it is.
pub(crate) const fn any_answer(_: &Answered) -> Result<(), PayloadError> {
    Ok(())
}

impl CallSpec {
    /// Makes a world-changing call irreversible. Never makes one reversible.
    pub(crate) fn raise(&mut self, raised: bool) {
        self.options.irreversible |= raised && self.options.class.changes_world();
    }

    /// Gives a call that changes nothing another retry policy: `call` whatever its step declares, else `scope` where it
    /// declares none. A call that may change the world keeps the policy of its step, which knows what may be repeated.
    pub(crate) fn retry(&mut self, call: Option<Retry>, scope: Option<Retry>) {
        if matches!(self.options.class, EffectClass::Read | EffectClass::Llm) {
            self.options.retry = call.or(self.options.retry).or(scope);
        }
    }

    /// Has it count in a limit: `call` whatever its step declares; `scope` for a model call without one.
    pub(crate) fn limit(&mut self, call: Option<Arc<str>>, scope: Option<Arc<str>>) {
        let scope = scope.filter(|_| self.options.class == EffectClass::Llm && self.options.limit.is_none());
        self.limit = call.or(scope);
    }
}

/// The next action on a step call.
pub(crate) enum Next {
    /// Return this answer to the workflow.
    Done(Answered),
    /// Make another attempt.
    Again,
    /// Record what the body ended with.
    Settle(BodyOutcome),
    /// Apply the step's policy to an invocation of unknown outcome, unless a decision is already recorded.
    Unknown(InvocationId, IdempotencyKey, Option<InvocationDecision>),
    /// Call the body under this intent.
    Call(DurableIntent),
}

impl From<Answered> for Next {
    fn from(answered: Answered) -> Self {
        Self::Done(answered)
    }
}

/// One step call while it is being answered.
pub(crate) struct StepCall {
    pub(crate) run: Arc<Run>,
    pub(crate) command: CommandId,
    pub(crate) name: Cow<'static, str>,
    pub(crate) path: Cow<'static, str>,
    pub(crate) options: StepOptions,
    pub(crate) args: Payload,
    pub(crate) body: Arc<dyn Body>,
    pub(crate) readable: Readable,
    pub(crate) digest: Digest,
    pub(crate) site: Option<SourceLine>,
    /// Where it stood in the source that recorded its answer.
    pub(crate) recorded_site: Option<String>,
    /// Events that bodies reported and no append holds yet.
    pub(crate) notes: Vec<Event>,
    /// Inbox messages that the next append consumes.
    pub(crate) consumed: Vec<Taken>,
    /// Number of the round of replies that it waits for; see `ReplyReceiver`.
    pub(crate) round: u32,
    /// Whether an attempt handed its completion over to a callback.
    pub(crate) handed_over: bool,
    /// Whether the newest body took its callback's token.
    pub(crate) passed_on: bool,
    /// Whether a report of the newest invocation still counts.
    pub(crate) reports: Reports,
    /// When the newest invocation was started, if this process started it.
    pub(crate) began: Option<Timestamp>,
    /// Why the outcome of the newest attempt is unknown, where that is known.
    pub(crate) lost: Option<String>,
    /// The newest progress that the body reported.
    pub(crate) progress: Option<Payload>,
    /// Whether `node_started` was appended.
    pub(crate) started: bool,
    /// Whether `command_emitted` was appended.
    pub(crate) emitted: bool,
    /// Whether the newest invocation has a ledger row.
    pub(crate) in_ledger: bool,
    /// Whether the intent of the newest attempt was appended here, and its body not called yet.
    pub(crate) uncalled: bool,
    /// How the newest attempt ended, while what belongs to that is written and the call was not told of it.
    pub(crate) came_back: Option<BodyOutcome>,
    /// Logical attempt, from 0.
    pub(crate) attempt: u32,
    /// What the newest attempt at the ledger is called.
    pub(crate) named: Option<NamedAttempt>,
    /// When the newest attempt began, if it began in this process: by a clock that nobody sets.
    pub(crate) tried_since: Option<Duration>,
    /// How its attempts failed so far.
    pub(crate) failures: Failures,
    /// How often the newest invocation was sent again because its outcome was unknown.
    pub(crate) unknown_tries: u32,
    /// The next time, where it was decided before a crash.
    pub(crate) resend: Option<Resend>,
    /// How long the other side asked to be left alone when the outcome of the newest call became unknown.
    pub(crate) asked: Option<Duration>,
    /// The newest execution of the body, where that may send to streams.
    pub(crate) execution: Option<Arc<Execution>>,
    /// The outcome is not that of a body.
    pub(crate) disowned: bool,
    /// The attempt whose body is known to have come back without an outcome: it handed its completion over.
    pub(crate) returned: Option<u32>,
    /// The budgets that it counts in.
    pub(crate) counts_in: CountsIn,
    /// What the newest attempt has reserved of them.
    pub(crate) reserved: Option<Reserved>,
    /// What the newest attempt took of them, once that is known.
    pub(crate) spent: Option<Spend>,
    /// When the first of them ends by its time.
    pub(crate) until: Option<Timestamp>,
    /// What the newest body said that it took.
    pub(crate) said: Option<Spent>,
    /// Name of the limit on steps that it counts in.
    pub(crate) limit: Option<Arc<str>>,
    /// The wait for it that was recorded before a crash.
    pub(crate) limited: Option<LimitAwaited>,
    /// Tokens that the newest attempt has booked there.
    pub(crate) booked: u64,
    /// The place that the newest attempt has among the calls of this process; see [`Body::admit`].
    pub(crate) place: Option<Box<dyn Any + Send + Sync>>,
    /// The request that has the key of the newest attempt.
    pub(crate) first_request: FirstRequest,
}

impl Drop for StepCall {
    fn drop(&mut self) {
        if self.uncalled {
            self.run.note_uncalled(self.invocation());
        }
        if let Some(ended) = self.came_back.take() {
            self.keep_known(ended);
        }
    }
}

/// Whether what a callback reports of an invocation still counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reports {
    #[default]
    Welcome,
    /// The time limit has passed.
    TimedOut,
    /// The id of their round is used up: by a report that was taken, or by the engine, which decides in their place.
    Closed,
}

/// How events and ledger call an attempt.
pub(crate) struct NamedAttempt {
    attempt: u32,
    key: IdempotencyKey,
    invocation: InvocationId,
}

/// The outcome in a committed ledger row.
pub(crate) fn recorded_outcome(entry: LedgerEntry) -> (Outcome, Answered) {
    match (entry.status, entry.error) {
        (LedgerStatus::Failed, error) => {
            (Outcome::PermanentFailure, Err(error.unwrap_or_else(Payload::null)))
        }
        (_, Some(error)) if entry.result.is_none() => (Outcome::PermanentFailure, Err(error)),
        (_, _) => (Outcome::SideEffectCommitted, Ok(entry.result.unwrap_or_else(Payload::null))),
    }
}
