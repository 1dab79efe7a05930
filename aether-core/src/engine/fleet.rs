//! The workers of a store.
//!
//! Promise: a list of what the store knows; for how long one has been silent is what this engine has seen itself.

use std::time::Duration;

use crate::engine::inner::Engine;
use crate::store::error::StoreError;
use crate::store::workers::KnownWorker;

/// A worker of the store: an engine of this process or of another one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WorkerView {
    /// What the store knows of it: its id, its codes, how many runs it holds.
    pub known: KnownWorker,
    /// Whether it is this engine.
    pub is_me: bool,
    /// For how long this engine has seen it not renew its leases; `None` for one that holds no runs, which need not.
    pub silent: Option<Duration>,
}

impl Engine {
    /// The workers that are registered in the store, by id. Those whose process has died stay listed until others have
    /// taken their runs.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// for worker in engine.workers().await? {
    ///     println!("{} holds {} runs", worker.known.id, worker.known.runs);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn workers(&self) -> Result<Vec<WorkerView>, StoreError> {
        let shared = &self.inner.shared;
        let mut known = shared.store.known_workers().await?;
        known.sort_by(|a, b| a.id.cmp(&b.id));
        let silences = self.inner.watch().silences();
        let view = |known: KnownWorker| {
            let silent = silences.get(&known.id).map(|(silent, _)| *silent);
            WorkerView { is_me: known.id == shared.worker, silent, known }
        };
        Ok(known.into_iter().map(view).collect())
    }
}
