//! What the tests of Postgres have in common.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aether::engine::EngineBuilder;
use aether::postgres::PostgresOptions;
use aether::postgres::tokio_postgres::{Client, NoTls};
use aether::prelude::*;
use aether_pg_tests::{Cluster, Database, PgBouncer};

use super::refusals::in_a_file;

/// Waits for something that must not take long.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(180), future).await.expect("it takes too long")
}

/// Calls of bodies.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<AtomicU32>);

impl Calls {
    pub(crate) fn made(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn count(cx: &StepCx) -> Result<u32> {
        Ok(cx.dep::<Self>()?.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// A database with a table of notes, how an engine reaches it, and the calls of its bodies.
pub(crate) struct Bank {
    pub(crate) calls: Calls,
    pub(crate) options: PostgresOptions,
    url: String,
    _pooler: Option<PgBouncer>,
    database: Database<'static>,
}

const NOTES: &str =
    "CREATE TABLE IF NOT EXISTS notes(id int8 GENERATED ALWAYS AS IDENTITY, text text NOT NULL)";

impl Bank {
    pub(crate) async fn new() -> Self {
        let database = Cluster::shared().database().await;
        let (url, calls, options) = (database.url(), Calls::default(), PostgresOptions::new());
        let bank = Self { calls, options, url, _pooler: None, database };
        bank.sql(NOTES).await;
        bank
    }

    /// Reached through PgBouncer, which gives each transaction another connection.
    pub(crate) async fn behind_a_pooler() -> Self {
        let direct = Self::new().await;
        let pooler = PgBouncer::before(Cluster::shared(), 3);
        let url = pooler.url(direct.database.name());
        Self { url, options: PostgresOptions::new().pooler(true), _pooler: Some(pooler), ..direct }
    }

    /// The URL that engines use.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn builder(&self) -> EngineBuilder {
        let builder = Engine::builder().postgres_with(&self.url, self.options.clone());
        builder.provide(self.calls.clone()).without::<in_a_file>()
    }

    pub(crate) async fn engine(&self) -> Engine {
        self.builder().start().await.unwrap()
    }

    /// A connection of the test's own, not through the pooler.
    pub(crate) async fn client(&self) -> Client {
        let client = client(&self.database.url()).await;
        // The role is named as the schema of the engine, which is where it would look first.
        client.batch_execute("SET search_path = public").await.unwrap();
        client
    }

    pub(crate) async fn sql(&self, sql: &str) {
        self.client().await.batch_execute(sql).await.unwrap();
    }

    /// The first column of a query.
    pub(crate) async fn texts(&self, sql: &str) -> Vec<String> {
        let rows = self.client().await.query_typed(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    pub(crate) async fn notes(&self) -> Vec<String> {
        self.texts("SELECT text FROM notes ORDER BY id").await
    }

    /// The kinds of a run's events.
    pub(crate) async fn kinds(&self, run: &str) -> Vec<String> {
        let frames = self
            .texts(&format!("SELECT events FROM aether.journal WHERE run = '{run}' ORDER BY frame"))
            .await;
        let events = frames
            .iter()
            .filter(|text| !text.is_empty())
            .flat_map(|text| serde_json::from_str::<Vec<serde_json::Value>>(text).unwrap());
        events.filter_map(|event| event.as_object()?.keys().next().cloned()).collect()
    }
}

/// A connection of the test's own.
pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = aether::postgres::tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
