//! Consent of a person to a step's call: who asks for it, and the gate before the intent.
//!
//! Promise: a call that needs consent leaves no intent and no ledger row, and calls no body, before the consent is
//! recorded; a policy can raise what a step declares and never lower it; rejection and expiry close the call.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::def::Approval;
use crate::event::{ApprovalDecided, ApprovalRequested};
use crate::failure::StepError;
use crate::human::{Ruling, ruling_topic};
use crate::outcome::{EffectClass, Outcome};
use crate::payload::Answered;
use crate::payload::{Digest, Payload};
use crate::perform::Performance;
use crate::replay::Recorded;
use crate::run::Riders;
use crate::wait::{Letterbox, Received};
use crate::world::later;

/// A call that a policy is asked about.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalCall<'a> {
    /// Name of the step as it stands in the journal.
    pub name: &'a str,
    /// Unique name of the step: module path and name, or the effect's name.
    pub path: &'a str,
    /// What kind of contact with the world it is.
    pub class: EffectClass,
    /// The arguments, recorded.
    pub args: &'a Payload,
    /// Whether a completed call must not be repeated.
    pub irreversible: bool,
}

type Rule = Arc<dyn Fn(&ApprovalCall<'_>) -> bool + Send + Sync>;

/// Which calls need a person's consent beyond those whose steps declare it. A call needs it when any rule says so; no
/// rule can take away what a step declares. Pure steps leave no record and are never asked about.
///
/// ```
/// use aether_core::approval::Approvals;
/// use aether_core::outcome::EffectClass;
/// let approvals = Approvals::new()
///     .step("send_mail")
///     .class(EffectClass::External)
///     .when(|call| call.irreversible && call.args.as_str().contains("everybody"))
///     .expires(std::time::Duration::from_secs(24 * 3600));
/// ```
#[derive(Clone, Default)]
pub struct Approvals {
    rules: Vec<Rule>,
    limit: Option<Duration>,
}

impl Approvals {
    /// No call needs consent but those whose steps declare it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every call of the step of this name needs consent.
    pub fn step(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.when(move |call| call.name == name)
    }

    /// Every call of this class needs consent.
    pub fn class(self, class: EffectClass) -> Self {
        self.when(move |call| call.class == class)
    }

    /// Calls for which `rule` says so need consent. A rule that panics counts as a yes.
    pub fn when(mut self, rule: impl Fn(&ApprovalCall<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.rules.push(Arc::new(rule));
        self
    }

    /// How long a person has to decide about a call, those included whose steps declare it. The call is cancelled
    /// then. Without it requests stay open.
    pub fn expires(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// How long a person has to decide about a call.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Whether a rule says that a person must agree to `call`.
    pub(crate) fn ask(&self, call: &ApprovalCall<'_>) -> bool {
        self.rules.iter().any(|rule| or_yes(call.name, || rule(call)))
    }
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approvals").field("rules", &self.rules.len()).field("limit", &self.limit).finish()
    }
}

/// Who cannot tell whether consent is needed needs it.
fn or_yes(step: &str, needed: impl FnOnce() -> bool) -> bool {
    std::panic::catch_unwind(AssertUnwindSafe(needed)).unwrap_or_else(|_| {
        tracing::warn!(step, "the rule that says whether a person must agree panicked: a person is asked");
        true
    })
}

/// What a person is shown of a call, beside its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CallShown {
    step: String,
    class: EffectClass,
    irreversible: bool,
}

impl Performance {
    /// Returns when the call may be made; `Err` holds its end where it may not. `record` is what a crash left.
    pub(crate) async fn permitted(&mut self, record: Option<&Recorded>) -> Result<(), Answered> {
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
            Ruling::Approved => Ok(()),
            Ruling::ApprovedWith(args) => self.take_edited(args).await,
            Ruling::Rejected(reason) => {
                let why = format!("{actor} rejected the call of `{}`: {reason}", self.name);
                Err(self.close(StepError::Rejected(self.run.failure(&self.command, why))).await)
            }
            Ruling::Expired => {
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
            || self.run.host.approvals.ask(&ApprovalCall {
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
        let until = self.run.host.approvals.limit().map(|limit| later(self.run.now(), limit));
        let mut events = self.start_events();
        events.push(ApprovalRequested { command: self.command.clone(), request, until }.into());
        self.run.append_large_durably(events).await;
        Ok(until)
    }

    /// Waits for a person, and records the decision.
    async fn ruling(&mut self, until: Option<Timestamp>) -> (Ruling, String) {
        let mut letters = Letterbox {
            run: Arc::clone(&self.run),
            command: self.command.clone(),
            topic: ruling_topic(&self.command),
            until,
            round: self.round,
        };
        loop {
            let Received { letter, consumed } = letters.letter().await;
            let read = Ruling::of(&letter).map_err(|error| error.to_string());
            match read.and_then(|ruling| self.recorded_form(ruling)) {
                Ok((ruling, decision)) => {
                    let command = self.command.clone();
                    let decided = ApprovalDecided { command, decision, actor: letter.actor.clone() };
                    let riders = Riders { consumed, ..Riders::default() };
                    self.run.append_large(vec![decided.into()], riders).await;
                    self.round = letters.round;
                    return (ruling, letter.actor);
                }
                Err(reason) => letters.refuse(&letter.actor, reason, consumed),
            }
        }
    }

    /// Checks a ruling, and encodes it.
    fn recorded_form(&self, ruling: Ruling) -> Result<(Ruling, Payload), String> {
        if let Ruling::ApprovedWith(edited) = &ruling {
            self.body.check(edited).map_err(|error| error.to_string())?;
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

fn unreadable(error: crate::payload::PayloadError) -> Ruling {
    Ruling::Rejected(format!("the recorded decision is unreadable: {error}"))
}
