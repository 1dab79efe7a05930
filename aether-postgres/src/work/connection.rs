//! Connections for transaction steps: each body has one alone, for as long as its transaction is open.
//!
//! Promise: inside the transaction a body finds the settings that its role and database have, not the engine's; before the
//! engine appends, its own are set again. A connection that may have kept something of a step is not used again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::Client;

use crate::connection::{Connection, PLANNER, settings};
use crate::database::Database;
use crate::error::{OpError, gone};
use crate::options::{PostgresOptions, told};
use crate::row::get;
use crate::schema::quoted;

/// How much longer than a body may take the server bears its silence.
const GRACE: Duration = Duration::from_secs(2);

/// The connections of a database for transaction steps.
#[derive(Debug)]
pub(crate) struct StepConnections {
    permits: Semaphore,
    idle: Mutex<Vec<Arc<StepConnection>>>,
}

/// A connection for transaction steps.
#[derive(Debug)]
pub(crate) struct StepConnection {
    conn: Connection,
    /// What the engine has in its schema: the schema, and its tables.
    own: Option<Own>,
}

/// The engine's tables, by the numbers that Postgres gives them.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) schema: i64,
    pub(crate) tables: Vec<i64>,
}

impl StepConnections {
    pub(crate) fn new(most: usize) -> Self {
        Self { permits: Semaphore::new(most.max(1)), idle: Mutex::default() }
    }

    /// A connection that nobody else has, and what lets one more step have one when it is dropped.
    pub(crate) async fn take<'d>(
        &'d self,
        database: &Database,
    ) -> Result<(Arc<StepConnection>, SemaphorePermit<'d>), OpError> {
        let permit = self.permits.acquire().await.map_err(|_| gone(&database.name))?;
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = match std::iter::from_fn(idle).find(|known| known.conn.is_sound()) {
            Some(known) => known,
            None => Arc::new(StepConnection::open(database).await?),
        };
        Ok((conn, permit))
    }

    /// Keeps a connection for the next step.
    pub(crate) fn keep(&self, conn: Arc<StepConnection>) {
        if conn.conn.is_sound() && !self.permits.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        }
    }

    /// No step begins from now on.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl std::ops::Deref for StepConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.conn
    }
}

impl StepConnection {
    async fn open(database: &Database) -> Result<Self, OpError> {
        let conn = database.connect().await?;
        // Only Postgres itself lets a transaction see its locks.
        let own = if database.options.portable { None } else { Some(Own::find(&conn).await?) };
        if !database.options.portable && !database.has_pooler() {
            // A body has the isolation that its role and database have.
            conn.batch("RESET default_transaction_isolation").await?;
        }
        Ok(Self { conn, own })
    }

    pub(crate) fn client(&self) -> &Client {
        self.conn.client()
    }

    /// What the engine has in its schema; `None` where the server does not say what a transaction changed.
    pub(crate) fn own(&self) -> Option<&Own> {
        self.own.as_ref()
    }
}

impl Own {
    async fn find(conn: &Connection) -> Result<Self, OpError> {
        let sql = "SELECT n.oid::int8, c.oid::int8 FROM pg_catalog.pg_namespace n
            JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid WHERE n.nspname = $1::text";
        let rows = conn.query(sql, &[&conn.schema()]).await?;
        let schema = rows.first().map_or(Ok(0), |row| get(row, 0))?;
        let tables = rows.iter().map(|row| get(row, 1)).collect::<Result<_, _>>()?;
        Ok(Self { schema, tables })
    }
}

/// Begins the transaction: as the role and the database are set up, with time for the body.
pub(crate) fn beginning(options: &PostgresOptions, time: Option<Duration>) -> String {
    let mut sql = format!("BEGIN; SET LOCAL search_path TO DEFAULT; {}", users_path(&options.schema, true));
    if !options.portable {
        for (name, _) in PLANNER {
            sql += &format!("; SET LOCAL {name} TO DEFAULT");
        }
        let limit = time.map_or(0, |time| told(time.saturating_add(GRACE)).as_millis());
        sql += &format!("; SET LOCAL idle_in_transaction_session_timeout = {limit}");
        sql += &format!("; SET LOCAL lock_timeout = {}", options.lock_timeout.as_millis());
        if time.is_none() {
            sql += "; SET LOCAL statement_timeout TO DEFAULT";
        }
    }
    sql
}

/// Takes the engine's schema out of the path in which names are looked for: a role of the schema's name has it there by
/// default, and the program's tables would be made in it.
pub(crate) fn users_path(schema: &str, local: bool) -> String {
    let schema = schema.replace('\'', "''");
    format!(
        "SELECT pg_catalog.set_config('search_path', coalesce((SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s), ', ')
            FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) AS s WHERE s <> '{schema}'), 'public'), {local})"
    )
}

/// What the body finds in place of the engine's settings, once the run is locked.
pub(crate) fn for_the_body(options: &PostgresOptions) -> &'static str {
    if options.portable { "" } else { "SET LOCAL lock_timeout TO DEFAULT" }
}

/// The engine's settings again. Temporary tables are looked at last, whatever the step named them.
pub(crate) fn for_the_engine(options: &PostgresOptions) -> String {
    let path = format!("SET LOCAL search_path = {}, pg_temp", quoted(&options.schema));
    if options.portable {
        return path;
    }
    format!("{}; {path}", settings(options, "SET LOCAL").join("; "))
}
