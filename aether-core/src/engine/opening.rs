//! Where an engine keeps its runs: the builder's methods that give it a store.
//!
//! Promise: a store is opened when the engine starts and not before; one that may not be changed is refused where it has the
//! tables of an older build.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::engine::build_error::PrepareError;
use crate::engine::builder::EngineBuilder;
use crate::engine::open_store::{OpenStore, Opening};
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::memory::MemoryStore;

impl EngineBuilder {
    /// Keeps runs in `store`.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// use aether_core::store::memory::MemoryStore;
    /// use std::sync::Arc;
    ///
    /// let builder = Engine::builder().store(Arc::new(MemoryStore::default()));
    /// ```
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(OpenStore::Given(store));
        self
    }

    /// Keeps runs in the store that `open` returns when the engine starts: for crates that add a builder method for
    /// their store. An error of `open` is returned by [`EngineBuilder::start`].
    ///
    /// ```
    /// # use aether_core::engine::EngineBuilder;
    /// # use aether_core::store::{Store, StoreError};
    /// # use std::sync::Arc;
    /// # use aether_core::store::memory::MemoryStore;
    /// # fn open_file(_: &str) -> Result<Arc<dyn Store>, StoreError> { Ok(Arc::new(MemoryStore::default())) }
    /// trait InFile: Sized {
    ///     fn in_file(self, path: &str) -> Self;
    /// }
    ///
    /// impl InFile for EngineBuilder {
    ///     fn in_file(self, path: &str) -> Self {
    ///         let path = path.to_owned();
    ///         self.store_with(move || open_file(&path))
    ///     }
    /// }
    /// ```
    pub fn store_with(
        self,
        open: impl FnOnce() -> Result<Arc<dyn Store>, StoreError> + Send + 'static,
    ) -> Self {
        self.store_when_started(|| Box::pin(async { open() }))
    }

    /// As [`EngineBuilder::store_with`], for stores that are connected to.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::store::{Store, StoreError};
    /// # use aether_core::store::memory::MemoryStore;
    /// # use std::sync::Arc;
    /// # async fn connect() -> Result<Arc<dyn Store>, StoreError> { Ok(Arc::new(MemoryStore::default())) }
    /// let builder = Engine::builder().store_when_started(|| Box::pin(connect()));
    /// ```
    pub fn store_when_started(
        self,
        open: impl FnOnce() -> BoxFuture<'static, Result<Arc<dyn Store>, StoreError>> + Send + 'static,
    ) -> Self {
        self.store_opened_by(|_| open())
    }

    /// As [`EngineBuilder::store_when_started`], for stores that have tables: [`Opening::migrate`] says whether `open` may
    /// change those of an older build.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, Opening};
    /// # use aether_core::store::{Store, StoreError};
    /// # use aether_core::store::memory::MemoryStore;
    /// # use std::sync::Arc;
    /// # async fn connect(_may_migrate: bool) -> Result<Arc<dyn Store>, StoreError> { Ok(Arc::new(MemoryStore::default())) }
    /// let builder = Engine::builder().store_opened_by(|opening: Opening| Box::pin(connect(opening.migrate)));
    /// ```
    pub fn store_opened_by(
        mut self,
        open: impl FnOnce(Opening) -> BoxFuture<'static, Result<Arc<dyn Store>, StoreError>> + Send + 'static,
    ) -> Self {
        self.store = Some(OpenStore::When(Box::new(open)));
        self
    }

    /// Says whether the start may change what is there: bring the tables of an older build to those of this one, and run
    /// preparations (`.prepare(..)`). Default `true`. With `false`, an older store is refused with
    /// [`StoreError::OlderSchema`]: for a look of a new build at the store of the old one, which still runs. An empty store
    /// gets its tables all the same. A store that the program opens itself ([`EngineBuilder::store`],
    /// [`EngineBuilder::store_with`]) is as the program opened it.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// let builder = Engine::builder().memory().client().migrate(false);
    /// ```
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrates = migrate;
        self
    }

    /// Does something to the store when the engine starts, before any run is resumed: for crates that add a builder
    /// method for their store, such as `.prepare(..)` of SQLite. Several calls run in their order.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, PrepareError};
    /// let builder = Engine::builder().prepare_with(|store| {
    ///     Box::pin(async move { store.delete_snapshots().await.map_err(PrepareError::new) })
    /// });
    /// ```
    pub fn prepare_with(
        mut self,
        prepare: impl FnOnce(Arc<dyn Store>) -> BoxFuture<'static, Result<(), PrepareError>> + Send + 'static,
    ) -> Self {
        self.preparations.push(Box::new(prepare));
        self
    }

    /// Keeps runs in memory: nothing survives the process.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// let builder = Engine::builder().memory();
    /// ```
    pub fn memory(self) -> Self {
        self.store(Arc::new(MemoryStore::default()))
    }
}
