//! The user's own migrations: `.prepare_postgres(..)` on the builder of an engine.
//!
//! Promise: they run on a connection of their own, one process after the other, before the engine claims a run. What they
//! committed before an error stays; the start fails with that error. A process that dies releases the lock.

use std::error::Error;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::connection::{Connection, KEEPALIVES};
use crate::database::Database;
use crate::error::{Failure, failure, said};
use crate::work::connection::users_path;

type BoxError = Box<dyn Error + Send + Sync>;

/// After how long a process that waits for another one's migrations says so.
const PATIENCE: Duration = Duration::from_secs(5);

impl Database {
    /// Runs `prepare` on a thread of its own, with a connection that has the settings of role and database, while this
    /// process has the lock.
    pub(crate) async fn prepared(
        &self,
        prepare: impl FnOnce(Client) -> Result<Client, BoxError> + Send + 'static,
    ) -> Result<(), BoxError> {
        let store = |error: crate::error::OpError| error.into_store_error(&self.name);
        let lock = self.connect().await.map_err(store)?;
        self.lock_preparing(&lock).await?;
        let client = self.connect_bare().await.map_err(store)?;
        // Behind a pooler it would stay on a connection that others use next.
        if !self.has_pooler() {
            let mut settings = users_path(&self.options.schema, false);
            if !self.options.portable {
                settings = format!("{settings}; {}", KEEPALIVES.join("; "));
            }
            client.batch_execute(&settings).await.map_err(|error| self.told(&error))?;
        }
        let done = tokio::task::spawn_blocking(move || prepare(client)).await;
        let client = done.map_err(|error| match error.try_into_panic() {
            Ok(panic) => format!("it panicked: {}", panic_text(&*panic)),
            Err(error) => error.to_string(),
        })?;
        let client = client.map_err(with_advice)?;
        what_is_left(&client).await?;
        let kept = lock.word("COMMIT").await;
        kept.map_err(|error| {
            format!("the lock that lets one process prepare at a time was lost: {}", said(&error))
        })?;
        Ok(())
    }

    /// Waits until no other process prepares the database: a row that each of them locks, in a transaction that stays open.
    async fn lock_preparing(&self, conn: &Connection) -> Result<(), BoxError> {
        let mut since = Instant::now();
        loop {
            let begin = format!("{}; SET LOCAL idle_in_transaction_session_timeout = 0", conn.beginning());
            conn.word(&begin).await.map_err(|error| self.told(&error))?;
            match conn.rows("SELECT 1 FROM schema_version WHERE one = 1 FOR UPDATE", &[]).await {
                Ok(_) => return Ok(()),
                Err(error) if matches!(failure(&error), Failure::Conflict | Failure::Slow) => {
                    conn.word("ROLLBACK").await.map_err(|error| self.told(&error))?;
                }
                Err(error) => return Err(self.told(&error)),
            }
            if since.elapsed() >= PATIENCE {
                tracing::warn!(store = %self.name, "waits for another process that prepares the database");
                since = Instant::now();
            }
        }
    }

    fn told(&self, error: &tokio_postgres::Error) -> BoxError {
        crate::error::translate(error, &self.name).into()
    }
}

/// An error of the program's own statements. Postgres lets nobody but the owner of the database make tables in the schema
/// `public`, since version 15.
fn with_advice(error: BoxError) -> BoxError {
    let Some(driver) = error.downcast_ref::<tokio_postgres::Error>() else { return error };
    let said = said(driver);
    match driver.code().is_some_and(|code| code.code() == "42501") {
        true => format!(
            "{said}; the role lacks a right: GRANT CREATE ON SCHEMA public TO .., or make the tables in a schema that it owns, \
             or let the role that migrates make them"
        )
        .into(),
        false => error,
    }
}

/// A transaction that is open would be rolled back with the connection.
async fn what_is_left(client: &Client) -> Result<(), BoxError> {
    // With the simple protocol, where a statement alone is a transaction that begins with it.
    let alone = client.simple_query("SELECT transaction_timestamp() = statement_timestamp()").await;
    let open = match alone {
        Ok(answers) => answers.iter().any(|answer| match answer {
            SimpleQueryMessage::Row(row) => row.get(0) == Some("f"),
            _ => false,
        }),
        Err(error) => error.code().is_some_and(|code| code.code() == "25P02"),
    };
    match open {
        true => Err("it left a transaction open, which was rolled back: commit it".into()),
        false => Ok(()),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}
