//! Confirmation: a look at the world before a recorded change of it is believed again.
//!
//! Promise: when a run is taken up again, and before an outcome that changed the world is handed out, each resource
//! that its step declares in `changes` and reported with `StepCx::changed` is looked at once, in the state in which the
//! run left it last; the verdict is journaled before the outcome is handed out; whatever is found, the body is not
//! called.
//!
//! Not looked at: a resource that a later step of the run changed as well (the later step answers for it), what the
//! loser of a decided race changed (its outcome is not handed out), a resource of a kind that an unsettled invocation
//! of the run may be changing, and one whose kind the step does not declare (its change is recorded; where the step
//! declares other kinds, a warning is logged). `verify` looks at nothing.

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
use crate::journal::history::{History, RecordedResult};
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

/// How long one look may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// When a look that failed is repeated: three times, after 200 ms, 400 ms and 800 ms.
const LOOKS: Retry = Retry::READ;

/// What is known of an outcome besides the journal.
pub(crate) struct Recovered<'a> {
    /// Events of it that are not in the journal yet.
    pub(crate) reported: &'a [Event],
    /// Its row of the ledger.
    pub(crate) row: Option<&'a LedgerEntry>,
}

impl StepCall {
    /// Confirms an answer of the journal while it is its turn, before it is taken.
    pub(crate) async fn confirm_injected(&mut self) {
        let changed = |history: &mut History| !history.resources().left_by(&self.command).is_empty();
        if !self.confirms() || !self.run.history(changed) {
            return;
        }
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

    /// Only a run that was taken up again doubts what it recorded.
    fn confirms(&self) -> bool {
        self.run.mode == Mode::Recover
            && self.run.epoch > 1
            && Outcome::of_success(self.options.class) == Outcome::SideEffectCommitted
    }

    /// Looks at the resources of a recorded outcome that is about to be handed out. Returns whether every one of them
    /// is confirmed, and there is one; does not return when the run must not go on.
    pub(crate) async fn confirm(&mut self, recovered: &Recovered<'_>) -> bool {
        if !self.confirms() {
            return false;
        }
        let mut confirmed = None;
        for standing in self.standing(recovered.reported) {
            let kind = standing.change.resource.as_str();
            if !self.options.changes.contains(&kind) || self.is_unsettled(kind) {
                continue;
            }
            let was_confirmed = standing.is_confirmed()
                || recovered.row.is_some_and(|row| row.status == LedgerStatus::Confirmed);
            let good = self.confirm_one(&standing, was_confirmed).await;
            confirmed = Some(confirmed.unwrap_or(true) && good);
        }
        confirmed.unwrap_or(false)
    }

    /// The resources that this command was the last to change.
    fn standing(&self, reported: &[Event]) -> Vec<ResourceState> {
        let unrecorded = reported.iter().any(|event| matches!(event, Event::StateChanged(_)));
        if unrecorded {
            let mut resources = Resources::default();
            reported.iter().for_each(|event| resources.apply(event));
            return resources.left_by(&self.command).to_vec();
        }
        self.run.history(|history| history.resources().left_by(&self.command).to_vec())
    }

    /// Whether another call of the run may be changing resources of this kind, for all that is known.
    fn is_unsettled(&self, kind: &str) -> bool {
        let verifiers = &self.run.shared.verifiers;
        self.run.history(|history| {
            history.unsettled(&self.command).any(|command| verifiers.may_change(command.name(), kind))
        })
    }

    /// Looks at one resource. Returns whether it is as it was left.
    async fn confirm_one(&mut self, standing: &ResourceState, was_confirmed: bool) -> bool {
        let change = &standing.change;
        let Some(verifier) = self.run.shared.verifiers.get(&change.resource) else {
            let (run, command) = (self.run.id.clone(), self.command.clone());
            return self.run.stop(Fault::NoVerifier { run, command, kind: change.resource.clone() }).await;
        };
        if standing.accepted || (was_confirmed && verifier.skips_confirmed()) {
            return !standing.accepted;
        }
        let asked_before = standing.verdict.as_ref().filter(|known| known.verdict == StateVerdict::Differs);
        let topic = confirm_topic(&change.command, &change.resource, &change.id);
        if let Some(asked) = asked_before
            && self.options.confirm == Confirm::Ask
            && let Some(word) = self.word(&topic)
        {
            return self.follow_word(asked.clone(), word).await;
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
        match self.look(&*verifier, change).await {
            Ok(Inspection::Unchanged) => {
                self.journal(&found);
                true
            }
            Ok(Inspection::Differs { expected, found: instead }) => {
                found.verdict = StateVerdict::Differs;
                found.asks = self.options.confirm == Confirm::Ask;
                (found.expected, found.found) = (Some(expected), Some(instead));
                self.differs(found, asked_before, &topic).await
            }
            Err(failure) => {
                found.verdict = StateVerdict::Unverifiable;
                found.found = Some(failure.to_string());
                self.journal(&found);
                self.give_up(&found, "could not be looked at").await
            }
        }
    }

    fn journal(&self, found: &StateConfirmed) {
        self.run.append(vec![found.clone().into()], AppendExtras::default());
    }

    /// Asks the verifier, again where it fails, within bounds.
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
            tracing::warn!(run = %self.run.id, command = %self.command, %failure, "a verifier failed");
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

    /// A resource is not as it was left: the step says what is then done. Returns `false` where the run may go on.
    async fn differs(&mut self, found: StateConfirmed, before: Option<&StateConfirmed>, topic: &str) -> bool {
        match self.options.confirm {
            Confirm::Strict => {
                self.journal(&found);
                self.give_up(&found, "is not as it was left").await
            }
            Confirm::Warn => {
                self.journal(&found);
                let (resource, id, expected, now) =
                    (&found.resource, &found.id, &found.expected, &found.found);
                tracing::warn!(run = %self.run.id, command = %self.command, resource, id, expected, found = now,
                    "a changed resource is not as it was left; the run goes on");
                false
            }
            Confirm::Ask => {
                if before != Some(&found) {
                    self.journal(&found);
                }
                let word = self.wait_for_word(topic).await;
                self.follow_word(found, word).await
            }
        }
    }

    /// Waits, as long as it takes, until an operator has decided. The run may be suspended meanwhile, although not all
    /// of its history was handed out.
    async fn wait_for_word(&self, topic: &str) -> (ConfirmationReply, Taken) {
        self.run.pause_for_operator(true);
        let _waiting = self.run.wait(self.command.clone(), None);
        let word = loop {
            let notified = self.run.notified();
            if let Some(word) = self.word(topic) {
                break word;
            }
            notified.await;
        };
        self.run.pause_for_operator(false);
        word
    }

    /// The first decision in the inbox, and its number. What cannot be read is no decision.
    fn word(&self, topic: &str) -> Option<(ConfirmationReply, Taken)> {
        loop {
            let message = self.run.take_message(topic)?;
            match message.payload.decode() {
                Ok(word) => return Some((word, message)),
                Err(error) => {
                    tracing::warn!(run = %self.run.id, %error, "an unreadable decision was ignored");
                    let consumed = vec![message];
                    self.run.append(Vec::new(), AppendExtras { consumed, ..AppendExtras::default() });
                }
            }
        }
    }

    /// An operator's word about a resource that is not as it was left. Returns `false` where the run may go on.
    async fn follow_word(
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
                self.give_up(&found, &format!("is not as it was left, and {actor} does not accept it")).await
            }
        }
    }

    /// Fails the run for good.
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
