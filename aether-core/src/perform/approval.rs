//! A person's approval of a step call: which calls need it, and the gate before the intent.
//!
//! Promise: a call that needs approval has no intent and no ledger row, and calls no body, before the approval is
//! recorded; a policy can add to what a step declares and never waive it; rejection and expiry end the call.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::definition::def::Approval;
use crate::inbox::decisions::ApprovalOutcome;
use crate::inbox::topics::approval_topic;
use crate::journal::event::{ApprovalDecided, ApprovalRequested};
use crate::journal::history::record::CommandRecord;
use crate::perform::call::{StepCall, ask_in_net};
use crate::policy::approvals::{ApprovalCall, or_yes};
use crate::run::append::AppendExtras;
use crate::run::fault::Fault;
use crate::run::reply_receiver::{Received, ReplyReceiver};
use crate::run::shared::EngineShared;
use crate::run::unreadable::Unreadable;
use crate::vocabulary::environment::later;
use crate::vocabulary::failure::StepError;
use crate::vocabulary::id::RunId;
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::{Answered, Digest, Payload};
use crate::vocabulary::waiting::{TimeLimit, Waiting, millis};

/// What a person sees of a call, beside its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CallShown {
    step: String,
    class: EffectClass,
    irreversible: bool,
}

impl StepCall {
    /// Returns when the call may be made; `Err` holds its answer where it may not. `record` is what the journal holds of
    /// the call after a crash.
    pub(crate) async fn permitted(&mut self, record: &CommandRecord) -> Result<(), Answered> {
        let details = record.details();
        let tried = record.invocation.is_some() || details.transaction.is_some();
        let begun = tried || record.failed_attempts > 0;
        self.round = details.round;
        self.handed_over = details.callback.is_some();
        // A request that is in the journal counts, whatever the policy says now: a restart with another policy must not
        // let a call through that a person is still deciding about.
        let Some(asked) = details.asked.clone() else {
            return if begun || !self.needs_approval() { Ok(()) } else { self.ask_for_approval().await };
        };
        // The limit that passes is that of the request. An older journal holds only when it passes.
        let limit = asked.limit().or(self.run.shared.approvals.limit()).unwrap_or_default();
        let (outcome, actor) = match asked.decided {
            Some((decision, actor)) => (self.recorded_decision(&decision).await, actor),
            None => self.await_decision(asked.until).await,
        };
        self.abide_by(outcome, actor, limit).await
    }

    /// A decision as it is recorded. Arguments that a person gave to a build before, and that this one does not take, stay for
    /// one that does.
    async fn recorded_decision(&self, decision: &Payload) -> ApprovalOutcome {
        let outcome = decision.decode().unwrap_or_else(unreadable);
        if let ApprovalOutcome::ApprovedWith(edited) = &outcome
            && let Err(error) = self.ask_body(|body| body.check(edited))
        {
            return self.run.unreadable(&self.command, EDITED, (None, None), error).await;
        }
        outcome
    }

    /// Asks a person; as [`StepCall::permitted`].
    pub(crate) async fn ask_for_approval(&mut self) -> Result<(), Answered> {
        let limit = self.run.shared.approvals.limit().unwrap_or_default();
        let until = self.request_approval().await?;
        let (outcome, actor) = self.await_decision(until).await;
        self.abide_by(outcome, actor, limit).await
    }

    async fn abide_by(
        &mut self,
        outcome: ApprovalOutcome,
        actor: String,
        limit: Duration,
    ) -> Result<(), Answered> {
        match outcome {
            ApprovalOutcome::Approved => Ok(()),
            ApprovalOutcome::ApprovedWith(args) => self.take_edited(args).await,
            ApprovalOutcome::Rejected(reason) => {
                let why = format!("{actor} rejected the call of `{}`: {reason}", self.name);
                Err(self.close(StepError::Rejected(self.run.failure(&self.command, why))).await)
            }
            ApprovalOutcome::Expired => {
                let why = format!("no one approved the call of `{}` in time", self.name);
                let limit = TimeLimit::of_wait(Waiting::Approval, &*self.name, limit);
                let failure = self.run.failure(&self.command, why).because_of(limit);
                Err(self.close(StepError::TimedOut(failure)).await)
            }
        }
    }

    /// Whether a person must agree to a call that was not begun.
    pub(crate) fn needs_approval(&self) -> bool {
        let declared = match self.options.approval {
            Approval::Never => false,
            Approval::Required => true,
            // Arguments that do not decode are shown to a person: the step's rule cannot be asked about them.
            Approval::ByArguments => {
                or_yes(&self.name, || self.body.needs_approval(&self.args).unwrap_or(true))
            }
        };
        declared
            || self.run.shared.approvals.ask(&ApprovalCall {
                name: &self.name,
                path: &self.path,
                class: self.options.class,
                args: &self.args,
                irreversible: self.options.irreversible,
            })
    }

    /// Records the request. Durable before it returns, so that no person decides about a request that a crash loses.
    async fn request_approval(&mut self) -> Result<Option<Timestamp>, Answered> {
        let step = self.path.to_string();
        let shown = CallShown { step, class: self.options.class, irreversible: self.options.irreversible };
        let request = match Payload::encode(&shown) {
            Ok(request) => request,
            Err(error) => {
                return Err(self
                    .close(StepError::Unrecordable(self.run.failure(&self.command, error)))
                    .await);
            }
        };
        let limit = self.run.shared.approvals.limit();
        let until = limit.map(|limit| later(self.run.now(), limit));
        let mut events = self.start_events();
        events.push(
            ApprovalRequested {
                command: self.command.clone(),
                request,
                until,
                name: None,
                site: None,
                limit_ms: limit.map(millis),
            }
            .into(),
        );
        self.run.append_large_durably(events).await;
        Ok(until)
    }

    /// Waits for a person's decision, and records it.
    async fn await_decision(&mut self, until: Option<Timestamp>) -> (ApprovalOutcome, String) {
        let mut replies = ReplyReceiver {
            run: Arc::clone(&self.run),
            command: self.command.clone(),
            topic: approval_topic(&self.command),
            until,
            round: self.round,
        };
        loop {
            let Received { reply, consumed } = replies.next_reply().await;
            let read = ApprovalOutcome::of(&reply).map_err(|error| error.to_string());
            match read.and_then(|outcome| self.recorded_form(outcome)) {
                Ok((outcome, decision)) => {
                    let command = self.command.clone();
                    let decided = ApprovalDecided { command, decision, actor: reply.actor.clone() };
                    let extras = AppendExtras { consumed, ..AppendExtras::default() };
                    self.run.append_large(vec![decided.into()], extras).await;
                    self.round = replies.round;
                    return (outcome, reply.actor);
                }
                Err(reason) => replies.refuse(&reply.actor, reason, consumed),
            }
        }
    }

    /// Checks a decision, and encodes it.
    fn recorded_form(&self, outcome: ApprovalOutcome) -> Result<(ApprovalOutcome, Payload), String> {
        if let ApprovalOutcome::ApprovedWith(edited) = &outcome {
            self.ask_body(|body| body.check(edited)).map_err(|error| error.to_string())?;
            if let Some(reason) = self.run.too_large(edited) {
                return Err(reason);
            }
            Digest::of(edited).map_err(|error| error.to_string())?;
        }
        let decision = Payload::encode(&outcome).map_err(|error| error.to_string())?;
        Ok((outcome, decision))
    }

    /// Replaces the arguments by the edited ones. In the journal the command keeps those that the workflow passed.
    async fn take_edited(&mut self, args: Payload) -> Result<(), Answered> {
        match Digest::of(&args) {
            Ok(digest) => {
                (self.args, self.digest) = (args, digest);
                Ok(())
            }
            Err(error) => {
                Err(self.close(StepError::Unrecordable(self.run.failure(&self.command, error))).await)
            }
        }
    }

    /// Ends the call without having made it.
    async fn close(&mut self, error: StepError<Payload>) -> Answered {
        self.commit_failure(Outcome::PermanentFailure, &error, None).await
    }
}

/// The arguments that a person gave to a recorded call in place of its own.
pub(crate) fn edited(record: &CommandRecord) -> Option<Payload> {
    let (decision, _) = record.details().asked.as_ref()?.decided.as_ref()?;
    match decision.decode().ok()? {
        ApprovalOutcome::ApprovedWith(args) => Some(args),
        _ => None,
    }
}

/// Why a program cannot make a recorded call with the arguments that a person gave it.
pub(crate) fn unreadable_edit(shared: &EngineShared, run: &RunId, record: &CommandRecord) -> Option<Fault> {
    let step = shared.steps.get(record.path.as_deref()?)?;
    let edited = edited(record)?;
    let error = ask_in_net(step.def.path, || step.body().check(&edited)).err()?;
    let unreadable = Unreadable::new(run, &record.command, EDITED, (None, None), error);
    Some(Fault::Unreadable(Box::new(unreadable)))
}

/// How arguments that a person gave are called where they cannot be read.
const EDITED: &str = "edited arguments";

fn unreadable(error: crate::vocabulary::payload::PayloadError) -> ApprovalOutcome {
    ApprovalOutcome::Rejected(format!("the recorded decision is unreadable: {error}"))
}
