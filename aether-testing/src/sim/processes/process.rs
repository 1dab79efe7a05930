//! One process of a simulation: an engine from its start to the run's end or to its crash.
//!
//! Promise: a process writes to the store of the simulation and to nothing else; once it has died it writes nothing more.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use aether_core::deps::Deps;
use aether_core::engine::{Engine, EngineBuilder, RunError, RunHandle, Verified, VerifyError};
use aether_core::environment::Environment as _;
use aether_core::id::RunId;
use aether_core::payload::Payload;
use aether_core::run::Fault;
use aether_core::store::{RunFilter, Store, WaitFilter};
use aether_core::waiting::Waiting;
use aether_core::workflow::Workflow;
use aether_effects::llm::Models;
use jiff::Timestamp;

use super::doubts::journal_of;
use super::engine::verifying;
use crate::sim::dispatch::dispatcher::StubDispatcher;
use crate::sim::dispatch::model_client::scripted;
use crate::sim::live::Live;
use crate::sim::people::spawn::spawn_people;
use crate::sim::report::advice::{for_signals, for_wait};
use crate::sim::report::error::SimError;
use crate::sim::report::sim_report::SimReport;
use crate::sim::schedule::paced_store::PacedStore;
use crate::sim::schedule::paced_world::PacedWorld;
use crate::sim::settings::Settings;
use crate::sim::world::{Entropy, SimEnvironment};
use crate::stores::crash::CrashStore;
use crate::stores::crash_point::Boundary;
use crate::stores::stream_watch::ReadStreams;
use crate::trap::watch::LastCommands;

/// How long a claim lasts while its process lives: seldom renewed, so that a wait of months does not take minutes.
const LEASE: Duration = Duration::from_secs(3600);
/// Half of this is how long a run waits for something that has no time of its own before its process dies.
const WAIT: Duration = Duration::from_secs(2);
/// How often the engine looks for work, and readers of streams for items, that they were not notified of.
const POLL: Duration = Duration::from_secs(3600);

/// How long a shutdown that a schedule asks for waits for bodies.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// How long a process lives on after its engine was shut down, to see that nothing moves any more.
const AFTERWARDS: Duration = Duration::from_secs(10);

/// How a process ended.
pub(super) enum ProcessEnd<W: Workflow> {
    Ended(Box<SimReport<W>>, Passed),
    Crashed(Timestamp),
    /// It was asked to shut down, and did.
    ShutDown(Timestamp),
}

/// What a process passed until the run's end, or its own.
pub(super) struct Passed {
    pub(super) boundaries: Vec<Boundary>,
    /// How long each suspension lasted.
    pub(super) suspensions: Vec<Duration>,
}

impl Passed {
    pub(super) fn by(store: &CrashStore) -> Self {
        Self { boundaries: store.boundaries(), suspensions: store.suspensions() }
    }
}

/// What a run came to in one process; `None` where the process was asked to shut down.
type Ended<W> = Option<(SimReport<W>, Passed)>;

/// Whether a simulation ended because the store failed.
fn is_of_store(error: &SimError) -> bool {
    matches!(error, SimError::Build(_) | SimError::Start(_) | SimError::Store(_))
}

/// Whether the store kept the run from being advanced to its end here, or from being replayed.
fn is_stopped<W: Workflow>(report: &SimReport<W>) -> bool {
    let is_of_store = |verified: &Result<Verified, VerifyError>| {
        matches!(verified, Err(VerifyError::Fault(Fault::Store(_))))
    };
    matches!(report.result, Err(RunError::Stopped { .. } | RunError::Store(_)))
        || report.verified.as_ref().is_some_and(is_of_store)
        || report.others.iter().any(|(_, verified)| is_of_store(verified))
}

/// One engine, from its start to the run's end or to its crash.
pub(super) struct Process<'a, W> {
    pub(super) settings: &'a Settings,
    pub(super) input: &'a Payload,
    pub(super) at: Timestamp,
    /// Number of this process, from 1.
    pub(super) number: usize,
    pub(super) store: Arc<CrashStore>,
    pub(super) dispatcher: Arc<StubDispatcher>,
    pub(super) entropy: Entropy,
    pub(super) workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> Process<'_, W> {
    /// Runs until the run ends or the process dies.
    pub(super) async fn run_to_end(&self) -> Result<ProcessEnd<W>, SimError> {
        let world = SimEnvironment::with_entropy(self.at, self.entropy.clone());
        self.dispatcher.begin_process(&self.store);
        if let Some(pace) = &self.settings.pace {
            pace.begin_process(&self.store, &world);
        }
        tokio::select! {
            biased;
            error = self.dispatcher.trouble.wait() => Err(error),
            () = self.store.crashed() => Ok(ProcessEnd::Crashed(world.now())),
            () = self.die_waiting(&world) => Ok(ProcessEnd::Crashed(world.now())),
            () = self.schedule_bodies() => Err(SimError::Broken("its scheduler ended".into())),
            report = self.run(&world) => match report {
                report if self.is_stopped_by_fault(&report) => Ok(ProcessEnd::Crashed(world.now())),
                report => report.map(|ended| match ended {
                    Some((report, passed)) => ProcessEnd::Ended(Box::new(report), passed),
                    None => ProcessEnd::ShutDown(world.now()),
                }),
            },
        }
    }

    /// Whether the store of this process fails on purpose, and that is why the run did not end here.
    fn is_stopped_by_fault(&self, end: &Result<Ended<W>, SimError>) -> bool {
        let fails = self.settings.store_fails && self.number == 1;
        fails
            && match end {
                Ok(Some((report, _))) => is_stopped(report),
                Ok(None) => false,
                Err(error) => is_of_store(error),
            }
    }

    /// Dies half-way through the suspension that is the crash point; else never returns.
    async fn die_waiting(&self, world: &SimEnvironment) {
        let until = self.store.suspended().await;
        let now = world.now();
        let left = until.map(|until| Duration::try_from(until.duration_since(now)).unwrap_or_default());
        let lasts = self.settings.suspended_for.or(left).unwrap_or(WAIT);
        world.sleep_until(now.saturating_add(lasts / 2).unwrap_or(Timestamp::MAX)).await;
        self.store.crash();
    }

    /// Releases bodies in the order that is asked for; never returns.
    async fn schedule_bodies(&self) {
        match &self.settings.scheduler {
            Some(scheduler) => scheduler.run().await,
            None => std::future::pending().await,
        }
    }

    async fn run(&self, world: &SimEnvironment) -> Result<Ended<W>, SimError> {
        let engine = self.engine(world).await?;
        let input = W::decode(self.input).map_err(SimError::Input)?;
        let watch = engine.watch();
        let handle = engine.start::<W>(input).id(self.settings.id.as_str()).await?;
        let live = Live::new(engine.clone(), handle.id().clone(), world.clone(), self.settings.at);
        spawn_people(self.settings, &self.dispatcher, &live, watch);
        let deadline = self.settings.at.saturating_add(self.settings.within).unwrap_or(Timestamp::MAX);
        let result = tokio::select! {
            biased;
            () = self.shutdown_asked() => {
                self.shut_down(engine, world).await;
                return Ok(None);
            }
            result = handle.result() => result,
            () = world.sleep_until(deadline) => return Err(self.unfinished(&engine, &handle).await?),
        };
        if let Some(pace) = &self.settings.pace {
            pace.end();
        }
        let passed = Passed::by(&self.store);
        Ok(Some((self.report(world, &engine, handle.id(), result).await?, passed)))
    }

    /// Waits until a schedule asks this process to shut down.
    async fn shutdown_asked(&self) {
        match &self.settings.pace {
            Some(pace) => pace.shutdown_asked().await,
            None => std::future::pending().await,
        }
    }

    /// Does not return where the engine says that it could not release its runs in time: then this is a crash.
    async fn shut_down(&self, engine: Engine, world: &SimEnvironment) {
        if engine.shutdown_within(PATIENCE).await.is_err() {
            self.store.crash();
            return std::future::pending().await;
        }
        if let Some(pace) = &self.settings.pace {
            pace.close();
        }
        world.sleep(AFTERWARDS).await;
    }

    async fn engine(&self, world: &SimEnvironment) -> Result<Engine, SimError> {
        let settings = self.settings;
        let store: Arc<dyn Store> = self.store.clone();
        let store =
            settings.front.as_ref().map_or_else(|| store.clone(), |front| front(store.clone(), self.number));
        let builder = match &settings.pace {
            Some(pace) => {
                let paced = PacedWorld::new(world.clone(), Arc::clone(pace));
                let builder = EngineBuilder::new(Arc::new(paced))
                    .store(Arc::new(PacedStore::new(store, Arc::clone(pace))));
                match pace.plan().grace() {
                    Some(grace) => builder.eviction_grace(grace),
                    None => builder,
                }
            }
            None => EngineBuilder::new(Arc::new(world.clone())).store(store),
        };
        let engine = verifying(builder, settings)
            .deps(self.deps())
            .interceptor(self.dispatcher.clone())
            .policy(LastCommands)
            .approvals(settings.people.approvals.clone())
            .limits(settings.limits)
            .lease(LEASE)
            .poll_interval(POLL)
            .stream_poll_interval(POLL)
            .register::<W>();
        Ok(engine.start().await?)
    }

    /// What was provided, and the scripted models.
    fn deps(&self) -> Deps {
        let mut deps = self.settings.deps.clone();
        let given = deps.get::<Models>().ok();
        if let Some(models) = scripted(&self.dispatcher, given.as_deref()) {
            deps.insert(models);
        }
        deps
    }

    async fn unfinished(&self, engine: &Engine, handle: &RunHandle<W>) -> Result<SimError, SimError> {
        let status = handle.status().await?;
        let view = engine.view(handle.id()).await?;
        let open = view.steps.iter().filter(|step| step.outcome.is_none()).map(|step| step.command.clone());
        let waiting = open.collect();
        let page = engine.all_pending(WaitFilter::for_reply()).await?;
        // Of signals, the journal says more.
        let waits = page.waits.iter().filter(|wait| wait.waiting != Waiting::Signal);
        let mut help: Vec<_> = waits.map(for_wait).collect();
        let events = journal_of(&**engine.store(), handle.id()).await?;
        help.extend(for_signals(&events));
        Ok(SimError::Unfinished { within: self.settings.within, status, waiting, help })
    }

    async fn report(
        &self,
        world: &SimEnvironment,
        engine: &Engine,
        run: &RunId,
        result: Result<W::Output, RunError<W::Error>>,
    ) -> Result<SimReport<W>, SimError> {
        let slept = Duration::try_from(world.now().duration_since(self.settings.at)).unwrap_or_default();
        let store = engine.store();
        let events = journal_of(&**store, run).await?;
        let view = engine.view(run).await?;
        let verified = if view.status.is_terminal() { Some(engine.verify(run).await) } else { None };
        let mut others = Vec::new();
        for record in store.runs(RunFilter::new()).await? {
            if record.id != *run && record.status.is_terminal() {
                others.push((record.id.clone(), engine.verify(&record.id).await));
            }
        }
        Ok(SimReport {
            result,
            view,
            events,
            ledger: store.entries(run).await?,
            verified,
            others,
            log: self.dispatcher.calls(),
            begun: self.settings.at,
            slept,
            trapped: Vec::new(),
            writes: 0,
            effects: 0,
            crashes: 0,
            streams: ReadStreams::default(),
        })
    }
}
