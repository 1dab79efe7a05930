//! The effect gate: how one step call is answered, from history or by its body.
//!
//! Promise: a body that may change the world runs only with a `DurableIntent` in hand; a recorded outcome is handed
//! out and never produced again; an unknown outcome goes to the step's policy, and the decision is an event.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, select};
use jiff::Timestamp;

use crate::def::StepOptions;
use crate::ended::no_heartbeat;
use crate::ended::{Ended, ended_with, error_of};
use crate::event::{
    CommandEmitted, Decision, Event, NodeFinished, NodeStarted, ToolInvocationRefused, ToolInvocationStarted,
};
use crate::failure::panic_message;
use crate::failure::StepError;
use crate::fault::{Fault, Side};
use crate::host::BodyCall;
use crate::id::{CommandId, IdempotencyKey, InvocationId};
use crate::journal::Frame;
use crate::ledger::{Acquire, DurableIntent, LedgerAnswer, LedgerEntry, LedgerStatus};
use crate::outcome::{EffectClass, FailureClass, Outcome};
use crate::payload::Answered;
use crate::payload::{Digest, Payload, PayloadError};
use crate::replay::{Answer, Invocation, Recorded};
use crate::run::{Matched, Riders, Run};
use crate::step::{Body, BodyResult};
use crate::step_cx::{Given, StepCx};
use crate::world::later;

#[cfg(test)]
pub(crate) mod stage;

/// A step call, ready to be answered.
pub(crate) struct Call {
    /// Name in the journal.
    pub(crate) name: Cow<'static, str>,
    /// Unique name in the program.
    pub(crate) path: Cow<'static, str>,
    /// How it is executed.
    pub(crate) options: StepOptions,
    /// Its arguments, recorded.
    pub(crate) args: Result<Payload, PayloadError>,
    /// What runs.
    pub(crate) body: Arc<dyn Body>,
}

impl Call {
    /// Makes a call that changes the world irreversible; lowers nothing.
    pub(crate) fn raise(&mut self, raised: bool) {
        self.options.irreversible |= raised && self.options.class.changes_world();
    }
}

/// What happens next to a step call.
pub(crate) enum Next {
    /// It is answered.
    Done(Answered),
    /// Another attempt is made.
    Again,
    /// A body came back: what it ended with is recorded.
    Settle(Ended),
    /// The outcome of this invocation is unknown: the step's policy decides, unless a decision was recorded already.
    Unknown(InvocationId, IdempotencyKey, Option<Decision>),
    /// The body is called under this intent.
    Call(DurableIntent),
}

/// One step call while it is being answered.
pub(crate) struct Performance {
    pub(crate) run: Arc<Run>,
    pub(crate) command: CommandId,
    pub(crate) name: Cow<'static, str>,
    pub(crate) path: Cow<'static, str>,
    pub(crate) options: StepOptions,
    pub(crate) args: Payload,
    pub(crate) body: Arc<dyn Body>,
    pub(crate) digest: Digest,
    site: Option<String>,
    pub(crate) notes: Vec<Event>,
    /// Inbox messages that the next append takes in.
    pub(crate) consumed: Vec<u64>,
    /// Which round of words from outside it is in.
    pub(crate) round: u32,
    /// Whether an attempt handed its completion over.
    pub(crate) handed_over: bool,
    began: Option<Timestamp>,
    /// Why the outcome of the newest attempt is unknown, where the body or its timeout told.
    pub(crate) lost: Option<String>,
    /// How far the newest execution of the body has come.
    progress: Option<Payload>,
    pub(crate) started: bool,
    emitted: bool,
    pub(crate) in_ledger: bool,
    pub(crate) attempt: u32,
    pub(crate) unknown_tries: u32,
}

/// Answers a step call.
pub(crate) async fn perform(run: Arc<Run>, command: CommandId, site: Option<String>, call: Call) -> Answered {
    let args = match call.args {
        Ok(args) => args,
        Err(error) => return Err(StepError::Unrecordable(run.failure(&command, error)).recorded()),
    };
    if let Err(over) = run.host.limits.check_name("step's name", &call.name) {
        return Err(StepError::Unrecordable(run.failure(&command, over)).recorded());
    }
    if let Some(reason) = run.too_large(&args) {
        return Err(StepError::Unrecordable(run.failure(&command, reason)).recorded());
    }
    let digest = match Digest::of(&args) {
        Ok(digest) => digest,
        Err(error) => return Err(StepError::Unrecordable(run.failure(&command, error)).recorded()),
    };
    let class = call.options.class;
    let mut performance = Performance {
        run: Arc::clone(&run),
        command,
        name: call.name,
        path: call.path,
        options: call.options,
        args,
        body: call.body,
        digest,
        site,
        notes: Vec::new(),
        consumed: Vec::new(),
        round: 0,
        handed_over: false,
        began: None,
        lost: None,
        progress: None,
        started: false,
        emitted: false,
        in_ledger: false,
        attempt: 0,
        unknown_tries: 0,
    };
    if class == EffectClass::Pure {
        return performance.compute().await;
    }
    let command = &performance.command;
    match run.request(command, class, Some(&performance.digest), performance.site.clone()).await {
        Matched::Answered => performance.inject().await,
        Matched::Begun(record) => {
            run.frontier(command).await;
            let next = performance.resume(*record).await;
            performance.follow(next).await
        }
        Matched::New => {
            if run.has_answer(command) {
                return performance.inject().await;
            }
            run.frontier(command).await;
            run.breathe().await;
            match performance.permitted(None).await {
                Ok(()) => performance.follow(Next::Again).await,
                Err(closed) => closed,
            }
        }
    }
}

impl Performance {
    /// A pure step: no event, runs again on replay.
    async fn compute(&mut self) -> Answered {
        let side = || Side {
            command: self.command.clone(),
            class: EffectClass::Pure,
            digest: Some(self.digest.clone()),
            site: self.site.clone(),
        };
        self.run.consult(&self.command, EffectClass::Pure, false, side).await;
        match self.call_safely().await {
            Ended::Value(value) => Ok(value),
            ended => Err(self.error_of(ended, false).recorded()),
        }
    }

    /// Hands out what is recorded, in its turn; completes the step's events where a crash cut them off.
    async fn inject(&mut self) -> Answered {
        self.confirm_injected().await;
        let record = self.run.turn(&self.command).await;
        let Some(Answer::Step(result)) = record.answer else {
            return self.run.mismatched(&self.command, self.options.class, record.answer).await;
        };
        let _recorded_with_the_outcome = self.learn_undo(result.as_ref().ok());
        if !record.finished {
            let complete = record.outcome.is_none_or(Outcome::is_complete);
            let key = record.invocation.map(|invocation| invocation.key);
            let mut events = vec![NodeFinished { command: self.command.clone() }.into()];
            if complete && !record.committed {
                events.push(self.step_committed(key));
            }
            self.run.append(events, Riders::default());
        }
        result
    }

    /// Follows what happens next until the step call is answered.
    async fn follow(&mut self, mut next: Next) -> Answered {
        loop {
            next = match next {
                Next::Done(answered) => return answered,
                Next::Again => self.attempt().await,
                Next::Call(intent) => Next::Settle(self.call_with(intent).await),
                Next::Settle(ended) => self.settle(ended).await,
                Next::Unknown(invocation, key, decided) => self.unknown(&invocation, &key, decided).await,
            };
        }
    }

    /// Resumes a step that was begun before a crash.
    async fn resume(&mut self, record: Recorded) -> Next {
        self.started = record.started;
        self.attempt = record.failed_attempts;
        if let Err(closed) = self.permitted(Some(&record)).await {
            return Next::Done(closed);
        }
        if let Some(finished) = record.transaction {
            return self.settle_transaction(finished, true).await;
        }
        let Some(invocation) = record.invocation else {
            if let Some(due) = record.retry_due {
                self.wait_until(due).await;
            }
            return Next::Again;
        };
        self.attempt = invocation.attempt;
        let entry = self.row(&invocation.key).await;
        self.in_ledger = entry.is_some();
        if let Some((outcome, result)) = invocation.finished.clone() {
            // The journal is the truth: a row that lags behind follows it, a missing one is not needed.
            return Next::Done(self.catch_up(&invocation, outcome, result, entry.as_ref()).await);
        }
        if let Some(effect) = self.cut_off().await {
            return self.adopt(effect).await;
        }
        match entry {
            Some(entry) if entry.committed => {
                let (outcome, result) = self.recorded(&entry).await;
                Next::Done(self.catch_up(&invocation, outcome, result, Some(&entry)).await)
            }
            None if invocation.refused => Next::Done(self.refused_before().await),
            _ => self.left_open(&invocation, record.callback).await,
        }
    }

    /// Makes one attempt, as far as the call of its body.
    async fn attempt(&mut self) -> Next {
        if let Some(effect) = self.cut_off().await {
            return self.adopt(effect).await;
        }
        self.run.still_open().await;
        if self.options.class == EffectClass::Transaction {
            return self.transact().await;
        }
        if !self.options.class.changes_world() {
            self.emit().await;
            return Next::Settle(self.call_safely().await);
        }
        match self.acquire().await {
            Next::Call(_) if self.run.is_closing() => self.called_off().await,
            next => next,
        }
    }

    /// A model's prompt is in the journal before it is sent, so that a lost answer stays visible.
    async fn emit(&mut self) {
        if self.options.class != EffectClass::Llm {
            return;
        }
        self.emitted = true;
        let mut events = self.start_events();
        let (command, attempt) = (self.command.clone(), self.attempt);
        events.push(CommandEmitted { command, attempt, input: self.args.clone() }.into());
        self.run.append_large(events, Riders::default()).await;
    }

    /// `node_started`, once; then what bodies reported since.
    pub(crate) fn start_events(&mut self) -> Vec<Event> {
        let mut events = Vec::with_capacity(6);
        if !std::mem::replace(&mut self.started, true) {
            events.push(
                NodeStarted {
                    command: self.command.clone(),
                    class: self.options.class,
                    digest: self.digest.clone(),
                    input: (!self.emitted).then(|| self.args.clone()),
                    site: self.site.clone(),
                    constraints: self.options.constraints(),
                }
                .into(),
            );
        }
        events.append(&mut self.notes);
        events
    }

    pub(crate) fn key(&self) -> IdempotencyKey {
        IdempotencyKey::new(&self.run.id, &self.command, self.attempt)
    }

    pub(crate) fn invocation(&self) -> InvocationId {
        InvocationId::new(&self.command, self.attempt)
    }

    /// The run was cancelled between the intent and the body: the body is known not to have been called.
    async fn called_off<T>(&mut self) -> T {
        self.deny("engine: cancelled");
        std::future::pending().await
    }

    /// Asks the ledger for the right to run the body; the intent is durable when it is granted.
    async fn acquire(&mut self) -> Next {
        let (key, invocation) = (self.key(), self.invocation());
        let business_key = match self.business_key() {
            Ok(business_key) => business_key,
            Err(error) => {
                let error = StepError::Unrecordable(self.run.failure(&self.command, error));
                let answered = self.commit_failure(Outcome::PermanentFailure, &error, None).await;
                return Next::Done(answered);
            }
        };
        let mut events = self.start_events();
        let mut refused = events.clone();
        let (command, attempt) = (self.command.clone(), self.attempt);
        let tool = self.name.to_string();
        refused.push(
            ToolInvocationRefused {
                command: command.clone(),
                invocation: invocation.clone(),
                key: key.clone(),
            }
            .into(),
        );
        events.push(
            ToolInvocationStarted {
                command: command.clone(),
                invocation: invocation.clone(),
                tool: tool.clone(),
                attempt,
                key: key.clone(),
            }
            .into(),
        );
        let kept = self.run.keep(&events).await;
        let otherwise = match Frame::referring(&refused, &kept) {
            Ok(frame) => frame,
            Err(error) => {
                let error = StepError::Unrecordable(self.run.failure(&self.command, error));
                return Next::Done(Err(error.recorded()));
            }
        };
        let started_at = self.run.now();
        self.began = Some(started_at);
        let entry = LedgerEntry {
            key: key.clone(),
            run: self.run.id.clone(),
            command,
            invocation: invocation.clone(),
            tool,
            digest: self.digest.clone(),
            business_key,
            status: LedgerStatus::Started,
            result: None,
            error: None,
            committed: false,
            epoch: self.run.epoch,
            started_at,
            finished_at: None,
        };
        let acquire = Some(Acquire { entry, otherwise });
        let receipt = self.run.append_durably(events, acquire, Riders { kept, ..Riders::default() }).await;
        self.in_ledger = true;
        match LedgerAnswer::read(&key, receipt.acquired) {
            Some(LedgerAnswer::Execute(intent)) => Next::Call(intent),
            Some(LedgerAnswer::Recorded(row)) => {
                let (outcome, result) = self.recorded(&row).await;
                let invocation = Invocation {
                    id: invocation,
                    key,
                    attempt,
                    finished: None,
                    decision: None,
                    refused: false,
                };
                Next::Done(self.catch_up(&invocation, outcome, result, Some(&row)).await)
            }
            Some(LedgerAnswer::InFlight(_)) => Next::Unknown(invocation, key, None),
            Some(LedgerAnswer::Refused(row)) => Next::Done(self.refuse(Some(*row)).await),
            None => Next::Done(self.refuse(None).await),
        }
    }

    /// The context of this attempt's body.
    pub(crate) fn step_cx(&self, started_at: Timestamp, intent: Option<DurableIntent>) -> StepCx {
        StepCx::new(Given {
            deps: Arc::clone(&self.run.host.deps),
            payload_limit: self.run.host.limits.payload,
            run: self.run.id.clone(),
            command: self.command.clone(),
            options: self.options,
            attempt: self.attempt,
            seed: self.run.seed.clone(),
            started_at,
            intent,
            cancellation: self.run.cancellation(),
        })
    }

    /// Runs a body that leaves the world as it is.
    async fn call_safely(&mut self) -> Ended {
        let class = self.options.class;
        // A pure body runs again on replay, where nobody looks at the clock; it has no use for it either.
        let began = if class == EffectClass::Pure { Timestamp::UNIX_EPOCH } else { self.run.now() };
        let cx = self.step_cx(began, None);
        cx.heartbeats().begin_after(self.progress().await);
        self.call(cx).await
    }

    /// Runs a body that may change the world.
    pub(crate) async fn call_with(&mut self, intent: DurableIntent) -> Ended {
        let started_at = match self.began {
            Some(began) => began,
            None => self.began_before(&intent).await,
        };
        let progress = self.progress().await;
        let cx = self.step_cx(started_at, Some(intent));
        cx.heartbeats().begin_after(progress);
        self.call(cx).await
    }

    /// The recorded start of an invocation: a body that is sent again after a crash sees the same clock.
    async fn began_before(&self, intent: &DurableIntent) -> Timestamp {
        let _busy = self.run.busy();
        match self.run.host.store.entry(intent.key()).await {
            Ok(entry) => entry.map_or_else(|| self.run.now(), |entry| entry.started_at),
            Err(error) => self.run.stop(error).await,
        }
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

    /// What a test answers in the body's place.
    pub(crate) fn intercepted(&self, cx: &StepCx) -> Option<BoxFuture<'static, BodyResult>> {
        let interceptor = self.run.host.interceptor.as_ref()?;
        let call = self.body_call();
        Some(interceptor.around(&call, interceptor.intercept(&call, cx)?))
    }

    /// The body itself, and what a test puts around it.
    fn real(&self, cx: &StepCx) -> BoxFuture<'static, BodyResult> {
        let body = self.body.call(cx.clone(), &self.args);
        match &self.run.host.interceptor {
            Some(interceptor) => interceptor.around(&self.body_call(), body),
            None => body,
        }
    }

    async fn call(&mut self, cx: StepCx) -> Ended {
        let busy = self.run.busy();
        let body = match self.intercepted(&cx) {
            Some(stub) => Ok(stub),
            None => std::panic::catch_unwind(AssertUnwindSafe(|| self.real(&cx))),
        };
        let ended = match body {
            Ok(body) if self.options.class.changes_world() => self.hear(body, &cx).await,
            // Nothing is lost with a body that changes nothing: it is dropped when the run is cancelled.
            Ok(body) => match select(pin!(self.hear(body, &cx)), pin!(cx.cancelled())).await {
                Either::Left((ended, _)) => ended,
                Either::Right(_) => {
                    drop(busy);
                    return std::future::pending().await;
                }
            },
            Err(panic) => Ended::Panicked(panic_message(&*panic)),
        };
        self.notes.append(&mut cx.take_notes());
        if !matches!(ended, Ended::Value(_)) {
            self.save_progress(cx.heartbeats()).await;
            self.progress = cx.heartbeats().newest();
        }
        match (cx.missing(), cx.handed_over(), ended) {
            (Some(missing), _, Ended::Error(_)) => self.unprovided(missing).await,
            (None, Some(limit), Ended::Error(_)) => Ended::Pending(limit),
            (_, _, ended) => ended,
        }
    }

    /// A body gave up because the program did not provide what it needs: a fault of the program and not of the run,
    /// which goes on when the program is whole. The attempt definitely failed, so that the next one gets a new key.
    async fn unprovided<T>(&mut self, missing: crate::deps::MissingDep) -> T {
        if self.options.class.changes_world() {
            self.deny("engine: not provided");
        }
        let (run, command) = (self.run.id.clone(), self.command.clone());
        self.run.stop(Fault::NotProvided { run, command, missing }).await
    }

    /// Watches a body, and listens to its heartbeats where its step declares them.
    async fn hear(&self, body: BoxFuture<'static, BodyResult>, cx: &StepCx) -> Ended {
        let Some(limit) = self.options.heartbeat else { return self.watch(body).await };
        let silence = self.silence(cx.heartbeats(), limit);
        match select(pin!(self.watch(body)), pin!(silence)).await {
            Either::Left((ended, _)) => ended,
            Either::Right(_) => Ended::Silent,
        }
    }

    /// How far an earlier execution of this step has come, where the step declares heartbeats.
    async fn progress(&mut self) -> Option<Payload> {
        self.options.heartbeat?;
        if self.progress.is_none() {
            let _busy = self.run.busy();
            self.progress = match self.run.host.store.progress(&self.run.id, &self.command).await {
                Ok(progress) => progress,
                Err(error) => return self.run.stop(error).await,
            };
        }
        self.progress.clone()
    }

    /// Polls a body under its timeout, and catches its panic.
    pub(crate) async fn watch(&self, body: BoxFuture<'static, BodyResult>) -> Ended {
        let mut body = AssertUnwindSafe(body).catch_unwind();
        let ended = match (self.options.timeout, (&mut body).now_or_never()) {
            (_, Some(ended)) => ended,
            (None, None) => body.await,
            (Some(timeout), None) => {
                let deadline = self.run.host.world.sleep(timeout);
                match select(body, deadline).await {
                    Either::Left((ended, _)) => ended,
                    Either::Right(((), _)) => return Ended::TimedOut,
                }
            }
        };
        ended_with(&self.run, ended)
    }

    /// Records what an attempt ended with, or arranges the next one.
    pub(crate) async fn settle(&mut self, ended: Ended) -> Next {
        if let Ended::Pending(limit) = ended {
            return self.hand_over(limit).await;
        }
        let changes_world = self.options.class.changes_world();
        let class = match &ended {
            Ended::Value(_) | Ended::Pending(_) => FailureClass::Unclassified,
            Ended::Error(error) => error.class,
            Ended::TimedOut | Ended::Silent if changes_world => FailureClass::Unknown,
            Ended::TimedOut | Ended::Silent => FailureClass::Retryable,
            Ended::Panicked(_) | Ended::Unrecordable(_) | Ended::Refused(_) => FailureClass::Permanent,
        };
        let asked = match &ended {
            Ended::Error(error) => error.retry_after,
            _ => None,
        };
        let ended = match ended {
            Ended::Value(value) => return Next::Done(self.commit_success(value, Vec::new()).await),
            ended => ended,
        };
        if class == FailureClass::Unknown && changes_world {
            self.lost = Some(match &ended {
                Ended::Error(error) => error.message.clone(),
                Ended::Silent => no_heartbeat(&self.options),
                _ => format!("no answer within {:?}", self.timeout()),
            });
            return Next::Unknown(self.invocation(), self.key(), None);
        }
        let may_retry = !matches!(class, FailureClass::Permanent | FailureClass::Compensatable);
        match self.wait_after(self.attempt, asked) {
            Some(wait) if may_retry => {
                let error = self.error_of(ended, false).recorded();
                self.retry(error, later(self.run.now(), wait)).await;
                Next::Again
            }
            _ => {
                let status = match &ended {
                    Ended::Panicked(_) | Ended::Unrecordable(_) => LedgerStatus::InDoubt,
                    _ => LedgerStatus::Failed,
                };
                let error = self.error_of(ended, may_retry && self.options.retry.max > 1);
                Next::Done(self.commit_failure(class.outcome(), &error, Some(status)).await)
            }
        }
    }

    fn error_of(&self, ended: Ended, exhausted: bool) -> StepError<Payload> {
        error_of(&self.run, &self.command, &self.options, ended, exhausted)
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.options.timeout.unwrap_or_default()
    }
}
