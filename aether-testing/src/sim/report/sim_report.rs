//! What a simulation found: the result, the journal, the calls of bodies.

use std::fmt;
use std::time::Duration;

use aether_core::engine::{RunError, Verified, VerifyError};
use aether_core::id::RunId;
use aether_core::journal::event::Event;
use aether_core::step::Step;
use aether_core::store::ledger::LedgerEntry;
use aether_core::view::{EffectRecord, RunView};
use aether_core::workflow::Workflow;
use aether_effects::llm::ChatRequest;
use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::call::CallRecord;
use super::journal::journal_snapshot;
use super::streams::SimStream;
use crate::stores::stream_watch::ReadStreams;
use crate::trap::hit::TrapHit;

/// What a simulated run did: its result, its journal, the calls of bodies, and how much virtual time it took. Its
/// `assert_..` methods fail at the line that calls them, and show what was found.
///
/// ```
/// # use aether::prelude::*;
/// # use aether::view::Status;
/// # use aether_testing::Sim;
/// # use std::time::Duration;
/// # #[step(effect = "tool")] async fn send(cx: &mut StepCx, to: String) -> Result<u32> { unreachable!() }
/// # #[workflow] async fn remind(cx: &mut Cx) -> Result<u32> {
/// #     cx.sleep(Duration::from_secs(3600)).await;
/// #     Ok(send(cx, "ann".into()).await?)
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let report = Sim::new::<remind>().stub::<send>(|_| Ok(1)).run(()).await;
/// assert_eq!(report.assert_completed(), &1);
/// report.assert_status(Status::Completed);
/// report.assert_effects(&["sleep", "send"]);
/// report.assert_calls::<send>(1);
/// report.assert_called_with::<send>(&["ann".into()]);
/// report.assert_in_doubt::<send>(0);
/// report.assert_took(Duration::from_secs(3600));
/// assert!(report.journal().contains("run_completed result=1"));
/// # }
/// ```
pub struct SimReport<W: Workflow> {
    /// The value or the error that the run ended with.
    pub result: Result<W::Output, RunError<W::Error>>,
    /// The state of the run as its journal folds to it: status, steps, effects.
    pub view: RunView,
    /// The journal of the run, event by event, with large values put back.
    pub events: Vec<Event>,
    /// The ledger rows of the run, in the order in which they were started.
    pub ledger: Vec<LedgerEntry>,
    /// The outcome of replaying the journal without executing anything; `None` where the run has not ended.
    pub verified: Option<Result<Verified, VerifyError>>,
    /// The same of every other run that the case made and that has ended: children, and what the test started.
    pub others: Vec<(RunId, Result<Verified, VerifyError>)>,
    /// Calls of bodies, stubbed or not, in order; those of child runs too.
    pub log: Vec<CallRecord>,
    /// Calls of workflow code that the trap caught, where it only warns.
    pub trapped: Vec<TrapHit>,
    /// The virtual time at which the simulation began.
    pub begun: Timestamp,
    /// How much virtual time passed from start to end.
    pub slept: Duration,
    /// Number of writes to the store: creations of runs, and appends.
    pub writes: u64,
    /// Number of writes to the effect store.
    pub effects: u64,
    /// Number of times the process died.
    pub crashes: usize,
    /// What was sent to streams, of all runs.
    pub(crate) streams: ReadStreams,
}

impl<W: Workflow> SimReport<W> {
    /// Every recorded effect of the run, in order: steps, and draws such as `now`.
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

    /// The stream `name` of the run: what bodies, stubs and scripted models sent to it. One that nobody sent anything to is
    /// empty. Example at [`SimStream`].
    ///
    /// # Panics
    /// When what was sent is not of type `T`.
    #[track_caller]
    pub fn stream<T: DeserializeOwned>(&self, name: &str) -> SimStream<T> {
        let (run, status) = (self.view.run.clone(), self.view.status);
        let items = self.streams.get(&(run, name.to_owned())).map(Vec::as_slice).unwrap_or_default();
        match SimStream::of(items, status.is_terminal().then_some(status)) {
            Ok(stream) => stream,
            Err(error) => panic!("an item of stream `{name}`: {error}"),
        }
    }

    /// The journal as text for snapshots, one event a line: its kind, its command, its other fields. Times count
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
