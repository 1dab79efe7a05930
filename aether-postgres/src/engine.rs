//! `.postgres(url)` and `.prepare_postgres(..)` on the builder of an engine.
//!
//! Promise: the database is connected to, and prepared, when the engine starts; what is wrong with it is the error of the
//! start.

use std::any::Any;
use std::error::Error;
use std::sync::Arc;

use aether_core::engine::{EngineBuilder, Opening, PrepareError};
use aether_core::store::Store;
use tokio_postgres::Client;

use crate::options::PostgresOptions;
use crate::store::PostgresStore;

/// Adds [`postgres`](EnginePostgres::postgres) to the builder of an engine. In `aether::prelude` with the feature
/// `postgres`.
pub trait EnginePostgres: Sized {
    /// Keeps runs in the Postgres database that a connection string names, in tables of the schema `aether`, which are
    /// created where they are missing. Any number of engines on any number of machines share them.
    ///
    /// ```no_run
    /// # async fn start(builder: aether_core::engine::EngineBuilder) -> Result<(), Box<dyn std::error::Error>> {
    /// use aether_postgres::EnginePostgres as _;
    /// let engine = builder.postgres("postgres://shop@db-1/shop?sslmode=verify-full").start().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    fn postgres(self, url: impl Into<String>) -> Self {
        self.postgres_with(url, PostgresOptions::new())
    }

    /// As [`EnginePostgres::postgres`], with other than the default options.
    ///
    /// ```no_run
    /// # async fn start(builder: aether_core::engine::EngineBuilder) -> Result<(), Box<dyn std::error::Error>> {
    /// use aether_postgres::{EnginePostgres as _, PostgresOptions};
    /// let behind_a_pooler = PostgresOptions::new().pooler(true);
    /// let engine = builder.postgres_with("postgres://shop@pgbouncer:6432/shop", behind_a_pooler).start().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    fn postgres_with(self, url: impl Into<String>, options: PostgresOptions) -> Self;

    /// Makes or changes the program's own tables in the engine's database, at each start, before any run is resumed. Of
    /// several processes that start at the same time, one prepares after the other. `prepare` gets a connection of its own,
    /// with the settings that role and database have, and may begin and commit transactions. Several calls run in their
    /// order; where the store has several databases, each is prepared, in their order.
    ///
    /// An error of `prepare` is returned by [`EngineBuilder::start`], as
    /// [`BuildError::Prepare`](aether_core::engine::BuildError::Prepare). What was committed before it stays.
    ///
    /// Other processes may be advancing runs meanwhile, with the former version of the program: a migration must leave
    /// tables that it can still use.
    ///
    /// ```no_run
    /// # async fn start(builder: aether_core::engine::EngineBuilder) -> Result<(), Box<dyn std::error::Error>> {
    /// use aether_postgres::EnginePostgres as _;
    /// const TABLES: &str = "CREATE TABLE IF NOT EXISTS accounts(name text PRIMARY KEY, cents int8 NOT NULL)";
    /// let engine = builder
    ///     .postgres("postgres://shop@db-1/shop")
    ///     .prepare_postgres(async |db| db.batch_execute(TABLES).await)
    ///     .start()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    fn prepare_postgres<T, E>(
        self,
        prepare: impl AsyncFn(&mut Client) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>;
}

impl EnginePostgres for EngineBuilder {
    fn postgres_with(self, url: impl Into<String>, options: PostgresOptions) -> Self {
        let url = url.into();
        self.store_opened_by(move |Opening { migrate, .. }| {
            Box::pin(async move {
                let options = PostgresOptions { migrate: migrate && options.migrate, ..options };
                let store = PostgresStore::connect_with(&url, options).await?;
                Ok(Arc::new(store) as Arc<dyn Store>)
            })
        })
    }

    fn prepare_postgres<T, E>(
        self,
        prepare: impl AsyncFn(&mut Client) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let prepare = Arc::new(prepare);
        self.prepare_with(move |store: Arc<dyn Store>| {
            Box::pin(async move {
                let store: &dyn Any = &*store;
                let Some(store) = store.downcast_ref::<PostgresStore>() else {
                    let reason = "only a Postgres store can be prepared like this: call `.postgres(url)`";
                    return Err(PrepareError::new(reason));
                };
                for database in store.databases() {
                    let prepare = Arc::clone(&prepare);
                    let run = move |mut client: Client| {
                        let runtime = tokio::runtime::Handle::current();
                        // On a thread of its own: the future of a closure need not be one that threads can share.
                        runtime
                            .block_on(async { prepare(&mut client).await.map(drop) })
                            .map_err(Into::into)?;
                        Ok(client)
                    };
                    database.prepared(run).await.map_err(PrepareError::new)?;
                }
                Ok(())
            })
        })
    }
}
