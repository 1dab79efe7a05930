//! Invocations that were started and whose outcome is unknown: applying the policy that the step declares.
//!
//! Promise: the body is never called again under the same key unless the policy is `retry`, and never under another one
//! unless a report, a probe or an operator says that the call did not happen; every decision is an event.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, select};

use crate::definition::def::{OnUnknown, Probe, Retry, TOOL_TIMEOUT};
use crate::inbox::decisions::{Resolution, Resolved};
use crate::inbox::topics::{callback_topic, resolution_topic};
use crate::journal::event::resend::Resend;
use crate::journal::event::{Event, InvocationDecision, InvocationResolved, NodeFinished};
use crate::perform::call::{Next, StepCall};
use crate::perform::resend::MAX_SENDS;
use crate::run::append::AppendExtras;
use crate::run::reply_receiver::refuse;
use crate::run::taken::Taken;
use crate::sched::mutated;
use crate::step::body::ProbeResult;
use crate::step::context::StepCx;
use crate::step::over::Executing;
use crate::step::redacting::redacting;
use crate::store::ledger::LedgerStatus;
use crate::vocabulary::environment::later;
use crate::vocabulary::failure::{StepError, panic_message};
use crate::vocabulary::id::{IdempotencyKey, InvocationId, WorkerId};
use crate::vocabulary::net::{Netted, in_net};
use crate::vocabulary::outcome::Outcome;
use crate::vocabulary::payload::Payload;

/// Wait before a probe is asked again whose answer a paused worker may still change; it doubles.
const FIRST_WAIT_FOR_FORMER_OWNER: Duration = Duration::from_millis(250);
const LONGEST_WAIT_FOR_FORMER_OWNER: Duration = Duration::from_secs(60);

/// What a probe says, or who decides that it says nothing, and why.
type Found = Result<Probe<Payload>, (&'static str, String)>;

impl StepCall {
    /// Decides about an invocation of unknown outcome. `decided` is a recorded decision that a crash interrupted.
    pub(crate) async fn unknown(
        &mut self,
        invocation: &InvocationId,
        key: &IdempotencyKey,
        decided: Option<InvocationDecision>,
    ) -> Next {
        // The decision may take days.
        self.place = None;
        match (self.options.on_unknown, decided) {
            (OnUnknown::Ask, _) | (_, Some(InvocationDecision::Ask)) => {
                // The wait may have been closed with the branch, or the workflow, that waited.
                let is_asked = decided == Some(InvocationDecision::Ask) && self.run.lists_wait(&self.command);
                self.ask(invocation, is_asked).await
            }
            (OnUnknown::Fail, _) | (_, Some(InvocationDecision::InDoubt)) => {
                let why = self.lost.take().unwrap_or_else(|| "it was started and never returned".into());
                self.leave_in_doubt(invocation, &why).await
            }
            (OnUnknown::Retry, _) => self.send_again(invocation, key).await,
            (OnUnknown::Probe, _) => self.probe(invocation).await,
        }
    }

    pub(crate) fn decision(
        &self,
        invocation: &InvocationId,
        decision: InvocationDecision,
        actor: &str,
    ) -> Event {
        let (command, invocation) = (self.command.clone(), invocation.clone());
        InvocationResolved { command, invocation, decision, actor: actor.into(), resend: None }.into()
    }

    /// The decision that the invocation is sent again.
    pub(crate) fn resending(&self, invocation: &InvocationId, resend: Option<Resend>) -> Event {
        let (command, invocation) = (self.command.clone(), invocation.clone());
        let (decision, actor) = (InvocationDecision::Retry, "policy: retry".into());
        InvocationResolved { command, invocation, decision, actor, resend }.into()
    }

    /// Fails the step by its policy, unless a report came before that.
    pub(crate) async fn leave_in_doubt(&mut self, invocation: &InvocationId, why: &str) -> Next {
        let actor = match self.options.on_unknown {
            OnUnknown::Retry => "policy: retry",
            OnUnknown::Probe => "policy: probe",
            OnUnknown::Fail | OnUnknown::Ask => "policy: fail",
        };
        if let Some(reported) = self.close_reports(invocation, actor).await {
            return reported;
        }
        self.in_doubt(invocation, actor, why, Vec::new()).await
    }

    /// Fails the step; its outcome stays unknown.
    async fn in_doubt(
        &mut self,
        invocation: &InvocationId,
        actor: &str,
        why: &str,
        consumed: Vec<Taken>,
    ) -> Next {
        let reason =
            format!("it is not known whether `{}` happened: {why} (invocation `{invocation}`)", self.name);
        let error = StepError::InDoubt(self.run.failure(&self.command, reason)).recorded();
        let mut events = self.start_events();
        events.push(self.decision(invocation, InvocationDecision::InDoubt, actor));
        events.push(self.failed(Outcome::PermanentFailure, Some(error.clone())));
        events.push(NodeFinished { command: self.command.clone() }.into());
        let mut extras = self.extras();
        extras.consumed.extend(consumed);
        extras.ledger.extend(self.ledger_update(LedgerStatus::InDoubt, None, Some(error.clone())));
        let answered = Err(error);
        self.end_streams(&answered, &mut extras);
        self.run.append_large(events, extras).await;
        Next::Done(answered)
    }

    /// Asks the step's probe, and does what follows from its answer.
    async fn probe(&mut self, invocation: &InvocationId) -> Next {
        let mut wait = FIRST_WAIT_FOR_FORMER_OWNER;
        loop {
            if let Some(reported) = self.look_for_report(invocation).await {
                return reported;
            }
            // Before the probe looks: what a former owner did until it noticed, a later look sees.
            let unaware = self.unaware_owners().await;
            match (self.ask_probe().await, unaware.first()) {
                (Ok(Probe::DidNotHappen), Some(worker)) => {
                    tracing::warn!(target: "aether::step",
                        run = %self.run.id, step = %self.command, %worker,
                        "a step waits: it did not happen yet, but the worker that began it is paused and may still do it"
                    );
                    self.wait_until(later(self.run.now(), wait)).await;
                    wait = (wait * 2).min(LONGEST_WAIT_FOR_FORMER_OWNER);
                }
                (found, _) => return self.probed(invocation, found).await,
            }
        }
    }

    /// Does what follows from the probe's answer, unless a report came before it.
    async fn probed(&mut self, invocation: &InvocationId, found: Found) -> Next {
        let actor = found.as_ref().map_or_else(|(actor, _)| *actor, |_| "probe");
        if let Some(reported) = self.close_reports(invocation, actor).await {
            return reported;
        }
        match found {
            Ok(Probe::Happened(value)) => self.happened(invocation, value, actor, Vec::new()).await,
            Ok(Probe::DidNotHappen) => self.denied(invocation).await,
            Ok(Probe::Unknown) => self.in_doubt(invocation, actor, "its probe cannot tell", Vec::new()).await,
            Err((_, why)) => self.in_doubt(invocation, actor, &why, Vec::new()).await,
        }
    }

    /// What the step's probe says, as it may be recorded.
    async fn ask_probe(&self) -> Found {
        let redaction = &self.run.shared.redaction;
        match self.unredacted_probe().await {
            Ok(Probe::Happened(value)) => Ok(Probe::Happened(redaction.value(value))),
            Ok(other) => Ok(other),
            Err((actor, why)) => Err((actor, redaction.text(why))),
        }
    }

    async fn unredacted_probe(&self) -> Found {
        let panicked = |message: &str| ("probe", format!("its probe panicked: {message}"));
        let cx = self.step_cx(self.run.now(), None);
        let of_probe = cx.clone();
        let _executing = Executing::of(&of_probe);
        let probe = in_net(|| self.probing(cx)).map_err(|message| panicked(&message))?;
        let Some(probe) = probe else { return Err(("policy: probe", "the step has no probe".into())) };
        let probe = redacting(&self.run.shared.redaction, probe);
        let _in_flight = self.run.in_flight();
        let mut probe = AssertUnwindSafe(Netted::new(&self.run.id, probe)).catch_unwind();
        // Polled once before the timer is made, as a body is.
        let found = match (&mut probe).now_or_never() {
            Some(found) => found,
            None => {
                let limit = self.options.timeout.unwrap_or(TOOL_TIMEOUT);
                match select(probe, self.run.shared.environment.sleep(limit)).await {
                    Either::Left((found, _)) => found,
                    Either::Right(_) => {
                        return Err(("probe", format!("its probe did not answer within {limit:?}")));
                    }
                }
            }
        };
        match found {
            Ok(Ok(Ok(found))) => Ok(found),
            Ok(Ok(Err(failure))) => Err(("probe", format!("its probe failed: {failure}"))),
            Ok(Err(error)) => Err(("probe", format!("its probe failed: {error}"))),
            Err(panic) if mutated("probe-fails-its-run") => resume_unwind(panic),
            Err(panic) => Err(panicked(&panic_message(&*panic))),
        }
    }

    /// Workers that began this run's calls, were taken for dead, and may still wake up inside of one.
    async fn unaware_owners(&self) -> Vec<WorkerId> {
        let _in_flight = self.run.in_flight();
        self.run.insist(|| self.run.shared.store.unaware_owners(&self.run.id)).await
    }

    /// The probe says that the newest attempt did not happen.
    async fn denied(&mut self, invocation: &InvocationId) -> Next {
        if self.attempt.saturating_add(1) >= self.most_denied_attempts() {
            return self.never_happened(invocation).await;
        }
        let again = self.did_not_happen(invocation, "probe", Vec::new());
        self.pause_before_attempt().await;
        again
    }

    /// Attempts of which a probe may say that they did not happen. A policy that does not count its attempts adds none: a
    /// probe that denies every attempt would call the body again for as long as its patience lasts.
    fn most_denied_attempts(&self) -> u32 {
        let attempts = self.options.retry().attempts();
        if attempts == u32::MAX { MAX_SENDS } else { MAX_SENDS.max(attempts) }
    }

    /// The step's probe, or an interceptor's answer in its place; `None` where the step has none.
    fn probing(&self, cx: StepCx) -> Option<BoxFuture<'static, ProbeResult>> {
        let interceptor = self.run.shared.interceptor.as_ref();
        let answered = interceptor.and_then(|interceptor| interceptor.probe(&self.body_call(), &cx));
        answered.or_else(|| self.body.probe(cx, &self.args))
    }

    /// Waits before the next attempt, so that a probe that denies every attempt does not make the step call its body in a
    /// tight loop.
    async fn pause_before_attempt(&self) {
        if let Some(wait) = Retry::READ.wait_after(self.attempt.saturating_sub(1).min(2))
            && self.attempt > 1
        {
            let _in_flight = self.run.in_flight();
            self.run.shared.environment.sleep(wait).await;
        }
    }

    /// Fails the step: the last attempt did not happen either.
    async fn never_happened(&mut self, invocation: &InvocationId) -> Next {
        let reason = format!(
            "{} attempts were made, and the probe says of each that it did not happen (invocation `{invocation}`)",
            self.attempt.saturating_add(1)
        );
        let error = StepError::TimedOut(self.run.failure(&self.command, reason));
        let mut events = self.start_events();
        events.push(self.decision(invocation, InvocationDecision::DidNotHappen, "probe"));
        let ledger = self.ledger_update(LedgerStatus::Failed, None, None).into_iter().collect();
        self.run.append(events, AppendExtras { ledger, ..AppendExtras::default() });
        Next::Done(self.commit_failure(Outcome::PermanentFailure, &error, None).await)
    }

    /// Waits for an operator.
    async fn ask(&mut self, invocation: &InvocationId, asked_before: bool) -> Next {
        let (topic, callbacks) = (resolution_topic(invocation), callback_topic(invocation));
        if let Some(reported) = self.look_for_report(invocation).await {
            return reported;
        }
        let mut asked = asked_before;
        loop {
            // In a round that is over nobody could answer.
            asked &= !self.reopen_reports();
            let message = match self.run.take_message(&topic) {
                Some(early) => early,
                None => {
                    if !std::mem::replace(&mut asked, true) {
                        self.ask_operator(invocation);
                    }
                    let _waiting = self.run.wait(self.command.clone(), None);
                    self.run.message_of(&[&topic, &callbacks]).await
                }
            };
            let next = if message.topic == callbacks {
                self.reported_meanwhile(invocation, message).await
            } else {
                self.resolved(invocation, message).await
            };
            if let Some(next) = next {
                return next;
            }
            asked = true;
        }
    }

    /// Records the question to the operator.
    fn ask_operator(&mut self, invocation: &InvocationId) {
        let mut events = self.start_events();
        events.push(self.decision(invocation, InvocationDecision::Ask, "policy: ask"));
        let why = self.lost.take();
        let why = why.map(|why| StepError::InDoubt(self.run.failure(&self.command, why)).recorded());
        let mut extras = self.extras();
        extras.ledger.extend(self.ledger_update(LedgerStatus::InDoubt, None, why));
        self.run.append(events, extras);
    }

    async fn resolved(&mut self, invocation: &InvocationId, message: Taken) -> Option<Next> {
        let resolved = message.payload.decode::<Resolved>();
        let consumed = vec![message];
        Some(match resolved {
            Ok(Resolved { resolution: Resolution::Happened(value), actor }) => {
                if let Err(error) = self.ask_body(|body| body.accepts(&value)) {
                    // A mistake of the operator's must not end the run: it keeps waiting.
                    refuse(&self.run, &self.command, &actor, error, consumed);
                    self.round += 1;
                    return None;
                }
                self.happened(invocation, value, &actor, consumed).await
            }
            Ok(Resolved { resolution: Resolution::DidNotHappen, actor }) => {
                self.did_not_happen(invocation, &actor, consumed)
            }
            Ok(Resolved { resolution: Resolution::Abandon, actor }) => {
                self.in_doubt(invocation, &actor, "an operator abandoned it", consumed).await
            }
            Err(error) => {
                let why = format!("the resolution is unreadable: {error}");
                self.in_doubt(invocation, "operator", &why, consumed).await
            }
        })
    }

    /// Notes who said that the invocation happened, for the append of its outcome: after a crash between two appends the
    /// decision would have no value.
    pub(crate) fn note_happened(&mut self, invocation: &InvocationId, actor: &str) {
        let decision = self.decision(invocation, InvocationDecision::Happened, actor);
        self.notes.push(decision);
        self.disown_streams();
    }

    async fn happened(
        &mut self,
        invocation: &InvocationId,
        value: Payload,
        actor: &str,
        consumed: Vec<Taken>,
    ) -> Next {
        self.note_happened(invocation, actor);
        Next::Done(self.commit_success(value, consumed).await)
    }

    /// Records that the newest attempt definitely did not happen, and ends it.
    pub(crate) fn record_not_executed(&mut self, actor: &str) {
        let invocation = self.invocation();
        let _the_next_attempt_is_made_by_another_program =
            self.did_not_happen(&invocation, actor, Vec::new());
    }

    /// Records a definite failure; the next attempt gets a new key.
    fn did_not_happen(&mut self, invocation: &InvocationId, actor: &str, consumed: Vec<Taken>) -> Next {
        let mut events = self.start_events();
        events.push(self.decision(invocation, InvocationDecision::DidNotHappen, actor));
        let mut extras = self.extras();
        extras.consumed.extend(consumed);
        extras.ledger.extend(self.ledger_update(LedgerStatus::Failed, None, None));
        self.run.append(events, extras);
        self.attempt = self.attempt.saturating_add(1);
        self.begin_sendings();
        Next::Again
    }
}

#[cfg(test)]
mod tests;
