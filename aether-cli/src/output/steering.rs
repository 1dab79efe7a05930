//! What was asked of a run, and by whom; forks with their bills.

use aether_core::engine::ForkPlan;
use aether_core::journal::BilledCall;
use aether_core::payload::Payload;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Commands that steer runs: `start`, `signal`, `runs cancel`, `runs terminate`, and the decisions of `inbox`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Steered {
    /// What was done to each run, in the order in which they were named.
    pub(crate) done: Vec<Deed>,
}

/// What was done to one run.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Deed {
    /// started, triggered, signalled, cancel_requested, terminate_requested, approved, edited, rejected, answered, resolved, confirmed;
    /// `duplicate` where the same had been asked before.
    pub(crate) action: String,
    /// The run.
    pub(crate) run: String,
    /// The wait that was decided about.
    pub(crate) command: Option<String>,
    /// Who is recorded.
    pub(crate) actor: Option<String>,
    /// Why it takes effect later, where it does.
    pub(crate) note: Option<String>,
}

/// `runs fork` and `runs retry`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ForkOutcome {
    /// The run that is forked.
    pub(crate) origin: String,
    /// The fork; `None` where nothing was started.
    pub(crate) fork: Option<String>,
    /// Position of the cut in the origin's journal.
    pub(crate) position: u64,
    /// Digest of the cut and the bill: `runs fork --digest` binds to it.
    pub(crate) digest: String,
    /// The calls behind the cut that may have changed the world.
    pub(crate) calls: Vec<CallReport>,
    /// How many of them need a decision.
    pub(crate) undecided: usize,
}

/// `runs retry` of more than one run.
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Retried {
    /// The retries, with their bills.
    pub(crate) forks: Vec<ForkOutcome>,
    /// The runs that were not retried.
    pub(crate) refused: Vec<Refused>,
}

/// A run that was not retried.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Refused {
    /// The run.
    pub(crate) run: String,
    /// Why.
    pub(crate) reason: String,
}

/// A call behind the cut.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CallReport {
    /// The command that made it.
    pub(crate) command: String,
    /// Effect class.
    pub(crate) class: String,
    /// What became of it.
    pub(crate) outcome: String,
    /// Whether its step declares that it cannot be repeated.
    pub(crate) irreversible: bool,
    /// What is decided about it: keep, again or undo first.
    pub(crate) decision: Option<String>,
    /// Whether a decision is needed.
    pub(crate) needs_decision: bool,
    /// Whether its outcome can be kept.
    can_keep: bool,
    /// Whether it can be undone first.
    can_undo: bool,
    /// Its arguments.
    #[schemars(with = "Option<Value>")]
    pub(crate) args: Option<Payload>,
    /// The child run that it started.
    child: Option<String>,
}

impl CallReport {
    fn of(call: &BilledCall) -> Self {
        Self {
            command: call.command.to_string(),
            class: call.class.as_str().into(),
            outcome: call.outcome.as_str().into(),
            irreversible: call.irreversible,
            decision: call.decision.map(|decision| decision.to_string()),
            needs_decision: call.needs_decision(),
            can_keep: call.can_keep(),
            can_undo: call.can_undo(),
            args: call.args.clone(),
            child: call.child.as_ref().map(ToString::to_string),
        }
    }
}

impl ForkOutcome {
    pub(crate) fn of(plan: &ForkPlan) -> Self {
        Self {
            origin: plan.origin().to_string(),
            fork: None,
            position: plan.position(),
            digest: plan.shown(),
            calls: plan.calls().iter().map(CallReport::of).collect(),
            undecided: plan.undecided().count(),
        }
    }
}
