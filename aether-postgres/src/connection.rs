//! One connection: statements prepared once and kept, or, behind a pooler, sent with their types each time.
//!
//! Promise: a statement reads the same in both ways: each parameter names its type where it stands first (`$1::int8`). A
//! transaction that is dropped before its end makes the connection unusable, so that nothing is written by mistake.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{join, join3};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

use crate::error::{Failure, OpError, failure, takes_no_writes};
use crate::options::{PostgresOptions, told};
use crate::recent::Recent;
use crate::schema::quoted;
use crate::silence::Silence;

/// A parameter of a statement.
pub(crate) type Param<'p> = &'p (dyn ToSql + Sync);

/// The planner sees arrays of unknown length and tables that may still be empty, and its plan is kept: on a new database
/// it would scan `runs` until it is analyzed. Leave it the index.
pub(crate) const PLANNER: [(&str, &str); 8] = [
    ("enable_seqscan", "off"),
    // The first rows in the order of an index are wanted, and not all of them, sorted.
    ("enable_bitmapscan", "off"),
    // A page of a list is read sooner than a second process is started.
    ("max_parallel_workers_per_gather", "0"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_material", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
];

/// Whatever role and database say: a statement that has waited for a lock must see what was committed meanwhile.
const READ_COMMITTED: &str = "SET default_transaction_isolation = 'read committed'";

/// A client whose machine is gone says nothing: without this, the server would hold what its session has locked for hours,
/// wherever a transaction may be idle for as long as it likes. Over a Unix socket it changes nothing.
pub(crate) const KEEPALIVES: [&str; 3] =
    ["SET tcp_keepalives_idle = 20", "SET tcp_keepalives_interval = 5", "SET tcp_keepalives_count = 4"];

/// One connection to the server.
#[derive(Debug)]
pub(crate) struct Connection {
    client: Client,
    schema: String,
    statements: Mutex<Recent<Statement>>,
    /// Behind a pooler: what begins each transaction.
    prelude: Option<String>,
    portable: bool,
    broken: AtomicBool,
    silence: Arc<Silence>,
}

impl Connection {
    /// Makes a connection out of a session that has just begun.
    pub(crate) async fn new(
        (client, silence): (Client, Arc<Silence>),
        options: &PostgresOptions,
        pooler: bool,
    ) -> Result<Self, OpError> {
        let mut settings = settings(options, if pooler { "SET LOCAL" } else { "SET" });
        // Where a server has no other isolation, the word for it must not be in the way.
        let level = if options.portable { "" } else { " ISOLATION LEVEL READ COMMITTED" };
        let prelude = pooler.then(|| format!("BEGIN{level}; {}", settings.join("; ")));
        if !pooler && !options.portable {
            settings.extend(KEEPALIVES.map(String::from));
            settings.push(READ_COMMITTED.into());
        }
        let (schema, portable) = (options.schema.clone(), options.portable);
        let (statements, broken) = (Mutex::default(), AtomicBool::new(false));
        let conn = Self { client, schema, statements, prelude, portable, broken, silence };
        if !pooler && options.portable {
            // One by one: a server that does not know one of them has the others.
            for setting in &settings {
                if let Err(error) = conn.word(setting).await {
                    tracing::debug!(setting, error = %crate::error::said(&error), "the server knows no such setting");
                }
            }
        } else if !pooler {
            conn.word(&settings.join("; ")).await?;
        }
        Ok(conn)
    }

    /// The schema of the tables.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// The driver's side of it.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether it can be used again.
    pub(crate) fn is_sound(&self) -> bool {
        !self.client.is_closed() && !self.broken.load(Ordering::Relaxed)
    }

    /// Whether a pooler stands before the server: each transaction may have another session.
    pub(crate) fn is_pooled(&self) -> bool {
        self.prelude.is_some()
    }

    /// It is not to be used again.
    pub(crate) fn give_up(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// The rows of one statement, which is a transaction of its own.
    pub(crate) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, OpError> {
        let Some(prelude) = &self.prelude else { return Ok(self.rows(sql, params).await?) };
        // All are sent at once; the server works them off in order. After an error in one the rest does nothing.
        let (begun, rows, committed) =
            join3(self.word(prelude), self.rows(sql, params), self.word("COMMIT")).await;
        begun?;
        let rows = rows?;
        committed?;
        Ok(rows)
    }

    /// The only row of one statement, if there is one.
    pub(crate) async fn query_opt(&self, sql: &str, params: &[Param<'_>]) -> Result<Option<Row>, OpError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// How many rows a statement has changed, which is a transaction of its own.
    pub(crate) async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, OpError> {
        let Some(prelude) = &self.prelude else { return Ok(self.count(sql, params).await?) };
        let (begun, count, committed) =
            join3(self.word(prelude), self.count(sql, params), self.word("COMMIT")).await;
        begun?;
        let count = count?;
        committed?;
        Ok(count)
    }

    /// Statements without parameters, as one transaction.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), OpError> {
        let Some(prelude) = &self.prelude else { return Ok(self.word(sql).await?) };
        // The end is a request of its own: of the first one nothing is worked off behind an error, and the session would stay
        // in its failed transaction for whomever the pooler gives it next.
        let (done, ended) = join(self.word(&format!("{prelude}; {sql}")), self.word("COMMIT")).await;
        done?;
        Ok(ended?)
    }

    /// Begins a transaction.
    pub(crate) async fn begin(&self) -> Result<Transaction<'_>, OpError> {
        let transaction = Transaction { conn: self, open: true };
        self.word(self.beginning()).await?;
        Ok(transaction)
    }

    /// Begins a transaction that the server ends when nothing was asked in it for so long: the process is paused.
    pub(crate) async fn begin_for(&self, idle: Duration) -> Result<Transaction<'_>, OpError> {
        if self.portable {
            return self.begin().await;
        }
        let transaction = Transaction { conn: self, open: true };
        let (begin, idle) = (self.beginning(), told(idle).as_millis());
        self.word(&format!("{begin}; SET LOCAL idle_in_transaction_session_timeout = {idle}")).await?;
        Ok(transaction)
    }

    pub(crate) fn beginning(&self) -> &str {
        self.prelude.as_deref().unwrap_or("BEGIN")
    }

    /// Sends statements without parameters, in whatever transaction is open.
    pub(crate) async fn word(&self, sql: &str) -> Result<(), Error> {
        let _unanswered = self.silence.asked();
        let answer = self.client.batch_execute(sql).await;
        if answer.as_ref().is_err_and(takes_no_writes) {
            self.give_up();
        }
        answer
    }

    /// The rows of a statement in whatever transaction is open.
    pub(crate) async fn rows(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        let (asked, _unanswered) = (Asked(Some(self)), self.silence.asked());
        let rows = async {
            if self.prelude.is_some() {
                return self.client.query_typed(sql, &typed(sql, params)).await;
            }
            let statement = self.statement(sql).await?;
            self.client.query(&statement, params).await
        };
        asked.answered(rows.await)
    }

    async fn count(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        let (asked, _unanswered) = (Asked(Some(self)), self.silence.asked());
        let count = async {
            if self.prelude.is_some() {
                return self.client.execute_typed(sql, &typed(sql, params)).await;
            }
            let statement = self.statement(sql).await?;
            self.client.execute(&statement, params).await
        };
        asked.answered(count.await)
    }

    /// Whether a statement needs no preparation.
    pub(crate) fn is_prepared(&self, sql: &str) -> bool {
        let known = || self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).is_some();
        self.prelude.is_some() || known()
    }

    /// Prepares a statement, once. Behind a pooler there is nothing to prepare.
    pub(crate) async fn prepare(&self, sql: &str) -> Result<(), OpError> {
        if self.prelude.is_none() {
            let _unanswered = self.silence.asked();
            self.statement(sql).await?;
        }
        Ok(())
    }

    async fn statement(&self, sql: &str) -> Result<Statement, Error> {
        let known = self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql);
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare_typed(sql, &types(sql)).await?;
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).keep(sql, statement.clone());
        Ok(statement)
    }
}

/// A request whose answer is waited for. Whoever stops waiting takes its connection along: the next request would be
/// answered only after this one, which may wait for a lock or a disk. So does an answer after which the connection is no
/// use: its session ends, knows the statement as it was before a migration, or is one of a server that takes no writes: the
/// next connection may lead to another server, and a session keeps the settings that it began with.
struct Asked<'c>(Option<&'c Connection>);

impl Asked<'_> {
    fn answered<T>(mut self, answer: Result<T, Error>) -> Result<T, Error> {
        let is_of_no_use = |error: &Error| failure(error) == Failure::Lost || takes_no_writes(error);
        if !answer.as_ref().is_err_and(is_of_no_use) {
            self.0 = None;
        }
        answer
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(conn) = self.0 {
            conn.give_up();
        }
    }
}

/// A transaction of several statements. Dropped without an end, it takes its connection with it.
#[derive(Debug)]
pub(crate) struct Transaction<'c> {
    conn: &'c Connection,
    open: bool,
}

impl Transaction<'_> {
    /// The rows of a statement.
    pub(crate) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, OpError> {
        Ok(self.conn.rows(sql, params).await?)
    }

    /// How many rows a statement has changed.
    pub(crate) async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, OpError> {
        Ok(self.conn.count(sql, params).await?)
    }

    /// Statements without parameters.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), OpError> {
        Ok(self.conn.word(sql).await?)
    }

    /// Makes it durable.
    pub(crate) async fn commit(mut self) -> Result<(), OpError> {
        self.conn.word("COMMIT").await?;
        self.open = false;
        Ok(())
    }

    /// Undoes it.
    pub(crate) async fn rollback(mut self) -> Result<(), OpError> {
        self.conn.word("ROLLBACK").await?;
        self.open = false;
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.open {
            self.conn.give_up();
        }
    }
}

/// The statements that set a session, or a transaction, up.
pub(crate) fn settings(options: &PostgresOptions, set: &str) -> Vec<String> {
    let mut settings = vec![
        format!("{set} search_path = {}", quoted(&options.schema)),
        format!("{set} statement_timeout = {}", options.statement_timeout.as_millis()),
        format!("{set} lock_timeout = {}", options.lock_timeout.as_millis()),
        format!("{set} idle_in_transaction_session_timeout = {}", options.statement_timeout.as_millis()),
    ];
    if options.portable {
        return settings;
    }
    settings.extend(PLANNER.iter().map(|(name, value)| format!("{set} {name} = {value}")));
    // An acknowledged append survives loss of power also where the server's default says otherwise.
    let local = set != "SET";
    settings.push(format!(
        "SELECT set_config('synchronous_commit', 'on', {local}) WHERE current_setting('synchronous_commit') = 'off'"
    ));
    settings
}

fn typed<'p>(sql: &str, params: &[Param<'p>]) -> Vec<(Param<'p>, Type)> {
    params.iter().copied().zip(types(sql)).collect()
}

/// The types of a statement's parameters, from where each stands first: `$1::int8[]`.
fn types(sql: &str) -> Vec<Type> {
    let mut types: Vec<Option<Type>> = Vec::new();
    for part in sql.split('$').skip(1) {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = part.split_at(digits);
        let Ok(number @ 1..) = number.parse::<usize>() else { continue };
        types.resize(types.len().max(number), None);
        let named = rest.strip_prefix("::").and_then(type_named);
        if let (Some(place @ None), Some(named)) = (types.get_mut(number - 1), named) {
            *place = Some(named);
        }
    }
    types.into_iter().map(|named| named.unwrap_or(Type::UNKNOWN)).collect()
}

fn type_named(text: &str) -> Option<Type> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    Some(match (name, rest.starts_with("[]")) {
        ("int2", false) => Type::INT2,
        ("int4", false) => Type::INT4,
        ("int8", false) => Type::INT8,
        ("text", false) => Type::TEXT,
        ("bool", false) => Type::BOOL,
        ("bytea", false) => Type::BYTEA,
        ("int2", true) => Type::INT2_ARRAY,
        ("int4", true) => Type::INT4_ARRAY,
        ("int8", true) => Type::INT8_ARRAY,
        ("text", true) => Type::TEXT_ARRAY,
        ("bool", true) => Type::BOOL_ARRAY,
        ("bytea", true) => Type::BYTEA_ARRAY,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_name_their_types() {
        let sql = "SELECT $2::text[], $1::int8, $2, $10::bytea WHERE a = $3::bool";
        let types = types(sql);
        assert_eq!(types.len(), 10);
        assert_eq!(types[..3], [Type::INT8, Type::TEXT_ARRAY, Type::BOOL]);
        assert_eq!((types[9].clone(), types[4].clone()), (Type::BYTEA, Type::UNKNOWN));
    }
}
