//! The three levels of a view: results, transitions, requests; and the trace, which shows them to engineers.
//!
//! Promise: these are copies of what a view holds, as JSON or as text; reading one executes nothing.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::view::execution::{ENGINE, EventTime, Execution, Lifecycle, Purpose, Transition};
use crate::view::retrying::Retrying;
use crate::view::run::{RunView, StepView};
use crate::view::text::OneLine;
use crate::vocabulary::contract::{Constraints, Status, Trigger};
use crate::vocabulary::error_text::error_text;
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId, Position, RunId};
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::Payload;

/// Result level: the status and result of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// Command id of the step.
    pub step: CommandId,
    /// What kind of contact with the world it is.
    pub kind: EffectClass,
    /// Its current status.
    pub status: Status,
    /// Its outcome, once it has one.
    pub outcome: Option<Outcome>,
    /// Whether it is known to have changed the world.
    pub world_changed: bool,
    /// Whether it was started and its outcome is unknown.
    pub in_doubt: bool,
    /// Which attempt comes next and why, while it is being tried again.
    #[serde(default)]
    pub retrying: Option<Retrying>,
    /// Its value, or its step error.
    pub result: Option<Result<Payload, Payload>>,
}

/// Transition level: one entry of a trace. A contract that was made, or a status that changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceEntry {
    /// Time and event of the entry.
    pub moment: EventTime,
    /// The step; absent for the run itself.
    pub step: Option<CommandId>,
    /// The contract of the execution; absent for the run itself.
    pub contract: Option<InvocationId>,
    /// Whether the execution makes the call or asks for consent to it; absent for the run itself.
    pub purpose: Option<Purpose>,
    /// The status before; absent where the contract was made.
    pub from: Option<Status>,
    /// The status after.
    pub to: Status,
    /// What caused the transition; absent where the contract was made.
    pub trigger: Option<Trigger>,
    /// Who caused it: the engine or a worker, a person, a policy, the clock.
    pub actor: String,
    /// Whether a completed execution must not be repeated.
    pub irreversible: bool,
    /// Whether this transition records that the world was changed.
    pub world_changed: bool,
    /// Why, where an execution failed or was refused.
    pub error: Option<String>,
}

impl TraceEntry {
    /// The entry as one word: `create_contract:<contract>`, or `transition:<contract>:<from>→<to>`; for the run
    /// itself, its contract is `run`.
    pub fn action(&self) -> String {
        let contract = self.contract.as_ref().map_or("run", InvocationId::as_str);
        match self.from {
            None => format!("create_contract:{contract}"),
            Some(from) => format!("transition:{contract}:{from}→{}", self.to),
        }
    }
}

impl fmt::Display for TraceEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.moment.at, self.action())?;
        match self.trigger {
            Some(trigger) => write!(f, "  {} by {}", trigger.as_str(), OneLine(&self.actor))?,
            None => write!(f, "  by {}", OneLine(&self.actor))?,
        }
        let marks = [(self.irreversible, "irreversible"), (self.world_changed, "world changed")];
        let marks: Vec<_> = marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark).collect();
        if !marks.is_empty() {
            write!(f, "  [{}]", marks.join(", "))?;
        }
        self.error.as_ref().map_or(Ok(()), |error| write!(f, "  {}", OneLine(error)))
    }
}

/// Request level: what one execution was asked to do, and under which constraints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Id of the execution and of its contract.
    pub contract: InvocationId,
    /// Whether the execution makes the call or asks for consent to it.
    pub purpose: Purpose,
    /// What was asked for.
    pub action: Action,
    /// What it may do: its timeout, its attempts, whether it is irreversible.
    pub constraints: Constraints,
    /// The idempotency key, for world-changing executions that were started.
    pub key: Option<IdempotencyKey>,
    /// When the contract was made.
    pub created_at: Timestamp,
}

/// What an execution is asked to do. It holds nothing of how that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// Command id of the step.
    pub step: CommandId,
    /// What kind of contact with the world it is.
    pub kind: EffectClass,
    /// Its arguments, as the workflow asked for them.
    pub input: Option<Payload>,
    /// Its arguments, as a person edited them before agreeing to the call.
    #[serde(default)]
    pub edited: Option<Payload>,
    /// Where in the source it was awaited.
    pub site: Option<String>,
}

/// All levels of one run, with nothing left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// Id of the run.
    pub run: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// Version of the workflow's definition when it was created.
    pub version: u32,
    /// Its current status.
    pub status: Status,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
    /// Position of the next event: the number of events in all generations.
    pub position: Position,
    /// Input of its workflow.
    pub input: Option<Payload>,
    /// Result or error, once it ended.
    pub result: Option<Result<Payload, Payload>>,
    /// Result level: every step.
    pub results: Vec<StepResult>,
    /// Transition level: every contract and every change of a status.
    pub transitions: Vec<TraceEntry>,
    /// Request level: every execution.
    pub requests: Vec<Request>,
    /// How many older transitions were dropped because one execution had too many.
    pub dropped: u32,
    /// Transitions that the table does not have; empty unless a journal was tampered with.
    pub illegal: Vec<String>,
}

/// The transitions of one run as an engineer reads them. Displays as one line an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Id of the run.
    pub run: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// Its current status.
    pub status: Status,
    /// Its transitions, in order.
    pub entries: Vec<TraceEntry>,
    /// How many older transitions were dropped because one execution had too many.
    pub dropped: u32,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "run {} of workflow `{}`: {}", self.run, self.workflow, self.status)?;
        self.entries.iter().try_for_each(|entry| writeln!(f, "  {entry}"))?;
        match self.dropped {
            0 => Ok(()),
            dropped => writeln!(f, "  ({dropped} older transitions were dropped)"),
        }
    }
}

impl RunView {
    /// Result level: every step, in the order in which they first appear.
    ///
    /// ```
    /// # use aether_core::view::RunView;
    /// # fn show(view: &RunView) {
    /// for result in view.results() {
    ///     println!("{} is {}", result.step, result.status);
    /// }
    /// # }
    /// ```
    pub fn results(&self) -> Vec<StepResult> {
        let result = |step: &StepView| StepResult {
            step: step.command.clone(),
            kind: step.class,
            status: step.status,
            outcome: step.outcome,
            world_changed: step.world_changed(),
            in_doubt: step.in_doubt,
            retrying: step.retrying(),
            result: step.result.clone(),
        };
        self.steps.iter().map(result).collect()
    }

    /// Transition level: the contracts that were made and every change of a status, in the order of the journal.
    ///
    /// ```
    /// # use aether_core::view::RunView;
    /// # fn show(view: &RunView) {
    /// for entry in view.transitions() {
    ///     println!("{entry}");
    /// }
    /// # }
    /// ```
    pub fn transitions(&self) -> Vec<TraceEntry> {
        let run = self.lifecycle.transitions.iter().map(|moved| TraceEntry {
            moment: moved.moment,
            step: None,
            contract: None,
            purpose: None,
            from: Some(moved.from),
            to: moved.to,
            trigger: Some(moved.trigger),
            actor: moved.actor.clone(),
            irreversible: false,
            world_changed: false,
            error: self.error_of_run().filter(|_| moved.to == Status::Failed),
        });
        let executions = self.executions.iter().flat_map(|execution| self.entries_of(execution));
        let mut entries: Vec<_> = run.chain(executions).collect();
        // The event that ends a run first closes what was open in it.
        entries.sort_by_key(|entry| (entry.moment.position, entry.contract.is_none()));
        entries
    }

    fn error_of_run(&self) -> Option<String> {
        self.result.as_ref().and_then(|result| result.as_ref().err()).map(error_text)
    }

    fn entries_of(&self, execution: &Execution) -> Vec<TraceEntry> {
        let entry = |moment: EventTime, moved: Option<&Transition>| {
            let ended = moved.filter(|moved| moved.to.is_terminal());
            let refused = ended.filter(|moved| moved.to != Status::Completed);
            TraceEntry {
                moment,
                step: Some(execution.command.clone()),
                contract: Some(execution.id.clone()),
                purpose: Some(execution.purpose),
                from: moved.map(|moved| moved.from),
                to: moved.map_or(Status::Pending, |moved| moved.to),
                trigger: moved.map(|moved| moved.trigger),
                actor: moved.map_or_else(|| ENGINE.to_owned(), |moved| moved.actor.clone()),
                irreversible: execution.constraints.irreversible,
                world_changed: execution.world_changed && ended.is_some(),
                error: refused.and_then(|_| self.error_of(execution)),
            }
        };
        let created = entry(execution.lifecycle.created, None);
        let moves = execution.lifecycle.transitions.iter().map(|moved| entry(moved.moment, Some(moved)));
        std::iter::once(created).chain(moves).collect()
    }

    /// Why an execution did not succeed.
    pub(super) fn error_of(&self, execution: &Execution) -> Option<String> {
        let of_step = || match &self.step(&execution.command)?.result {
            Some(Err(error)) if execution.purpose == Purpose::Call => Some(error_text(error)),
            _ => None,
        };
        execution.error.clone().or_else(of_step)
    }

    /// Request level: what every execution was asked to do.
    ///
    /// ```
    /// # use aether_core::view::RunView;
    /// # fn show(view: &RunView) {
    /// for request in view.requests() {
    ///     println!("{} of {}", request.contract, request.action.step);
    /// }
    /// # }
    /// ```
    pub fn requests(&self) -> Vec<Request> {
        let request = |execution: &Execution| {
            let step = self.step(&execution.command);
            Request {
                contract: execution.id.clone(),
                purpose: execution.purpose,
                action: Action {
                    step: execution.command.clone(),
                    kind: execution.class,
                    input: step.and_then(|step| step.input.clone()),
                    edited: step.and_then(|step| step.edited.clone()),
                    site: step.and_then(|step| step.site.clone()),
                },
                constraints: execution.constraints.clone(),
                key: execution.key.clone(),
                created_at: execution.lifecycle.created.at,
            }
        };
        self.executions.iter().map(request).collect()
    }

    /// All levels, with nothing left out: for auditors. For people who use an agent there is [`RunView::for_people`].
    ///
    /// ```
    /// # use aether_core::view::RunView;
    /// # fn show(view: &RunView) {
    /// let report = serde_json::to_string_pretty(&view.audit());
    /// # }
    /// ```
    pub fn audit(&self) -> Audit {
        Audit {
            run: self.run.clone(),
            workflow: self.workflow.clone(),
            version: self.version,
            status: self.status,
            created_at: self.lifecycle.created.at,
            updated_at: self.lifecycle.updated_at,
            position: self.position,
            input: self.input.clone(),
            result: self.result.clone(),
            results: self.results(),
            transitions: self.transitions(),
            requests: self.requests(),
            dropped: self.dropped(),
            illegal: self.illegal.clone(),
        }
    }

    /// The transitions as an engineer reads them.
    ///
    /// ```
    /// # use aether_core::journal::event::{Event, TimeRecorded};
    /// # use aether_core::view::RunView;
    /// # use aether_core::id::{CommandId, RunId};
    /// let command = CommandId::new("0", "now");
    /// let event: Event = TimeRecorded { command, value: jiff::Timestamp::UNIX_EPOCH }.into();
    /// let view = RunView::fold(RunId::new("order-42").unwrap(), [event]);
    /// assert!(view.trace().to_string().contains("transition:0:now#0:running→completed  succeed by engine"));
    /// ```
    pub fn trace(&self) -> Trace {
        Trace {
            run: self.run.clone(),
            workflow: self.workflow.clone(),
            status: self.status,
            entries: self.transitions(),
            dropped: self.dropped(),
        }
    }

    fn dropped(&self) -> u32 {
        let of_executions = self.executions.iter().map(|execution| &execution.lifecycle);
        of_executions.chain([&self.lifecycle]).map(|lifecycle: &Lifecycle| lifecycle.dropped).sum()
    }
}
