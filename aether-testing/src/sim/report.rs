//! What a simulation found: the result, the journal, the calls of bodies, and assertions that say what they saw.

use std::fmt::{self, Write as _};
use std::time::Duration;

use aether_core::engine::{RunError, Verified, VerifyError};
use aether_core::event::Event;
use aether_core::ledger::LedgerEntry;
use aether_core::step::{Step, Workflow};
use aether_core::view::{EffectRecord, RunView};
use aether_effects::llm::ChatRequest;

use super::journal::{difference, journal_text};
use super::stage::CallRecord;
use crate::trap::TrapHit;

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

    /// How often the body of `S` was called, failed attempts included.
    pub fn calls<S: Step>(&self) -> usize {
        self.log.iter().filter(|call| call.path == S::DEF.path).count()
    }

    /// The arguments of every call of `S`, in order.
    ///
    /// # Panics
    /// When recorded arguments do not fit the step's signature.
    #[track_caller]
    pub fn args<S: Step>(&self) -> Vec<S::Args> {
        let calls = self.log.iter().filter(|call| call.path == S::DEF.path);
        calls
            .map(|call| match S::decode(&call.args) {
                Ok(args) => args,
                Err(error) => panic!("arguments of `{}`: {error}", call.command),
            })
            .collect()
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

    /// The journal as text for snapshots, one event a line. What changes from build to build (fingerprints, digests,
    /// seeds, workers, source lines) is left out.
    pub fn journal(&self) -> String {
        journal_text(&self.events)
    }

    /// Asserts that the run ended with a value, and returns it.
    ///
    /// # Panics
    /// When it did not; shows the error and the journal.
    #[track_caller]
    pub fn assert_completed(&self) -> &W::Output {
        match &self.result {
            Ok(value) => value,
            Err(error) => panic!("the run did not complete: {error}\njournal:\n{}", self.journal()),
        }
    }

    /// Asserts that the recorded effects have these names, in this order: steps, and draws such as `now`.
    ///
    /// # Panics
    /// When they have not; shows the difference.
    #[track_caller]
    pub fn assert_effects(&self, expected: &[&str]) {
        let found: Vec<&str> = self.view.effects.iter().map(|effect| effect.command.name()).collect();
        if found != expected {
            let mut text = String::from("the run has other effects (- expected, + found):\n");
            for (sign, name) in difference(expected, &found) {
                let _writing_to_a_string = writeln!(text, "  {sign} {name}");
            }
            panic!("{text}");
        }
    }

    /// Asserts how often the body of `S` was called.
    ///
    /// # Panics
    /// When it was called more or less often; lists the calls.
    #[track_caller]
    pub fn assert_calls<S: Step>(&self, expected: usize) {
        let found = self.calls::<S>();
        if found != expected {
            let mut text = format!("`{}` was called {found} times, not {expected}:\n", S::DEF.name);
            for call in self.log.iter().filter(|call| call.path == S::DEF.path) {
                let _writing_to_a_string =
                    writeln!(text, "  {} attempt {} with {:?}", call.command, call.attempt, call.args);
            }
            panic!("{text}");
        }
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
