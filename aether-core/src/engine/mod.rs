//! The engine: starts runs, recovers what was left, hands out results, and gives runs back when it shuts down.
//!
//! Promise: one run is advanced by one live owner at a time; a shutdown releases and does not cancel; a fault of one
//! run leaves the others alone.

mod builder;
mod decide;
mod family;
mod handle;
mod operate;
mod retention;
mod verify;
mod worker;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use tokio::sync::{Notify, broadcast};
use tokio::task::JoinHandle;

pub use builder::{BuildError, EngineBuilder};
pub use decide::DecideError;
pub use handle::{AnyWorkflow, RunError, RunHandle, StartError, StartRun};
pub use retention::{Fate, PurgeReport, Retention, Retiring};
pub use verify::{Verified, VerifyError};

use crate::child::Children;
use crate::def::WorkflowDef;
use crate::host::{Host, Observed};
use crate::id::RunId;
use crate::run::Run;
use crate::step::RegisteredWorkflow;
use crate::store::Store;
use crate::turn::RunEnd;

/// Starts, advances and recovers runs. Cheap to clone; dropping the last clone gives all runs back to the store.
#[derive(Clone, Debug)]
pub struct Engine {
    inner: Arc<Inner>,
    _guard: Arc<Guard>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    host: Arc<Host>,
    /// What runs of this engine need to have children. Holds the engine weakly, being a part of it.
    children: Arc<dyn Children>,
    registry: RwLock<HashMap<&'static str, Vec<RegisteredWorkflow>>>,
    active: Mutex<HashMap<RunId, Active>>,
    cells: Mutex<HashMap<RunId, Weak<Cell>>>,
    kick: Notify,
    stopping: AtomicBool,
    /// When leases were last renewed, or the engine began; microseconds since 1970.
    renewed: AtomicI64,
    /// What the one shutdown came to; whoever asks for another one waits for it.
    ended: tokio::sync::OnceCell<Result<(), crate::store::StoreError>>,
    settings: Settings,
}

/// Times and sizes of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    pub(crate) max_active: usize,
}

#[derive(Debug)]
struct Active {
    run: Arc<Run>,
    task: Option<JoinHandle<()>>,
}

/// Where a handle learns how its run ended.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    end: Mutex<Option<RunEnd>>,
    changed: Notify,
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
struct Guard {
    inner: Arc<Inner>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.inner.stopping.store(true, Ordering::Release);
        self.inner.kick.notify_one();
    }
}

impl Inner {
    fn active(&self) -> MutexGuard<'_, HashMap<RunId, Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cell of a run; made when nobody has one.
    fn cell(&self, run: &RunId) -> Arc<Cell> {
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = cells.get(run).and_then(Weak::upgrade) {
            return cell;
        }
        let cell = Arc::new(Cell::default());
        cells.insert(run.clone(), Arc::downgrade(&cell));
        cell
    }

    /// Forgets cells that nobody holds.
    fn sweep_cells(&self) {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, cell| cell.strong_count() > 0);
    }

    fn register(&self, workflow: RegisteredWorkflow) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let named = registry.entry(workflow.def.name).or_default();
        if !named.iter().any(|known| known.is_same(&workflow)) {
            named.push(workflow);
        }
    }

    /// The workflow of this name; of several, the only one in `module`.
    fn workflow(&self, name: &str, module: &str) -> Option<RegisteredWorkflow> {
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        let named = registry.get(name)?;
        if let [only] = named.as_slice() {
            return Some(*only);
        }
        let mut here = named.iter().filter(|workflow| workflow.def.module == module);
        here.next().copied().filter(|_| here.next().is_none())
    }

    fn is_linked(&self, name: &str) -> bool {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    fn workflow_names(&self) -> Vec<String> {
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<_> = registry.keys().map(ToString::to_string).collect();
        names.sort_unstable();
        names
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

impl Engine {
    /// The store this engine keeps its runs in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.host.store
    }

    /// Events of all runs from here on, as they are appended. They may not be durable yet; a slow reader misses some.
    pub fn watch(&self) -> broadcast::Receiver<Observed> {
        self.inner.host.observers.subscribe()
    }

    /// Names of the workflows this engine can advance.
    pub fn workflows(&self) -> Vec<String> {
        self.inner.workflow_names()
    }

    /// The definition of the workflow of this name; of several, the one in `module`.
    pub fn definition(&self, name: &str, module: &str) -> Option<&'static WorkflowDef> {
        self.inner.workflow(name, module).map(|workflow| workflow.def)
    }

    /// Stops taking up work, lets step bodies that are running finish for at most `patience`, gives every run back
    /// to the store, and waits until everything is durable. Cancels nothing: the runs go on at the next start.
    ///
    /// Closes the store, unless somebody else in this process holds it, such as another engine.
    pub async fn shutdown(self, patience: Duration) -> Result<(), crate::store::StoreError> {
        worker::shut_down(&self.inner, patience).await
    }
}
