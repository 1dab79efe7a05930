//! Confirmation: checking the world before a recorded change of it is trusted again.
//!
//! Promise: when a run is resumed, and before an outcome that changed the world is delivered, each resource that its
//! step declares in `changes` and reported with `StepCx::changed` is inspected once, against the state in which the run
//! left it last; the verdict is journaled before the outcome is delivered; whatever is found, the body is not called.
//!
//! Not inspected: a resource that a later step of the run changed as well (it is inspected for that step), changes by the
//! loser of a decided race (its outcome is not delivered), a resource of a kind that an unsettled invocation of the run
//! may be changing, and one whose kind the step does not declare (its change is recorded; where the step declares other
//! kinds, a warning is logged). `verify` inspects nothing.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};

use crate::definition::def::{Confirm, Retry};
use crate::inbox::decisions::ConfirmationReply;
use crate::inbox::topics::confirm_topic;
use crate::journal::event::{
    ConfirmationDecided, ConfirmationDecision, Event, StateChanged, StateConfirmed, StateVerdict,
};
use crate::journal::history::History;
use crate::journal::history::record::RecordedResult;
use crate::journal::resources::{ResourceState, Resources};
use crate::perform::call::StepCall;
use crate::policy::replay::Mode;
use crate::policy::verifiers::{Inspection, Verifier};
use crate::run::append::AppendExtras;
use crate::run::fault::Fault;
use crate::run::taken::Taken;
use crate::store::ledger::{LedgerEntry, LedgerStatus, LedgerUpdate};
use crate::vocabulary::failure::{Failure, Unconfirmed, panic_message};
use crate::vocabulary::outcome::{FailureClass, Outcome};

/// How long one inspection may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// When a failed inspection is repeated: three times, after 200 ms, 400 ms and 800 ms.
const LOOKS: Retry = Retry::times(3);

/// What is known of an outcome besides the journal.
pub(crate) struct Recovered<'a> {
    /// Its events that are not in the journal yet.
    pub(crate) reported: &'a [Event],
    /// Its ledger row.
    pub(crate) row: Option<&'a LedgerEntry>,
}

impl StepCall {
    /// Confirms a recorded answer when it is the next one to be delivered, before it is taken: what is behind it in
    /// recorded order waits, so the workflow sees nothing of a run that fails here.
    pub(crate) async fn confirm_injected(&mut self) {
        self.run.due(&self.command).await;
        let key = self.run.history(|history| {
            let record = history.request(self.command.place())?;
            let complete = record.outcome.is_none_or(Outcome::is_complete);
            let worked = complete && matches!(record.answer, Some(RecordedResult::Step(Ok(_))));
            worked.then(|| record.invocation.as_ref().map(|invocation| invocation.key.clone()))
        });
        let Some(key) = key else { return };
        if !self.confirm(&Recovered { reported: &[], row: None }).await {
            return;
        }
        let Some(key) = key else { return };
        if let Some(row) = self.row(&key).await
            && row.status == LedgerStatus::Succeeded
        {
            let LedgerEntry { key, result, error, .. } = row;
            let status = LedgerStatus::Confirmed;
            let ledger = vec![LedgerUpdate { key, status, result, error, committed: true }];
            self.run.append(Vec::new(), AppendExtras { ledger, ..AppendExtras::default() });
        }
    }

    /// Whether the recorded answer is to be confirmed before it is delivered.
    pub(crate) fn is_to_be_confirmed(&self) -> bool {
        let changed = |history: &mut History| !history.resources().left_by(&self.command).is_empty();
        self.confirms() && self.run.history(changed)
    }

    /// Only a resumed run checks what it recorded: time has passed since.
    fn confirms(&self) -> bool {
        self.run.mode == Mode::Recover
            && self.run.epoch > 1
            && Outcome::of_success(self.options.class) == Outcome::SideEffectCommitted
    }

    /// Inspects the resources of a recorded outcome that is about to be delivered. Returns whether there is at least one
    /// and all of them are confirmed; does not return when the run must not continue.
    pub(crate) async fn confirm(&mut self, recovered: &Recovered<'_>) -> bool {
        if !self.confirms() {
            return false;
        }
        let mut confirmed = None;
        for state in self.states(recovered.reported) {
            let kind = state.change.resource.as_str();
            if !self.options.changes.contains(&kind) || self.is_unsettled(kind) {
                continue;
            }
            let was_confirmed = state.is_confirmed()
                || recovered.row.is_some_and(|row| row.status == LedgerStatus::Confirmed);
            let good = self.confirm_one(&state, was_confirmed).await;
            confirmed = Some(confirmed.unwrap_or(true) && good);
        }
        confirmed.unwrap_or(false)
    }

    /// The resources that this command was the last to change.
    fn states(&self, reported: &[Event]) -> Vec<ResourceState> {
        let unrecorded = reported.iter().any(|event| matches!(event, Event::StateChanged(_)));
        if unrecorded {
            let mut resources = Resources::default();
            reported.iter().for_each(|event| resources.apply(event));
            return resources.left_by(&self.command).to_vec();
        }
        self.run.history(|history| history.resources().left_by(&self.command).to_vec())
    }

    /// Whether an unfinished call of the run may have changed resources of this kind.
    fn is_unsettled(&self, kind: &str) -> bool {
        let verifiers = &self.run.shared.verifiers;
        self.run.history(|history| {
            history.unsettled(&self.command).any(|command| verifiers.may_change(command.name(), kind))
        })
    }

    /// Inspects one resource. Returns whether it is unchanged.
    async fn confirm_one(&mut self, state: &ResourceState, was_confirmed: bool) -> bool {
        let change = &state.change;
        let Some(verifier) = self.run.shared.verifiers.get(&change.resource) else {
            let (run, command) = (self.run.id.clone(), self.command.clone());
            return self.run.stop(Fault::NoVerifier { run, command, kind: change.resource.clone() }).await;
        };
        if state.accepted || (was_confirmed && verifier.skips_confirmed()) {
            return !state.accepted;
        }
        let asked_before = state.verdict.as_ref().filter(|known| known.verdict == StateVerdict::Differs);
        let topic = confirm_topic(&change.command, &change.resource, &change.id);
        if let Some(asked) = asked_before
            && self.options.confirm == Confirm::Ask
            && let Some(reply) = self.take_reply(&topic)
        {
            return self.apply_reply(asked.clone(), reply).await;
        }
        let mut found = StateConfirmed {
            command: change.command.clone(),
            resource: change.resource.clone(),
            id: change.id.clone(),
            verdict: StateVerdict::Matches,
            expected: None,
            found: None,
            verifier: verifier.name().to_owned(),
            asks: false,
        };
        let redaction = &self.run.shared.redaction;
        match self.look(&*verifier, change).await {
            Ok(Inspection::Unchanged) => {
                self.journal(&found);
                true
            }
            Ok(Inspection::Differs { expected, found: instead }) => {
                found.verdict = StateVerdict::Differs;
                found.asks = self.options.confirm == Confirm::Ask;
                (found.expected, found.found) =
                    (Some(redaction.text(expected)), Some(redaction.text(instead)));
                self.differs(found, asked_before, &topic).await
            }
            Err(failure) => {
                found.verdict = StateVerdict::Unverifiable;
                found.found = Some(redaction.text(failure.to_string()));
                self.journal(&found);
                self.give_up(&found, "could not be inspected").await
            }
        }
    }

    fn journal(&self, found: &StateConfirmed) {
        self.run.append(vec![found.clone().into()], AppendExtras::default());
    }

    /// Calls the verifier; repeats a failed inspection as [`LOOKS`] says.
    async fn look(&self, verifier: &dyn Verifier, change: &StateChanged) -> Result<Inspection, Failure> {
        let _in_flight = self.run.in_flight();
        let environment = &self.run.shared.environment;
        let mut looks = 0;
        loop {
            let failure = match self.look_once(verifier, change).await {
                Err(failure) => failure,
                seen => return seen,
            };
            let permanent = failure.class() == FailureClass::Permanent;
            let Some(wait) = LOOKS.wait_after(looks).filter(|_| !permanent) else {
                return Err(failure.context(format_args!("after {} looks", looks + 1)));
            };
            let failure = self.run.shared.redaction.text(failure.to_string());
            tracing::warn!(target: "aether::step", run = %self.run.id, command = %self.command, failure, "a verifier failed");
            looks += 1;
            environment.sleep(wait).await;
        }
    }

    /// A verifier that panics or hangs has failed.
    async fn look_once(&self, verifier: &dyn Verifier, change: &StateChanged) -> Result<Inspection, Failure> {
        let look = AssertUnwindSafe(async { verifier.look(&self.run.id, change).await }).catch_unwind();
        let deadline = self.run.shared.environment.sleep(LOOK_TIMEOUT);
        match select(Box::pin(look), deadline).await {
            Either::Left((Ok(seen), _)) => seen,
            Either::Left((Err(panic), _)) => {
                Err(Failure::permanent(format_args!("the verifier panicked: {}", panic_message(&*panic))))
            }
            Either::Right(((), _)) => {
                Err(Failure::retryable(format_args!("no answer within {LOOK_TIMEOUT:?}")))
            }
        }
    }

    /// A resource has changed: the step's policy decides. Returns `false` where the run may continue.
    async fn differs(&mut self, found: StateConfirmed, before: Option<&StateConfirmed>, topic: &str) -> bool {
        match self.options.confirm {
            Confirm::Strict => {
                self.journal(&found);
                self.give_up(&found, "differs from the recorded state").await
            }
            Confirm::Warn => {
                self.journal(&found);
                let (resource, id, expected, now) =
                    (&found.resource, &found.id, &found.expected, &found.found);
                tracing::warn!(target: "aether::step", run = %self.run.id, command = %self.command, resource, id, expected, found = now,
                    "a resource differs from the recorded state; the run continues");
                false
            }
            Confirm::Ask => {
                if before != Some(&found) {
                    self.journal(&found);
                }
                let reply = self.wait_for_reply(topic).await;
                self.apply_reply(found, reply).await
            }
        }
    }

    /// Waits without a time limit until an operator has decided. The run may be suspended in the meantime, although not
    /// all of its history was delivered.
    async fn wait_for_reply(&self, topic: &str) -> (ConfirmationReply, Taken) {
        self.run.pause_for_operator(true);
        let _waiting = self.run.wait(self.command.clone(), None);
        let reply = loop {
            // Created before the look, so that a reply that comes after it wakes this wait.
            let notified = self.run.notified();
            if let Some(reply) = self.take_reply(topic) {
                break reply;
            }
            notified.await;
        };
        self.run.pause_for_operator(false);
        reply
    }

    /// Takes the first readable decision from the inbox, with its message. Unreadable messages are consumed and ignored.
    fn take_reply(&self, topic: &str) -> Option<(ConfirmationReply, Taken)> {
        loop {
            let message = self.run.take_message(topic)?;
            match message.payload.decode() {
                Ok(reply) => return Some((reply, message)),
                Err(error) => {
                    tracing::warn!(target: "aether::step", run = %self.run.id, %error, "an unreadable decision was ignored");
                    let consumed = vec![message];
                    self.run.append(Vec::new(), AppendExtras { consumed, ..AppendExtras::default() });
                }
            }
        }
    }

    /// Applies an operator's decision about a resource that has changed. Returns `false` where the run may continue.
    async fn apply_reply(
        &self,
        found: StateConfirmed,
        (ConfirmationReply { decision, actor }, message): (ConfirmationReply, Taken),
    ) -> bool {
        let (command, resource, id) = (found.command.clone(), found.resource.clone(), found.id.clone());
        let decided = ConfirmationDecided { command, resource, id, decision, actor: actor.clone() };
        let consumed = vec![message];
        self.run.append(vec![decided.into()], AppendExtras { consumed, ..AppendExtras::default() });
        match decision {
            ConfirmationDecision::Accept => false,
            ConfirmationDecision::Fail => {
                self.give_up(
                    &found,
                    &format!("differs from the recorded state, and {actor} does not accept it"),
                )
                .await
            }
        }
    }

    /// Fails the run permanently.
    async fn give_up<T>(&self, found: &StateConfirmed, what: &str) -> T {
        let StateConfirmed { command, resource, id, .. } = found.clone();
        let expected = found.expected.clone().unwrap_or_else(|| "the state in which it was left".into());
        let instead = found.found.clone().unwrap_or_default();
        let why = format!(
            "{resource} `{id}`, changed by step `{command}`, {what}: expected {expected}, found {instead} (run `{}`)",
            self.run.id
        );
        let about = Unconfirmed { command, resource, id, expected, found: instead };
        self.run.fail_permanently(Failure::unconfirmed_resource(why, about)).await
    }
}
