//! The writer: one thread, one connection, group commit.
//!
//! Promise: appends take effect in the order in which they were queued; nothing is answered before the commit that
//! decides it. A batch that cannot be written for the moment (a full disk, a locked file, an I/O error) is rolled back
//! and tried again, its appends in their order, until it is written or the store closes. Nothing is answered as written
//! by a transaction that began after the file or a log of it was deleted or replaced, and then nothing is written at the
//! end. While a caller waits, a batch is committed as soon as the queue is empty; while none does, it stays open for a
//! moment to take in more. A unit of work has a transaction of its own, between two batches; one that cannot be carried out
//! for the moment holds up nothing but what its own run has queued behind it, and not that once it is called off.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use aether_core::measures::BatchCounter;
use aether_core::store::ledger::Acquired;
use aether_core::store::{Append, AppendError, Rollback, StoreError};

use crate::aside::Aside;
use crate::batch::Batch;
use crate::checkpoints::{Checkpoints, checkpoint};
use crate::error::{OpError, gone, is_transient, translate};
use crate::identity::FileWatch;
use crate::options::SqliteOptions;
use crate::reader::{Job, ReadersEnd};
use crate::request::{Call, Closer, Op, Pending, Try};
use crate::sched::{Instant, Receiver, SOON, Sender, TryRecvError, mutated, sleep, yield_now};
use crate::spent::GiveBack;
use crate::step_connection::{StepConnection, StepFailure, run_transaction};
use crate::stuck::{Stuck, unwritten};

/// What waits for the commit, in the order in which it was queued.
#[allow(clippy::large_enum_variant, reason = "as for `Op`")]
enum Done {
    /// An append, and what becomes of it if the transaction is committed.
    Appended(Append, Result<Acquired, AppendError>),
    Called(Box<dyn Call>),
}

impl Done {
    fn committed(self, back: &GiveBack) {
        match self {
            Self::Appended(append, Ok(acquired)) => back.all_but_ack(append).durable(acquired),
            Self::Appended(append, Err(error)) => append.ack.failed(error),
            Self::Called(call) => call.answer(Ok(())),
        }
    }

    /// The bytes of events, where it is an append.
    fn frame_bytes(&self) -> Option<u64> {
        match self {
            Self::Appended(append, _) => Some(append.frame.text.len() as u64),
            Self::Called(_) => None,
        }
    }

    /// The operation as it was. A refusal is forgotten too: what caused it may have been rolled back with it.
    fn undone(self) -> Op {
        match self {
            Self::Appended(append, _) => Op::Append(append),
            Self::Called(call) => Op::Call(call),
        }
    }
}

/// Which file a writer serves, and how.
pub(crate) struct WriterConfig {
    pub(crate) path: PathBuf,
    pub(crate) store: Arc<str>,
    pub(crate) options: SqliteOptions,
    pub(crate) watch: FileWatch,
    pub(crate) readers: ReadersEnd,
    pub(crate) batches: Arc<BatchCounter>,
    pub(crate) back: GiveBack,
}

struct Writer<'c> {
    batch: Batch<'c>,
    checkpoints: Checkpoints,
    queue: &'c Receiver<Op>,
    config: &'c WriterConfig,
    options: &'c SqliteOptions,
    /// The connection for units of work; opened for the first one.
    step_connection: &'c OnceCell<StepConnection>,
    step_batch: Option<Batch<'c>>,
    /// What comes before the queue: operations that are tried again, and a unit of work that ended the last batch.
    pending: VecDeque<Pending>,
    done: Vec<Done>,
    /// Units of work that cannot be carried out for the moment.
    aside: Aside,
    /// Set while nothing can be written.
    stuck: Option<Stuck>,
    closers: Vec<Closer>,
    /// When the first close was asked for.
    closing: Option<Instant>,
    /// Whether a caller waits for the open batch.
    urgent: bool,
    /// Whether a run was just created: its first appends are about to come, and share the commit.
    expecting: bool,
}

/// How long a close keeps trying to write what could not be written before.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Serves the queue until it is closed, then closes the connection.
///
/// Says through `ready` whether it can: a file whose tables were changed by hand cannot be served.
pub(crate) fn serve(
    conn: Connection,
    config: &WriterConfig,
    queue: &Receiver<Op>,
    copying: Sender<Job>,
    ready: &Sender<Result<(), StoreError>>,
) {
    let WriterConfig { store, options, watch, .. } = config;
    let step_connection = OnceCell::<StepConnection>::new();
    let closers = match Batch::new(&conn, store, options.lock_patience) {
        Ok(batch) => {
            let _opener_gone = ready.send(Ok(()));
            let mut writer = Writer {
                batch,
                checkpoints: Checkpoints::new(options.checkpoint_pages, watch.clone(), copying),
                queue,
                config,
                options,
                step_connection: &step_connection,
                step_batch: None,
                pending: VecDeque::new(),
                done: Vec::new(),
                aside: Aside::default(),
                stuck: None,
                closers: Vec::new(),
                closing: None,
                urgent: false,
                expecting: false,
            };
            writer.run();
            let closed = writer.give_up();
            // The writer ends here, and with it the statements: a connection with prepared statements does not close.
            writer.closers.into_iter().map(|closer| (closer, closed.clone())).collect()
        }
        Err(error) => {
            // Its thread must end for the readers to have ended.
            drop(copying);
            let reason = format!("its tables are not those of this schema version: {error}");
            let _opener_gone = ready.send(Err(StoreError::Corrupt { store: store.to_string(), reason }));
            Vec::new()
        }
    };
    // This connection closes last: the one that does copies the log into the file and deletes it, and of connections that
    // close at the same time none finds itself to be the last.
    if let Some(step_connection) = step_connection.into_inner() {
        step_connection.close(watch);
    }
    config.readers.wait();
    match watch.check() {
        Ok(()) => copy_log(&conn, store),
        Err(lost) => tracing::error!(error = %lost, "the store closes without copying its log"),
    }
    watch.before_close(&conn);
    if let Err((_, error)) = conn.close() {
        tracing::warn!(%store, %error, "closing the file failed; everything acknowledged is in it");
    }
    // After the close: who waits for it finds the file without its log.
    for (closer, closed) in closers {
        let _asker_gone = closer.send(closed);
    }
}

/// Copies the log into the file, as far as no reader of another process needs what is there. The connection that closes last
/// would do that too; but where several processes close at the same moment, none of them may be the last.
fn copy_log(conn: &Connection, store: &str) {
    // Another process that copies may have begun before the last write of this one.
    for _ in 0..100 {
        match checkpoint(conn) {
            Ok((true, _)) => sleep(Duration::from_millis(10)),
            Ok((false, _)) => return,
            Err(error) => {
                tracing::warn!(%store, %error, "the log could not be copied into the file; nothing in it is lost");
                return;
            }
        }
    }
}

impl<'c> Writer<'c> {
    fn run(&mut self) {
        while let Some(Pending { op, try_ }) = self.next() {
            match op {
                Op::Close(closer) => self.close(closer),
                // The file that is open has no name any more: what would be written to it is lost.
                op if let Err(lost) = self.config.watch.check() => {
                    tracing::error!(error = %lost, "a write is refused");
                    op.fail(&lost);
                }
                Op::Append(append) if append.work.is_some() => self.run_step(append, try_),
                op => self.transaction(Pending { op, try_ }),
            }
            self.pause();
        }
    }

    /// The first operation of the next batch; `None` when the writer is to end. What was queued behind a close is
    /// dropped with the queue, which answers it.
    fn next(&mut self) -> Option<Pending> {
        loop {
            let is_over = self.closing.is_some_and(|since| since.elapsed() >= CLOSE_PATIENCE);
            if is_over && self.stuck.is_some() {
                return None;
            }
            self.aside.take_due().into_iter().rev().for_each(|pending| self.pending.push_front(pending));
            let next = match self.pending.pop_front() {
                None if self.closing.is_some() => {
                    let due = self.aside.due().filter(|_| !is_over)?;
                    sleep(due.saturating_duration_since(Instant::now()));
                    None
                }
                None => match (self.recv_briefly(), self.aside.due()) {
                    (None, Some(due)) => self.queue.recv_deadline(due).ok(),
                    (None, None) => Some(self.queue.recv().ok()?),
                    (op, _) => op,
                }
                .map(Pending::first),
                pending => pending,
            };
            if let Some(next) = next.and_then(|next| self.aside.behind(next)) {
                return Some(next);
            }
        }
    }

    fn close(&mut self, closer: Closer) {
        self.closers.push(closer);
        self.closing.get_or_insert_with(Instant::now);
        // The close must be answered, and the lock may be held for as long as the options let the writer wait.
        self.batch.limit_patience(CLOSE_PATIENCE);
        if let Some(batch) = &mut self.step_batch {
            batch.limit_patience(CLOSE_PATIENCE);
        }
    }

    /// While nothing can be written: waits for the next try. What is queued meanwhile lines up behind what waits.
    fn pause(&mut self) {
        let Some(stuck) = &mut self.stuck else { return };
        let until = Instant::now() + stuck.next_pause();
        while self.closing.is_none()
            && let Ok(op) = self.queue.recv_deadline(until)
        {
            match op {
                Op::Close(closer) => self.close(closer),
                op => self.pending.push_back(Pending::first(op)),
            }
        }
        // A close ends the queue and not the pause: it would turn into a busy loop on a full disk.
        sleep(until.saturating_duration_since(Instant::now()));
    }

    /// Answers what could not be written when the store closes, and says what it was.
    fn give_up(&mut self) -> Result<(), StoreError> {
        let (aside, why) = self.aside.give_up().unzip();
        let Some(error) = self.stuck.take().map(|stuck| stuck.error).or(why) else { return Ok(()) };
        let ops = aside.into_iter().flatten().chain(std::mem::take(&mut self.pending));
        let ops = ops.map(|pending| pending.op).filter(|op| !matches!(op, Op::Close(_))).collect::<Vec<_>>();
        if ops.is_empty() {
            return Ok(());
        }
        let error = unwritten(&error, ops.iter().map(Op::run));
        tracing::error!(%error, "the store closes with writes that could not be made");
        ops.into_iter().for_each(|op| op.fail(&error));
        Err(error)
    }

    /// An append with a unit of work: what was queued before it is committed, what comes after it waits. Where it cannot
    /// be carried out for the moment, only what is of its run waits on.
    ///
    /// No batch is open here. The file has one write lock, and with a batch open `BEGIN` on the second connection would
    /// wait for this very thread until it times out.
    fn run_step(&mut self, mut append: Append, try_: Try) {
        let Some(mut work) = append.work.take() else { return };
        let store = &self.config.store;
        // It was tried before, and nobody waits for it any more: what its run has queued behind it may fit.
        if try_ == Try::Again && work.is_called_off() {
            match work.frame(Some(Rollback::CalledOff)) {
                Ok(frame) => {
                    append.frame = frame;
                    self.pending.push_front(Pending { op: Op::Append(append), try_ });
                }
                Err(error) => append.ack.failed(error.into()),
            }
            return self.aside.is_decided(store);
        }
        let carried = match self.step_connection() {
            Ok((connection, batch)) => run_transaction(connection, batch, &mut append, &mut *work),
            Err(error) => {
                let transient = error.is_transient();
                Err(StepFailure::NotBegun(error.into_store_error(store), transient))
            }
        };
        match carried {
            Ok(acquired) => {
                self.is_written();
                match self.config.watch.check() {
                    Ok(()) => append.ack.durable(acquired),
                    Err(lost) => append.ack.failed(lost.into()),
                }
            }
            // Nothing happened, so the step waits as a whole: its body is called again. To fail it would take along what the
            // run has queued behind it, such as outcomes of bodies.
            Err(StepFailure::NotBegun(error, true) | StepFailure::Undone(error, true)) => {
                append.work = Some(work);
                return self.aside.put(append, error);
            }
            // The body was called and is undone; the append that says so is one like any other.
            Err(StepFailure::Unrecorded(_, true)) => {
                self.pending.push_front(Pending { op: Op::Append(append), try_: Try::Again });
            }
            Err(
                StepFailure::NotBegun(error, _)
                | StepFailure::Unrecorded(error, _)
                | StepFailure::Undone(error, _),
            ) => {
                tracing::warn!(%error, key = %work.key(), "a transaction step was not committed");
                append.ack.failed(error.into());
            }
            Err(StepFailure::Refused(error)) => append.ack.failed(error),
        }
        self.aside.is_decided(store);
    }

    /// Something was written: nothing is stuck any more.
    fn is_written(&mut self) {
        if let Some(stuck) = self.stuck.take() {
            stuck.over(&self.batch.store);
        }
    }

    /// The connection for units of work and its transactions, opened for the first one: most programs have none.
    fn step_connection(&mut self) -> Result<(&'c StepConnection, &mut Batch<'c>), OpError> {
        let WriterConfig { path, store, options, .. } = self.config;
        let connection = match self.step_connection.get() {
            Some(connection) => connection,
            None => {
                let opened = StepConnection::open(path, store, options)?;
                self.step_connection.get_or_init(|| opened)
            }
        };
        if self.step_batch.is_none() {
            self.step_batch = Some(connection.batch(store, options.lock_patience)?);
        }
        match &mut self.step_batch {
            Some(batch) => Ok((connection, batch)),
            None => Err(OpError::Refused(gone(store))),
        }
    }

    /// One transaction, from its first operation to the answers.
    fn transaction(&mut self, first: Pending) {
        self.urgent = false;
        self.expecting = false;
        // No caller is answered before this line has run: a commit that fails would take the answer back.
        match self.fill(first).and_then(|alone| self.batch.commit().map_err(|error| (error, alone))) {
            // The file may have gone since the look before the transaction.
            Ok(()) => match self.config.watch.check() {
                Ok(()) => {
                    self.is_written();
                    let frames = self.done.iter().filter_map(Done::frame_bytes);
                    let (appends, bytes) = frames.fold((0, 0), |(n, sum), bytes| (n + 1, sum + bytes));
                    self.config.batches.committed(appends);
                    self.done.drain(..).for_each(|done| done.committed(&self.config.back));
                    self.checkpoints.committed(bytes);
                }
                Err(lost) => {
                    tracing::error!(error = %lost, "a batch is not acknowledged");
                    self.batch.rollback();
                    self.done.drain(..).for_each(|done| done.undone().fail(&lost));
                }
            },
            Err((error, alone)) => {
                self.batch.rollback();
                self.undo(&error, alone);
            }
        }
    }

    /// Puts the operations of a batch that was not committed back in front of the queue, in their order, and answers
    /// those that are not tried again.
    fn undo(&mut self, error: &rusqlite::Error, alone: bool) {
        let transient = is_transient(error) && !mutated("writes-are-not-kept");
        let error = translate(error, &self.batch.store);
        // One that cannot be written at all takes no other with it: each is tried by itself.
        let try_ = if transient { Try::Again } else { Try::Alone };
        for done in self.done.drain(..).rev() {
            let op = done.undone();
            if transient || !alone {
                self.pending.push_front(Pending { op, try_ });
            } else {
                op.fail(&error);
            }
        }
        if transient {
            self.answer_callers(&error);
        }
        if transient && !self.pending.is_empty() {
            self.note_stuck(error);
        } else {
            tracing::error!(%error, alone, "a batch was not committed");
        }
    }

    /// Answers the callers that wait in front of the queue. Also those whose call was not reached: it waits behind one
    /// that may not be written for hours.
    fn answer_callers(&mut self, error: &StoreError) {
        for pending in std::mem::take(&mut self.pending) {
            match pending.op {
                Op::Call(call) if !call.is_kept() => call.answer(Err(error.clone())),
                op => self.pending.push_back(Pending { op, ..pending }),
            }
        }
    }

    fn note_stuck(&mut self, error: StoreError) {
        let stuck = self.stuck.get_or_insert_with(|| Stuck::new("nothing can be written", error.clone()));
        stuck.failed(error, self.pending.iter().map(|pending| pending.op.run()));
    }

    /// Applies operations until it is time to commit. Says whether a single one had the transaction to itself; also
    /// beside an error.
    fn fill(&mut self, first: Pending) -> Result<bool, (rusqlite::Error, bool)> {
        let alone = first.try_ == Try::Alone;
        if let Err(error) = self.batch.begin() {
            self.undo_queued(first);
            return Err((error, alone));
        }
        // From the lock on: the time spent waiting for another process must not use up the batch's own.
        let since = Instant::now();
        let mut next = first;
        loop {
            self.apply(next).map_err(|error| (error, alone))?;
            if alone || self.done.len() >= self.options.batch.max(1) {
                return Ok(alone);
            }
            match self.next_op(since) {
                // Leaving commits: what was queued before the close becomes durable, what comes after it does not.
                Some(Pending { op: Op::Close(closer), .. }) => {
                    self.close(closer);
                    return Ok(alone);
                }
                // The body of a step may read what the appends before it wrote, on a connection that sees only commits.
                Some(step) if step.needs_its_own_transaction() => {
                    self.pending.push_front(step);
                    return Ok(alone);
                }
                Some(op) => next = op,
                None => return Ok(alone),
            }
        }
    }

    /// The next operation of the open batch, or `None` when it is time to commit.
    fn next_op(&mut self, since: Instant) -> Option<Pending> {
        loop {
            let next = self.coming_op(since)?;
            if let Some(next) = self.aside.behind(next) {
                return Some(next);
            }
        }
    }

    fn coming_op(&mut self, since: Instant) -> Option<Pending> {
        if let Some(pending) = self.pending.pop_front() {
            return Some(pending);
        }
        if self.closing.is_some() {
            return None;
        }
        let op = match self.queue.try_recv() {
            Ok(op) => Some(op),
            Err(TryRecvError::Disconnected) => None,
            // A caller waits, and lingering would add to every awaited append. Others still share the commit: those
            // that queue up while the disk syncs make the next batch.
            Err(TryRecvError::Empty) if self.urgent => None,
            Err(TryRecvError::Empty) if self.expecting => self.recv_briefly(),
            Err(TryRecvError::Empty) => {
                self.recv_briefly().or_else(|| self.queue.recv_deadline(since + self.options.linger).ok())
            }
        };
        op.map(Pending::first)
    }

    /// The next operation if it comes within [`SOON`]: a run that was just answered asks again at once, and putting
    /// this thread to sleep and waking it costs more than that.
    fn recv_briefly(&self) -> Option<Op> {
        let until = Instant::now() + SOON;
        loop {
            match self.queue.try_recv() {
                Ok(op) => return Some(op),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) if Instant::now() < until => yield_now(),
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

    fn apply(&mut self, Pending { op, try_ }: Pending) -> rusqlite::Result<()> {
        match op {
            Op::Append(append) => {
                self.note_urgency(append.ack.is_awaited(), false);
                let answer = match self.batch.append(&append) {
                    // A commit that failed may have happened after all.
                    Err(OpError::Refused(refused)) if try_ != Try::First => {
                        self.batch.find(&append).map(|found| found.ok_or(refused))
                    }
                    Err(OpError::Refused(refused)) => Ok(Err(refused)),
                    Err(error) => Err(error),
                    Ok(acquired) => Ok(Ok(acquired)),
                };
                let answer = match answer {
                    Ok(answer) => answer,
                    Err(OpError::Row(reason)) => {
                        Err(StoreError::Corrupt { store: self.batch.store.to_string(), reason }.into())
                    }
                    Err(OpError::Refused(error)) => Err(error),
                    // It goes in with the others of its batch, which fails: this answer is never given.
                    Err(OpError::Sqlite(error)) => {
                        self.done.push(Done::Appended(append, Ok(Acquired::NotAsked)));
                        return Err(error);
                    }
                };
                self.done.push(Done::Appended(append, answer));
            }
            Op::Call(mut call) => {
                self.note_urgency(true, call.creates());
                let executed = call.execute(&mut self.batch);
                // Before the error ends the batch: a call that is not in here would be dropped without its answer.
                self.done.push(Done::Called(call));
                executed?;
            }
            Op::Close(closer) => self.close(closer),
        }
        Ok(())
    }

    /// No transaction can be had. What was queued meanwhile is undone with `first`: it has waited for the same lock, and
    /// to begin anew for each of them would make the last wait for all timeouts before it.
    fn undo_queued(&mut self, first: Pending) {
        let mut op = Some(first.op);
        while let Some(waits) = op {
            match waits {
                Op::Append(append) if append.work.is_some() => {
                    self.pending.push_front(Pending::first(Op::Append(append)));
                    return;
                }
                Op::Append(append) => self.done.push(Done::Appended(append, Ok(Acquired::NotAsked))),
                Op::Call(call) => self.done.push(Done::Called(call)),
                Op::Close(closer) => self.close(closer),
            }
            op = match self.pending.pop_front() {
                Some(pending) => Some(pending.op),
                None if self.closing.is_some() => None,
                None => self.queue.try_recv().ok(),
            };
        }
    }
}
