//! The engine with its defaults: the system's clock and entropy, and the embedded store.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aether_core::engine::{BuildError, EngineBuilder as CoreBuilder, Retention};
use aether_core::environment::Environment;
use aether_core::limits::Limits;
use aether_core::policy::Approvals;
use aether_core::policy::ReplayPolicy;
use aether_core::policy::Verifier;
use aether_core::step::Interceptor;
use aether_core::step::Step;
use aether_core::store::memory::MemoryStore;
use aether_core::store::{Store, StoreError};
use aether_core::workflow::Workflow;
use aether_effects::environment::SystemEnvironment;
use aether_effects::resource::{self, FileVerifier, HttpVerifier};

/// Starts, advances and recovers runs. Cheap to clone; dropping the last clone gives all runs back to the store.
///
/// All other methods are those of [`aether_core::engine::Engine`].
#[derive(Clone, Debug)]
pub struct Engine(aether_core::engine::Engine);

impl Engine {
    /// Begins to put an engine together.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::new(Arc::new(SystemEnvironment))
    }

    /// Lets step bodies that are running finish for at most ten seconds, gives every run back to the store, and waits
    /// until everything is durable. Cancels nothing: the runs go on at the next start.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be flushed.
    pub async fn shutdown(self) -> Result<(), StoreError> {
        self.shutdown_within(Duration::from_secs(10)).await
    }

    /// As [`Engine::shutdown`], with another patience. Environment-changing bodies that are cut off are in doubt.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be flushed.
    pub async fn shutdown_within(self, patience: Duration) -> Result<(), StoreError> {
        self.0.shutdown(patience).await
    }
}

impl Deref for Engine {
    type Target = aether_core::engine::Engine;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Puts an [`Engine`] together.
#[must_use = "an engine runs when `.start().await` is called"]
#[derive(Debug)]
pub struct EngineBuilder {
    core: CoreBuilder,
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
    sqlite: Option<PathBuf>,
}

impl EngineBuilder {
    /// An engine in another world, for tests.
    pub fn new(world: Arc<dyn Environment>) -> Self {
        let core = CoreBuilder::new(world)
            .verifier(resource::FILE, FileVerifier::new())
            .verifier(resource::HTTP, HttpVerifier::default());
        Self { core, sqlite: None }
    }

    fn with(mut self, change: impl FnOnce(CoreBuilder) -> CoreBuilder) -> Self {
        self.core = change(self.core);
        self
    }

    /// Keeps runs in the SQLite file at `path`, which is made if it does not exist. Survives loss of power.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(mut self, path: impl Into<PathBuf>) -> Self {
        self.sqlite = Some(path.into());
        self
    }

    /// Keeps runs in memory: nothing survives the process.
    pub fn memory(self) -> Self {
        self.store(Arc::new(MemoryStore::default()))
    }

    /// Keeps runs in `store`.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.sqlite = None;
        self.with(|core| core.store(store))
    }

    /// Gives step bodies a value, which they get with `cx.dep::<T>()`. One value per type.
    pub fn provide<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.with(|core| core.provide(value))
    }

    /// Gives `cx.llm(..)` and `cx.agent(..)` this model; for one model by call name, provide a
    /// [`Models`](crate::llm::Models).
    pub fn model(self, client: impl aether_effects::llm::ModelClient) -> Self {
        self.provide(aether_effects::llm::Models::new(client))
    }

    /// Registers a workflow that is not registered by itself, such as an instance of a generic one.
    pub fn register<W: Workflow>(self) -> Self {
        self.with(CoreBuilder::register::<W>)
    }

    /// Registers a step that is not registered by itself, such as an instance of a generic one: what it declares is
    /// checked at the start, and it is found when it is to undo another one.
    pub fn register_step<S: Step>(self) -> Self {
        self.with(CoreBuilder::register_step::<S>)
    }

    /// Asks `policy` before every command.
    pub fn policy(self, policy: impl ReplayPolicy) -> Self {
        self.with(|core| core.policy(policy))
    }

    /// Lets `interceptor` answer in place of step bodies. For tests.
    pub fn interceptor(self, interceptor: Arc<dyn Interceptor>) -> Self {
        self.with(|core| core.interceptor(interceptor))
    }

    /// Lets `verifier` look at resources of `kind` before a recorded change of them is believed again. Every kind that a
    /// step of the program declares in `changes` needs one; `file` and `http` have one unless this puts another in its
    /// place, for example an [`HttpVerifier`] with credentials.
    ///
    /// ```
    /// use aether::http::HttpClient;
    /// use aether::resource::{FileVerifier, HttpVerifier};
    /// # fn builder() -> Result<aether::EngineBuilder, String> {
    /// let client = HttpClient::builder().bearer("api.example.com", "the token").build()?;
    /// Ok(aether::Engine::builder()
    ///     .memory()
    ///     .verifier("http", HttpVerifier::new(client))
    ///     .verifier("file", FileVerifier::new().once()))
    /// # }
    /// ```
    pub fn verifier(self, kind: impl Into<String>, verifier: impl Verifier) -> Self {
        self.with(|core| core.verifier(kind, verifier))
    }

    /// Asks a person before the calls that `approvals` names, beyond those whose steps declare it.
    pub fn approvals(self, approvals: Approvals) -> Self {
        self.with(|core| core.approvals(approvals))
    }

    /// Sets what the engine refuses to exceed.
    pub fn limits(self, limits: Limits) -> Self {
        self.with(|core| core.limits(limits))
    }

    /// Sets how long a claim of a run lasts without a sign of life. Default 15 s; renewed at a third of it.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|core| core.lease(lease))
    }

    /// Sets how often the store is asked for runs that others left or woke. Default 200 ms.
    pub fn poll_interval(self, poll: Duration) -> Self {
        self.with(|core| core.poll_interval(poll))
    }

    /// Sets how many recovered runs are advanced at once. Default 10,000.
    pub fn max_active(self, runs: usize) -> Self {
        self.with(|core| core.max_active(runs))
    }

    /// Sets how long a run that only waits stays in memory. Default 1 s.
    pub fn eviction_grace(self, grace: Duration) -> Self {
        self.with(|core| core.eviction_grace(grace))
    }

    /// Sets how long world-changing bodies may go on in a run that is cancelled, before they are dropped and stay in
    /// doubt. Default 5 s.
    pub fn cancel_grace(self, grace: Duration) -> Self {
        self.with(|core| core.cancel_grace(grace))
    }

    /// Deletes ended runs that are older than `retention` says, when the engine starts and at intervals from then on.
    /// Without it, everything is kept.
    pub fn retention(self, retention: Retention) -> Self {
        self.with(|core| core.retention(retention))
    }

    /// Refuses to start on a store that does not survive a crash.
    pub fn production(self) -> Self {
        self.with(CoreBuilder::production)
    }

    /// Starts the engine, which takes up the runs that were left.
    ///
    /// # Errors
    /// [`BuildError`] when two workflows share a name, a step declares a kind of resource without a verifier, or the
    /// store cannot be used.
    pub async fn start(self) -> Result<Engine, BuildError> {
        #[cfg(feature = "sqlite")]
        let core = match self.sqlite {
            Some(path) => self.core.store(Arc::new(aether_sqlite::SqliteStore::open(path)?)),
            None => self.core,
        };
        #[cfg(not(feature = "sqlite"))]
        let core = self.core;
        core.start().await.map(Engine)
    }
}
