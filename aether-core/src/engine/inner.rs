//! The engine's state: what all its tasks share, which runs it advances, and where handles wait for results.
//!
//! Promise: the engine's tasks end when the last clone of the engine is dropped.

use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::broadcast;

use crate::definition::def::WorkflowDef;
use crate::definition::owned::Definition;
use crate::engine::admission::{Admission, Admissions};
use crate::engine::adopt::known::Adoptions;
use crate::engine::drained::Drained;
use crate::engine::farewells::Farewells;
use crate::engine::in_use::InUse;
use crate::engine::lease_watch::LeaseWatch;
use crate::engine::let_go::LetGo;
use crate::engine::registry::Registry;
use crate::engine::retention::Retention;
use crate::engine::steady_clock::SteadyClock;
use crate::engine::vitals::Vitals;
use crate::run::claim::Run;
use crate::run::end::RunEnd;
use crate::run::program::{Children, RegisteredWorkflow};
use crate::run::shared::{EngineShared, Observed};
use crate::sched::{
    AtomicBool, AtomicUsize, HashMap, JoinHandle, Mutex, Notify, OnceCell, OnceLock, Runtime, RwLock,
    Semaphore,
};
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::workers::LostRun;
use crate::vocabulary::code::RunCode;
use crate::vocabulary::id::{CodeId, RunId};
use crate::vocabulary::queue::Serves;

/// Starts runs, advances them, and resumes those that a crash or a shutdown left open.
///
/// An engine is built with [`Engine::builder`]. It is cheap to clone, and its clones share one set of runs.
/// [`Engine::shutdown`] lets calls in flight finish and releases every run; when the last clone is dropped instead, runs
/// are released without waiting for calls in flight.
///
/// ```
/// # use aether_core::failure::Failure;
/// # use aether_core::workflow::Workflow;
/// # use aether_core::engine::Engine;
/// # #[allow(non_camel_case_types)]
/// # async fn example<greet>() -> Result<(), Box<dyn std::error::Error>>
/// # where greet: Workflow<Input = String, Output = String, Error = Failure> {
/// // `greet` is an async function with `#[workflow]`.
/// let engine = Engine::builder().memory().start().await?;
///
/// let run = engine.start::<greet>("Ada".to_owned()).id("greet-ada").await?;
/// assert_eq!(run.result().await?, "Hello, Ada!");
///
/// engine.shutdown().await?;
/// # Ok(()) }
/// ```
///
/// The methods come in the order of need: build and start; follow, list and export runs; cancel, signal and shut down;
/// answer what waits for people; verify; purge; and look at the engine itself.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(super) inner: Arc<Inner>,
    pub(super) _guard: Arc<Guard>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(super) shared: Arc<EngineShared>,
    /// The one in which the engine was started. Its runs live there, whoever starts them: callers and their runtimes come and
    /// go.
    pub(super) runtime: Runtime,
    /// Starts and follows child runs. Holds the engine weakly, because it is a part of it.
    pub(super) children: Arc<dyn Children>,
    pub(super) registry: RwLock<Registry>,
    pub(super) active: Mutex<HashMap<RunId, Active>>,
    pub(super) cells: Mutex<HashMap<RunId, Weak<Cell>>>,
    pub(super) wake_scheduler: Notify,
    /// Whether runs may be due that were not claimed because there was no place for them.
    pub(super) short_of_room: AtomicBool,
    /// Wakes the task that looks for ticks of schedules.
    pub(super) wake_ticking: Arc<Notify>,
    /// Wakes the task that completes keyed starts.
    pub(super) wake_gathering: Arc<Notify>,
    /// Whether the clock is to be believed.
    pub(super) steady: SteadyClock,
    pub(super) stopping: AtomicBool,
    /// Set by a drain and by a shutdown: no run is claimed or launched any more.
    pub(super) draining: AtomicBool,
    /// Result of the one drain.
    pub(super) drained: OnceCell<Drained>,
    /// When its patience is over, by the monotonic clock. Whoever continues a drain that was cut off with its runtime keeps
    /// to it.
    pub(super) patient_until: OnceLock<Duration>,
    /// Somebody wants no body to be waited for any more.
    pub(super) hurried: AtomicBool,
    pub(super) hurry: Notify,
    /// What the engine's own tasks last did.
    pub(super) vitals: Mutex<Vitals>,
    /// Claims, creations and writes of its own that are under way.
    pub(super) admissions: Admissions,
    /// How many claimed runs are being read.
    pub(super) loading: AtomicUsize,
    /// Claims that are given back because nobody advanced their runs. Who still has one does not begin.
    pub(super) let_go: Mutex<LetGo>,
    /// A place for each run that is read at the same time.
    pub(super) load_slots: Semaphore,
    pub(super) watch: Mutex<LeaseWatch>,
    /// What is known of runs under other code.
    pub(super) adoptions: Adoptions,
    pub(super) farewells: Farewells,
    /// Runs that others have taken from this worker, as of its newest renewal.
    pub(super) lost: Mutex<Vec<LostRun>>,
    /// Result of the one shutdown; a second call of it waits for the first and returns the same.
    pub(super) ended: OnceCell<Result<(), StoreError>>,
    /// Result of this worker's end: a part of the shutdown, unless a body still stands that could not be cut off.
    pub(super) left: OnceCell<Result<(), StoreError>>,
    pub(super) settings: Settings,
    /// Which ended runs it deletes, if any.
    pub(super) retention: Option<Retention>,
    /// That this engine uses its store.
    pub(super) in_use: InUse,
    /// Woken when a body has ended that could not be cut off.
    pub(super) unstuck: Notify,
    /// Wakes the task that deletes ended runs.
    pub(super) wake_purging: Arc<Notify>,
    /// Which runs it takes.
    pub(crate) serves: Serves,
    /// Whether the next claim gives the place that is left over to runs outside of queues.
    pub(crate) others_first: AtomicBool,
    /// As well for runs that have lapsed, among those of queues.
    pub(crate) lapsed_first: AtomicBool,
}

/// Times and sizes of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    pub(crate) stream_poll: Duration,
    pub(crate) max_active: usize,
    /// Whether it claims and advances runs.
    pub(crate) advances: bool,
}

#[derive(Debug)]
pub(super) struct Active {
    pub(super) run: Arc<Run>,
    /// `None` while a drain waits for it.
    pub(super) task: Option<JoinHandle<()>>,
    /// It was dropped while a drain waited for it.
    pub(super) is_dropped: bool,
}

/// Where the handles of a run wait for its end.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    pub(super) end: Mutex<Option<RunEnd>>,
    pub(super) changed: Notify,
}

impl Cell {
    pub(crate) fn set(&self, end: Option<RunEnd>) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
        self.changed.notify_waiters();
    }

    pub(crate) fn get(&self) -> Option<RunEnd> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Ends the engine's tasks when the last clone of the engine is dropped.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) inner: Arc<Inner>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.inner.begin_stopping();
    }
}

impl Inner {
    /// From here on the engine's tasks end.
    pub(super) fn begin_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake_scheduler.notify_one();
        self.wake_ticking.notify_one();
        self.wake_gathering.notify_one();
        self.wake_purging.notify_one();
    }

    pub(super) fn active(&self) -> MutexGuard<'_, HashMap<RunId, Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn let_go(&self) -> MutexGuard<'_, LetGo> {
        self.let_go.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn watch(&self) -> MutexGuard<'_, LeaseWatch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lost(&self) -> MutexGuard<'_, Vec<LostRun>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a task of the engine, whoever asks for it. What is left to do where its runtime has ended is done in the caller's.
    pub(super) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.living_runtime().spawn(task)
    }

    /// The engine's runtime; the caller's where that has ended.
    pub(super) fn living_runtime(&self) -> Runtime {
        let callers = Runtime::try_current().ok().filter(|_| self.vitals().broken);
        callers.unwrap_or_else(|| self.runtime.clone())
    }

    /// The right to claim or create runs, or to write for the engine itself, which a shutdown waits for; `None` once one has
    /// begun.
    pub(super) async fn admit(&self) -> Option<Admission> {
        let admission = self.admissions.begin().await;
        (!self.is_stopping()).then_some(admission)
    }

    /// The cell of a run; created when no handle and no task holds one.
    pub(super) fn cell(&self, run: &RunId) -> Arc<Cell> {
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = cells.get(run).and_then(Weak::upgrade) {
            return cell;
        }
        let cell = Arc::new(Cell::default());
        cells.insert(run.clone(), Arc::downgrade(&cell));
        cell
    }

    /// Drops cells that no handle and no task holds.
    pub(super) fn sweep_cells(&self) {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, cell| cell.strong_count() > 0);
    }

    pub(super) fn register(&self, workflow: RegisteredWorkflow) {
        self.registry.write().unwrap_or_else(PoisonError::into_inner).add(workflow);
    }

    /// The workflow that advances a run which this code recorded: that version, or the newest that is linked, if that is
    /// newer. A run never goes back to an older version.
    pub(super) fn linked(&self, code: &RunCode) -> Option<RegisteredWorkflow> {
        self.workflow(&code.workflow, &code.module, code.version)
            .filter(|linked| linked.def.version >= code.version)
    }

    /// How many more runs it may advance now.
    pub(super) fn room(&self) -> usize {
        let held = self.active().len() + self.loading.load(Ordering::Acquire);
        self.settings.max_active.saturating_sub(held)
    }

    /// As [`Inner::room`], for so many runs: where they are more, the next run that leaves its place wakes the scheduler.
    pub(super) fn room_for(&self, runs: usize) -> usize {
        let room = self.room();
        if room >= runs {
            return room;
        }
        self.short_of_room.store(true, Ordering::Release);
        // A place that came free before that was noted wakes nobody.
        self.room()
    }

    fn registry(&self) -> impl Deref<Target = Registry> + '_ {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The workflow that continues a run of this name, module and version; see [`Registry::find`].
    pub(super) fn workflow(&self, name: &str, module: &str, version: u32) -> Option<RegisteredWorkflow> {
        self.registry().find(name, module, version)
    }

    /// All workflows with all their versions.
    pub(super) fn workflows(&self) -> Vec<RegisteredWorkflow> {
        self.registry().all().copied().collect()
    }

    pub(super) fn is_linked(&self, name: &str) -> bool {
        self.registry().has(name)
    }

    /// Whether workflows of several modules have this name.
    pub(super) fn has_namesakes(&self, name: &str) -> bool {
        self.registry().has_namesakes(name)
    }

    pub(super) fn workflow_names(&self) -> Arc<[String]> {
        self.registry().names()
    }

    /// The codes of all workflows that this engine can advance, each once.
    pub(super) fn codes(&self) -> Vec<CodeId> {
        self.registry().codes()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Whether it claims, launches and owns runs: it is no client, and does not drain.
    pub(super) fn takes_runs(&self) -> bool {
        self.settings.advances && !self.draining.load(Ordering::Acquire) && !self.is_stopping()
    }

    pub(super) fn vitals(&self) -> MutexGuard<'_, Vitals> {
        self.vitals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// The store this engine keeps its runs in.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// for frame in engine.store().load(run, 0).await? {
    ///     println!("event {}: {:?}", frame.position, frame.events()?);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.shared.store
    }

    /// Subscribes to the events of all runs that this engine advances, as they are appended. They may not be durable
    /// yet, and a slow reader misses some.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut events = engine.watch();
    /// while let Ok(observed) = events.recv().await {
    ///     println!("{}: {} new events", observed.run, observed.events.len());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn watch(&self) -> broadcast::Receiver<Observed> {
        self.inner.shared.observers.subscribe()
    }

    /// Names of the workflows this engine can advance, sorted.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// assert!(engine.workflows().contains(&"greet".to_owned()));
    /// # Ok(()) }
    /// ```
    pub fn workflows(&self) -> Vec<String> {
        self.inner.workflow_names().to_vec()
    }

    /// The definition of the newest version of this workflow. Where several modules have one of this name, that of
    /// `module`.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(def) = engine.definition("greet", "shop::letters") {
    ///     println!("{} is in line {} of its file", def.name, def.line);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn definition(&self, name: &str, module: &str) -> Option<&'static WorkflowDef> {
        self.versions(name, module).pop()
    }

    /// The definitions of all versions of a workflow that this engine can advance, oldest first.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # async fn example(engine: &Engine) {
    /// for def in engine.versions("greet", "shop::letters") {
    ///     println!("version {} is in line {} of {}", def.version, def.line, def.file);
    /// }
    /// # }
    /// ```
    pub fn versions(&self, name: &str, module: &str) -> Vec<&'static WorkflowDef> {
        self.inner.registry().versions(name, module).into_iter().map(|workflow| workflow.def).collect()
    }

    /// The definitions of all workflows that this engine can advance, as values: to keep them, to read them back with
    /// [`Definition::parse`], and to [`diff`](crate::definition::diff()) them with those of another build. By name, module
    /// and version.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # fn example(engine: &Engine, path: &str) -> std::io::Result<()> {
    /// let all: Vec<_> = engine.definitions().iter().map(|definition| definition.to_json()).collect();
    /// std::fs::write(path, serde_json::Value::from(all).to_string())
    /// # }
    /// ```
    pub fn definitions(&self) -> Vec<Definition> {
        let all = self.inner.workflows();
        let mut all: Vec<_> = all.into_iter().map(|workflow| Definition::of(workflow.def)).collect();
        all.sort_by(|a, b| (&a.name, &a.module, a.version).cmp(&(&b.name, &b.module, b.version)));
        all
    }
}

/// Tells a run that its inbox has changed, if it is advanced here.
pub(crate) async fn notify_run(inner: &Arc<Inner>, run: &RunId) {
    let active = inner.active().get(run).map(|active| Arc::clone(&active.run));
    match active {
        Some(active) => {
            if let Ok(inbox) = inner.shared.store.inbox(run, active.seen()).await {
                active.notify(inbox);
            }
        }
        None => inner.adoptions.wake_for(run),
    }
    inner.wake_scheduler.notify_one();
}

/// As [`notify_run`], of the parent of a `child` that has ended here.
pub(crate) async fn notify_parent(inner: &Arc<Inner>, parent: &RunId, child: &RunId) {
    let active = inner.active().get(parent).map(|active| Arc::clone(&active.run));
    if let Some(active) = active {
        active.note_ended(child);
    }
    notify_run(inner, parent).await;
}

/// The time by the engine's clock.
pub(crate) fn now(inner: &Inner) -> Timestamp {
    inner.shared.environment.now()
}
