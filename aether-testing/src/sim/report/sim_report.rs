//! What a simulation found: the result, the journal, the calls of bodies.

use std::fmt;
use std::time::Duration;

use aether_core::engine::{RunError, Verified, VerifyError};
use aether_core::event::Event;
use aether_core::ledger::LedgerEntry;
use aether_core::step::{Step, Workflow};
use aether_core::view::{EffectRecord, RunView};
use aether_effects::llm::ChatRequest;
use jiff::Timestamp;

use super::call::CallRecord;
use super::journal::journal_snapshot;
use crate::trap::hit::TrapHit;

/// What a simulated run did.
pub struct SimReport<W: Workflow> {
    /// How it ended.
    pub result: Result<W::Output, RunError<W::Error>>,
    /// Its journal, folded.
    pub view: RunView,
    /// Its journal.
    pub events: Vec<Event>,
    /// Its ledger rows, in the order in which they were started.
    pub ledger: Vec<LedgerEntry>,
    /// What replaying the journal without executing anything says; `None` where the run has not ended.
    pub verified: Option<Result<Verified, VerifyError>>,
    /// Calls of bodies, stubbed or not, in order; those of child runs too.
    pub log: Vec<CallRecord>,
    /// Calls of workflow code that the trap caught, where it only warns.
    pub trapped: Vec<TrapHit>,
    /// When the simulation began.
    pub begun: Timestamp,
    /// How much virtual time passed from start to end.
    pub slept: Duration,
    /// Number of writes: creations of runs, and appends.
    pub writes: u64,
    /// Number of writes to the effect store.
    pub effects: u64,
    /// Number of times the process died.
    pub crashes: usize,
}

impl<W: Workflow> SimReport<W> {
    /// Everything that crossed the border of the run, in order.
    pub fn effects(&self) -> Vec<EffectRecord> {
        self.view.effects.clone()
    }

    /// The arguments of every call of the body of `S`, in order, failed attempts included.
    ///
    /// # Panics
    /// When recorded arguments do not fit the step's signature.
    #[track_caller]
    pub fn calls<S: Step>(&self) -> Vec<S::Args> {
        let mut calls = Vec::new();
        for call in self.log_of::<S>() {
            match S::decode(&call.args) {
                Ok(args) => calls.push(args),
                Err(error) => panic!("arguments of `{}`: {error}", call.command),
            }
        }
        calls
    }

    /// Every call of the body of `S`, in order.
    pub(super) fn log_of<S: Step>(&self) -> impl Iterator<Item = &CallRecord> {
        self.log.iter().filter(|call| call.path == S::DEF.path)
    }

    /// How often the effect named `name` (one that is not a step) was performed.
    pub fn effect_calls(&self, name: &str) -> usize {
        self.log.iter().filter(|call| call.path == name).count()
    }

    /// The questions of the call `call` to a model, in order.
    pub fn model_requests(&self, call: &str) -> Vec<ChatRequest> {
        let name = format!("llm.{call}");
        let asked = self.log.iter().filter(|call| call.path == name);
        asked.filter_map(|call| call.args.decode().ok()).collect()
    }

    /// The journal as text for snapshots, one event a line: its kind, its command, its other fields. Times are told
    /// from the simulation's beginning, UUIDs are numbered, and what changes from build to build (fingerprints,
    /// digests, seeds, workers, source lines) is left out.
    pub fn journal(&self) -> String {
        journal_snapshot(&self.events, self.begun)
    }
}

impl<W: Workflow> fmt::Debug for SimReport<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimReport")
            .field("workflow", &W::DEF.name)
            .field("status", &self.view.status)
            .field("result", &self.view.result)
            .field("slept", &self.slept)
            .field("writes", &self.writes)
            .field("crashes", &self.crashes)
            .finish_non_exhaustive()
    }
}
