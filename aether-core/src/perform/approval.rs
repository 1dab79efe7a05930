//! Consent of a person to a step's call: who asks for it, and the gate before the intent.
//!
//! Promise: a call that needs consent leaves no intent and no ledger row, and calls no body, before the consent is
//! recorded; a policy can raise what a step declares and never lower it; rejection and expiry close the call.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::definition::def::Approval;
use crate::inbox::decisions::ApprovalOutcome;
use crate::inbox::topics::approval_topic;
use crate::journal::event::{ApprovalDecided, ApprovalRequested};
use crate::journal::history::CommandRecord;
use crate::perform::call::StepCall;
use crate::policy::approvals::{ApprovalCall, or_yes};
use crate::run::append::AppendExtras;
use crate::run::reply_receiver::{Received, ReplyReceiver};
use crate::vocabulary::environment::later;
use crate::vocabulary::failure::StepError;
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::{Answered, Digest, Payload};

/// What a person is shown of a call, beside its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CallShown {
    step: String,
    class: EffectClass,
    irreversible: bool,
}

impl StepCall {
    /// Returns when the call may be made; `Err` holds its end where it may not. `record` is what a crash left.
    pub(crate) async fn permitted(&mut self, record: Option<&CommandRecord>) -> Result<(), Answered> {
        let begun = record
            .is_some_and(|r| r.invocation.is_some() || r.transaction.is_some() || r.failed_attempts > 0);
        self.round = record.map_or(0, |record| record.round);
        self.handed_over = record.is_some_and(|record| record.callback.is_some());
        let (ruling, actor) = match record.and_then(|record| record.asked.clone()) {
            Some(asked) => match asked.decided {
                Some((ruling, actor)) => (ruling.decode().unwrap_or_else(unreadable), actor),
                None => self.ruling(asked.until).await,
            },
            None if begun || !self.needs_consent() => return Ok(()),
            None => {
                let until = self.ask_consent().await?;
                self.ruling(until).await
            }
        };
        match ruling {
            ApprovalOutcome::Approved => Ok(()),
            ApprovalOutcome::ApprovedWith(args) => self.take_edited(args).await,
            ApprovalOutcome::Rejected(reason) => {
                let why = format!("{actor} rejected the call of `{}`: {reason}", self.name);
                Err(self.close(StepError::Rejected(self.run.failure(&self.command, why))).await)
            }
            ApprovalOutcome::Expired => {
                let why = format!("nobody approved the call of `{}` in time", self.name);
                Err(self.close(StepError::Cancelled(self.run.failure(&self.command, why))).await)
            }
        }
    }

    fn needs_consent(&self) -> bool {
        let declared = match self.options.approval {
            Approval::Never => false,
            Approval::Required => true,
            // Arguments that do not decode are shown to a person rather than let through.
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

    /// Records the request; it is durable before anybody sees it.
    async fn ask_consent(&mut self) -> Result<Option<Timestamp>, Answered> {
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
        let until = self.run.shared.approvals.limit().map(|limit| later(self.run.now(), limit));
        let mut events = self.start_events();
        events.push(ApprovalRequested { command: self.command.clone(), request, until }.into());
        self.run.append_large_durably(events).await;
        Ok(until)
    }

    /// Waits for a person, and records the decision.
    async fn ruling(&mut self, until: Option<Timestamp>) -> (ApprovalOutcome, String) {
        let mut letters = ReplyReceiver {
            run: Arc::clone(&self.run),
            command: self.command.clone(),
            topic: approval_topic(&self.command),
            until,
            round: self.round,
        };
        loop {
            let Received { letter, consumed } = letters.letter().await;
            let read = ApprovalOutcome::of(&letter).map_err(|error| error.to_string());
            match read.and_then(|ruling| self.recorded_form(ruling)) {
                Ok((ruling, decision)) => {
                    let command = self.command.clone();
                    let decided = ApprovalDecided { command, decision, actor: letter.actor.clone() };
                    let riders = AppendExtras { consumed, ..AppendExtras::default() };
                    self.run.append_large(vec![decided.into()], riders).await;
                    self.round = letters.round;
                    return (ruling, letter.actor);
                }
                Err(reason) => letters.refuse(&letter.actor, reason, consumed),
            }
        }
    }

    /// Checks a ruling, and encodes it.
    fn recorded_form(&self, ruling: ApprovalOutcome) -> Result<(ApprovalOutcome, Payload), String> {
        if let ApprovalOutcome::ApprovedWith(edited) = &ruling {
            self.ask_body(|body| body.check(edited)).map_err(|error| error.to_string())?;
            if let Some(reason) = self.run.too_large(edited) {
                return Err(reason);
            }
            Digest::of(edited).map_err(|error| error.to_string())?;
        }
        let decision = Payload::encode(&ruling).map_err(|error| error.to_string())?;
        Ok((ruling, decision))
    }

    /// From here on the call has the edited arguments; the recorded ones stay what the workflow asked for.
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

fn unreadable(error: crate::vocabulary::payload::PayloadError) -> ApprovalOutcome {
    ApprovalOutcome::Rejected(format!("the recorded decision is unreadable: {error}"))
}
