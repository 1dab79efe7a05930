//! A step's body while it runs: the transaction that its statements are part of, and its guard.
//!
//! Promise: only the body itself reaches the transaction, on the thread that runs it, and only while it runs. A refused
//! statement, a failed one and the end of the body's time are remembered whatever the body makes of them.

use std::cell::RefCell;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aether_core::id::IdempotencyKey;
use futures_util::future::join;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Error, Row};

use crate::error::{Failure, failure, said};
use crate::options::told;
use crate::work::connection::StepConnection;
use crate::work::statement;
use crate::work::step::PostgresError;
use crate::work::types::{Param, typed};

/// How much longer than its time the answer of a statement may take.
const GRACE: Duration = Duration::from_secs(2);

thread_local! {
    /// The step whose body this thread is in.
    static CURRENT: RefCell<Option<Arc<Session>>> = const { RefCell::new(None) };
}

/// The session of the attempt `key`, if that is what this thread runs at this moment.
///
/// By thread and by key: a body that hands its context to another thread, or keeps it for a later step, gets nothing.
pub(crate) fn session_of(key: &IdempotencyKey) -> Option<Arc<Session>> {
    CURRENT.with_borrow(|current| current.as_ref().filter(|current| current.key == *key).cloned())
}

/// Ends the body's access to the transaction, also where it panicked.
struct ClearOnDrop;

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// One call of a body.
#[derive(Debug)]
pub(crate) struct Session {
    conn: Arc<StepConnection>,
    key: IdempotencyKey,
    runtime: Handle,
    deadline: Option<Instant>,
    seen: Mutex<Seen>,
}

/// What its statements came to.
#[derive(Debug, Default)]
struct Seen {
    refused: Option<String>,
    /// The first failure: it has ended the transaction.
    failed: Option<StatementFailure>,
    late: bool,
}

/// A statement that failed.
#[derive(Clone, Debug)]
pub(crate) enum StatementFailure {
    /// Another transaction was in the way: called again, the body may succeed.
    Conflict(String),
    /// The server went away, or refuses everything for the moment.
    Passing(String),
    /// The statement's own fault.
    Own(String),
}

/// Why the work of a body must be undone.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// There is no reason to.
    Sound,
    /// It did what it must not do.
    Refused(String),
    /// It took too long.
    Late,
    /// A statement failed.
    Failed(StatementFailure),
}

impl Session {
    pub(crate) fn new(conn: &Arc<StepConnection>, key: IdempotencyKey, time: Option<Duration>) -> Arc<Self> {
        let deadline = time.and_then(|time| Instant::now().checked_add(time));
        let (conn, runtime, seen) = (Arc::clone(conn), Handle::current(), Mutex::default());
        Arc::new(Self { conn, key, runtime, deadline, seen })
    }

    /// Runs `body` on this thread, with the transaction.
    pub(crate) fn enter<T>(self: &Arc<Self>, body: impl FnOnce() -> T) -> T {
        CURRENT.set(Some(Arc::clone(self)));
        let _clear = ClearOnDrop;
        body()
    }

    /// What is to be done with what the body did.
    pub(crate) fn verdict(&self) -> Verdict {
        let seen = self.seen();
        match (&seen.refused, &seen.failed) {
            (Some(reason), _) => Verdict::Refused(format!("the SQL of a transaction step must not {reason}")),
            (None, _) if seen.late || self.is_late() => Verdict::Late,
            (None, Some(failed)) => Verdict::Failed(failed.clone()),
            (None, None) => Verdict::Sound,
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The rows of a statement.
    pub(crate) fn rows(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, PostgresError> {
        let client = self.conn.client();
        self.ask(sql, async {
            match typed(params) {
                Some(params) => client.query_typed(sql, &params).await,
                None => client.query(&client.prepare(sql).await?, params).await,
            }
        })
    }

    /// How many rows a statement changed.
    pub(crate) fn count(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, PostgresError> {
        let client = self.conn.client();
        self.ask(sql, async {
            match typed(params) {
                Some(params) => client.execute_typed(sql, &params).await,
                None => client.execute(&client.prepare(sql).await?, params).await,
            }
        })
    }

    fn ask<T>(&self, sql: &str, answer: impl Future<Output = Result<T, Error>>) -> Result<T, PostgresError> {
        if let Some(reason) = statement::refusal(sql) {
            let error = PostgresError::Refused(reason.clone());
            self.seen().refused.get_or_insert(reason);
            return Err(error);
        }
        let answered = match self.deadline {
            None => self.runtime.block_on(answer),
            Some(deadline) => self.runtime.block_on(self.in_time(deadline, answer))?,
        };
        answered.map_err(|error| {
            if self.is_late() {
                return self.late();
            }
            self.seen().failed.get_or_insert_with(|| StatementFailure::of(&error));
            error.into()
        })
    }

    /// The server ends the statement when the time is over: a request to cancel would need a connection of its own, and
    /// through a pooler may end what it must not.
    async fn in_time<T>(
        &self,
        deadline: Instant,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, Error>, PostgresError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.late());
        }
        // Both are sent at once, in this order.
        let limit = told(left.saturating_add(Duration::from_millis(1))).as_millis();
        let limit = format!("SET LOCAL statement_timeout = {limit}");
        let both = join(self.conn.word(&limit), answer);
        match timeout_at(deadline.checked_add(GRACE).unwrap_or(deadline), both).await {
            Ok((Ok(()), answered)) => Ok(answered),
            Ok((Err(error), _)) => Ok(Err(error)),
            // The server does not answer at all.
            Err(_elapsed) => {
                self.conn.give_up();
                Err(self.late())
            }
        }
    }

    fn late(&self) -> PostgresError {
        self.seen().late = true;
        PostgresError::TimedOut
    }
}

impl StatementFailure {
    /// Which of them an error is. A value that is there already is the statement's own fault: it was its own check.
    pub(crate) fn of(error: &Error) -> Self {
        let text = said(error);
        match error.code().map(tokio_postgres::error::SqlState::code) {
            Some("40001" | "40P01") => Self::Conflict(text),
            Some("55000" | "23505") => Self::Own(text),
            _ if matches!(failure(error), Failure::Lost | Failure::Moment) => Self::Passing(text),
            _ => Self::Own(text),
        }
    }

    /// What the server said.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Conflict(text) | Self::Passing(text) | Self::Own(text) => text,
        }
    }
}
