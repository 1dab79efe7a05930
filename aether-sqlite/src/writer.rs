//! The writer: one thread, one connection, group commit.
//!
//! Promise: appends take effect in the order in which they were queued; nothing is answered before the commit that
//! holds it; a failed commit fails everything in it, and the writer goes on. While somebody waits, a batch is
//! committed as soon as the queue is empty; while nobody waits, it stays open for a moment to take in more. A unit of
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

use crate::SqliteOptions;
use crate::batch::Batch;
use crate::error::{Fault, translate};
use crate::lend::{Lending, carry_out};

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

/// A [`Call`] made of a function and the place its answer goes to.
pub(crate) struct Question<F, T> {
    ask: Option<F>,
    creates: bool,
    answer: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<F, T> Question<F, T>
where
    F: FnOnce(&mut Batch<'_>) -> Result<T, Fault> + Send + 'static,
    T: Send + 'static,
{
    /// The call, and where its answer will be.
    pub(crate) fn asking(ask: F, creates: bool) -> (Op, oneshot::Receiver<Result<T, StoreError>>) {
        let (reply, answer) = oneshot::channel();
        (Op::Call(Box::new(Self { ask: Some(ask), creates, answer: None, reply })), answer)
    }
}

impl<F, T> Call for Question<F, T>
where
    F: FnOnce(&mut Batch<'_>) -> Result<T, Fault> + Send,
    T: Send,
{
    fn creates(&self) -> bool {
        self.creates
    }

    fn execute(&mut self, batch: &mut Batch<'_>) -> Result<(), rusqlite::Error> {
        let Some(ask) = self.ask.take() else { return Ok(()) };
        batch.flush()?;
        batch.statements.savepoint()?;
        let answer = match ask(batch) {
            Err(Fault::Sqlite(error)) => return Err(error),
            other => other.map_err(|fault| fault.told(&batch.store)),
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
            (Self::Refused(ack, error), _) => ack.failed(error),
            (Self::Called(call), committed) => call.answer(committed),
        }
    }
}

/// Which file a writer serves, and how.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) store: Arc<str>,
    pub(crate) options: SqliteOptions,
}

struct Writer<'c> {
    batch: Batch<'c>,
    queue: &'c Receiver<Op>,
    place: &'c Place,
    options: &'c SqliteOptions,
    /// The connection for units of work; opened for the first one.
    lending: &'c OnceCell<Lending>,
    works: Option<Batch<'c>>,
    /// A unit of work that waits for the open batch to be committed.
    next_work: Option<Op>,
    done: Vec<Done>,
    closers: Vec<oneshot::Sender<()>>,
    /// Whether somebody waits for the open batch.
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
    place: &Place,
    queue: &Receiver<Op>,
    ready: &Sender<Result<(), StoreError>>,
) {
    let Place { store, options, .. } = place;
    let lending = OnceCell::new();
    let closers = match Batch::new(&conn, store, options.lock_patience) {
        Ok(batch) => {
            let _opener_gone = ready.send(Ok(()));
            let mut writer = Writer {
                batch,
                queue,
                place,
                options,
                lending: &lending,
                works: None,
                next_work: None,
                done: Vec::new(),
                closers: Vec::new(),
                urgent: false,
                expecting: false,
            };
            writer.run();
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
    for closer in closers {
        let _asker_gone = closer.send(());
    }
}

impl<'c> Writer<'c> {
    fn run(&mut self) {
        while self.closers.is_empty()
            && let Some(op) = self.next_work.take().or_else(|| self.soon()).or_else(|| self.queue.recv().ok())
        {
            match op {
                Op::Close(closer) => self.closers.push(closer),
                Op::Append(append) if append.work.is_some() => self.work(append),
                op => self.transaction(op),
            }
        }
    }

    /// An append with a unit of work: what was queued before it is committed, what comes after it waits.
    fn work(&mut self, mut append: Append) {
        let Some(mut work) = append.work.take() else { return };
        let carried = match self.lend() {
            Ok((lending, batch)) => carry_out(lending, batch, &mut append, &mut *work),
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

    fn lend(&mut self) -> Result<(&'c Lending, &mut Batch<'c>), StoreError> {
        let Place { path, store, options } = self.place;
        let lending = match self.lending.get() {
            Some(lending) => lending,
            None => {
                let opened = Lending::open(path, store, options)?;
                self.lending.get_or_init(|| opened)
            }
        };
        if self.works.is_none() {
            let batch = lending.batch(store, options.lock_patience);
            self.works = Some(batch.map_err(|error| translate(&error, store))?);
        }
        match &mut self.works {
            Some(batch) => Ok((lending, batch)),
            None => Err(crate::error::gone(store)),
        }
    }

    /// One transaction, from its first operation to the answers.
    fn transaction(&mut self, first: Op) {
        self.urgent = false;
        self.expecting = false;
        let committed = self.fill(first).and_then(|()| self.batch.commit());
        let committed = committed.map_err(|error| {
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
            self.give_up(first, &error);
            return Err(error);
        }
        let since = Instant::now();
        let mut op = first;
        loop {
            self.apply(op)?;
            if self.done.len() >= self.options.batch.max(1) {
                return Ok(());
            }
            match self.next(since) {
                Some(Op::Close(closer)) => {
                    self.closers.push(closer);
                    return Ok(());
                }
                Some(Op::Append(append)) if append.work.is_some() => {
                    self.next_work = Some(Op::Append(append));
                    return Ok(());
                }
                Some(next) => op = next,
                None => return Ok(()),
            }
        }
    }

    /// The next operation of the open batch, or `None` when it is time to commit.
    fn next(&self, since: Instant) -> Option<Op> {
        match self.queue.try_recv() {
            Ok(op) => Some(op),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) if self.urgent => None,
            Err(TryRecvError::Empty) if self.expecting => self.soon(),
            Err(TryRecvError::Empty) => {
                self.soon().or_else(|| self.queue.recv_deadline(since + self.options.linger).ok())
            }
        }
    }

    /// The next operation if it comes within [`SOON`]: a run that was just answered asks again at once, and putting
    /// this thread to sleep and waking it costs more than that.
    fn soon(&self) -> Option<Op> {
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
    fn weigh(&mut self, awaited: bool, creates: bool) {
        if creates {
            self.expecting = true;
        } else {
            self.urgent |= awaited;
        }
    }

    fn apply(&mut self, op: Op) -> rusqlite::Result<()> {
        match op {
            Op::Append(append) => {
                self.weigh(append.ack.is_awaited(), false);
                match self.batch.append(&append) {
                    Ok(acquired) => self.done.push(Done::Applied(append.ack, acquired)),
                    Err(Fault::Refused(error)) => self.done.push(Done::Refused(append.ack, error)),
                    Err(Fault::Row(reason)) => {
                        let store = self.batch.store.to_string();
                        let error = StoreError::Corrupt { store, reason }.into();
                        self.done.push(Done::Refused(append.ack, error));
                    }
                    Err(Fault::Sqlite(error)) => {
                        self.done.push(Done::Applied(append.ack, Acquired::NotAsked));
                        return Err(error);
                    }
                }
            }
            Op::Call(mut call) => {
                self.weigh(true, call.creates());
                let executed = call.execute(&mut self.batch);
                self.done.push(Done::Called(call));
                executed?;
            }
            Op::Close(closer) => self.closers.push(closer),
        }
        Ok(())
    }

    /// There is no transaction to be had: whoever queued up meanwhile has waited as long as `first` did.
    fn give_up(&mut self, first: Op, error: &rusqlite::Error) {
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
