//! Putting an engine together.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::Duration;

use tokio::sync::{Notify, broadcast};

use crate::engine::children::ChildRuns;
use crate::engine::inner::{Engine, Guard, Inner, Settings};
use crate::engine::retention::Retention;
use crate::engine::{retention, worker};
use crate::policy::approvals::Approvals;
use crate::policy::replay::{DefaultPolicy, ReplayPolicy};
use crate::policy::verifiers::{Verifier, Verifiers};
use crate::run::program::RegisteredWorkflow;
use crate::run::shared::EngineShared;
use crate::step::body::{RegisteredStep, Step};
use crate::step::interceptor::Interceptor;
use crate::store::api::{Durability, Store};
use crate::store::error::StoreError;
use crate::store::memory::MemoryStore;
use crate::vocabulary::deps::Deps;
use crate::vocabulary::environment::Environment;
use crate::vocabulary::id::WorkerId;
use crate::vocabulary::limits::Limits;
use crate::workflow::definition::Workflow;

/// Why an engine cannot be started.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two workflows of one name in one module. In different modules they are told apart.
    #[error(
        "module `{module}` has two workflows named `{name}`, in lines {first} and {second}; give one another name with `#[workflow(name = \"..\")]`"
    )]
    DuplicateWorkflow {
        /// The name.
        name: &'static str,
        /// The module.
        module: &'static str,
        /// Line of the one.
        first: u32,
        /// Line of the other.
        second: u32,
    },
    /// Production needs a store that survives a crash.
    #[error(
        "store {store} keeps nothing over a restart, and this engine was told to run in production: call `.sqlite(path)`, or give it another store that survives a crash"
    )]
    NotDurable {
        /// The store.
        store: String,
    },
    /// A step declares that it changes resources of a kind that nobody can look at.
    #[error(
        "step `{step}` ({place}) declares `changes = [\"{kind}\"]`, and no verifier is registered for `{kind}`: call `.verifier({kind:?}, ..)` on the engine's builder"
    )]
    NoVerifier {
        /// Module path and name of the step.
        step: &'static str,
        /// Where it stands, `file:line`.
        place: String,
        /// The kind.
        kind: &'static str,
    },
    /// No store was given.
    #[error("no store was given: call `.sqlite(path)`, `.memory()` or `.store(store)`")]
    NoStore,
    /// Nothing tells the time.
    #[error(
        "no clock and entropy are linked into this program: call `.environment(..)`, or depend on a crate that has them, such as `aether`"
    )]
    NoEnvironment,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What an engine is made with where its program says nothing else. The crate that has them submits them with
/// `inventory::submit!`, as `aether-effects` does; the last one that was linked counts.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// The clock and entropy.
    pub environment: fn() -> Arc<dyn Environment>,
    /// Verifiers by the kind of resource they look at.
    pub verifiers: fn() -> Vec<(&'static str, Arc<dyn Verifier>)>,
}

inventory::collect!(Defaults);

/// Puts an [`Engine`] together: where it keeps its runs, what step bodies get, and how it works.
///
/// Most programs begin with [`Engine::builder`]. Every setting has a default but the store.
///
/// ```
/// # use aether_core::engine::EngineBuilder;
/// # async fn start(builder: EngineBuilder) -> Result<(), Box<dyn std::error::Error>> {
/// # struct Archive;
/// use std::time::Duration;
///
/// let engine = builder
///     .memory()
///     .provide(Archive)
///     .lease(Duration::from_secs(30))
///     .start()
///     .await?;
/// # Ok(()) }
/// ```
#[must_use = "an engine runs when `.start().await` is called"]
pub struct EngineBuilder {
    environment: Option<Arc<dyn Environment>>,
    store: Option<OpenStore>,
    deps: Deps,
    policy: Arc<dyn ReplayPolicy>,
    interceptor: Option<Arc<dyn Interceptor>>,
    approvals: Approvals,
    workflows: Vec<RegisteredWorkflow>,
    limits: Limits,
    verifiers: Verifiers,
    settings: Settings,
    steps: Vec<RegisteredStep>,
    grace: Duration,
    cancel_grace: Duration,
    production: bool,
    retention: Option<Retention>,
}

/// Opens a store when the engine starts.
type OpenStore = Box<dyn FnOnce() -> Result<Arc<dyn Store>, StoreError> + Send>;

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBuilder")
            .field("deps", &self.deps)
            .field("approvals", &self.approvals)
            .field("limits", &self.limits)
            .field("settings", &self.settings)
            .field("production", &self.production)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Begins to put an engine together, with the [`Defaults`] that are linked into the program: with the `aether` crate
    /// the system's clock and entropy, and verifiers of files and HTTP resources.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }
}

impl Default for EngineBuilder {
    /// With the [`Defaults`] that are linked into the program.
    fn default() -> Self {
        let mut builder = Self::bare(None);
        for defaults in inventory::iter::<Defaults> {
            builder.environment = Some((defaults.environment)());
            for (kind, verifier) in (defaults.verifiers)() {
                builder.verifiers.insert(kind.into(), verifier);
            }
        }
        builder
    }
}

impl EngineBuilder {
    /// An engine in `environment`, and with none of the linked [`Defaults`]: for tests, and for programs that bring
    /// everything themselves.
    pub fn new(environment: Arc<dyn Environment>) -> Self {
        Self::bare(Some(environment))
    }

    fn bare(environment: Option<Arc<dyn Environment>>) -> Self {
        Self {
            environment,
            store: None,
            deps: Deps::default(),
            policy: Arc::new(DefaultPolicy),
            interceptor: None,
            approvals: Approvals::default(),
            workflows: Vec::new(),
            limits: Limits::default(),
            verifiers: Verifiers::default(),
            settings: Settings {
                lease: Duration::from_secs(15),
                poll: Duration::from_millis(200),
                max_active: 10_000,
            },
            steps: Vec::new(),
            grace: Duration::from_secs(1),
            cancel_grace: Duration::from_secs(5),
            production: false,
            retention: None,
        }
    }

    /// Takes the time and randomness from `environment` in place of the system's.
    pub fn environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Keeps runs in `store`.
    ///
    /// ```
    /// # use aether_core::engine::EngineBuilder;
    /// # fn with(builder: EngineBuilder) -> EngineBuilder {
    /// use aether_core::store::memory::MemoryStore;
    /// use std::sync::Arc;
    ///
    /// builder.store(Arc::new(MemoryStore::default()))
    /// # }
    /// ```
    pub fn store(self, store: Arc<dyn Store>) -> Self {
        self.store_with(|| Ok(store))
    }

    /// Keeps runs in the store that `open` gives when the engine starts: for crates that add a method for their store.
    /// Its error ends the start.
    pub fn store_with(
        mut self,
        open: impl FnOnce() -> Result<Arc<dyn Store>, StoreError> + Send + 'static,
    ) -> Self {
        self.store = Some(Box::new(open));
        self
    }

    /// Keeps runs in memory: nothing survives the process.
    pub fn memory(self) -> Self {
        self.store(Arc::new(MemoryStore::default()))
    }

    /// Gives step bodies a value, which they get with `cx.dep::<T>()`. One value per type.
    pub fn provide<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.deps.insert(value);
        self
    }

    /// Gives step bodies all of `deps`, in place of what was provided before.
    pub fn deps(mut self, deps: Deps) -> Self {
        self.deps = deps;
        self
    }

    /// Registers a workflow that is not registered by itself, such as an instance of a generic one.
    pub fn register<W: Workflow>(mut self) -> Self {
        self.workflows.push(RegisteredWorkflow::of::<W>());
        self
    }

    /// Registers a step that is not registered by itself, such as an instance of a generic one: what it declares is
    /// checked at the start, and it is found when it is to undo another one.
    pub fn register_step<S: Step>(mut self) -> Self {
        self.steps.push(RegisteredStep::of::<S>());
        self
    }

    /// Asks `policy` before every command.
    pub fn policy(mut self, policy: impl ReplayPolicy) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// Lets `interceptor` answer in place of step bodies. For tests.
    pub fn interceptor(mut self, interceptor: Arc<dyn Interceptor>) -> Self {
        self.interceptor = Some(interceptor);
        self
    }

    /// Lets `verifier` look at resources of `kind` before a recorded change of them is believed again. Every kind that
    /// a step of the program declares in `changes` needs one.
    pub fn verifier(mut self, kind: impl Into<String>, verifier: impl Verifier) -> Self {
        self.verifiers.insert(kind.into(), Arc::new(verifier));
        self
    }

    /// Asks a person before the calls that `approvals` names, beyond those whose steps declare it.
    pub fn approvals(mut self, approvals: Approvals) -> Self {
        self.approvals = approvals;
        self
    }

    /// Sets what the engine refuses to exceed.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long a claim of a run lasts without a sign of life. Default 15 s; renewed at a third of it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease.max(Duration::from_millis(100));
        self
    }

    /// Sets how often the store is asked for runs that others left or woke. Default 200 ms.
    pub fn poll_interval(mut self, poll: Duration) -> Self {
        self.settings.poll = poll.max(Duration::from_millis(5));
        self
    }

    /// Sets how many recovered runs are advanced at once. Default 10,000.
    pub fn max_active(mut self, runs: usize) -> Self {
        self.settings.max_active = runs.max(1);
        self
    }

    /// Sets how long a run that only waits stays in memory. Default 1 s.
    pub fn eviction_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Deletes ended runs that are older than `retention` says, when the engine starts and at intervals from then on.
    /// Without it, everything is kept.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Sets how long world-changing bodies may go on in a run that is cancelled, before they are dropped and stay in
    /// doubt. Default 5 s.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = grace;
        self
    }

    /// Refuses to start on a store that does not survive a crash.
    pub fn production(mut self) -> Self {
        self.production = true;
        self
    }

    /// Starts the engine, which takes up the runs that were left.
    ///
    /// # Errors
    /// [`BuildError`] when two workflows share a name, a step declares a kind of resource without a verifier, or the
    /// store cannot be used.
    pub async fn start(self) -> Result<Engine, BuildError> {
        let environment = self.environment.ok_or(BuildError::NoEnvironment)?;
        let store = self.store.ok_or(BuildError::NoStore)?()?;
        if self.production && store.durability() == Durability::Volatile {
            return Err(BuildError::NotDurable { store: store.describe() });
        }
        let registry = registry(&self.workflows)?;
        let linked = inventory::iter::<RegisteredStep>.into_iter().copied();
        let steps = linked.chain(self.steps).map(|step| (step.def.path, step)).collect::<HashMap<_, _>>();
        let mut verifiers = self.verifiers;
        steps.values().for_each(|step| verifiers.know(step.def));
        if let Some((step, kind)) = verifiers.lacking() {
            let place = format!("{}:{}", step.file, step.line);
            return Err(BuildError::NoVerifier { step: step.path, place, kind });
        }
        let worker = worker_id(&*environment);
        store.register(&worker).await?;
        let shared = EngineShared {
            store,
            environment,
            worker,
            deps: Arc::new(self.deps),
            policy: self.policy,
            interceptor: self.interceptor,
            approvals: self.approvals,
            limits: self.limits,
            verifiers,
            grace: self.grace,
            cancel_grace: self.cancel_grace,
            steps,
            observers: broadcast::channel(4096).0,
        };
        let began = shared.environment.now().as_microsecond();
        let inner = Arc::new_cyclic(|inner| Inner {
            children: Arc::new(ChildRuns(Weak::clone(inner))),
            renewed: began.into(),
            shared: Arc::new(shared),
            registry: RwLock::new(registry),
            active: Mutex::default(),
            cells: Mutex::default(),
            wake_scheduler: Notify::new(),
            stopping: false.into(),
            ended: tokio::sync::OnceCell::new(),
            settings: self.settings,
        });
        worker::begin(&inner);
        if let Some(retention) = self.retention {
            tokio::spawn(retention::keep_purging(Arc::clone(&inner), retention));
        }
        Ok(Engine { _guard: Arc::new(Guard { inner: Arc::clone(&inner) }), inner })
    }
}

fn registry(
    extra: &[RegisteredWorkflow],
) -> Result<HashMap<&'static str, Vec<RegisteredWorkflow>>, BuildError> {
    let mut registry: HashMap<&'static str, Vec<RegisteredWorkflow>> = HashMap::new();
    let linked = inventory::iter::<RegisteredWorkflow>.into_iter().copied();
    for workflow in linked.chain(extra.iter().copied()) {
        let (name, module) = (workflow.def.name, workflow.def.module);
        let named = registry.entry(name).or_default();
        if named.iter().any(|known| known.is_same(&workflow)) {
            continue;
        }
        if let Some(former) = named.iter().find(|known| known.def.module == module) {
            return Err(BuildError::DuplicateWorkflow {
                name,
                module,
                first: former.def.line,
                second: workflow.def.line,
            });
        }
        named.push(workflow);
    }
    Ok(registry)
}

fn worker_id(environment: &dyn Environment) -> WorkerId {
    let mut bytes = [0; 16];
    environment.fill_random(&mut bytes);
    WorkerId::from(format!("worker-{}", uuid::Builder::from_random_bytes(bytes).into_uuid()))
}
