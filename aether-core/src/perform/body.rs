//! Running a body: its context, its timeout, its heartbeats, its panics.
//!
//! Promise: a body that may change the world runs only under a `DurableIntent`; a body that panics is an outcome and
//! not the end of the engine.

use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, select};
use jiff::Timestamp;
use tracing::Instrument as _;

use crate::journal::event::{Event, HttpRecorded, StateChanged};
use crate::perform::body_outcome::{BodyOutcome, Lost, body_outcome};
use crate::perform::call::{Reports, StepCall};
use crate::run::fault::Fault;
use crate::run::log;
use crate::step::body::BodyResult;
use crate::step::context::StepCx;
use crate::step::over::Executing;
use crate::step::redacting::redacting;
use crate::store::intent::DurableIntent;
use crate::vocabulary::deps::MissingDep;
use crate::vocabulary::net::{Netted, in_net};
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::Payload;
use crate::vocabulary::redaction::Redaction;

impl StepCall {
    /// Runs a body that does not change the world.
    pub(crate) async fn call_without_intent(&mut self) -> BodyOutcome {
        let class = self.options.class;
        if self.is_out_of_time() {
            self.spent_nothing();
            return self.out_of_time();
        }
        // A pure body runs again on every replay, so a clock reading would differ from run to run.
        let began = if class == EffectClass::Pure { Timestamp::UNIX_EPOCH } else { self.run.now() };
        self.begin_execution();
        let cx = self.step_cx(began, None);
        cx.heartbeats().begin_after(self.progress().await);
        self.call(cx).await
    }

    /// Runs a body that may change the world; `None` where the time of a budget was over before it could begin.
    pub(crate) async fn call_under(&mut self, intent: DurableIntent) -> Option<BodyOutcome> {
        let started_at = match self.began {
            Some(began) => began,
            None => Box::pin(self.began_before(&intent)).await,
        };
        let progress = self.progress().await;
        // Where the intent is of an earlier execution: that of a new one had its place before the intent.
        self.admit(false).await;
        // The last look before the world changes: the process may have been paused since the intent was written.
        {
            let _in_flight = self.run.in_flight();
            self.run.hold_lease().await;
        }
        // And the last one for a cancellation, which may have come since the intent or the decision to call again.
        if self.run.is_cancelling() {
            return self.called_off().await;
        }
        if self.is_out_of_time() {
            return None;
        }
        self.begin_execution();
        let cx = self.step_cx(started_at, Some(intent));
        cx.heartbeats().begin_after(progress);
        self.uncalled = false;
        self.reports = Reports::Welcome;
        Some(self.call(cx).await)
    }

    /// The recorded start of an invocation, so that a body that is called again after a crash sees the same time.
    async fn began_before(&self, intent: &DurableIntent) -> Timestamp {
        let _in_flight = self.run.in_flight();
        let entry = self.run.insist(|| self.run.shared.store.entry(&self.run.id, intent.key())).await;
        entry.map_or_else(|| self.run.now(), |entry| entry.started_at)
    }

    /// The answer that an interceptor gives in place of the body, or with which the body would begin and end.
    pub(crate) fn intercepted(&self, cx: &StepCx) -> Option<BoxFuture<'static, BodyResult>> {
        let interceptor = self.run.shared.interceptor.as_ref()?;
        if let Some(refused) = self.body.refuses(cx) {
            return Some(Box::pin(ready(refused)));
        }
        let call = self.body_call();
        Some(interceptor.around(&call, interceptor.intercept(&call, cx)?))
    }

    /// The body itself, with what an interceptor puts around it.
    fn real(&self, cx: &StepCx) -> BoxFuture<'static, BodyResult> {
        let body = self.body.call(cx.clone(), &self.args);
        match &self.run.shared.interceptor {
            Some(interceptor) => interceptor.around(&self.body_call(), body),
            None => body,
        }
    }

    async fn call(&mut self, cx: StepCx) -> BodyOutcome {
        let (in_flight, place) = (self.run.in_flight(), self.place.take());
        // However this call ends, dropped futures included.
        let executing = Executing::of(&cx);
        let span = log::attempt_span(self.attempt);
        tracing::debug!(target: log::STEP, run = %self.run.id, command = %self.command, attempt = self.attempt, "attempt begins");
        let body = in_net(|| {
            let body = self.intercepted(&cx).unwrap_or_else(|| self.real(&cx));
            match &self.run.shared.trace_bodies {
                Some(tracing) => tracing.around(&self.trace_context(), &span, body),
                None => body,
            }
        });
        let body = body.map(|body| if span.is_disabled() { body } else { body.instrument(span).boxed() });
        let body = body.map(|body| redacting(&self.run.shared.redaction, body));
        let ended = match body {
            Ok(body) if self.options.class.changes_world() => self.with_heartbeat(body, &cx).await,
            // A body that changes nothing can be dropped at any point, so a cancelled run does not wait for it.
            Ok(body) => match select(pin!(self.with_heartbeat(body, &cx)), pin!(cx.cancelled())).await {
                Either::Left((ended, _)) => ended,
                Either::Right(_) => {
                    drop((executing, in_flight, place));
                    return std::future::pending().await;
                }
            },
            Err(message) => BodyOutcome::Panicked(self.run.shared.redaction.text(message)),
        };
        drop((executing, place));
        self.passed_on = cx.has_callback();
        self.keep_spent(&cx, &ended);
        self.take_notes(&cx);
        let slow_down = self.slow_down(&cx, &ended);
        let ended = match (cx.handed_over(), ended) {
            (Some(limit), BodyOutcome::Error(_) | BodyOutcome::Unrecordable(_, Lost::Error(_))) => {
                BodyOutcome::Pending(limit)
            }
            (_, ended) => match self.lack(&cx, &ended) {
                Some(missing) => {
                    // Nobody waits for a branch that has stopped its run.
                    drop(in_flight);
                    return self.unprovided(missing, cx.may_have_acted()).await;
                }
                None => ended,
            },
        };
        let is_value = matches!(ended, BodyOutcome::Value(_));
        // From here on it is known, also where the call is dropped while what belongs to it is written.
        self.came_back = Some(ended);
        if self.limit.is_some() {
            Box::pin(self.tell_limit(slow_down)).await;
        }
        self.flush_streams().await;
        // Before the outcome is recorded: the next attempt, perhaps in another process, starts from this progress.
        if !is_value {
            Box::pin(self.save_progress(cx.heartbeats())).await;
            self.progress = cx.heartbeats().newest();
        }
        match self.came_back.take() {
            Some(ended) => ended,
            // Nobody else takes it.
            None => std::future::pending().await,
        }
    }

    /// Takes over what the body reported.
    fn take_notes(&mut self, cx: &StepCx) {
        let redaction = &self.run.shared.redaction;
        let notes = cx.take_notes().into_iter().map(|note| match note {
            Event::HttpRecorded(e) => HttpRecorded {
                request: redaction.value(e.request),
                response: redaction.value(e.response),
                ..e
            }
            .into(),
            Event::StateChanged(e) => redacted(redaction, e).into(),
            other => other,
        });
        self.notes.extend(notes);
    }

    /// The missing value that a body failed for.
    fn lack(&self, cx: &StepCx, ended: &BodyOutcome) -> Option<MissingDep> {
        cx.missing().into_iter().find(|missing| ended.is_lack_of(missing, &self.run.shared.redaction))
    }

    /// The body failed because the program does not provide a value it needs. That is a fault of the program and not of
    /// the run, which resumes in a program that provides it. Where the body cannot have done anything, the attempt
    /// definitely failed, and the next one gets a new key. Otherwise the invocation stays open, and the step's policy decides
    /// in that program; also where it was sent before, of which this says nothing.
    async fn unprovided<T>(&mut self, missing: MissingDep, may_have_acted: bool) -> T {
        if self.options.class.changes_world() && !may_have_acted && !self.is_sent_again() {
            self.record_not_executed("engine: not provided");
        }
        let (run, command) = (self.run.id.clone(), self.command.clone());
        self.run.stop(Fault::NotProvided { run, command, missing }).await
    }

    /// Polls a body under its timeout and, where its step declares one, its heartbeat timeout.
    async fn with_heartbeat(&self, body: BoxFuture<'static, BodyResult>, cx: &StepCx) -> BodyOutcome {
        let Some(limit) = self.options.heartbeat else { return self.with_timeout(body, cx).await };
        let silence = self.heartbeat_timeout(cx, limit);
        match select(Box::pin(self.with_timeout(body, cx)), Box::pin(silence)).await {
            Either::Left((ended, _)) => ended,
            Either::Right(_) => BodyOutcome::HeartbeatLost,
        }
    }

    /// The progress of an earlier execution of this step, where the step declares heartbeats.
    async fn progress(&mut self) -> Option<Payload> {
        self.options.heartbeat?;
        if self.progress.is_none() {
            let _in_flight = self.run.in_flight();
            let store = &self.run.shared.store;
            self.progress = self.run.insist(|| store.progress(&self.run.id, &self.command)).await;
        }
        self.progress.clone()
    }

    /// Ends when the body of `cx` has run for so long. The time in which it waits for the store is not its own.
    pub(crate) fn has_run_for<'c>(&'c self, cx: &'c StepCx, time: Duration) -> BoxFuture<'c, ()> {
        let environment = &self.run.shared.environment;
        Box::pin(async move {
            let mut left = time;
            loop {
                cx.store_waits().over().await;
                let began = environment.monotonic();
                match select(environment.sleep(left), pin!(cx.store_waits().begun())).await {
                    Either::Left(_) => return,
                    Either::Right(_) => {
                        let ran = environment.monotonic().saturating_sub(began);
                        left = left.saturating_sub(ran);
                    }
                }
            }
        })
    }

    /// Polls a body under its timeout, and catches its panic.
    pub(crate) async fn with_timeout(
        &self,
        body: BoxFuture<'static, BodyResult>,
        cx: &StepCx,
    ) -> BodyOutcome {
        // Polled once before the timer is made: most stubs and many bodies are ready at once.
        let mut body = AssertUnwindSafe(Netted::new(&self.run.id, body)).catch_unwind();
        let timeouts = (self.options.timeout, self.time_in_budget());
        let at_once = (&mut body).now_or_never();
        if at_once.is_none() {
            cx.reaches_out();
        }
        let ended = match (timeouts, at_once) {
            (_, Some(ended)) => ended,
            ((None, None), None) => body.await,
            ((timeout, in_budget), None) => {
                let timed_out = timeout.map(|timeout| self.has_run_for(cx, timeout));
                let out_of_time = in_budget.map(|left| self.run.shared.environment.sleep(left));
                let deadlines = select(or_never(timed_out), or_never(out_of_time));
                match select(body, deadlines).await {
                    Either::Left((ended, _)) => ended,
                    Either::Right((Either::Left(_), _)) => return BodyOutcome::TimedOut,
                    Either::Right((Either::Right(_), _)) => return self.out_of_time(),
                }
            }
        };
        body_outcome(&self.run, ended)
    }
}

/// The future, or one that never ends.
fn or_never(ends: Option<BoxFuture<'_, ()>>) -> BoxFuture<'_, ()> {
    ends.unwrap_or_else(|| Box::pin(std::future::pending()))
}

/// A changed resource as it may be recorded.
pub(crate) fn redacted(redaction: &Redaction, changed: StateChanged) -> StateChanged {
    let text = |text: Option<String>| text.map(|text| redaction.text(text));
    StateChanged {
        id: redaction.text(changed.id),
        version: text(changed.version),
        etag: text(changed.etag),
        external_ref: text(changed.external_ref),
        ..changed
    }
}
