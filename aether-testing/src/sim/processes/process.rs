//! The lives of a simulated engine: each one begins on what the last one left in the store.
//!
//! Promise: a simulation runs on a thread and a clock of its own; the next life begins after the lease of the last.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use aether_core::confirm::{Seen, Verifier};
use aether_core::contract::Status;
use aether_core::deps::Deps;
use aether_core::effect_store;
use aether_core::engine::{Engine, EngineBuilder, RunError, RunHandle, VerifyError};
use aether_core::event::{
    CallbackAwaited, Event, InvocationAbandoned, InvocationResolved, StateChanged, ToolInvocationFinished,
    ToolInvocationStarted,
};
use aether_core::failure::Failure;
use aether_core::fault::Fault;
use aether_core::id::{CommandId, InvocationId, RunId};
use aether_core::memory::MemoryStore;
use aether_core::payload::Payload;
use aether_core::step::{RegisteredStep, Workflow};
use aether_core::store::{RunFilter, Store, StoreError};
use aether_core::view::RunView;
use aether_core::world::World as _;
use futures_util::future::{BoxFuture, ready};
use jiff::Timestamp;
use tokio::runtime::Runtime;

use super::audit::audit;
use super::stage::Stage;
use super::world::Entropy;
use super::{Live, Settings, SimError, SimReport, SimWorld, model, people};
use crate::crash::{Boundary, CrashStore};
use crate::trap::{Armed, LastCommands};

/// How long a claim lasts; also how much virtual time a crash costs.
const LEASE: Duration = Duration::from_secs(3600);
/// Half of this is how long a run waits for something that has no time of its own before its process dies.
const WAIT: Duration = Duration::from_secs(2);
/// How often the engine looks for work that nobody told it of.
const POLL: Duration = Duration::from_secs(3600);

/// An invocation of which nobody knows whether it happened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Doubt {
    pub(super) run: RunId,
    pub(super) command: CommandId,
    pub(super) invocation: InvocationId,
}

/// What a simulation left.
pub(super) struct Simulated<W: Workflow> {
    pub(super) report: SimReport<W>,
    /// Begun and not decided when a process died.
    pub(super) left: BTreeSet<Doubt>,
    /// In doubt at the end.
    pub(super) doubts: BTreeSet<Doubt>,
    /// What it was kept in.
    pub(super) store: Arc<dyn Store>,
    /// What the first process came past until the run's end.
    pub(super) boundaries: Vec<Boundary>,
    /// The run's journal as the first process left it, where it died.
    pub(super) before: Option<Vec<Event>>,
    /// What was wrong with what a process left in the store.
    pub(super) broken: Option<String>,
}

/// Runs a whole simulation on this thread; see [`simulate`].
pub(super) fn run<W: Workflow>(settings: &Settings, input: &Payload) -> Result<SimReport<W>, SimError> {
    simulate::<W>(settings, input).map(|done| done.report)
}

/// Runs a whole simulation on this thread, which must not belong to a runtime.
pub(super) fn simulate<W: Workflow>(settings: &Settings, input: &Payload) -> Result<Simulated<W>, SimError> {
    if let Some(prepare) = &settings.prepare {
        prepare();
    }
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let store = settings.wrap.as_ref().map_or(Arc::clone(&memory), |wrap| wrap(memory));
    let stage = Arc::new(Stage::new(settings));
    let mut entropy = Entropy::new(settings.seed);
    let mut points = settings.crashes.iter().copied();
    let (mut at, mut crashes, mut writes, mut effects) = (settings.at, 0, 0, 0);
    let (mut left, mut boundaries, mut before, mut broken, mut late) =
        (BTreeSet::new(), None, None, None, None);
    let armed = {
        let stage = Arc::clone(&stage);
        Armed::set(settings.trap.clone(), settings.skew, move |hit| {
            stage.give_up(SimError::Trapped(Box::new(hit)))
        })
    };
    for number in 1.. {
        let point = points.next();
        let life = Life {
            settings,
            input,
            at,
            number,
            store: Arc::new(CrashStore::new(Arc::clone(&store), point).with_late(late.take())),
            stage: Arc::clone(&stage),
            entropy: entropy.clone(),
            workflow: PhantomData,
        };
        let runtime = runtime()?;
        let end = runtime.block_on(life.live())?;
        writes += life.store.writes();
        effects += life.store.effects();
        late = life.store.take_stalled();
        if let Some(Ok(())) = runtime.block_on(life.store.late_answer()) {
            broken = Some("a write of a process that had lost the run to another one took effect".into());
        }
        match end {
            End::Crashed(when) => {
                crashes += 1;
                let found = runtime.block_on(async {
                    left.append(&mut cut_off(&*store).await?);
                    before = Some(journal_of(&*store, &settings.run_id()?).await.unwrap_or_default());
                    Ok::<_, SimError>(audit(&*store).await?)
                })?;
                broken = broken.or(found);
                if before.as_ref().is_some_and(Vec::is_empty) {
                    // Nothing was kept: the next process draws what this one drew.
                    entropy = Entropy::new(settings.seed);
                }
                boundaries.get_or_insert_with(|| life.store.boundaries());
                at = when.saturating_add(LEASE + Duration::from_secs(1)).unwrap_or(Timestamp::MAX);
            }
            End::Ended(report, passed) => {
                let (doubts, found) = runtime
                    .block_on(async { Ok::<_, SimError>((doubts(&*store).await?, audit(&*store).await?)) })?;
                let report = SimReport { writes, effects, crashes, trapped: armed.hits(), ..*report };
                let boundaries = boundaries.unwrap_or(passed);
                let broken = broken.or(found);
                return Ok(Simulated { report, left, doubts, store, boundaries, before, broken });
            }
        }
    }
    Err(SimError::Broken("it had more processes than can be counted".into()))
}

pub(crate) fn runtime() -> Result<Runtime, SimError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().map_err(|error| SimError::Broken(error.to_string()))
}

/// The invocations of all runs of which nobody knows whether they happened.
async fn doubts(store: &dyn Store) -> Result<BTreeSet<Doubt>, StoreError> {
    let mut doubts = BTreeSet::new();
    for record in store.runs(RunFilter::default()).await? {
        let view = RunView::load(store, &record.id).await?;
        doubts.extend(view.in_doubt().into_iter().filter_map(|step| {
            Some(Doubt {
                run: record.id.clone(),
                command: step.command.clone(),
                invocation: step.invocation.clone()?,
            })
        }));
    }
    Ok(doubts)
}

/// The invocations of all runs that were begun, and of whose end or decision the journal does not tell.
async fn cut_off(store: &dyn Store) -> Result<BTreeSet<Doubt>, SimError> {
    let mut open = BTreeSet::new();
    for record in store.runs(RunFilter::default()).await? {
        let run = record.id;
        let effects = store.effects(&run).await?;
        for event in journal_of(store, &run).await? {
            match event {
                // Its outcome is only on its way into the journal.
                Event::ToolInvocationStarted(e) if effects.iter().any(|effect| effect.key == e.key) => {}
                Event::ToolInvocationStarted(ToolInvocationStarted { command, invocation, .. }) => {
                    open.insert(Doubt { run: run.clone(), command, invocation });
                }
                Event::ToolInvocationFinished(ToolInvocationFinished { command, invocation, .. })
                | Event::InvocationAbandoned(InvocationAbandoned { command, invocation })
                // Somebody outside will tell its outcome.
                | Event::CallbackAwaited(CallbackAwaited { command, invocation, .. })
                | Event::InvocationResolved(InvocationResolved { command, invocation, .. }) => {
                    open.remove(&Doubt { run: run.clone(), command, invocation });
                }
                _ => {}
            }
        }
    }
    Ok(open)
}

pub(super) async fn journal_of(store: &dyn Store, run: &RunId) -> Result<Vec<Event>, SimError> {
    Ok(effect_store::events(store, run, &store.load(run, 0).await?).await?)
}

/// Finds every resource as it was left.
#[derive(Debug)]
struct Trusting;

impl Verifier for Trusting {
    fn name(&self) -> &str {
        "simulated"
    }

    fn look<'a>(&'a self, _: &'a RunId, _: &'a StateChanged) -> BoxFuture<'a, Result<Seen, Failure>> {
        Box::pin(ready(Ok(Seen::AsLeft)))
    }
}

/// An engine that takes every resource to be as it was left: nothing real is looked at.
pub(crate) fn trusting(engine: EngineBuilder) -> EngineBuilder {
    let declared = aether_core::private::inventory::iter::<RegisteredStep>;
    let kinds = declared.into_iter().flat_map(|step| step.def.options.changes);
    kinds.fold(engine, |engine, kind| engine.verifier(*kind, Trusting))
}

/// An engine that looks at resources as `settings` say: nothing real is looked at unasked.
pub(super) fn verifying(engine: EngineBuilder, settings: &Settings) -> EngineBuilder {
    let engine = trusting(engine);
    let given = settings.verifiers.iter().cloned();
    given.fold(engine, |engine, (kind, verifier)| engine.verifier(kind, verifier))
}

/// How a life ended.
enum End<W: Workflow> {
    Ended(Box<SimReport<W>>, Vec<Boundary>),
    Crashed(Timestamp),
}

/// Whether a simulation ended because the store failed.
fn is_of_store(error: &SimError) -> bool {
    matches!(error, SimError::Build(_) | SimError::Start(_) | SimError::Store(_))
}

/// Whether the store kept the run from being advanced to its end here, or from being replayed.
fn is_stopped<W: Workflow>(report: &SimReport<W>) -> bool {
    matches!(report.result, Err(RunError::Stopped { .. } | RunError::Store(_)))
        || matches!(report.verified, Some(Err(VerifyError::Fault(Fault::Store(_)))))
}

/// One engine, from its start to the run's end or to its crash.
struct Life<'a, W> {
    settings: &'a Settings,
    input: &'a Payload,
    at: Timestamp,
    /// Number of this process, from 1.
    number: usize,
    store: Arc<CrashStore>,
    stage: Arc<Stage>,
    entropy: Entropy,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> Life<'_, W> {
    async fn live(&self) -> Result<End<W>, SimError> {
        let world = SimWorld::with_entropy(self.at, self.entropy.clone());
        self.stage.begin_life(&self.store);
        tokio::select! {
            biased;
            error = self.stage.trouble.wait() => Err(error),
            () = self.store.crashed() => Ok(End::Crashed(world.now())),
            () = self.die_waiting(&world) => Ok(End::Crashed(world.now())),
            () = self.release_in_order() => Err(SimError::Broken("its scheduler ended".into())),
            report = self.run(&world) => match report {
                Err(error) if self.is_hurt() && is_of_store(&error) => Ok(End::Crashed(world.now())),
                Ok((report, _)) if self.is_hurt() && is_stopped(&report) => Ok(End::Crashed(world.now())),
                report => report.map(|(report, passed)| End::Ended(Box::new(report), passed)),
            },
        }
    }

    /// Whether the store of this process fails on purpose.
    fn is_hurt(&self) -> bool {
        self.settings.faults && self.number == 1
    }

    /// Dies half-way through the suspension that is the crash point; else never returns.
    async fn die_waiting(&self, world: &SimWorld) {
        let (now, until) = match self.store.suspended().await {
            Some(until) => (world.now(), until),
            None => (world.now(), world.now().saturating_add(WAIT).unwrap_or(Timestamp::MAX)),
        };
        let half = Duration::try_from(until.duration_since(now)).unwrap_or_default() / 2;
        world.sleep_until(now.saturating_add(half).unwrap_or(until)).await;
        self.store.crash();
    }

    /// Lets bodies come back in the order that is asked for; never returns.
    async fn release_in_order(&self) {
        match &self.settings.orders {
            Some(orders) => orders.release().await,
            None => std::future::pending().await,
        }
    }

    async fn run(&self, world: &SimWorld) -> Result<(SimReport<W>, Vec<Boundary>), SimError> {
        let engine = self.engine(world).await?;
        let input = W::decode(self.input).map_err(SimError::Input)?;
        let handle = engine.start::<W>(input).id(self.settings.id.as_str()).await?;
        let live = || Live::new(engine.clone(), handle.id().clone(), world.clone(), self.settings.at);
        people::attend(&self.settings.people, &self.stage, &live());
        if let Some(played) = &self.settings.scripts.recorded {
            tokio::spawn(Arc::clone(played).send_signals(live()));
        }
        if let Some(meanwhile) = &self.settings.meanwhile {
            tokio::spawn(meanwhile(live()));
        }
        let deadline = self.settings.at.saturating_add(self.settings.within).unwrap_or(Timestamp::MAX);
        let result = tokio::select! {
            biased;
            result = handle.result() => result,
            () = world.sleep_until(deadline) => return Err(self.unfinished(&engine, &handle).await?),
        };
        let passed = self.store.boundaries();
        Ok((self.report(world, &engine, handle.id(), result).await?, passed))
    }

    async fn engine(&self, world: &SimWorld) -> Result<Engine, SimError> {
        let settings = self.settings;
        let store: Arc<dyn Store> = self.store.clone();
        let store =
            settings.front.as_ref().map_or_else(|| store.clone(), |front| front(store.clone(), self.number));
        let engine = verifying(EngineBuilder::new(Arc::new(world.clone())), settings)
            .store(store)
            .deps(self.deps())
            .interceptor(self.stage.clone())
            .policy(LastCommands)
            .approvals(settings.people.approvals.clone())
            .limits(settings.limits)
            .lease(LEASE)
            .poll_interval(POLL)
            .register::<W>();
        Ok(engine.start().await?)
    }

    /// What was provided, and the scripted models.
    fn deps(&self) -> Deps {
        let mut deps = self.settings.deps.clone();
        if let Some(models) = model::scripted(&self.stage) {
            deps.insert(models);
        }
        deps
    }

    async fn unfinished(&self, engine: &Engine, handle: &RunHandle<W>) -> Result<SimError, SimError> {
        let status = handle.status().await?;
        let view = engine.view(handle.id()).await?;
        let open = view.steps.iter().filter(|step| step.outcome.is_none()).map(|step| step.command.clone());
        let waiting = open.collect();
        let mut help: Vec<_> = engine.all_pending().await?.iter().map(people::advice).collect();
        let events = journal_of(&**engine.store(), handle.id()).await?;
        help.extend(people::missing_signals(&events));
        Ok(SimError::Unfinished { within: self.settings.within, status, waiting, help })
    }

    async fn report(
        &self,
        world: &SimWorld,
        engine: &Engine,
        run: &RunId,
        result: Result<W::Output, RunError<W::Error>>,
    ) -> Result<SimReport<W>, SimError> {
        let slept = Duration::try_from(world.now().duration_since(self.settings.at)).unwrap_or_default();
        let store = engine.store();
        let events = journal_of(&**store, run).await?;
        let view = engine.view(run).await?;
        let ended = matches!(view.status, Status::Completed | Status::Failed);
        let verified = if ended { Some(engine.verify(run).await) } else { None };
        Ok(SimReport {
            result,
            view,
            events,
            ledger: store.entries(run).await?,
            verified,
            log: self.stage.calls(),
            begun: self.settings.at,
            slept,
            trapped: Vec::new(),
            writes: 0,
            effects: 0,
            crashes: 0,
        })
    }
}
