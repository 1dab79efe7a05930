//! How a test reaches Postgres.
//!
//! Promise: each database is the test's own and already has the store's tables. All of them are in the one cluster of this
//! process.

use std::sync::{LazyLock, OnceLock};

use aether_pg_tests::{Cluster, Database, PgBouncer};
use aether_postgres::{PostgresOptions, PostgresStore};
use tokio::runtime::Runtime;

/// How a test reaches Postgres.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Directly, with the default options.
    Plain,
    /// With nothing but what other servers of the same protocol have, and every transaction serializable.
    Portable,
    /// Through PgBouncer in transaction mode.
    Pooler,
}

impl Way {
    /// Every way.
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Portable, Self::Pooler];

    /// How `AETHER_STORE` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "postgres",
            Self::Portable => "postgres-portable",
            Self::Pooler => "postgres-pgbouncer",
        }
    }

    /// What `AETHER_STORE` says; directly otherwise.
    pub(crate) fn chosen() -> Self {
        let asked = std::env::var("AETHER_STORE").unwrap_or_default();
        match asked.as_str() {
            "" | "memory" | "sqlite" | "encrypted" => Self::Plain,
            name => Self::ALL.into_iter().find(|way| way.name() == name).unwrap_or_else(|| {
                panic!("AETHER_STORE={name}: memory, sqlite, {}", Self::ALL.map(Self::name).join(", "))
            }),
        }
    }

    /// The options of a store that is reached in this way.
    pub(crate) fn options(self) -> PostgresOptions {
        let options = PostgresOptions::new().connections(3);
        match self {
            Self::Plain => options,
            Self::Portable => options.portable(true),
            Self::Pooler => options.pooler(true),
        }
    }

    /// A new database with the store's tables.
    pub(crate) async fn database(self) -> Database<'static> {
        let template = format!("{self:?}");
        let prepare = async |url: String| {
            let store = PostgresStore::connect_with(&url, self.options()).await.unwrap();
            aether::store::Store::close(&store).await.unwrap();
        };
        let database = Cluster::shared().database_from(&template, prepare).await;
        if self == Self::Portable {
            let serializable = "SET default_transaction_isolation = 'serializable'";
            Cluster::shared().sql(&[format!("ALTER DATABASE \"{}\" {serializable}", database.name())]).await;
        }
        database
    }

    /// What reaches `database`.
    pub(crate) fn url(self, database: &Database<'_>) -> String {
        static POOLER: OnceLock<PgBouncer> = OnceLock::new();
        match self {
            Self::Plain | Self::Portable => database.url(),
            Self::Pooler => {
                POOLER.get_or_init(|| PgBouncer::before(Cluster::shared(), 20)).url(database.name())
            }
        }
    }

    /// The store in the database of this URL.
    pub(crate) async fn open(self, url: &str) -> PostgresStore {
        PostgresStore::connect_with(url, self.options()).await.unwrap()
    }
}

/// Waits for what needs a runtime, in a test that may be in one itself. What it spawns runs as long as the process.
pub(crate) fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> T {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    });
    std::thread::scope(|scope| scope.spawn(|| RUNTIME.block_on(future)).join().unwrap())
}
