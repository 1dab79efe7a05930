//! `.sqlite(path)` and `.prepare(..)` on the builder of an engine.
//!
//! Promise: the file is opened, and prepared, when the engine starts; what is wrong with it is the error of the start.

use std::any::Any;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use aether_core::engine::{EngineBuilder, Opening, PrepareError};
use aether_core::store::Store;
use rusqlite::Connection;

use crate::options::SqliteOptions;
use crate::store::SqliteStore;

/// Adds [`sqlite`](EngineSqlite::sqlite) to the builder of an engine. In `aether::prelude`.
pub trait EngineSqlite: Sized {
    /// Keeps runs in the SQLite file at `path`, which is created if it does not exist. What is acknowledged survives
    /// loss of power.
    ///
    /// ```
    /// # async fn start(builder: aether_core::engine::EngineBuilder) -> Result<(), Box<dyn std::error::Error>> {
    /// use aether_sqlite::EngineSqlite as _;
    /// let engine = builder.sqlite("agent.db").start().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    fn sqlite(self, path: impl Into<PathBuf>) -> Self {
        self.sqlite_with(path, SqliteOptions::default())
    }

    /// As [`EngineSqlite::sqlite`], with other options than the defaults. A file is migrated where both the options and
    /// [`EngineBuilder::migrate`] allow it.
    ///
    /// ```
    /// # async fn start(builder: aether_core::engine::EngineBuilder) -> Result<(), Box<dyn std::error::Error>> {
    /// use aether_sqlite::{EngineSqlite as _, SqliteOptions};
    /// let options = SqliteOptions { readers: 4, ..SqliteOptions::default() };
    /// let engine = builder.sqlite_with("agent.db", options).start().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    fn sqlite_with(self, path: impl Into<PathBuf>, options: SqliteOptions) -> Self;

    /// Makes or changes the program's own tables in the engine's file, at each start, before any run is resumed. Of
    /// several processes that start at the same time, one prepares after the other. `prepare` gets a connection of its
    /// own, may begin and commit transactions, and may use `PRAGMA user_version` and `PRAGMA foreign_keys`, as libraries
    /// for migrations do; the tables of the engine, in `aether_`, it cannot change. Several calls run in their order.
    ///
    /// An error of `prepare` is returned by [`EngineBuilder::start`], as
    /// [`BuildError::Prepare`](aether_core::engine::BuildError::Prepare). What was committed before it stays.
    ///
    /// Other processes may be advancing runs meanwhile, with the former version of the program: a migration must leave
    /// tables that it can still use.
    ///
    /// ```
    /// # async fn start(builder: aether_core::engine::EngineBuilder) -> Result<(), Box<dyn std::error::Error>> {
    /// use aether_sqlite::EngineSqlite as _;
    /// let engine = builder
    ///     .sqlite("agent.db")
    ///     .prepare(|db| db.execute_batch("CREATE TABLE IF NOT EXISTS accounts(name TEXT PRIMARY KEY, cents INTEGER)"))
    ///     .start()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    fn prepare<T, E>(self, prepare: impl FnOnce(&mut Connection) -> Result<T, E> + Send + 'static) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>;
}

impl EngineSqlite for EngineBuilder {
    fn sqlite_with(self, path: impl Into<PathBuf>, options: SqliteOptions) -> Self {
        let path = path.into();
        self.store_opened_by(move |Opening { migrate, .. }| {
            Box::pin(async move {
                let options = SqliteOptions { migrate: migrate && options.migrate, ..options };
                Ok(Arc::new(SqliteStore::open_with(path, options)?) as Arc<dyn Store>)
            })
        })
    }

    fn prepare<T, E>(self, prepare: impl FnOnce(&mut Connection) -> Result<T, E> + Send + 'static) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.prepare_with(move |store: Arc<dyn Store>| {
            Box::pin(async move {
                let store: &dyn Any = &*store;
                let Some(store) = store.downcast_ref::<SqliteStore>() else {
                    let reason = "only a store that is one SQLite file can be prepared: call `.sqlite(path)`";
                    return Err(PrepareError::new(reason));
                };
                store.prepare(Box::new(move |conn| prepare(conn).map(drop).map_err(Into::into))).await
            })
        })
    }
}
