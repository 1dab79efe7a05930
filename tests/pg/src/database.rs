//! A database for one test.
//!
//! Promise: it is empty, or a copy of a template, and nobody else has it. It is dropped some time after the test.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use crate::cluster::{Cluster, PATIENCE};

/// A database of one test.
#[derive(Debug)]
pub struct Database<'c> {
    cluster: &'c Cluster,
    name: String,
}

impl Cluster {
    /// A new, empty database.
    pub async fn database(&self) -> Database<'_> {
        self.copy("template1").await
    }

    /// A new database that is a copy of the one which `prepare` made from an empty one; it is called once for each name.
    pub async fn database_from(&self, template: &str, prepare: impl AsyncFnOnce(String)) -> Database<'_> {
        let made = {
            let mut templates = self.templates.lock().unwrap_or_else(PoisonError::into_inner);
            templates.entry(template.to_owned()).or_default().clone()
        };
        made.get_or_init(async || {
            // One that an earlier test could not prepare is made again.
            self.sql(&[drop_database(template), format!("CREATE DATABASE \"{template}\"")]).await;
            prepare(self.url(template)).await;
            // A template with a connection cannot be copied.
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname =";
            self.sql(&[format!("{end} '{template}'")]).await;
        })
        .await;
        self.copy(template).await
    }

    async fn copy(&self, template: &str) -> Database<'_> {
        let name = format!("test{}", self.number.fetch_add(1, Ordering::Relaxed));
        let spent = std::mem::take(&mut *self.spent.lock().unwrap_or_else(PoisonError::into_inner));
        let mut statements: Vec<String> = spent.iter().map(|name| drop_database(name)).collect();
        statements.push(format!("CREATE DATABASE \"{name}\" TEMPLATE \"{template}\""));
        self.sql(&statements).await;
        Database { cluster: self, name }
    }

    /// Executes statements of the superuser, one by one, in the database `postgres`.
    ///
    /// # Panics
    /// When one of them fails.
    pub async fn sql(&self, statements: &[String]) {
        let (client, connection) = tokio_postgres::connect(&self.url("postgres"), NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        for statement in statements {
            let until = Instant::now() + PATIENCE;
            while let Err(error) = client.batch_execute(statement).await {
                // A session that was ended takes a while to be gone. The server waits for that, but for five seconds only.
                let is_in_use = error.code() == Some(&SqlState::OBJECT_IN_USE);
                assert!(is_in_use && Instant::now() < until, "{statement}: {error:?}");
            }
        }
        drop(client);
        let _it_ends_with_its_client = connection.await;
    }
}

fn drop_database(name: &str) -> String {
    format!("DROP DATABASE IF EXISTS \"{name}\" WITH (FORCE)")
}

impl Database<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL, over TCP.
    pub fn url(&self) -> String {
        self.cluster.url(&self.name)
    }

    /// Its URL, over the Unix socket.
    pub fn socket_url(&self) -> String {
        let folder = self.cluster.socket_folder().to_str().unwrap().replace('/', "%2F");
        format!("postgres://aether@{folder}:{}/{}", self.cluster.port(), self.name)
    }

    /// Waits until no connection to it has a transaction under way: what a process sent before its end has then happened, or
    /// never will.
    pub async fn until_idle(&self) {
        let name = &self.name;
        let until = format!(
            "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity WHERE datname = '{name}' AND state <> 'idle') LOOP
                PERFORM pg_sleep(0.005); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$"
        );
        self.cluster.sql(&[until]).await;
    }

    /// The cluster that it is in.
    pub fn cluster(&self) -> &Cluster {
        self.cluster
    }
}

impl Drop for Database<'_> {
    /// Leaves the database to be dropped before the next one is made: a destructor cannot wait for a server.
    fn drop(&mut self) {
        let name = std::mem::take(&mut self.name);
        self.cluster.spent.lock().unwrap_or_else(PoisonError::into_inner).push(name);
    }
}
