//! Starting an engine that was built.
//!
//! Promise: an engine that starts has checked its program first: workflow names are unique, every kind of resource
//! that a step declares has a verifier, and every value that a step declares is provided. One that does not start has
//! advanced no run.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::broadcast;

use crate::codec::coded::CodedStore;
use crate::engine::admission::Admissions;
use crate::engine::adopt::known::Adoptions;
use crate::engine::adopt::unfit::{OnUnfit, refuse_unfit};
use crate::engine::advance::launch::LOADS;
use crate::engine::build_error::BuildError;
use crate::engine::builder::EngineBuilder;
use crate::engine::children::ChildRuns;
use crate::engine::farewells::Farewells;
use crate::engine::in_use::InUse;
use crate::engine::inner::{Engine, Guard, Inner};
use crate::engine::keyed::due::complete_starts;
use crate::engine::open_store::{OpenStore, Opening};
use crate::engine::prepare::prepare;
use crate::engine::registry::Registry;
use crate::engine::schedules::ticking;
use crate::engine::shared_clock;
use crate::engine::steady_clock::SteadyClock;
use crate::engine::{purging, transactions, worker};
use crate::policy::verifiers::Verifiers;
use crate::run::leases::Leases;
use crate::run::program::RegisteredWorkflow;
use crate::run::shared::{EngineShared, Presence};
use crate::sched::{
    AtomicBool, HashMap, Mutex, Notify, OnceCell, OnceLock, Runtime, RwLock, Semaphore, SharedLock,
};
use crate::step::body::RegisteredStep;
use crate::store::api::{Durability, Store};
use crate::store::error::StoreError;
use crate::stream::hub::StreamHub;
use crate::vocabulary::environment::Environment;
use crate::vocabulary::id::{CodeId, WorkerId};
use crate::vocabulary::measures::Gauge;
use crate::vocabulary::queue::Serves;

impl EngineBuilder {
    /// Starts the engine. It resumes the open runs in its store.
    ///
    /// The runtime in which this is called is the engine's: all runs live there, whoever starts them in whatever runtime. It
    /// must live, and be driven, as long as the engine. An engine whose runtime has ended has stopped, as a process that was
    /// killed: its runs are free for others when it was silent for a lease, or after a [shutdown](Engine::shutdown).
    ///
    /// ```
    /// # use aether_core::engine::{BuildError, Engine};
    /// # async fn start() -> Result<(), BuildError> {
    /// let engine = Engine::builder().memory().start().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`BuildError`] when there is no runtime or no store, two workflows of one module share a name, a step declares a kind of
    /// resource without a verifier, takes a value that is not provided or is a transaction of another store, the store
    /// cannot be used, or its preparation fails.
    pub async fn start(mut self) -> Result<Engine, BuildError> {
        let runtime = Runtime::try_current().map_err(|_| BuildError::NoRuntime)?;
        let environment = self.environment.take().ok_or(BuildError::NoEnvironment)?;
        let (store, is_opened) = match self.store.take().ok_or(BuildError::NoStore)? {
            OpenStore::When(open) => (open(Opening { migrate: self.migrates }).await?, true),
            OpenStore::Given(store) => (store, false),
        };
        // Nobody else has it; whoever has goes on with it after this engine's end.
        let is_alone = is_opened && Arc::strong_count(&store) == 1;
        if self.production && store.durability() == Durability::Volatile {
            return Err(BuildError::NotDurable { store: store.describe() });
        }
        let environment = shared_clock::shared(environment, &*store);
        let program = self.checked(&*store)?;
        let serves = std::mem::replace(&mut self.serves, Ok(Serves::ALL))?;
        let preparations = std::mem::take(&mut self.preparations);
        if self.migrates {
            prepare(&store, preparations).await?;
        }
        let in_use = InUse::new(&store, is_alone);
        let store: Arc<dyn Store> = Arc::new(CodedStore::new(store, self.codec.take()));
        let registered = environment.monotonic();
        let codes = if self.settings.advances { program.registry.codes() } else { Vec::new() };
        let worker = register(&*store, &*environment, self.settings.lease, codes).await?;
        if serves != Serves::ALL {
            store.serve(&worker, serves.clone()).await?;
        }
        let on_unfit = self.on_unfit;
        let inner =
            self.assembled(program, runtime, (store, environment, in_use), (worker, registered), serves);
        if on_unfit == OnUnfit::Refuse
            && let Err(error) = refuse_unfit(&inner).await
        {
            inner.shared.store.retire(&inner.shared.worker).await?;
            return Err(error);
        }
        spawn_tasks(&inner);
        Ok(Engine { _guard: Arc::new(Guard { inner: Arc::clone(&inner) }), inner })
    }

    /// Holds the program against what it declares.
    fn checked(&mut self, store: &dyn Store) -> Result<Program, BuildError> {
        let registry = Registry::of_program(&self.workflows, &self.without)?;
        let steps: Vec<_> = RegisteredStep::linked().copied().chain(self.steps.drain(..)).collect();
        let missing = self.needs.check(steps.iter(), registry.all(), &self.deps);
        if !missing.is_empty() {
            return Err(BuildError::MissingDeps { missing, provided: self.deps.names() });
        }
        // What answers instead of bodies needs no database.
        if self.settings.advances && self.interceptor.is_none() {
            transactions::check(store, steps.iter(), &self.needs)?;
        }
        let steps = steps.into_iter().map(|step| (step.def.path, step)).collect::<HashMap<_, _>>();
        let mut verifiers = std::mem::take(&mut self.verifiers);
        steps.values().for_each(|step| verifiers.know(step.def));
        if let Some((step, kind)) = verifiers.lacking().filter(|_| self.settings.advances) {
            let place = format!("{}:{}", step.file, step.line);
            return Err(BuildError::NoVerifier { step: step.path, place, kind });
        }
        Ok(Program { registry, steps, verifiers })
    }

    /// Puts the engine together. Nothing runs yet.
    fn assembled(
        self,
        program: Program,
        runtime: Runtime,
        (store, environment, in_use): (Arc<dyn Store>, Arc<dyn Environment>, InUse),
        (worker, registered): (WorkerId, Duration),
        serves: Serves,
    ) -> Arc<Inner> {
        let streams = StreamHub::new(
            Arc::clone(&store),
            Arc::clone(&environment),
            self.redaction.clone(),
            self.settings.stream_poll,
            Some(runtime.clone()),
        );
        let shared = EngineShared {
            gauge: Arc::new(Gauge::new(Arc::clone(&environment))),
            booking: SharedLock::default(),
            presence: Presence::default(),
            streams,
            store,
            environment,
            worker,
            leases: Leases::new(self.settings.lease, registered),
            deps: Arc::new(self.deps),
            policy: self.policy,
            interceptor: self.interceptor,
            trace_bodies: self.trace_bodies,
            approvals: self.approvals,
            limits: self.limits,
            retries: self.retries,
            verifiers: program.verifiers,
            grace: self.grace,
            cancel_grace: self.cancel_grace,
            steps: program.steps,
            workflows: program.registry.all().map(RegisteredWorkflow::path).collect(),
            observers: broadcast::channel(4096).0,
            redaction: self.redaction,
        };
        Arc::new_cyclic(|inner| Inner {
            children: Arc::new(ChildRuns(Weak::clone(inner))),
            shared: Arc::new(shared),
            runtime,
            registry: RwLock::new(program.registry),
            active: Mutex::default(),
            cells: Mutex::default(),
            wake_scheduler: Notify::new(),
            short_of_room: AtomicBool::new(false),
            wake_ticking: Arc::new(Notify::new()),
            wake_gathering: Arc::new(Notify::new()),
            steady: SteadyClock::default(),
            wake_purging: Arc::new(Notify::new()),
            retention: self.retention,
            in_use,
            unstuck: Notify::default(),
            stopping: false.into(),
            draining: false.into(),
            drained: OnceCell::new(),
            patient_until: OnceLock::new(),
            hurried: false.into(),
            hurry: Notify::new(),
            vitals: Mutex::default(),
            admissions: Admissions::default(),
            loading: 0.into(),
            load_slots: Semaphore::new(LOADS),
            watch: Mutex::default(),
            adoptions: Adoptions::default(),
            lost: Mutex::default(),
            let_go: Mutex::default(),
            farewells: Farewells::default(),
            ended: OnceCell::new(),
            left: OnceCell::new(),
            settings: self.settings,
            serves,
            others_first: false.into(),
            lapsed_first: false.into(),
        })
    }
}

/// What an engine knows of the code that it is linked with.
struct Program {
    registry: Registry,
    steps: HashMap<&'static str, RegisteredStep>,
    verifiers: Verifiers,
}

/// Begins the work: runs are claimed and advanced, schedules tick, what has ended is purged.
fn spawn_tasks(inner: &Arc<Inner>) {
    worker::spawn_tasks(inner);
    if !inner.settings.advances {
        return;
    }
    let (environment, poll) = (&inner.shared.environment, inner.settings.poll);
    inner.spawn(ticking::tick(Arc::downgrade(inner), Arc::clone(environment), poll));
    inner.spawn(complete_starts(Arc::downgrade(inner), Arc::clone(environment), poll));
    if let Some(retention) = inner.retention.clone() {
        inner.spawn(purging::keep_purging(Arc::downgrade(inner), Arc::clone(environment), retention));
    }
}

/// Registers a worker of this engine, under a name that no other one has.
async fn register(
    store: &dyn Store,
    environment: &dyn Environment,
    lease: Duration,
    codes: Vec<CodeId>,
) -> Result<WorkerId, StoreError> {
    // Two engines whose entropy is equal draw the same names, one after the other.
    loop {
        let worker = worker_id(environment);
        if store.register(&worker, lease, codes.clone()).await? {
            return Ok(worker);
        }
    }
}

fn worker_id(environment: &dyn Environment) -> WorkerId {
    let mut bytes = [0; 16];
    environment.fill_random(&mut bytes);
    WorkerId::from(format!("worker-{}", uuid::Builder::from_random_bytes(bytes).into_uuid()))
}
