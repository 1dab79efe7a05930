//! A whole simulation: processes one after another, each on what the last one left in the store.
//!
//! Promise: a simulation runs on a thread and a clock of its own; the next process begins when the last one has died, and
//! takes a run that this one was advancing a second later.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use aether_core::id::RunId;
use aether_core::journal::event::Event;
use aether_core::payload::Payload;
use aether_core::store::memory::MemoryStore;
use aether_core::store::{Append, Store};
use aether_core::workflow::Workflow;
use jiff::Timestamp;

use super::audit::audit;
use super::audit_streams::{ModelTexts, audit_streams};
use super::doubts::{Doubt, doubts, journal_of, left_open};
use super::engine::runtime;
use super::process::{Passed, Process, ProcessEnd};
use super::unanswered::refuse_unanswered;
use crate::sim::dispatch::dispatcher::StubDispatcher;
use crate::sim::report::error::SimError;
use crate::sim::report::sim_report::SimReport;
use crate::sim::settings::Settings;
use crate::sim::world::Entropy;
use crate::stores::crash::CrashStore;
use crate::stores::crash_point::{Boundary, CrashPoint};
use crate::stores::stream_watch::{ReadStreams, StreamWatch};
use crate::trap::watch::Armed;

/// How long a process that died must have been silent before the next one takes its runs: all the virtual time that a crash
/// costs, so that few time limits end because of it.
const SILENCE: Duration = Duration::from_secs(1);

/// What a simulation left.
pub(crate) struct Simulated<W: Workflow> {
    pub(crate) report: SimReport<W>,
    /// Begun and not decided when a process died.
    pub(crate) left: BTreeSet<Doubt>,
    /// In doubt at the end.
    pub(crate) doubts: BTreeSet<Doubt>,
    /// The journals, at the end, of the runs that have or had a call in doubt.
    pub(crate) journals: BTreeMap<RunId, Vec<Event>>,
    /// What it was kept in.
    pub(crate) store: Arc<dyn Store>,
    /// What the first process passed until the run's end.
    pub(crate) boundaries: Vec<Boundary>,
    /// How long each suspension lasted in the first process.
    pub(crate) suspensions: Vec<Duration>,
    /// The run's journal as the first process left it, where it died.
    pub(crate) before: Option<Vec<Event>>,
    /// What models told streams of answers that were recorded.
    pub(crate) model_texts: ModelTexts,
    /// What was wrong with what a process left in the store.
    pub(crate) broken: Option<String>,
}

impl<W: Workflow> Simulated<W> {
    /// What stands in the journal of `run`, which has or had a call in doubt.
    pub(crate) fn events_of(&self, run: &RunId) -> &[Event] {
        self.journals.get(run).map_or(&[], Vec::as_slice)
    }
}

/// Runs a whole simulation on this thread; see [`simulate`].
pub(crate) fn run<W: Workflow>(settings: &Settings, input: &Payload) -> Result<SimReport<W>, SimError> {
    simulate::<W>(settings, input).map(|done| done.report)
}

/// Runs a whole simulation on this thread, which must not belong to a runtime.
pub(crate) fn simulate<W: Workflow>(settings: &Settings, input: &Payload) -> Result<Simulated<W>, SimError> {
    if let Some(prepare) = &settings.prepare {
        prepare();
    }
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let store = settings.wrap.as_ref().map_or(Arc::clone(&memory), |wrap| wrap(memory));
    let dispatcher = Arc::new(StubDispatcher::new(settings));
    let armed = arm(settings, &dispatcher);
    let mut simulation = Simulation::new(settings, store);
    let mut points = settings.crashes.iter().copied();
    for number in 1.. {
        let process = Process {
            settings,
            input,
            at: simulation.at,
            number,
            store: Arc::new(simulation.crash_store(points.next())),
            dispatcher: Arc::clone(&dispatcher),
            entropy: simulation.entropy.clone(),
            workflow: PhantomData,
        };
        let runtime = runtime()?;
        let end = runtime.block_on(process.run_to_end())?;
        runtime.block_on(simulation.count(&process.store));
        match end {
            ProcessEnd::Crashed(when) => {
                runtime.block_on(simulation.crashed(&process.store, when))?;
            }
            ProcessEnd::ShutDown(when) => runtime.block_on(simulation.shut_down(when))?,
            ProcessEnd::Ended(report, passed) => {
                let report = SimReport { trapped: armed.hits(), ..*report };
                return runtime.block_on(simulation.ended(report, passed));
            }
        }
    }
    Err(SimError::Broken("it had more processes than can be counted".into()))
}

/// Sets the trap on this thread; a strict one ends the simulation at its first hit.
pub(crate) fn arm(settings: &Settings, dispatcher: &Arc<StubDispatcher>) -> Armed {
    let dispatcher = Arc::clone(dispatcher);
    Armed::set(settings.trap.clone(), settings.skew, move |hit| {
        dispatcher.give_up(SimError::Trapped(Box::new(hit)));
    })
}

/// What a simulation carries from process to process.
struct Simulation<'a> {
    settings: &'a Settings,
    store: Arc<dyn Store>,
    /// When the next process begins.
    at: Timestamp,
    entropy: Entropy,
    /// A write that the last process kept back.
    late: Option<Append>,
    crashes: usize,
    writes: u64,
    effects: u64,
    left: BTreeSet<Doubt>,
    /// What the first process passed.
    passed: Option<Passed>,
    before: Option<Vec<Event>>,
    watch: Arc<StreamWatch>,
    broken: Option<String>,
}

impl<'a> Simulation<'a> {
    fn new(settings: &'a Settings, store: Arc<dyn Store>) -> Self {
        Self {
            settings,
            store,
            at: settings.at,
            entropy: Entropy::new(settings.seed),
            late: None,
            crashes: 0,
            writes: 0,
            effects: 0,
            left: BTreeSet::new(),
            passed: None,
            before: None,
            watch: Arc::default(),
            broken: None,
        }
    }

    /// The store that dies with the next process.
    fn crash_store(&mut self, point: Option<CrashPoint>) -> CrashStore {
        CrashStore::new(Arc::clone(&self.store), point)
            .with_late(self.late.take())
            .watched_by(Arc::clone(&self.watch))
    }

    /// Adds up what a process wrote, and takes what it kept back.
    async fn count(&mut self, store: &CrashStore) {
        self.writes += store.writes();
        self.effects += store.effects();
        self.late = store.take_stalled();
        if let Some(Ok(())) = store.late_answer().await {
            self.broken =
                Some("a write of a process that had lost the run to another one took effect".into());
        }
    }

    /// Looks at what a process left that died. The next one begins at once.
    async fn crashed(&mut self, store: &CrashStore, when: Timestamp) -> Result<(), SimError> {
        self.crashes += 1;
        self.left.append(&mut left_open(&*self.store).await?);
        let before = journal_of(&*self.store, &self.settings.run_id()?).await.unwrap_or_default();
        if before.is_empty() {
            // Nothing was kept: the next process draws what this one drew.
            self.entropy = Entropy::new(self.settings.seed);
        }
        self.before = Some(before);
        self.audit().await?;
        self.passed.get_or_insert_with(|| Passed::by(store));
        for dead in self.store.workers().await? {
            self.store.renew(&dead.id, SILENCE, Vec::new()).await?;
        }
        self.at = when;
        Ok(())
    }

    /// Looks at what a process left that was shut down: its lease is over already.
    async fn shut_down(&mut self, when: Timestamp) -> Result<(), SimError> {
        self.audit().await?;
        self.at = when;
        Ok(())
    }

    /// What is left when the run has ended. `last` is what the last process passed.
    async fn ended<W: Workflow>(
        mut self,
        report: SimReport<W>,
        last: Passed,
    ) -> Result<Simulated<W>, SimError> {
        let doubts = doubts(&*self.store).await?;
        let mut journals = BTreeMap::new();
        for Doubt { run, .. } in doubts.union(&self.left) {
            if !journals.contains_key(run) {
                journals.insert(run.clone(), journal_of(&*self.store, run).await?);
            }
        }
        let (streams, model_texts) = self.audit().await?;
        refuse_unanswered(self.settings, &*self.store, &report.view.run, &report.events).await?;
        let Self { store, crashes, writes, effects, left, passed, before, broken, .. } = self;
        let report = SimReport { writes, effects, crashes, streams, ..report };
        let Passed { boundaries, suspensions } = passed.unwrap_or(last);
        Ok(Simulated {
            report,
            left,
            doubts,
            journals,
            store,
            boundaries,
            suspensions,
            before,
            model_texts,
            broken,
        })
    }

    /// Looks at what is in the store; the first thing that is wrong counts. What was sent to streams so far, and what of it
    /// is of models and was recorded.
    async fn audit(&mut self) -> Result<(ReadStreams, ModelTexts), SimError> {
        let runs = audit(&*self.store).await?;
        let read = self.watch.look_at_all(&*self.store).await?;
        let (texts, streams) = audit_streams(&*self.store, &read).await?;
        self.broken = self.broken.take().or(runs).or(streams);
        Ok((read, texts))
    }
}
