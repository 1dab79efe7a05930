//! The writer: one thread, one connection, group commit.
//!
//! Promise: appends take effect in the order in which they were queued; nothing is answered before the commit that
//! holds it; a failed commit fails everything in it, and the writer goes on. While somebody waits, a batch is
//! committed as soon as the queue is empty; while nobody waits, it stays open for a moment to take in more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use rusqlite::Connection;
use tokio::sync::oneshot;

use aether_core::ledger::Acquired;
use aether_core::store::{Ack, Append, AppendError, StoreError};

use crate::SqliteOptions;
use crate::batch::Batch;
use crate::error::{Fault, translate};

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

struct Writer<'c> {
    batch: Batch<'c>,
    queue: &'c Receiver<Op>,
    options: &'c SqliteOptions,
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
    store: &Arc<str>,
    options: &SqliteOptions,
    queue: &Receiver<Op>,
    ready: &Sender<Result<(), StoreError>>,
) {
    let closers = match Batch::new(&conn, store) {
        Ok(batch) => {
            let _opener_gone = ready.send(Ok(()));
            let mut writer = Writer {
                batch,
                queue,
                options,
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

impl Writer<'_> {
    fn run(&mut self) {
        while self.closers.is_empty()
            && let Some(op) = self.soon().or_else(|| self.queue.recv().ok())
        {
            match op {
                Op::Close(closer) => self.closers.push(closer),
                op => self.transaction(op),
            }
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
