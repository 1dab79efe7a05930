//! What people and other systems do in a simulation, as the test plans it.
//!
//! Promise: a plan is data; nobody acts who is not in it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aether_core::inbox::Resolution;
use aether_core::payload::{Payload, PayloadError};
use aether_core::policy::Approvals;
use aether_core::view::pending::Pending;
use serde_json::Value;

/// Changes the arguments of a call that is approved.
pub(crate) type EditFn = Arc<dyn Fn(&Payload) -> Result<Payload, PayloadError> + Send + Sync>;
/// Answers a question, or leaves it to the next closure.
/// From a question and the name of its wait to the answer.
pub(crate) type AnswerFn = Arc<dyn Fn(&Value, &str) -> Option<Result<Payload, PayloadError>> + Send + Sync>;

/// What an operator finds out about a call of unknown outcome, by its arguments.
pub(crate) type ResolveFn = Arc<dyn Fn(&Payload) -> Result<Resolution, PayloadError> + Send + Sync>;

/// What a person decides about a request.
#[derive(Clone)]
pub(crate) enum PlannedDecision {
    Approve { actor: String },
    Edit(EditFn),
    Reject { reason: String },
    Silent,
}

/// A signal that is sent to the run.
#[derive(Clone)]
pub(crate) struct PlannedSignal {
    /// How long after the simulation's beginning.
    pub(crate) after: Duration,
    pub(crate) name: String,
    pub(crate) value: Result<Payload, PayloadError>,
}

/// A request to cancel the run.
#[derive(Clone)]
pub(crate) struct PlannedCancel {
    /// How long after the simulation's beginning.
    pub(crate) after: Duration,
    pub(crate) reason: String,
    pub(crate) actor: String,
}

/// What people do in a simulation.
#[derive(Clone, Default)]
pub(crate) struct PeoplePlan {
    /// Decisions about calls of steps, by the steps' unique names.
    pub(crate) by_step: BTreeMap<String, PlannedDecision>,
    /// Decisions about what a workflow asks to approve, by its text.
    pub(crate) by_text: BTreeMap<String, PlannedDecision>,
    pub(crate) answers: Vec<AnswerFn>,
    /// What operators find out about calls in doubt, by the steps' names.
    pub(crate) resolutions: BTreeMap<String, ResolveFn>,
    pub(crate) signals: Vec<PlannedSignal>,
    pub(crate) cancels: Vec<PlannedCancel>,
    /// How long everybody who is asked takes.
    pub(crate) delay: Duration,
    pub(crate) approvals: Approvals,
    /// Nobody responds to what is not planned here, and the test means it.
    pub(crate) nobody_answers: bool,
}

impl PeoplePlan {
    /// Whether anybody decides or answers anything.
    pub(crate) fn is_asked(&self) -> bool {
        !(self.by_step.is_empty()
            && self.by_text.is_empty()
            && self.answers.is_empty()
            && self.resolutions.is_empty())
    }

    /// What is decided about a request for approval.
    pub(crate) fn decision(&self, pending: &Pending) -> Option<&PlannedDecision> {
        self.decision_about(pending.question.as_ref()?)
    }

    fn decision_about(&self, request: &Payload) -> Option<&PlannedDecision> {
        let question: Value = request.decode().ok()?;
        let text = |field: &str| question.get(field).and_then(Value::as_str);
        let of_step = text("step").and_then(|step| self.by_step.get(step));
        of_step.or_else(|| self.by_text.get(text("what")?))
    }

    /// What an operator says about a call in doubt.
    pub(crate) fn resolution(&self, pending: &Pending) -> Option<Result<Resolution, PayloadError>> {
        let resolve = self.resolutions.get(pending.command.name())?;
        Some(resolve(pending.args.as_ref().unwrap_or(&Payload::null())))
    }

    /// What a question is answered with.
    pub(crate) fn answer(&self, pending: &Pending) -> Option<Result<Payload, PayloadError>> {
        self.answer_to(pending.question.as_ref()?, &pending.name)
    }

    fn answer_to(&self, request: &Payload, name: &str) -> Option<Result<Payload, PayloadError>> {
        let question: Value = request.decode().ok()?;
        self.answers.iter().find_map(|answer| answer(&question, name))
    }

    /// Whether somebody is planned to respond to this request, in time or not, or to be silent about it.
    pub(crate) fn plans(&self, request: &Payload, name: &str) -> bool {
        self.decision_about(request).is_some() || self.answer_to(request, name).is_some()
    }
}

impl fmt::Debug for PeoplePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_step.keys().chain(self.by_text.keys())).finish()
    }
}
