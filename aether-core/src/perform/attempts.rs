//! The effect gate: how one step call is answered, from history or by its body.
//!
//! Promise: a body that may change the world runs only with a `DurableIntent` in hand; a recorded outcome is handed
//! out and never produced again; an unknown outcome goes to the step's policy, and the decision is an event.

use std::future::Pending;
use std::sync::Arc;

use tracing::Instrument as _;

use crate::definition::def::SourceLine;
use crate::journal::event::reserved::Reserved;
use crate::journal::event::{
    CommandEmitted, Event, NodeFinished, ToolInvocationRefused, ToolInvocationStarted,
};
use crate::journal::frame::Frame;
use crate::journal::history::record::{CommandDetails, CommandRecord, Invocation, RecordedResult};
use crate::journal::large_values::LargeValue;
use crate::journal::obligations::undoes_another;
use crate::perform::body_outcome::BodyOutcome;
use crate::perform::call::{CallSpec, Next, Reports, StepCall};
use crate::perform::failures::Failures;
use crate::perform::verdict::Verdict;
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::fault::CommandSummary;
use crate::run::log;
use crate::run::matcher::Matched;
use crate::run::replayed_log::ComputedAgain;
use crate::run::requested::{Requested, is_same};
use crate::step::request_keys::FirstRequest;
use crate::store::ack::Receipt;
use crate::store::intent::LedgerAnswer;
use crate::store::ledger::{Acquire, LedgerEntry, LedgerStatus};
use crate::store::reserve::Holder;
use crate::vocabulary::failure::StepError;
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId};
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::{Answered, Digest, Payload, PayloadError};

// Every call of a step has a future in memory, and so has every answer on replay. So what is rare, such as a retry or a
// call of unknown outcome, is boxed where it is awaited, and what is large is moved on by plain functions, because a
// future keeps room for all that it has borrowed or was given.

/// Answers a step call.
pub(crate) fn execute_step(
    run: &Arc<Run>,
    command: CommandId,
    site: Option<SourceLine>,
    call: CallSpec,
) -> impl Future<Output = Answered> + Send + use<> {
    let answer = answer_step(run, command, site, call);
    async move { answer.await.0 }
}

/// As [`execute_step`]; also returns where the step stood in the source that recorded the answer.
pub(crate) fn answer_step(
    run: &Arc<Run>,
    command: CommandId,
    site: Option<SourceLine>,
    call: CallSpec,
) -> impl Future<Output = (Answered, Option<String>)> + Send + use<> {
    let mut made = step_call(run, command, site, call);
    async move {
        match &mut made {
            Ok(step_call) => (step_call.answer().await, step_call.recorded_site.take()),
            Err(error) => (Err(error.recorded()), None),
        }
    }
}

/// The call, unless it cannot be recorded.
pub(crate) fn step_call(
    run: &Arc<Run>,
    command: CommandId,
    site: Option<SourceLine>,
    call: CallSpec,
) -> Result<StepCall, StepError<Payload>> {
    let unrecordable = |error: &dyn std::fmt::Display| StepError::Unrecordable(run.failure(&command, error));
    let args = run.shared.redaction.value(call.args.map_err(|error| unrecordable(&error))?);
    let named = run.shared.limits.check_name("step's name", &call.name);
    let over = named.err().map(|over| over.to_string()).or_else(|| run.too_large(&args));
    // What is recorded was within the limits of its time. So was a call that undoes a step, which is recorded with the step.
    if let Some(over) = over.filter(|_| !undoes_another(&command) && !run.is_recorded(&command)) {
        return Err(unrecordable(&over));
    }
    let digest = Digest::of(&args).map_err(|error| unrecordable(&error))?;
    let class = call.options.class;
    let mut step_call = StepCall {
        run: Arc::clone(run),
        command,
        name: call.name,
        path: call.path,
        options: call.options,
        args,
        body: call.body,
        readable: call.readable,
        digest,
        site,
        recorded_site: None,
        notes: Vec::new(),
        consumed: Vec::new(),
        round: 0,
        handed_over: false,
        passed_on: false,
        reports: Reports::Welcome,
        began: None,
        lost: None,
        progress: None,
        started: false,
        emitted: false,
        in_ledger: false,
        uncalled: false,
        came_back: None,
        attempt: 0,
        named: None,
        tried_since: None,
        failures: Failures::default(),
        unknown_tries: 0,
        resend: None,
        asked: None,
        execution: None,
        disowned: false,
        returned: None,
        counts_in: call.counts_in,
        reserved: None,
        spent: None,
        until: None,
        said: None,
        limit: call.limit.or_else(|| call.options.limit.map(Arc::from)),
        limited: None,
        booked: 0,
        place: None,
        first_request: FirstRequest::default(),
    };
    step_call.options.retry = Some(call.options.retry.unwrap_or_else(|| run.shared.retries.of(class)));
    Ok(step_call)
}

impl StepCall {
    /// Answers the call, from history or by its body.
    async fn answer(&mut self) -> Answered {
        if self.options.class == EffectClass::Pure {
            return ComputedAgain(Box::pin(self.compute())).await;
        }
        match self.match_history().await {
            Matched::Answered => self.inject().await,
            Matched::Begun(record) => Box::pin(self.go_on(record)).await,
            Matched::New if self.run.has_answer(&self.command) => self.inject().await,
            Matched::New => self.begin().await,
        }
    }

    /// Answers a call that was begun before a crash.
    async fn go_on(&mut self, record: Box<CommandRecord>) -> Answered {
        self.run.wait_for_frontier(&self.command).await;
        let span = log::step_span(&self.command, &self.name);
        let resumed = async {
            let next = self.resume(*record).await;
            self.follow(next).await
        };
        resumed.instrument(span).await
    }

    /// Answers a call that is not in history.
    async fn begin(&mut self) -> Answered {
        self.run.wait_for_frontier(&self.command).await;
        let is_asked = |recorded: &Payload| self.is_asked(recorded);
        let kept = self.run.take_kept(&self.command, &self.digest, Some(&self.path), is_asked);
        if let Some(kept) = kept {
            return Box::pin(self.take_over(kept)).await;
        }
        self.run.apply_backpressure().await;
        let span = log::step_span(&self.command, &self.name);
        let made = async {
            if self.needs_approval()
                && let Err(closed) = Box::pin(self.ask_for_approval()).await
            {
                return closed;
            }
            self.follow(Next::Again).await
        };
        made.instrument(span).await
    }

    /// Matches the call with history. Arguments that are recorded in an older encoding stay as they are recorded.
    async fn match_history(&self) -> Matched {
        let normalize = |recorded: &Payload| self.normal_args(recorded);
        let path = &*self.path;
        let requested = Requested { args: &self.args, digest: &self.digest, path, normalize: &normalize };
        let (digest, site) = (Some(&self.digest), || self.site.map(SourceLine::text));
        self.run.request_with(&self.command, self.options.class, digest, Some(&requested), &site).await
    }

    /// Recorded arguments as they would be recorded today.
    fn normal_args(&self, recorded: &Payload) -> Result<Payload, PayloadError> {
        Ok(self.run.shared.redaction.value(self.body.canonical_args(recorded)?))
    }

    /// Whether `recorded` are the arguments of this call, in whatever encoding.
    pub(crate) fn is_asked(&self, recorded: &Payload) -> bool {
        is_same(recorded, &self.digest, &|recorded| self.normal_args(recorded))
    }

    /// Takes over the recorded arguments, in whatever encoding they are: the body, the ledger, the business key and a person
    /// who approves are about those. A model is asked what the code asks today.
    pub(crate) fn take_recorded(&mut self, digest: Option<&Digest>, input: Option<&Payload>) {
        let (Some(digest), Some(input)) = (digest, input) else { return };
        if *digest == self.digest {
            return;
        }
        if self.options.class == EffectClass::Llm {
            self.emitted = false;
        } else {
            (self.args, self.digest) = (input.clone(), digest.clone());
        }
    }

    /// A pure step: no event, runs again on replay.
    async fn compute(&mut self) -> Answered {
        let side = || CommandSummary {
            command: self.command.clone(),
            class: EffectClass::Pure,
            digest: Some(self.digest.clone()),
            site: self.site.map(SourceLine::text),
        };
        self.run.consult(&self.command, EffectClass::Pure, false, side).await;
        let answered = match self.call_without_intent().await {
            BodyOutcome::Value(value) => Ok(value),
            ended => Err(self.error_of(ended, false).recorded()),
        };
        // Nothing of it is recorded, so every replay finds the same.
        match self.unreadable(&answered) {
            None => answered,
            Some(reason) => Err(self.not_read(&reason)),
        }
    }

    /// Hands out what is recorded, in its turn; completes the step's events where a crash cut them off.
    async fn inject(&mut self) -> Answered {
        if self.is_to_be_confirmed() {
            Box::pin(self.confirm_injected()).await;
        }
        let record = self.run.next_delivery(&self.command).await;
        match self.deliver(record) {
            Ok(answered) => answered,
            Err(stopped) => stopped.await,
        }
    }

    /// The recorded answer; in its place a future that never ends, where it is of another kind than the command.
    fn deliver(&mut self, mut record: CommandRecord) -> Result<Answered, Pending<Answered>> {
        self.take_recorded(record.digest.as_ref(), record.input.as_ref());
        self.recorded_site = record.site();
        let unreadable = record.take_details().unreadable;
        let Some(RecordedResult::Step(result)) = record.answer else {
            return Err(self.run.mismatched(&self.command, self.options.class, record.answer));
        };
        // Only to remember the call: its event was written with the outcome.
        let _recorded_with_the_outcome = self.learn_undo(result.as_ref().ok());
        if !record.finished {
            let complete = record.outcome.is_none_or(Outcome::is_complete);
            let key = record.invocation.map(|invocation| invocation.key);
            let mut events = vec![NodeFinished { command: self.command.clone() }.into()];
            if complete && !record.committed {
                events.push(self.step_committed(key));
            }
            self.run.append(events, AppendExtras::default());
        }
        Ok(match unreadable {
            Some(reason) => Err(self.not_read(&reason)),
            None => result,
        })
    }

    /// Follows what happens next until the step call is answered.
    async fn follow(&mut self, mut next: Next) -> Answered {
        loop {
            next = match next {
                Next::Done(answered) => return answered,
                Next::Again => self.attempt().await,
                Next::Call(intent) => self.send(intent).await,
                Next::Settle(ended) => self.settle(ended).await,
                Next::Unknown(invocation, key, decided) => {
                    Box::pin(self.unknown(&invocation, &key, decided)).await
                }
            };
        }
    }

    /// Resumes a step that was begun before a crash.
    async fn resume(&mut self, mut record: CommandRecord) -> Next {
        self.started = record.started;
        self.limited.clone_from(&record.details().limited);
        self.emitted = record.emitted;
        self.attempt = record.failed_attempts;
        self.failures = Failures::recorded(&record);
        self.take_recorded(record.digest.as_ref(), record.input.as_ref());
        self.recorded_site = record.site();
        if let Err(closed) = self.permitted(&record).await {
            return Next::Done(closed);
        }
        let CommandDetails { transaction, retry_due, callback, .. } = record.take_details();
        if let Some(finished) = transaction {
            return self.settle_transaction(finished, true).await;
        }
        let Some(invocation) = record.invocation else {
            if let Some(due) = retry_due {
                self.wait_until(due).await;
            }
            return Next::Again;
        };
        self.attempt = invocation.attempt;
        self.take_up_resend(&invocation);
        self.take_up_deadline();
        self.reserved = self.run.reserved_by(&self.command);
        let entry = self.row(&invocation.key).await;
        self.in_ledger = entry.is_some();
        if let Some((outcome, result)) = invocation.finished.clone() {
            // The journal is the truth: a row that lags behind follows it, a missing one is not needed.
            return Next::Done(self.commit_known_outcome(&invocation, outcome, result, entry.as_ref()).await);
        }
        if let Some(caught_up) = self.catch_up().await {
            return caught_up;
        }
        match entry {
            Some(entry) if entry.committed => {
                let (outcome, result) = self.recorded(&entry).await;
                Next::Done(self.commit_known_outcome(&invocation, outcome, result, Some(&entry)).await)
            }
            None if invocation.refused => Next::Done(self.refused_before().await),
            _ => self.left_open(&invocation, callback).await,
        }
    }

    /// Begins an attempt: calls a body that cannot change the world, and asks the ledger for one that can.
    async fn attempt(&mut self) -> Next {
        if let Some(caught_up) = self.catch_up().await {
            return caught_up;
        }
        self.run.still_open().await;
        if self.limit.is_some() {
            Box::pin(self.await_limit()).await;
        }
        if self.options.class == EffectClass::Transaction {
            self.tried_since = Some(self.run.shared.environment.monotonic());
            return Box::pin(self.transact()).await;
        }
        self.admit(true).await;
        if let Err(refused) = self.reserve().await {
            return Next::Done(refused);
        }
        self.tried_since = Some(self.run.shared.environment.monotonic());
        if !self.options.class.changes_world() {
            // Of a read, only where something waits for it to begin.
            if self.options.class == EffectClass::Llm || self.reserved.is_some() || self.limit.is_some() {
                Box::pin(self.record_prompt()).await;
            }
            return Next::Settle(self.call_without_intent().await);
        }
        self.acquire().await
    }

    /// A model's prompt is in the journal before it is sent, so that a lost answer stays visible. Later attempts do not
    /// repeat it; the first one does, where a crash cut it off. What an attempt reserved of budgets is durable before it is
    /// made.
    async fn record_prompt(&mut self) {
        let is_llm = self.options.class == EffectClass::Llm;
        let reserved = self.reserved.clone();
        let first = is_llm && (!std::mem::replace(&mut self.emitted, true) || self.attempt == 0);
        let mut events = self.start_events();
        let (command, attempt) = (self.command.clone(), self.attempt);
        let input = first.then(|| self.args.clone());
        let counts = reserved.is_some();
        events.push(CommandEmitted { command, attempt, input, reserved }.into());
        if counts {
            self.run.append_large_durably(events).await;
        } else {
            self.run.append_large(events, AppendExtras::default()).await;
        }
    }

    /// The run was cancelled between the intent and the body, which is therefore known not to have been called: unless it was
    /// called before under the same intent, of which nobody knows.
    pub(crate) fn called_off<T>(&mut self) -> Pending<T> {
        if std::mem::take(&mut self.uncalled) {
            self.record_not_executed("engine: cancelled");
        }
        std::future::pending()
    }

    /// Asks the ledger for the right to run the body; the intent is durable when it is granted.
    async fn acquire(&mut self) -> Next {
        let (key, invocation) = self.name_attempt();
        let business_key = match self.business_key() {
            Ok(business_key) => business_key,
            Err(error) => {
                let error = StepError::Unrecordable(self.run.failure(&self.command, error));
                self.spent_nothing();
                let refused = Box::pin(self.commit_failure(Outcome::PermanentFailure, &error, None));
                return refused.await.into();
            }
        };
        let events = self.acquire_events(&key, &invocation);
        let stored = self.run.store_large(&events).await;
        let is_reserved = business_key.is_some();
        let entry = self.ledger_entry(key.clone(), invocation.clone(), business_key);
        let (entry, taken) = match is_reserved {
            true => Box::pin(self.reserve_key(entry)).await,
            false => (entry, None),
        };
        if let Some(holder) = taken {
            return Box::pin(self.refuse_unasked(events, stored, entry, holder)).await;
        }
        self.began = Some(entry.started_at);
        self.uncalled = true;
        let acquired = match self.append_acquire(events, stored, entry) {
            Ok(appended) => Ok(appended.await.acquired),
            Err(unrecordable) => Err(unrecordable),
        };
        let answer = acquired.map(|acquired| LedgerAnswer::read(&key, acquired));
        self.uncalled &= matches!(answer, Ok(Some(LedgerAnswer::Execute(_))));
        self.in_ledger |= answer.is_ok();
        match answer {
            Err(unrecordable) => Next::Done(Err(unrecordable)),
            Ok(Some(LedgerAnswer::Execute(intent))) => Next::Call(intent),
            Ok(Some(LedgerAnswer::InFlight(_))) => Next::Unknown(invocation, key, None),
            Ok(Some(LedgerAnswer::Recorded(row))) => Box::pin(self.take_row(*row, key, invocation)).await,
            Ok(Some(LedgerAnswer::Refused(row))) => {
                Box::pin(self.refuse(Some(Holder::of(*row)))).await.into()
            }
            Ok(None) => Box::pin(self.refuse(None)).await.into(),
        }
    }

    /// Appends the intent of an attempt, and asks for its row. The positions never depend on the ledger's answer: where it
    /// refuses, another event takes the place of the last one. The error is that of a call that cannot be recorded.
    fn append_acquire(
        &self,
        events: Vec<Event>,
        stored: Vec<LargeValue>,
        entry: LedgerEntry,
    ) -> Result<impl Future<Output = Receipt> + Send, Payload> {
        let (frame, otherwise) =
            Frame::referring_either(&events, &refusal(&entry, self.reserved.as_ref()), &stored).map_err(
                |error| StepError::<Payload>::Unrecordable(self.run.failure(&self.command, error)).recorded(),
            )?;
        let extras = AppendExtras { frame: Some(frame), ..AppendExtras::default() };
        Ok(self.run.append_durably(events, Some(Acquire { entry, otherwise }), extras))
    }

    /// The ledger holds the outcome of the attempt already.
    async fn take_row(&mut self, row: LedgerEntry, key: IdempotencyKey, id: InvocationId) -> Next {
        let (outcome, result) = self.recorded(&row).await;
        let attempt = self.attempt;
        let invocation =
            Invocation { id, key, attempt, finished: None, decision: None, resend: None, refused: false };
        self.commit_known_outcome(&invocation, outcome, result, Some(&row)).await.into()
    }

    /// Another call holds the business key within the store: the ledger need not be asked.
    async fn refuse_unasked(
        &mut self,
        mut events: Vec<Event>,
        stored: Vec<LargeValue>,
        entry: LedgerEntry,
        holder: Holder,
    ) -> Next {
        events.pop();
        events.push(refusal(&entry, self.reserved.as_ref()));
        let extras = AppendExtras { stored, ..AppendExtras::default() };
        self.run.append_durably(events, None, extras).await;
        self.refuse(Some(holder)).await.into()
    }

    /// The events of an attempt whose key is granted.
    fn acquire_events(&mut self, key: &IdempotencyKey, invocation: &InvocationId) -> Vec<Event> {
        let mut granted = self.start_events_and(1);
        let (command, invocation, key) = (self.command.clone(), invocation.clone(), key.clone());
        let (tool, attempt) = (self.name.to_string(), self.attempt);
        let reserved = self.reserved.clone();
        granted.push(ToolInvocationStarted { command, invocation, tool, attempt, key, reserved }.into());
        granted
    }

    /// The ledger row of an attempt that starts now.
    fn ledger_entry(
        &self,
        key: IdempotencyKey,
        invocation: InvocationId,
        business_key: Option<String>,
    ) -> LedgerEntry {
        LedgerEntry {
            key,
            run: self.run.id.clone(),
            command: self.command.clone(),
            invocation,
            tool: self.name.to_string(),
            digest: self.digest.clone(),
            business_key,
            status: LedgerStatus::Started,
            result: None,
            error: None,
            committed: false,
            epoch: self.run.epoch,
            started_at: self.run.now(),
            finished_at: None,
        }
    }

    /// Records what an attempt ended with, or arranges the next one.
    pub(crate) async fn settle(&mut self, ended: BodyOutcome) -> Next {
        let verdict = self.verdict(ended);
        // Who has the token may have reported what the body does not know, and was told that it counts.
        if self.passed_on
            && matches!(verdict, Verdict::Again(..) | Verdict::Failed(..))
            && let Some(reported) = Box::pin(self.close_reports(&self.invocation(), "the body")).await
        {
            return reported;
        }
        match verdict {
            Verdict::Success(value) => Next::Done(self.commit_success(value, Vec::new()).await),
            Verdict::HandedOver(limit) => Box::pin(self.hand_over(limit)).await,
            Verdict::Unknown(lost, asked) => {
                (self.lost, self.asked) = (Some(lost), asked);
                Next::Unknown(self.invocation(), self.key(), None)
            }
            Verdict::Again(error, next) => {
                Box::pin(self.retry(error, next)).await;
                Next::Again
            }
            Verdict::Failed(outcome, error, status) => {
                Box::pin(self.commit_failure(outcome, &error, Some(status))).await.into()
            }
        }
    }
}

/// The event that takes the place of the last one of an attempt, where the ledger refuses it.
fn refusal(entry: &LedgerEntry, reserved: Option<&Reserved>) -> Event {
    let opens = reserved.map(|reserved| reserved.opens.clone()).unwrap_or_default();
    let (command, invocation, key) = (entry.command.clone(), entry.invocation.clone(), entry.key.clone());
    ToolInvocationRefused { command, invocation, key, opens }.into()
}
