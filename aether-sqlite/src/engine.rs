//! `.sqlite(path)` on the builder of an engine.
//!
//! Promise: the file is opened when the engine starts; what is wrong with it is the error of the start.

use std::path::PathBuf;
use std::sync::Arc;

use aether_core::engine::EngineBuilder;
use aether_core::store::Store;

use crate::store::SqliteStore;

/// Adds [`sqlite`](EngineSqlite::sqlite) to the builder of an engine. In `aether::prelude`.
pub trait EngineSqlite: Sized {
    /// Keeps runs in the SQLite file at `path`, which is created if it does not exist. What is acknowledged survives
    /// loss of power. For other than the default options, give `.store(..)` a [`SqliteStore`] opened with
    /// [`SqliteStore::open_with`].
    ///
    /// ```
    /// # async fn start(builder: aether_core::engine::EngineBuilder) -> Result<(), Box<dyn std::error::Error>> {
    /// use aether_sqlite::EngineSqlite as _;
    /// let engine = builder.sqlite("agent.db").start().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    fn sqlite(self, path: impl Into<PathBuf>) -> Self;
}

impl EngineSqlite for EngineBuilder {
    fn sqlite(self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        self.store_with(move || Ok(Arc::new(SqliteStore::open(path)?) as Arc<dyn Store>))
    }
}
