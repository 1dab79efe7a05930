//! The writer: one thread, one connection, group commit.
//!
//! Promise: appends take effect in the order in which they were queued; nothing is answered before the commit that
//! holds it; a failed commit fails everything in it, and the writer continues. While a caller waits, a batch
//! is committed as soon as the queue is empty; while none does, it stays open for a moment to take in more. A unit of
//! work has a transaction of its own, between two batches.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use rusqlite::Connection;
use tokio::sync::oneshot;

use aether_core::store::ledger::Acquired;
use aether_core::store::{Ack, Append, AppendError, StoreError};

use crate::batch::Batch;
use crate::error::{OpError, translate};
use crate::options::SqliteOptions;
use crate::step_connection::{StepConnection, run_transaction};

/// What is asked of the writer.
#[allow(clippy::large_enum_variant, reason = "nearly all of them are appends, which then cost no allocation")]
pub(crate) enum Op {
    /// An append.
    Append(Append),
    /// Anything else that writes.
    Call(Box<dyn Call>),
    /// To commit what came before, close the file and answer.
    Close(oneshot::Sender<()>),
}

/// Something that runs in the writer's transaction and is answered after its commit.
pub(crate) trait Call: Send {
    /// Whether it creates a run whose first appends are about to follow.
    fn creates(&self) -> bool;
    /// Does it; an error of the driver breaks the transaction.
    fn execute(&mut self, batch: &mut Batch<'_>) -> Result<(), rusqlite::Error>;
    /// Answers it.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

/// A [`Call`] made of a function and where its answer goes to.
pub(crate) struct WriteRequest<F, T> {
    ask: Option<F>,
    creates: bool,
    answer: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<F, T> WriteRequest<F, T>
where
    F: FnOnce(&mut Batch<'_>) -> Result<T, OpError> + Send + 'static,
    T: Send + 'static,
{
    /// The call, and where its answer will be.
    pub(crate) fn with_reply(ask: F, creates: bool) -> (Op, oneshot::Receiver<Result<T, StoreError>>) {
        let (reply, answer) = oneshot::channel();
        (Op::Call(Box::new(Self { ask: Some(ask), creates, answer: None, reply })), answer)
    }
}

impl<F, T> Call for WriteRequest<F, T>
where
    F: FnOnce(&mut Batch<'_>) -> Result<T, OpError> + Send,
    T: Send,
{
    fn creates(&self) -> bool {
        self.creates
    }

    fn execute(&mut self, batch: &mut Batch<'_>) -> Result<(), rusqlite::Error> {
        let Some(ask) = self.ask.take() else { return Ok(()) };
        // A call reads the rows of runs by SQL: what the appends before it only noted in the cache must be in them.
        batch.flush()?;
        // A refused call is undone alone; without the savepoint it would take the other runs' appends with it.
        batch.statements.savepoint()?;
        let answer = match ask(batch) {
            // The savepoint stays open: the driver may have ended the transaction, and the writer rolls all of it back.
            Err(OpError::Sqlite(error)) => return Err(error),
            other => other.map_err(|error| error.into_store_error(&batch.store)),
        };
        batch.statements.end_savepoint(answer.is_ok())?;
        self.answer = Some(answer);
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { answer, reply, .. } = *self;
        if let Some(answer) = committed.map_or_else(|error| Some(Err(error)), |()| answer) {
            let _asker_gone = reply.send(answer);
        }
    }
}

/// What waits for the commit.
enum Done {
    Applied(Ack, Acquired),
    Refused(Ack, AppendError),
    Called(Box<dyn Call>),
}

impl Done {
    fn answer(self, committed: Result<(), StoreError>) {
        match (self, committed) {
            (Self::Applied(ack, acquired), Ok(())) => ack.durable(acquired),
            (Self::Applied(ack, _), Err(error)) => ack.failed(error.into()),
            // Nothing of it was to be written, so it stays refused whatever becomes of the others.
            (Self::Refused(ack, error), _) => ack.failed(error),
            (Self::Called(call), committed) => call.answer(committed),
        }
    }
}

/// Which file a writer serves, and how.
pub(crate) struct WriterConfig {
    pub(crate) path: PathBuf,
    pub(crate) store: Arc<str>,
    pub(crate) options: SqliteOptions,
}

struct Writer<'c> {
    batch: Batch<'c>,
    queue: &'c Receiver<Op>,
    config: &'c WriterConfig,
    options: &'c SqliteOptions,
    /// The connection for units of work; opened for the first one.
    step_connection: &'c OnceCell<StepConnection>,
    step_batch: Option<Batch<'c>>,
    /// A unit of work that waits for the open batch to be committed.
    next_step: Option<Op>,
    done: Vec<Done>,
    closers: Vec<oneshot::Sender<()>>,
    /// Whether a caller waits for the open batch.
    urgent: bool,
    /// Whether a run was just created: its first appends are about to come, and share the commit.
    expecting: bool,
}

/// How long the writer stays awake for what is about to come.
const SOON: Duration = Duration::from_micros(50);

/// Serves the queue until it is closed, then closes the connection.
///
/// Says through `ready` whether it can: a file whose tables were changed by hand cannot be served.
pub(crate) fn serve(
    conn: Connection,
    config: &WriterConfig,
    queue: &Receiver<Op>,
    ready: &Sender<Result<(), StoreError>>,
) {
    let WriterConfig { store, options, .. } = config;
    let step_connection = OnceCell::new();
    let closers = match Batch::new(&conn, store, options.lock_patience) {
        Ok(batch) => {
            let _opener_gone = ready.send(Ok(()));
            let mut writer = Writer {
                batch,
                queue,
                config,
                options,
                step_connection: &step_connection,
                step_batch: None,
                next_step: None,
                done: Vec::new(),
                closers: Vec::new(),
                urgent: false,
                expecting: false,
            };
            writer.run();
            // The writer ends here, and with it the statements: a connection with prepared statements does not close.
            writer.closers
        }
        Err(error) => {
            let reason = format!("its tables are not those of this schema version: {error}");
            let _opener_gone = ready.send(Err(StoreError::Corrupt { store: store.to_string(), reason }));
            Vec::new()
        }
    };
    if let Err((_, error)) = conn.close() {
        tracing::warn!(%store, %error, "closing the file failed; everything acknowledged is in it");
    }
    // After the close: who waits for it finds the file without its log. The second connection closes with this thread,
    // whose end `SqliteStore::close` waits for as well.
    for closer in closers {
        let _asker_gone = closer.send(());
    }
}

impl<'c> Writer<'c> {
    fn run(&mut self) {
        // The step that ended the last batch comes first: it was queued before all that is in the queue now. What was
        // queued behind a close is dropped with the queue, which answers it.
        while self.closers.is_empty()
            && let Some(op) =
                self.next_step.take().or_else(|| self.recv_briefly()).or_else(|| self.queue.recv().ok())
        {
            match op {
                Op::Close(closer) => self.closers.push(closer),
                Op::Append(append) if append.work.is_some() => self.run_step(append),
                op => self.transaction(op),
            }
        }
    }

    /// An append with a unit of work: what was queued before it is committed, what comes after it waits.
    ///
    /// No batch is open here. The file has one write lock, and with a batch open `BEGIN` on the second connection would
    /// wait for this very thread until it times out.
    fn run_step(&mut self, mut append: Append) {
        let Some(mut work) = append.work.take() else { return };
        let carried = match self.step_connection() {
            Ok((connection, batch)) => run_transaction(connection, batch, &mut append, &mut *work),
            Err(error) => Err(error.into()),
        };
        match carried {
            Ok(acquired) => append.ack.durable(acquired),
            Err(error) => {
                tracing::warn!(%error, key = %work.key(), "a transaction step was not committed");
                append.ack.failed(error);
            }
        }
    }

    /// The connection for units of work and its transactions, opened for the first one: most programs have none.
    fn step_connection(&mut self) -> Result<(&'c StepConnection, &mut Batch<'c>), StoreError> {
        let WriterConfig { path, store, options } = self.config;
        let connection = match self.step_connection.get() {
            Some(connection) => connection,
            None => {
                let opened = StepConnection::open(path, store, options)?;
                self.step_connection.get_or_init(|| opened)
            }
        };
        if self.step_batch.is_none() {
            let batch = connection.batch(store, options.lock_patience);
            self.step_batch = Some(batch.map_err(|error| translate(&error, store))?);
        }
        match &mut self.step_batch {
            Some(batch) => Ok((connection, batch)),
            None => Err(crate::error::gone(store)),
        }
    }

    /// One transaction, from its first operation to the answers.
    fn transaction(&mut self, first: Op) {
        self.urgent = false;
        self.expecting = false;
        // No caller is answered before this line has run: a commit that fails would take the answer back.
        let committed = self.fill(first).and_then(|()| self.batch.commit());
        let committed = committed.map_err(|error| {
            // All or none: what was applied before the failure is lost with it, so each of them is told the error.
            self.batch.rollback();
            let error = translate(&error, &self.batch.store);
            tracing::error!(%error, lost = self.done.len(), "a batch was not committed");
            error
        });
        for done in self.done.drain(..) {
            done.answer(committed.clone());
        }
    }

    fn fill(&mut self, first: Op) -> rusqlite::Result<()> {
        if let Err(error) = self.batch.begin() {
            self.fail_queued(first, &error);
            return Err(error);
        }
        // From the lock on: the time spent waiting for another process must not use up the batch's own.
        let since = Instant::now();
        let mut op = first;
        loop {
            self.apply(op)?;
            if self.done.len() >= self.options.batch.max(1) {
                return Ok(());
            }
            match self.next_op(since) {
                // Leaving commits: what was queued before the close becomes durable, what comes after it does not.
                Some(Op::Close(closer)) => {
                    self.closers.push(closer);
                    return Ok(());
                }
                // Its body may read what the appends before it wrote, on a connection that sees only commits.
                Some(Op::Append(append)) if append.work.is_some() => {
                    self.next_step = Some(Op::Append(append));
                    return Ok(());
                }
                Some(next) => op = next,
                None => return Ok(()),
            }
        }
    }

    /// The next operation of the open batch, or `None` when it is time to commit.
    fn next_op(&self, since: Instant) -> Option<Op> {
        match self.queue.try_recv() {
            Ok(op) => Some(op),
            Err(TryRecvError::Disconnected) => None,
            // A caller waits, and lingering would add to every awaited append. Others still share the commit: those
            // that queue up while the disk syncs make the next batch.
            Err(TryRecvError::Empty) if self.urgent => None,
            Err(TryRecvError::Empty) if self.expecting => self.recv_briefly(),
            Err(TryRecvError::Empty) => {
                self.recv_briefly().or_else(|| self.queue.recv_deadline(since + self.options.linger).ok())
            }
        }
    }

    /// The next operation if it comes within [`SOON`]: a run that was just answered asks again at once, and putting
    /// this thread to sleep and waking it costs more than that.
    fn recv_briefly(&self) -> Option<Op> {
        let until = Instant::now() + SOON;
        loop {
            match self.queue.try_recv() {
                Ok(op) => return Some(op),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) if Instant::now() < until => std::thread::yield_now(),
                Err(TryRecvError::Empty) => return None,
            }
        }
    }

    /// What an operation means for the time of the commit.
    fn note_urgency(&mut self, awaited: bool, creates: bool) {
        if creates {
            self.expecting = true;
        } else {
            self.urgent |= awaited;
        }
    }

    fn apply(&mut self, op: Op) -> rusqlite::Result<()> {
        match op {
            Op::Append(append) => {
                self.note_urgency(append.ack.is_awaited(), false);
                match self.batch.append(&append) {
                    Ok(acquired) => self.done.push(Done::Applied(append.ack, acquired)),
                    Err(OpError::Refused(error)) => self.done.push(Done::Refused(append.ack, error)),
                    Err(OpError::Row(reason)) => {
                        let store = self.batch.store.to_string();
                        let error = StoreError::Corrupt { store, reason }.into();
                        self.done.push(Done::Refused(append.ack, error));
                    }
                    // It goes in with those that are to be told; as the batch fails, what it acquired is never said.
                    Err(OpError::Sqlite(error)) => {
                        self.done.push(Done::Applied(append.ack, Acquired::NotAsked));
                        return Err(error);
                    }
                }
            }
            Op::Call(mut call) => {
                self.note_urgency(true, call.creates());
                let executed = call.execute(&mut self.batch);
                // Before the error ends the batch: a call that is not in here would be dropped without its answer.
                self.done.push(Done::Called(call));
                executed?;
            }
            Op::Close(closer) => self.closers.push(closer),
        }
        Ok(())
    }

    /// No transaction can be had. What was queued meanwhile fails with `first`: it has waited for the same lock, and to
    /// begin anew for each of them would make the last wait for all timeouts before it.
    fn fail_queued(&mut self, first: Op, error: &rusqlite::Error) {
        tracing::debug!(%error, "no write lock");
        let mut op = Some(first);
        while let Some(lost) = op {
            match lost {
                Op::Append(append) => self.done.push(Done::Applied(append.ack, Acquired::NotAsked)),
                Op::Call(call) => self.done.push(Done::Called(call)),
                Op::Close(closer) => self.closers.push(closer),
            }
            op = self.queue.try_recv().ok();
        }
    }
}
