//! What a transaction step's body sees of the file: `cx.sql(..)`.
//!
//! Promise: it can read everything and change everything that is not the store's own; it cannot take the guard off,
//! and it has the file only while the engine runs the body.

use rusqlite::{Connection, ErrorCode, Params, Row, Statement};

use aether_core::failure::{ErrorHints, KnownError};
use aether_core::id::CommandId;
use aether_core::outcome::{EffectClass, FailureClass};
use aether_core::step::StepCx;

use crate::step_connection::{connection_for, note};

/// How bodies reach the file.
pub(crate) const NAME: &str = "cx.sql";

/// The store's SQLite file, in the transaction that records the step's outcome.
#[derive(Debug)]
pub struct Sql<'c> {
    conn: &'c Connection,
}

impl Sql<'_> {
    /// Runs one statement; gives the number of rows it changed.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn execute<P: Params>(&self, sql: &str, params: P) -> rusqlite::Result<usize> {
        self.conn.execute(sql, params).inspect_err(note)
    }

    /// Runs several statements, separated by semicolons.
    ///
    /// # Errors
    /// What SQLite says of the first that fails.
    pub fn execute_batch(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.execute_batch(sql).inspect_err(note)
    }

    /// The first row of a query, as `read` reads it.
    ///
    /// # Errors
    /// `QueryReturnedNoRows` where there is none (see `rusqlite::OptionalExtension`), and what SQLite says.
    pub fn query_row<T, P, F>(&self, sql: &str, params: P, read: F) -> rusqlite::Result<T>
    where
        P: Params,
        F: FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    {
        self.conn.query_row(sql, params, read).inspect_err(note)
    }

    /// Prepares a statement that is run several times, or whose rows are read one by one. Return its errors from the
    /// closure that [`SqlStep::sql`] is given: of a full disk or an I/O error the engine learns from there, and begins the
    /// step again.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn prepare(&self, sql: &str) -> rusqlite::Result<Statement<'_>> {
        self.conn.prepare(sql).inspect_err(note)
    }

    /// The row id of the newest inserted row.
    pub fn last_insert_rowid(&self) -> i64 {
        self.conn.last_insert_rowid()
    }
}

/// Why `cx.sql(..)` gave no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// The step is of another class.
    #[error(
        "step `{command}` has `effect = \"{class}\"`: only a step with `effect = \"transaction\"` may use `cx.sql`"
    )]
    NotATransaction {
        /// Command of the step in its run.
        command: CommandId,
        /// What the step declares.
        class: EffectClass,
    },
    /// The engine keeps its runs in another store. The run is stopped, and resumes with an engine that has the file.
    #[error("step `{command}` uses `cx.sql`, and this engine's store is no SQLite file: use `.sqlite(path)`")]
    OtherStore {
        /// Command of the step in its run.
        command: CommandId,
    },
    /// The body is not being run by the store.
    #[error(
        "step `{command}` has no transaction here: use `cx.sql` in the step's own body, not in a task or thread and not after its end"
    )]
    NotHere {
        /// Command of the step in its run.
        command: CommandId,
    },
    /// SQLite refused or failed.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// SQL in the body of a transaction step.
pub trait SqlStep {
    /// Runs `work` on the store's own file, in the transaction that records this step's outcome: what it changes
    /// becomes durable together with the outcome, or not at all. It may be called several times; all calls of one body
    /// are one transaction. An error that the body returns, a panic, or an `await` that is not ready rolls all of it
    /// back.
    ///
    /// The writer of the store waits meanwhile, so do nothing slow in here. Where a statement meets a full disk or an I/O
    /// error, the step is rolled back and begun again, its body too, until there is none, whatever the body returns.
    ///
    /// # Errors
    /// [`SqlError`]: the step is not a transaction, the body does not run in its place, or SQLite refused.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::step::StepCx;
    /// use aether_sqlite::SqlStep;
    ///
    /// // #[step(effect = "transaction")]
    /// async fn book(cx: &mut StepCx, seat: u32) -> Result<usize> {
    ///     Ok(cx.sql(|sql| sql.execute("UPDATE seats SET taken = 1 WHERE no = ?1 AND NOT taken", [seat]))?)
    /// }
    /// ```
    fn sql<T>(&self, work: impl FnOnce(&Sql<'_>) -> rusqlite::Result<T>) -> Result<T, SqlError>;
}

impl SqlStep for StepCx {
    fn sql<T>(&self, work: impl FnOnce(&Sql<'_>) -> rusqlite::Result<T>) -> Result<T, SqlError> {
        let command = || self.command_id().clone();
        if self.class() != EffectClass::Transaction {
            return Err(SqlError::NotATransaction { command: command(), class: self.class() });
        }
        if !self.reaches(NAME) {
            return Err(SqlError::OtherStore { command: command() });
        }
        let conn = connection_for(&self.idempotency_key())
            .ok_or_else(|| SqlError::NotHere { command: command() })?;
        Ok(work(&Sql { conn: &conn }).inspect_err(note)?)
    }
}

inventory::submit!(KnownError(|error| {
    let class = match error.downcast_ref::<rusqlite::Error>()?.sqlite_error_code()? {
        ErrorCode::ConstraintViolation | ErrorCode::AuthorizationForStatementDenied => {
            FailureClass::Permanent
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => FailureClass::Retryable,
        _ => return None,
    };
    Some(ErrorHints { class, ..ErrorHints::default() })
}));

#[cfg(test)]
mod tests;
