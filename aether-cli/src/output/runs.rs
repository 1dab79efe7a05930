//! Runs, their steps, events, ledger rows and streams.

use std::collections::BTreeMap;

use aether_core::engine::Hold;
use aether_core::payload::Payload;
use aether_core::store::ledger::LedgerEntry;
use aether_core::store::{DamagedRun, RunRecord};
use aether_core::view::{RunView, StepView};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::output::hold::Held;
use crate::output::waits::WaitReport;

/// A run in a list.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RunLine {
    /// Id of the run.
    pub(crate) id: String,
    /// Name of its workflow.
    pub(crate) workflow: String,
    /// Version of its workflow.
    pub(crate) version: u32,
    /// The code that records it.
    code: String,
    /// pending, running, waiting, completed, failed, rejected or cancelled.
    pub(crate) status: String,
    /// Whether it waits for code that it fits.
    parked: bool,
    /// When it was created.
    #[schemars(with = "String")]
    pub(crate) created_at: Timestamp,
    /// When its journal last changed.
    #[schemars(with = "String")]
    pub(crate) updated_at: Timestamp,
    /// Number of its events.
    pub(crate) events: u64,
    /// The worker that holds it.
    pub(crate) worker: Option<String>,
    /// When it is due.
    #[schemars(with = "Option<String>")]
    wake_at: Option<Timestamp>,
    /// The run that started it.
    pub(crate) parent: Option<String>,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Its queue.
    queue: Option<String>,
    /// Its key in the queue.
    queue_key: Option<String>,
    /// Why it does not move.
    pub(crate) hold: Option<Held>,
}

impl RunLine {
    pub(crate) fn of(run: &RunRecord, hold: Option<&Hold>) -> Self {
        let place = run.terms.queue.as_ref();
        Self {
            id: run.id.to_string(),
            workflow: run.workflow.clone(),
            version: run.version,
            code: run.code.to_string(),
            status: run.status.as_str().into(),
            parked: run.parked,
            created_at: run.created_at,
            updated_at: run.updated_at,
            events: run.next,
            worker: run.owner.as_ref().map(ToString::to_string),
            wake_at: run.wake_at,
            parent: run.parent.as_ref().map(ToString::to_string),
            labels: run.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            queue: place.map(|place| place.queue.clone()),
            queue_key: place.map(|place| place.key.clone()).filter(|key| !key.is_empty()),
            hold: hold.map(|hold| Held::of(&run.id, hold)),
        }
    }
}

/// `runs list`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RunList {
    /// The runs, newest first.
    pub(crate) runs: Vec<RunLine>,
    /// Where the next page begins: `--after`.
    pub(crate) next: Option<String>,
    /// Runs that are left out because their rows are damaged.
    pub(crate) damaged: Vec<Damaged>,
}

/// A run whose row cannot be read.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Damaged {
    /// What the row has for its id.
    id: String,
    /// What is wrong with the row.
    reason: String,
}

impl Damaged {
    pub(crate) fn of(run: DamagedRun) -> Self {
        let DamagedRun { id, reason } = run;
        Self { id, reason }
    }
}

/// `runs show`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RunReport {
    /// The run.
    pub(crate) run: RunLine,
    /// Input of its workflow.
    #[schemars(with = "Option<Value>")]
    pub(crate) input: Option<Payload>,
    /// What its workflow returned.
    #[schemars(with = "Option<Value>")]
    pub(crate) result: Option<Payload>,
    /// The error that it ended with.
    #[schemars(with = "Option<Value>")]
    pub(crate) error: Option<Payload>,
    /// Its commands, in the order in which they first appear: all, or those of the page that was asked for.
    pub(crate) steps: Vec<StepReport>,
    /// Number of the first of these commands, from 0.
    pub(crate) first_step: usize,
    /// Number of all its commands.
    pub(crate) step_count: usize,
    /// What it waits for.
    pub(crate) waits: Vec<WaitReport>,
    /// Steps that could not be undone.
    pub(crate) uncompensated: Vec<String>,
}

/// A command of a run.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StepReport {
    /// Id of the command.
    pub(crate) command: String,
    /// Effect class.
    pub(crate) class: String,
    /// Its status.
    pub(crate) status: String,
    /// Number of attempts that were started.
    pub(crate) attempts: u32,
    /// Whether it was started and nobody knows its outcome.
    pub(crate) in_doubt: bool,
    /// Its arguments.
    #[schemars(with = "Option<Value>")]
    args: Option<Payload>,
    /// Its arguments, as a person edited them.
    #[schemars(with = "Option<Value>")]
    edited: Option<Payload>,
    /// Its value.
    #[schemars(with = "Option<Value>")]
    pub(crate) result: Option<Payload>,
    /// Its error.
    #[schemars(with = "Option<Value>")]
    pub(crate) error: Option<Payload>,
    /// Where in the source, as `file:line`.
    site: Option<String>,
}

impl StepReport {
    fn of(step: &StepView) -> Self {
        Self {
            command: step.command.to_string(),
            class: step.class.as_str().into(),
            status: step.status.as_str().into(),
            attempts: step.attempts,
            in_doubt: step.in_doubt,
            args: step.input.clone(),
            edited: step.edited.clone(),
            result: step.result.clone().and_then(Result::ok),
            error: step.result.clone().and_then(Result::err),
            site: step.site.clone(),
        }
    }
}

impl RunReport {
    pub(crate) fn of(run: RunLine, view: &RunView, waits: Vec<WaitReport>) -> Self {
        Self {
            run,
            input: view.input.clone(),
            result: view.result.clone().and_then(Result::ok),
            error: view.result.clone().and_then(Result::err),
            steps: view.steps.iter().map(StepReport::of).collect(),
            first_step: view.first_step(),
            step_count: view.step_count(),
            waits,
            uncompensated: view.uncompensated.iter().map(ToString::to_string).collect(),
        }
    }
}

/// `runs history`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct History {
    /// The run.
    pub(crate) run: String,
    /// Its events, in order.
    pub(crate) events: Vec<EventReport>,
    /// Position behind the last event that is printed; `None` at the end of the journal.
    pub(crate) next: Option<u64>,
}

/// One event.
#[derive(Serialize, JsonSchema)]
pub(crate) struct EventReport {
    /// Number of the event in its journal, from 0.
    pub(crate) position: u64,
    /// When it was appended.
    #[schemars(with = "String")]
    pub(crate) at: Timestamp,
    /// Its kind.
    pub(crate) kind: String,
    /// The command that it is about.
    pub(crate) command: Option<String>,
    /// Its fields, as in the journal.
    #[schemars(with = "Value")]
    pub(crate) event: Payload,
}

/// `runs wait`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Ends {
    /// The runs, in the order in which they were named.
    pub(crate) runs: Vec<EndReport>,
    /// Whether the time was over before all had ended.
    pub(crate) timed_out: bool,
}

/// How a run ended.
#[derive(Serialize, JsonSchema)]
pub(crate) struct EndReport {
    /// The run.
    pub(crate) run: String,
    /// Its status.
    pub(crate) status: String,
    /// What its workflow returned.
    #[schemars(with = "Option<Value>")]
    pub(crate) result: Option<Payload>,
    /// Why it did not complete.
    pub(crate) message: Option<String>,
}

/// `ledger`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Ledger {
    /// The run.
    pub(crate) run: String,
    /// Its calls that may have changed the world, in the order in which they were granted.
    pub(crate) rows: Vec<LedgerRow>,
}

/// One row of the ledger.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LedgerRow {
    /// Its key.
    pub(crate) key: String,
    /// The command that makes the call.
    pub(crate) command: String,
    /// Name of the invocation in its run.
    invocation: String,
    /// Name of the tool.
    pub(crate) tool: String,
    /// Digest of the arguments.
    digest: String,
    /// Its business key.
    business_key: Option<String>,
    /// started, succeeded, failed, in_doubt or confirmed.
    pub(crate) status: String,
    /// Whether the outcome is final.
    committed: bool,
    /// What the call returned.
    #[schemars(with = "Option<Value>")]
    pub(crate) result: Option<Payload>,
    /// Its error.
    #[schemars(with = "Option<Value>")]
    pub(crate) error: Option<Payload>,
    /// When it was started.
    #[schemars(with = "String")]
    pub(crate) started_at: Timestamp,
    /// When its outcome was known.
    #[schemars(with = "Option<String>")]
    finished_at: Option<Timestamp>,
}

impl LedgerRow {
    pub(crate) fn of(row: LedgerEntry) -> Self {
        Self {
            key: row.key.to_string(),
            command: row.command.to_string(),
            invocation: row.invocation.to_string(),
            tool: row.tool,
            digest: row.digest.to_string(),
            business_key: row.business_key,
            status: row.status.as_str().into(),
            committed: row.committed,
            result: row.result,
            error: row.error,
            started_at: row.started_at,
            finished_at: row.finished_at,
        }
    }
}

/// `streams tail`: one of these a line.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum StreamLine {
    /// What a body sent.
    Chunk {
        /// Number of the chunk.
        seq: u64,
        /// The first number that it stands for.
        first: u64,
        /// The command whose body sent it.
        command: String,
        /// What was sent.
        #[schemars(with = "Vec<Value>")]
        items: Vec<Payload>,
    },
    /// What the command sent from number `from` on does not count any more.
    Restarted {
        /// Number of this event.
        seq: u64,
        /// The command.
        command: String,
        /// The first number that does not count.
        from: u64,
    },
    /// What the command has sent stays.
    Committed {
        /// Number of this event.
        seq: u64,
        /// The command.
        command: String,
    },
    /// The run has ended.
    Closed {
        /// The status that it ended with.
        status: String,
    },
}
