//! Transaction steps: a step's SQL, and the append that records its outcome, in one transaction.
//!
//! Promise: the SQL of a body is kept exactly if its append takes effect, whatever crashes when. The run's row is locked
//! and its journal is compared before the body is called, so that no other worker claims the run in between. The body
//! cannot end the transaction, change the engine's tables, or hold it longer than its time. Where another transaction is in
//! the way, or the server goes away, all of it is undone and the body is called again. An answer that was lost with the
//! connection is looked for in the journal, behind the lock that the lost transaction held: it is there or it is not.

use std::sync::Arc;
use std::time::Duration;

use aether_core::store::{AppendError, Rollback, StoreError, Work};
use futures_util::future::join4;
use tokio::runtime::Handle;

use crate::database::{Database, Tries};
use crate::error::{Failure, OpError, failure, gone, said, translate};
use crate::row::{self, get};
use crate::shard::shard;
use crate::work::connection::{StepConnection, beginning, for_the_body, for_the_engine};
use crate::work::session::{Session, StatementFailure, Verdict};
use crate::writer::answers::{Facts, facts, refusal};
use crate::writer::arrays::Arrays;
use crate::writer::batch::{Group, Write};
use crate::writer::{Head, sql};

pub(crate) mod connection;
pub(crate) mod lanes;
pub(crate) mod session;
mod statement;
pub(crate) mod step;
mod types;

/// From this call of a body on it is told that other transactions are in its way.
const MANY_CALLS: u32 = 20;

/// An append with a unit of work: the only one of its group.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) group: Group,
    pub(crate) work: Option<Box<dyn Work>>,
    /// Where its body is called.
    pub(crate) runtime: Handle,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Done {
    /// It is durable, with the body's changes.
    Durable(Group, Head),
    /// The body's changes are undone; the append, which says so, is one like any other now.
    Plain(Group),
    /// It was refused, or nothing of it happened.
    Failed(Group, AppendError),
}

/// Why a try came to nothing.
enum Stop {
    /// For good.
    Failed(AppendError),
    /// The body's outcome is recorded without its changes.
    Undone(Option<Rollback>),
    /// Nothing happened; another try may work.
    Again(Failure, StoreError),
    /// Nothing happened, because another transaction was in the way. The next try may work.
    InTheWay(StoreError),
    /// The commit was sent and not answered.
    Open(Head, StoreError),
}

/// A transaction that is open on a connection for steps, with the run's row locked.
struct Locked {
    conn: Arc<StepConnection>,
    facts: Facts,
    user: String,
}

/// The run's row, which a claim changes: no other worker gets the run until the transaction ends.
const LOCK: &str =
    "SELECT current_user::text FROM {schema}.runs WHERE shard = $1::int2 AND id = $2::text FOR NO KEY UPDATE";

/// Who the transaction is now; a table of the engine's that it changed, altered or dropped; whether it has made temporary
/// objects. Every change takes a lock on its table that reading does not take, and keeps it until the end.
const CHECK: &str = "
SELECT current_user::text, pg_catalog.pg_my_temp_schema() <> 0,
    (SELECT coalesce(c.relname::text, 'a table') FROM pg_catalog.pg_locks l
        LEFT JOIN pg_catalog.pg_class c ON c.oid = l.relation
        WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation'
        AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')
        AND (c.relnamespace::int8 = $1::int8 OR l.relation::int8 = ANY($2::int8[]))
        ORDER BY c.relkind = 'r' DESC NULLS LAST LIMIT 1)";

/// Whether the journal holds a frame.
const FIND: &str = "SELECT chain FROM journal
    WHERE shard = $1::int2 AND run = $2::text AND frame = $3::int8 AND epoch = $4::int8";

impl Database {
    /// Executes an append with a unit of work, in a transaction of its own.
    pub(crate) async fn execute(&self, mut step: Step) -> Done {
        let mut waiting = Tries::without_end();
        let mut calls = 0;
        loop {
            if self.is_closed() {
                return Done::Failed(step.group, gone(&self.name).into());
            }
            let stop = match self.attempt(&mut step, &mut calls).await {
                Ok(head) => return Done::Durable(step.group, head),
                Err(stop) => stop,
            };
            match stop {
                Stop::Failed(error) => return Done::Failed(step.group, error),
                Stop::Undone(rollback) => return step.undone(rollback),
                Stop::Open(head, error) => match self.find_frame(step.append(), head).await {
                    Some(true) => return Done::Durable(step.group, head),
                    Some(false) => {
                        tracing::warn!(%error, step = ?step.work, "a transaction step is begun again")
                    }
                    None => return Done::Failed(step.group, error.into()),
                },
                Stop::InTheWay(_) | Stop::Again(..) if step.is_called_off() => {
                    return step.undone(Some(Rollback::CalledOff));
                }
                // Never for good: the others have what they came for, and whoever gave up would take along what its run has
                // in flight besides.
                Stop::InTheWay(error) => {
                    if calls >= MANY_CALLS {
                        tracing::warn!(%error, calls, step = ?step.work, "other transactions are in the way of a step again and again");
                    } else {
                        tracing::debug!(%error, step = ?step.work, "another transaction is in the way of a step");
                    }
                    tokio::time::sleep(waiting.next(Failure::Conflict)).await;
                }
                // The step waits as a whole, for as long as the store is open: to fail it would take along what its run has
                // queued behind it, such as outcomes of bodies.
                Stop::Again(kind, error) => {
                    tracing::warn!(%error, step = ?step.work, "a transaction step waits for the store");
                    tokio::time::sleep(waiting.next(kind)).await;
                }
            }
        }
    }

    /// One try. It leaves no transaction open.
    async fn attempt(&self, step: &mut Step, calls: &mut u32) -> Result<Head, Stop> {
        let time = step.work.as_ref().and_then(|work| work.timeout());
        let (conn, _permit) = self.steps.take(self).await.map_err(|error| self.again(error))?;
        let begun = self.lock(&conn, step.append(), time).await;
        let ended = match begun {
            Ok(locked) => {
                *calls += 1;
                self.call(&locked, step, time).await
            }
            Err(stop) => Err(stop),
        };
        if ended.is_err() && conn.is_sound() && conn.word("ROLLBACK").await.is_err() {
            conn.give_up();
        }
        self.steps.keep(conn);
        ended
    }

    /// Begins the transaction, locks the run's row, and then looks where its journal ends.
    async fn lock(
        &self,
        conn: &Arc<StepConnection>,
        append: &Write,
        time: Option<Duration>,
    ) -> Result<Locked, Stop> {
        let (run, number) = (append.run.as_str(), shard(append.run.as_str()));
        let schema = crate::schema::quoted(conn.schema());
        let lock = LOCK.replace("{schema}", &schema);
        let look = sql::LOOK.replace("JOIN runs", &format!("JOIN {schema}.runs"));
        let look = look.replace("FROM inbox", &format!("FROM {schema}.inbox"));
        let look = look.replace("FROM journal", &format!("FROM {schema}.journal"));
        let (begin, body) = (beginning(&self.options, time), for_the_body(&self.options));
        let params: (&[i64], &[i16], &[&str]) = (&[0], &[number], &[run]);
        // All are sent at once. The look has a snapshot of its own, which holds what the lock waited for.
        let (begun, locked, looked, set) = join4(
            conn.word(&begin),
            conn.rows(&lock, &[&number, &run]),
            conn.rows(&look, &[&params.0, &params.1, &params.2]),
            conn.word(body),
        )
        .await;
        begun.map_err(|error| self.again(error.into()))?;
        let locked = locked.map_err(|error| self.again(error.into()))?;
        let looked = looked.map_err(|error| self.again(error.into()))?;
        set.map_err(|error| self.again(error.into()))?;
        let found = looked.first().map(|row| facts(row, &append.run)).transpose();
        let found = found.map_err(|error| self.again(error))?;
        if let Some(error) = refusal(append, found.as_ref()) {
            return Err(Stop::Failed(error));
        }
        let user = locked.first().map(|row| get(row, 0)).transpose().map_err(|error| self.again(error))?;
        match (found, user) {
            (Some(facts), Some(user)) => Ok(Locked { conn: Arc::clone(conn), facts, user }),
            _ => Err(Stop::Failed(StoreError::UnknownRun { run: append.run.clone() }.into())),
        }
    }

    /// Calls the body, and appends and commits where it is to be kept.
    async fn call(&self, locked: &Locked, step: &mut Step, time: Option<Duration>) -> Result<Head, Stop> {
        let Some(mut called) = step.work.take() else { return Err(Stop::Failed(gone(&self.name).into())) };
        let session = Session::new(&locked.conn, called.key().clone(), time);
        let body = Arc::clone(&session);
        // A thread of its own: the body waits for each of its statements.
        let ran = step.runtime.spawn_blocking(move || {
            let keep = body.enter(|| called.call());
            (called, keep)
        });
        let Ok((called, keep)) = ran.await else { return Err(Stop::Failed(gone(&self.name).into())) };
        let called = step.work.insert(called);
        match session.verdict() {
            Verdict::Refused(reason) => return Err(Stop::Undone(Some(Rollback::Refused(reason)))),
            Verdict::Late => return Err(Stop::Undone(Some(Rollback::TimedOut))),
            Verdict::Failed(failed) => return Err(self.failed(&failed, keep)),
            Verdict::Sound if !keep => return Err(Stop::Undone(None)),
            Verdict::Sound => {}
        }
        self.check(locked).await?;
        let frame = called.frame(None).map_err(|error| Stop::Failed(error.into()))?;
        step.set_frame(frame);
        let head = self.write(locked, &step.group).await?;
        self.commit(locked, head).await
    }

    /// What follows a failed statement, which has ended the transaction.
    fn failed(&self, failed: &StatementFailure, keep: bool) -> Stop {
        let (store, reason) = (self.name.to_string(), failed.text().to_owned());
        match failed {
            StatementFailure::Conflict(_) => Stop::InTheWay(StoreError::Locked { store, reason }),
            StatementFailure::Passing(_) => {
                Stop::Again(Failure::Lost, StoreError::Unavailable { store, reason })
            }
            StatementFailure::Own(text) if keep => Stop::Undone(Some(Rollback::Refused(format!(
                "a statement failed, which ends a transaction of Postgres, and the body returned a value all the same: {text}"
            )))),
            StatementFailure::Own(_) => Stop::Undone(None),
        }
    }

    /// Refuses what the body must not have done.
    async fn check(&self, locked: &Locked) -> Result<(), Stop> {
        let conn = &locked.conn;
        let set = for_the_engine(&self.options);
        let Some(own) = conn.own() else {
            return conn.word(&set).await.map_err(|error| self.again(error.into()));
        };
        let params: (&i64, &Vec<i64>) = (&own.schema, &own.tables);
        let (set, rows) =
            futures_util::future::join(conn.word(&set), conn.rows(CHECK, &[params.0, params.1])).await;
        set.map_err(|error| self.again(error.into()))?;
        let rows = rows.map_err(|error| self.again(error.into()))?;
        let Some(row) = rows.first() else { return Ok(()) };
        let read = || -> Result<(String, bool, Option<String>), OpError> {
            Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?))
        };
        let (user, temporary, table) = read().map_err(|error| self.again(error))?;
        if temporary {
            // What is temporary is so for the connection.
            conn.give_up();
        }
        let refused = match table {
            Some(table) => format!("change `{table}`, which belongs to the engine"),
            None if user != locked.user => format!("become another role (`{user}`)"),
            None => return Ok(()),
        };
        let reason = format!("the SQL of a transaction step must not {refused}");
        Err(Stop::Undone(Some(Rollback::Refused(reason))))
    }

    /// Appends, in the transaction. Gives where the journal ends then.
    async fn write(&self, locked: &Locked, group: &Group) -> Result<Head, Stop> {
        let arrays = Arrays::of(std::iter::once((group, locked.facts.head)), self);
        let rows = locked.conn.rows(&arrays.sql(), &arrays.params()).await;
        let rows = rows.map_err(|error| self.unwritten(&error))?;
        match arrays.after.first().filter(|_| !rows.is_empty()) {
            Some(head) => Ok(*head),
            None => {
                let (store, reason) = (self.name.to_string(), "the append was not admitted".to_owned());
                Err(Stop::InTheWay(StoreError::Locked { store, reason }))
            }
        }
    }

    async fn commit(&self, locked: &Locked, head: Head) -> Result<Head, Stop> {
        let Err(error) = locked.conn.word("COMMIT").await else { return Ok(head) };
        match failure(&error) {
            Failure::Lost => {
                locked.conn.give_up();
                Err(Stop::Open(head, translate(&error, &self.name)))
            }
            _ => Err(self.unwritten(&error)),
        }
    }

    /// What follows where append or commit was refused by an answer: nothing of the transaction is there.
    fn unwritten(&self, error: &tokio_postgres::Error) -> Stop {
        let told = translate(error, &self.name);
        // A lock on the engine's tables, or a frame there, of another session is no fault of the step.
        let is_of_the_journal = error.as_db_error().and_then(|error| error.table()) == Some("journal");
        if error.code().is_some_and(|code| code.code() == "55P03") || is_of_the_journal {
            return Stop::InTheWay(told);
        }
        match StatementFailure::of(error) {
            StatementFailure::Conflict(_) => Stop::InTheWay(told),
            StatementFailure::Passing(_) => Stop::Again(failure(error), told),
            // The append alone is written next: if that fails as well, the store was the cause and says so.
            StatementFailure::Own(text) => Stop::Undone(Some(Rollback::Refused(match error.code() {
                Some(code) if code.code().starts_with("23") => {
                    format!("a deferred constraint is violated at the end: {text}")
                }
                _ => format!("the transaction of the step cannot be committed: {text}"),
            }))),
        }
    }

    /// Nothing happened: the error says whether another try may work.
    fn again(&self, error: OpError) -> Stop {
        match error {
            OpError::Refused(error) => Stop::Failed(error.into()),
            OpError::Row(reason) => Stop::Failed(self.corrupt(reason).into()),
            OpError::Driver(error) => match failure(&error) {
                Failure::Pooler => {
                    self.expect_pooler(&error);
                    Stop::Again(Failure::Pooler, translate(&error, &self.name))
                }
                Failure::Data | Failure::Final => Stop::Failed(translate(&error, &self.name).into()),
                kind => Stop::Again(kind, translate(&error, &self.name)),
            },
        }
    }

    /// Whether a frame was committed by a transaction whose answer was lost. `None` where the store is closed first.
    async fn find_frame(&self, append: &Write, head: Head) -> Option<bool> {
        let mut tries = Tries::new(Duration::MAX);
        while !self.is_closed() {
            let kind = match self.look_behind_the_lock(append, head).await {
                Ok(found) => return Some(found),
                Err(OpError::Driver(error)) => {
                    tracing::warn!(error = %said(&error), run = %append.run, "whether a transaction step was committed is not known yet");
                    failure(&error)
                }
                Err(error) => {
                    let error = error.into_store_error(&self.name);
                    tracing::warn!(%error, run = %append.run, "whether a transaction step was committed is not known yet");
                    Failure::Moment
                }
            };
            tokio::time::sleep(tries.next(kind)).await;
        }
        None
    }

    /// The lost transaction has the lock of the run's row until it is over, whichever way.
    async fn look_behind_the_lock(&self, append: &Write, head: Head) -> Result<bool, OpError> {
        let (run, number) = (append.run.as_str(), shard(append.run.as_str()));
        let conn = self.connect().await?;
        let transaction = conn.begin().await?;
        let lock = LOCK.replace("{schema}", &crate::schema::quoted(conn.schema()));
        let _locked = transaction.query(&lock, &[&number, &run]).await?;
        let rows = transaction.query(FIND, &[&number, &run, &head.frame, &row::int(append.epoch)]).await?;
        let chain: Option<&[u8]> = rows.first().map(|row| get(row, 0)).transpose()?;
        let found = chain == Some(&head.chain[..]);
        transaction.rollback().await?;
        Ok(found)
    }
}

impl Step {
    /// The append.
    fn append(&self) -> &Write {
        // A group is never empty.
        &self.group.items[0].append
    }

    fn is_called_off(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.is_called_off())
    }

    fn set_frame(&mut self, frame: aether_core::journal::Frame) {
        self.group.items[0].append.frame = frame;
    }

    /// The append that says that the body's changes are undone.
    fn undone(mut self, rollback: Option<Rollback>) -> Done {
        match self.work.as_mut().map(|work| work.frame(rollback)) {
            Some(Ok(frame)) => {
                self.set_frame(frame);
                Done::Plain(self.group)
            }
            Some(Err(error)) => Done::Failed(self.group, error.into()),
            None => Done::Plain(self.group),
        }
    }
}
