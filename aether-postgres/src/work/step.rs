//! What a transaction step's body sees of its database: `cx.postgres(..)`.
//!
//! Promise: it can read everything and change everything that is not the store's own; it cannot end the transaction, and
//! it has it only while the engine runs the body.

use aether_core::failure::{ErrorHints, KnownError};
use aether_core::id::CommandId;
use aether_core::outcome::{EffectClass, FailureClass};
use aether_core::step::StepCx;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use crate::work::session::{Session, StatementFailure, session_of};

/// How bodies reach the database.
pub(crate) const NAME: &str = "cx.postgres";

/// The database of the step's run, in the transaction that records the step's outcome. Parameters are `$1`, `$2` and so on;
/// each is sent as what its Rust type is in Postgres (`i64` as `int8`, a text as `text`), and a cast in the statement makes
/// something else of it: `$1::jsonb`.
#[derive(Debug)]
pub struct Postgres<'s> {
    session: &'s Session,
}

impl Postgres<'_> {
    /// Runs one statement; gives the number of rows it changed.
    ///
    /// # Errors
    /// What Postgres says. The transaction is then over: whatever the body returns, nothing of it is kept.
    pub fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, PostgresError> {
        self.session.count(sql, params)
    }

    /// The rows of a query.
    ///
    /// # Errors
    /// As [`Postgres::execute`].
    pub fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, PostgresError> {
        self.session.rows(sql, params)
    }

    /// The only row of a query.
    ///
    /// # Errors
    /// [`PostgresError::Rows`] where there is none, or more than one, and as [`Postgres::execute`].
    pub fn query_one(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, PostgresError> {
        self.query_opt(sql, params)?.ok_or(PostgresError::Rows { found: 0 })
    }

    /// The only row of a query, if there is one.
    ///
    /// # Errors
    /// [`PostgresError::Rows`] where there is more than one, and as [`Postgres::execute`].
    pub fn query_opt(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>, PostgresError> {
        let mut rows = self.session.rows(sql, params)?;
        match rows.len() {
            0 | 1 => Ok(rows.pop()),
            found => Err(PostgresError::Rows { found }),
        }
    }
}

/// Why `cx.postgres(..)` gave no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The step is of another class.
    #[error(
        "step `{command}` has `effect = \"{class}\"`: only a step with `effect = \"transaction\"` may use `cx.postgres`"
    )]
    NotATransaction {
        /// Command of the step in its run.
        command: CommandId,
        /// What the step declares.
        class: EffectClass,
    },
    /// The engine keeps its runs in another store. The run is stopped, and resumes with an engine that has the database.
    #[error(
        "step `{command}` uses `cx.postgres`, and this engine's store is not Postgres: use `.postgres(url)`"
    )]
    OtherStore {
        /// Command of the step in its run.
        command: CommandId,
    },
    /// The body is not being run by the store.
    #[error(
        "step `{command}` has no transaction here: use `cx.postgres` in the step's own body, not in a task or thread and not after its end"
    )]
    NotHere {
        /// Command of the step in its run.
        command: CommandId,
    },
    /// The statement was not sent.
    #[error("the SQL of a transaction step must not {0}")]
    Refused(String),
    /// The body's time is over.
    #[error("the time of the transaction step is over")]
    TimedOut,
    /// A query gave another number of rows.
    #[error("expected one row, found {found}")]
    Rows {
        /// How many there are.
        found: usize,
    },
    /// Postgres refused or failed.
    #[error("{}", crate::error::said(.0))]
    Postgres(#[source] Error),
}

impl From<Error> for PostgresError {
    fn from(error: Error) -> Self {
        Self::Postgres(error)
    }
}

impl PostgresError {
    /// The five characters by which Postgres names the error, such as `23505` for a value that is there already.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Postgres(error) => error.code().map(tokio_postgres::error::SqlState::code),
            _ => None,
        }
    }
}

/// SQL in the body of a transaction step, on Postgres.
pub trait PostgresStep {
    /// Runs `work` on the run's own database, in the transaction that records this step's outcome: what it changes becomes
    /// durable together with the outcome, or not at all. It may be called several times; all calls of one body are one
    /// transaction. An error that the body returns, a panic, or an `await` that is not ready rolls all of it back.
    ///
    /// # Errors
    /// [`PostgresError`]: the step is not a transaction, the body does not run in its place, or Postgres refused.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::step::StepCx;
    /// use aether_postgres::PostgresStep;
    ///
    /// // #[step(effect = "transaction")]
    /// async fn book(cx: &mut StepCx, seat: i32) -> Result<u64> {
    ///     Ok(cx.postgres(|db| db.execute("UPDATE seats SET taken = true WHERE no = $1 AND NOT taken", &[&seat]))?)
    /// }
    /// ```
    fn postgres<T>(
        &self,
        work: impl FnOnce(&Postgres<'_>) -> Result<T, PostgresError>,
    ) -> Result<T, PostgresError>;
}

impl PostgresStep for StepCx {
    fn postgres<T>(
        &self,
        work: impl FnOnce(&Postgres<'_>) -> Result<T, PostgresError>,
    ) -> Result<T, PostgresError> {
        let command = || self.command_id().clone();
        if self.class() != EffectClass::Transaction {
            return Err(PostgresError::NotATransaction { command: command(), class: self.class() });
        }
        if !self.reaches(NAME) {
            return Err(PostgresError::OtherStore { command: command() });
        }
        let session = session_of(&self.idempotency_key())
            .ok_or_else(|| PostgresError::NotHere { command: command() })?;
        work(&Postgres { session: &session })
    }
}

inventory::submit!(KnownError(|error| {
    let error = match error.downcast_ref::<PostgresError>() {
        Some(PostgresError::Postgres(error)) => error,
        Some(PostgresError::TimedOut) => {
            return Some(ErrorHints { class: FailureClass::Retryable, ..ErrorHints::default() });
        }
        Some(_) => return None,
        None => error.downcast_ref::<Error>()?,
    };
    let class = match (StatementFailure::of(error), error.code()?.code()) {
        (StatementFailure::Conflict(_) | StatementFailure::Passing(_), _) | (_, "55P03" | "57014") => {
            FailureClass::Retryable
        }
        // Values, constraints, names and privileges: the same statement fails again.
        (_, code) if ["22", "23", "42"].iter().any(|class| code.starts_with(class)) => {
            FailureClass::Permanent
        }
        _ => return None,
    };
    Some(ErrorHints { class, ..ErrorHints::default() })
}));
