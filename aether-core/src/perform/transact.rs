//! Transaction steps: the body runs on the store's own database, in the transaction that records its outcome.
//!
//! Promise: the changes of the body's SQL are durable exactly if `transaction_finished` says so, whatever crashes when:
//! the effect happens exactly once. A body that fails, panics or waits leaves nothing behind. Where a crash cut off the
//! events that follow, recovery appends them and does not call the body.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;

use crate::definition::def::StepOptions;
use crate::journal::event::{
    CommandCommitted, Event, NodeFinished, StateChanged, StepCommitted, TransactionFinished,
    TransactionRolledBack,
};
use crate::journal::frame::Frame;
use crate::perform::body::redacted;
use crate::perform::body_outcome::{BodyOutcome, body_outcome, error_of};
use crate::perform::call::{Next, StepCall};
use crate::perform::confirm::Recovered;
use crate::perform::failures::Failures;
use crate::run::append::{AppendExtras, unencodable};
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::run::log;
use crate::sched::Mutex;
use crate::step::body::{Body, ErrorClass};
use crate::step::context::StepCx;
use crate::step::over::Executing;
use crate::store::append::{Rollback, Work};
use crate::store::error::StoreError;
use crate::vocabulary::deps::MissingDep;
use crate::vocabulary::id::{CommandId, IdempotencyKey};
use crate::vocabulary::outcome::{FailureClass, Outcome};
use crate::vocabulary::payload::{Answered, Payload};
use crate::vocabulary::waiting::millis;

/// The event in the frame that the attempt gave to the store last, which the journal then holds, and the context of the call
/// that it is about.
type LastEvent = Arc<Mutex<Option<(Event, StepCx)>>>;

/// What an attempt takes of the patience: nothing. The store's writer and recovery must agree on whether another attempt is
/// left, and recovery does not know how long the attempt took.
const UNCOUNTED: Duration = Duration::ZERO;

/// One attempt at a transaction step, as the store executes it.
struct Attempt {
    run: Arc<Run>,
    command: CommandId,
    options: StepOptions,
    failures: Failures,
    body: Arc<dyn Body>,
    args: Payload,
    /// The context of the attempt, which is over with it.
    whole: StepCx,
    /// That of the body's newest call.
    cx: StepCx,
    key: IdempotencyKey,
    /// Events before the outcome.
    head: Vec<Event>,
    /// The outcome, once the body was called.
    event: Option<Event>,
    last_event: LastEvent,
    span: tracing::Span,
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Attempt({})", self.key)
    }
}

impl Work for Attempt {
    fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    fn timeout(&self) -> Option<Duration> {
        self.options.timeout
    }

    fn call(&mut self) -> bool {
        if self.event.is_some() {
            // What the call before did is rolled back, and with it all that it said.
            self.cx = self.cx.afresh();
        }
        // Polled once: inside the store's transaction no runtime polls it again, and waiting would hold up every other
        // append of the store.
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let _attempt = self.span.enter();
            self.body.call(self.cx.clone(), &self.args).now_or_never()
        }));
        self.cx.over().cancel();
        let ended = match polled.transpose() {
            Some(ended) => body_outcome(&self.run, ended),
            None => BodyOutcome::Refused(
                "the body of a transaction step awaited something that was not ready: it holds a transaction of the store's database, so it may only use `cx.sql` or `cx.postgres` and what answers at once"
                    .into(),
            ),
        };
        let event = match self.lack(&ended) {
            Some(missing) => self.rolled_back(missing.to_string()),
            None if self.cx.is_foreign() && !matches!(ended, BodyOutcome::Value(_)) => {
                self.rolled_back("the body uses the database of another store".into())
            }
            None => self.finished(ended),
        };
        let keep = matches!(&event, Event::TransactionFinished(finished) if finished.outcome.is_complete());
        self.event = Some(event);
        keep
    }

    fn frame(&mut self, undone: Option<Rollback>) -> Result<Frame, StoreError> {
        let event = match (undone, self.event.take()) {
            (Some(Rollback::Refused(reason)), _) => self.finished(BodyOutcome::Refused(reason)),
            (Some(Rollback::TimedOut), _) => self.finished(BodyOutcome::TimedOut),
            (Some(Rollback::CalledOff), _) => {
                self.rolled_back("it could not be carried out until nobody waited for it any more".into())
            }
            (None, Some(event)) => event,
            (None, None) => self.rolled_back("the store did not call the body".into()),
        };
        self.event = Some(event.clone());
        // Written at each call: a store that rolls back after the first frame asks again, and only the last frame is in
        // the journal.
        let last = (event.clone(), self.cx.clone());
        *self.last_event.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
        let mut events = self.head.clone();
        events.push(event);
        Frame::encode(&events).map_err(|error| unencodable(&self.run, error))
    }

    fn is_called_off(&self) -> bool {
        self.whole.is_cancelled()
    }
}

impl Attempt {
    /// The missing value that the body failed for. All that it did is rolled back, so a panic may be about it as well.
    fn lack(&self, ended: &BodyOutcome) -> Option<MissingDep> {
        let redaction = &self.run.shared.redaction;
        let is_lack = |missing: &MissingDep| match ended {
            BodyOutcome::Value(_) => false,
            BodyOutcome::Error(_) => ended.is_lack_of(missing, redaction),
            _ => true,
        };
        self.cx.missing().into_iter().find(is_lack)
    }

    fn rolled_back(&self, reason: String) -> Event {
        TransactionRolledBack { command: self.command.clone(), attempt: self.cx.attempt(), reason }.into()
    }

    fn finished(&self, ended: BodyOutcome) -> Event {
        finished(&self.run, &self.command, &self.options, self.failures, &self.cx, ended).into()
    }
}

/// The event for an attempt that ended like this.
fn finished(
    run: &Run,
    command: &CommandId,
    options: &StepOptions,
    failures: Failures,
    cx: &StepCx,
    ended: BodyOutcome,
) -> TransactionFinished {
    let (command, attempt) = (command.clone(), cx.attempt());
    let changed = cx.take_notes().into_iter().filter_map(|note| match note {
        Event::StateChanged(changed) => Some(redacted(&run.shared.redaction, changed)),
        _ => None,
    });
    let changed: Vec<StateChanged> = changed.collect();
    let ErrorClass { class, retry_after: asked, .. } = ended.said(options);
    if let BodyOutcome::Value(value) = ended {
        let (outcome, result) = (Outcome::SideEffectCommitted, Some(value));
        let retry_after_ms = None;
        return TransactionFinished {
            command,
            attempt,
            outcome,
            result,
            error: None,
            changed,
            retry_after_ms,
        };
    }
    let may_retry = !matches!(class, FailureClass::Permanent | FailureClass::Compensatable);
    let retry = options.retry();
    let again = failures.allow(&retry, attempt, class, UNCOUNTED);
    let outcome = if again { Outcome::RetryableFailure } else { class.outcome() };
    let exhausted = may_retry && !again && retry.max_retries > 0;
    let error = Some(error_of(run, &command, options, ended, exhausted).recorded());
    let retry_after_ms = asked.map(millis);
    TransactionFinished {
        command,
        attempt,
        outcome,
        result: None,
        error,
        changed: Vec::new(),
        retry_after_ms,
    }
}

impl StepCall {
    /// Makes one attempt at a transaction step.
    pub(crate) async fn transact(&mut self) -> Next {
        let cx = self.step_cx(self.run.now(), None);
        let _executing = Executing::of(&cx);
        let event = match self.intercepted(&cx) {
            Some(stub) => {
                let ended = {
                    let _in_flight = self.run.in_flight();
                    self.with_timeout(stub, &cx).await
                };
                let finished = finished(&self.run, &self.command, &self.options, self.failures, &cx, ended);
                let mut events = self.start_events();
                events.push(finished.clone().into());
                self.run.append(events, AppendExtras::default());
                return self.settle_transaction(finished, false).await;
            }
            None => self.hand_to_store(&cx).await,
        };
        let missing = match &event {
            Some((Event::TransactionRolledBack(e), of_call)) => {
                of_call.missing().into_iter().find(|missing| missing.to_string() == e.reason)
            }
            _ => None,
        };
        match (event, missing) {
            (Some((Event::TransactionFinished(finished), _)), _) => {
                self.settle_transaction(finished, false).await
            }
            // Called off: whoever cancels the run goes on without it.
            (Some((Event::TransactionRolledBack(_), _)), None) if cx.is_cancelled() => {
                std::future::pending().await
            }
            (Some((_, of_call)), None) if of_call.is_foreign() => self.no_transactions().await,
            (_, Some(missing)) => {
                let (run, command) = (self.run.id.clone(), self.command.clone());
                self.run.stop(Fault::NotProvided { run, command, missing }).await
            }
            (_, None) => {
                let reason = format!("the store acknowledged step `{}` without calling it", self.command);
                let store = self.run.shared.store.describe();
                self.run.stop(StoreError::ContractBroken { store, reason }).await
            }
        }
    }

    /// The store is not the one that the step's body is written for.
    async fn no_transactions<T>(&self) -> T {
        let (run, command) = (self.run.id.clone(), self.command.clone());
        let store = self.run.shared.store.describe();
        self.run.stop(Fault::NoTransactions { run, command, store }).await
    }

    /// Has the store execute the attempt. Returns the event that is then durable in the journal, and the context of the call
    /// that it is about.
    async fn hand_to_store(&mut self, cx: &StepCx) -> Option<(Event, StepCx)> {
        if self.run.shared.store.transactions().is_none() {
            return self.no_transactions().await;
        }
        let last_event = LastEvent::default();
        let mut head = self.run.marks_before(std::iter::once(Some(&self.command)));
        head.append(&mut self.start_events());
        let attempt = Attempt {
            run: Arc::clone(&self.run),
            command: self.command.clone(),
            options: self.options,
            failures: self.failures,
            body: Arc::clone(&self.body),
            args: self.args.clone(),
            whole: cx.clone(),
            cx: cx.afresh(),
            key: self.key(),
            head: head.clone(),
            // Made here: the store's thread is in no span of the run.
            span: log::attempt_span(self.attempt),
            event: None,
            last_event: Arc::clone(&last_event),
        };
        // Before it is queued: whoever ends the run while it is must look what came of it.
        self.run.with_obligations(|obligations| obligations.begin_transaction(&self.command));
        // The count is fixed before the body runs, because positions are given out before the store answers: whatever
        // the outcome is, it is one event.
        let _receipt = self.run.append_work(Box::new(attempt), &self.command, &head).await;
        // After the acknowledgement: before it, the store may still roll back and replace the event.
        let last = last_event.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut events = head;
        events.extend(last.as_ref().map(|(event, _)| event.clone()));
        self.run.with_obligations(|obligations| events.iter().for_each(|event| obligations.apply(event)));
        log::appended(&self.run.id, &events);
        self.run.shared.observe(&self.run.id, || self.run.now(), events);
        last
    }

    /// Appends what follows a finished transaction, or waits for the next attempt.
    pub(crate) async fn settle_transaction(
        &mut self,
        finished: TransactionFinished,
        caught_up: bool,
    ) -> Next {
        let TransactionFinished { attempt, outcome, result, error, changed, retry_after_ms, .. } = finished;
        let asked = retry_after_ms.map(Duration::from_millis);
        self.attempt = attempt;
        if !caught_up && self.limit.is_some() {
            Box::pin(self.tell_limit(asked)).await;
        }
        let changed: Vec<_> = changed.into_iter().map(Event::from).collect();
        // The transaction is committed whatever this finds; it decides only whether the workflow may see the outcome.
        if caught_up && outcome.is_complete() {
            self.confirm(&Recovered { reported: &changed, row: None }).await;
        }
        self.notes.extend(changed);
        let answered: Answered = match error {
            Some(error) => Err(error),
            None => Ok(result.unwrap_or_else(Payload::null)),
        };
        let class = FailureClass::Retryable;
        if let (Outcome::RetryableFailure, Err(error), Some(next)) =
            (outcome, &answered, self.next_attempt(attempt, class, asked, UNCOUNTED))
        {
            self.retry(error.clone(), next).await;
            return Next::Again;
        }
        let mut events = self.start_events();
        events.extend(self.compensation(outcome, answered.as_ref().ok()));
        events.extend(committed(&self.command, &self.name, outcome, caught_up));
        // What a crash left was made before, perhaps by other code, to which it was readable.
        let answered = if caught_up { answered } else { self.check_read(answered, &mut events) };
        self.run.append(events, AppendExtras::default());
        Next::Done(answered)
    }
}

/// The commit of a transaction step whose outcome `transaction_finished` holds.
pub(crate) fn committed(
    command: &CommandId,
    name: &str,
    outcome: Outcome,
    caught_up: bool,
) -> impl Iterator<Item = Event> + use<> {
    let of = || command.clone();
    let committed =
        CommandCommitted { command: of(), outcome, result: None, error: None, caught_up, spent: None };
    let complete = outcome
        .is_complete()
        .then(|| StepCommitted { command: of(), step: name.to_owned(), key: None }.into());
    [committed.into(), NodeFinished { command: of() }.into()].into_iter().chain(complete)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::def::StepOptions;
    use crate::perform::attempts::step_call;
    use crate::perform::tests::stage::{Act, Stage, command, json};
    use crate::vocabulary::failure::StepError;
    use crate::vocabulary::outcome::EffectClass;

    /// The store calls the body, rolls back, and calls it again.
    #[test]
    fn a_body_that_is_called_again_draws_the_same_and_says_only_what_the_last_call_did() {
        let acts = [Act::Draws("first.txt"), Act::Draws("second.txt"), Act::Panics];
        let stage = Stage::new(StepOptions::of(EffectClass::Transaction)).acts(acts);
        let call = step_call(&stage.take_up(), command(), None, stage.call()).unwrap();
        let mut attempt = Attempt {
            run: Arc::clone(&call.run),
            command: command(),
            options: call.options,
            failures: Failures::default(),
            body: Arc::clone(&call.body),
            args: json("[1]"),
            whole: call.step_cx(call.run.now(), None),
            cx: call.step_cx(call.run.now(), None),
            key: call.key(),
            head: Vec::new(),
            event: None,
            last_event: LastEvent::default(),
            span: tracing::Span::none(),
        };
        let mut finished = || {
            attempt.call();
            attempt.frame(None).unwrap();
            match attempt.event.clone() {
                Some(Event::TransactionFinished(finished)) => finished,
                other => panic!("{other:?}"),
            }
        };
        let (first, second, third) = (finished(), finished(), finished());
        assert_eq!(first.result, second.result);
        let files: Vec<_> = second.changed.iter().map(|changed| changed.id.as_str()).collect();
        assert_eq!(files, ["second.txt"]);
        // What an earlier call did without is not why a later one fails.
        let error: StepError = third.error.unwrap().decode().unwrap();
        assert!(matches!(error, StepError::Panicked(_)), "{error}");
    }
}
