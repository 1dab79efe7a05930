//! The writer: one thread with a connection of its own, which writes the appends of all runs, many in one statement.
//!
//! Promise: appends of one run take effect in the order in which they were queued; nothing is answered before it is
//! decided, and what is decided is told as soon as the next batch was sent. A refused append fails alone. A batch that meets
//! another transaction is written again, then in halves, so that what cannot be written takes nothing with it. While the
//! server cannot be reached, or refuses everything, appends wait; after a lost connection each is looked for in its journal
//! before it is written again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aether_core::id::RunId;
use aether_core::journal::ChainHash;
use aether_core::store::{AppendError, StoreError};
use futures_util::future::join;
use tokio::sync::{mpsc, oneshot};

use crate::connection::Connection;
use crate::database::{Database, Tries};
use crate::error::{Failure, OpError, failure, gone, is_missing, is_of_a_part, may_pass, translate};
use crate::network::Thread;
use crate::placement::leaving::Leaving;
use crate::placement::map::Spot;
use crate::shard::shard;
use crate::writer::batch::{Batch, Creation, Group, Item, Write};
use crate::writer::fill::Filling;
use crate::writer::flight::{Expected, Flight, Landed};
use crate::writer::gather::Gather;
use crate::writer::held_up::LaterCreations;
use crate::writer::recover::answer;
use crate::writer::statements::{Link, Passed};

pub(crate) mod answers;
pub(crate) mod arrays;
pub(crate) mod batch;
pub(crate) mod columns;
mod fill;
mod flight;
mod gather;
mod held_up;
pub(crate) mod recover;
pub(crate) mod sql;
mod statements;
mod streams;

/// Where a run's journal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Number of the last frame.
    pub(crate) frame: i64,
    /// Chain hash after it.
    pub(crate) chain: ChainHash,
}

impl Head {
    /// That of a run that is not there: what follows it is refused.
    const NONE: Self = Self { frame: -1, chain: [0; 32] };
}

/// More heads than this are forgotten.
const HEADS: usize = 200_000;

/// Where the journals of runs end that this process appends to: a hint, which every statement checks.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    known: Mutex<HashMap<RunId, Head>>,
}

impl Heads {
    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Head>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim or an append has made this the last frame of the run.
    pub(crate) fn set(&self, run: &RunId, head: Head) {
        let mut known = self.locked();
        if known.len() >= HEADS {
            known.clear();
        }
        known.insert(run.clone(), head);
    }

    /// Where a run's journal ends, as far as is known.
    pub(crate) fn get(&self, run: &RunId) -> Option<Head> {
        self.locked().get(run).copied()
    }

    /// The run was released or has ended, or somebody else appends to it.
    pub(crate) fn forget(&self, run: &RunId) {
        self.locked().remove(run);
    }
}

/// What is queued for a writer.
#[derive(Debug)]
pub(crate) enum Op {
    Append(Item),
    Create(Box<Creation>),
    /// Answer once everything that was queued for the run before is answered.
    Barrier(RunId, oneshot::Sender<()>),
    /// A bucket is in another database now: send on what is queued of it, then answer.
    Moved(i16, Spot, oneshot::Sender<()>),
    /// Write what is queued, then end.
    Close(Option<oneshot::Sender<Result<(), StoreError>>>),
}

/// The writers of a database. A run's appends all go through one of them.
#[derive(Debug)]
pub(crate) struct Writers {
    queues: Vec<Queue>,
}

/// Where operations are queued for a writer.
#[derive(Debug)]
struct Queue {
    ops: mpsc::UnboundedSender<Op>,
    expected: Arc<Expected>,
    /// Whether new appends and creations are refused: of runs that append again and again there would be no end.
    closes: AtomicBool,
}

impl Queue {
    fn send(&self, op: Op) -> Result<(), Op> {
        if matches!(op, Op::Append(_) | Op::Create(_)) && self.closes.load(Ordering::Acquire) {
            return Err(op);
        }
        self.push(op)
    }

    /// The same of what was queued elsewhere before.
    fn push(&self, op: Op) -> Result<(), Op> {
        let is_awaited = matches!(&op, Op::Append(item) if item.append.ack.is_awaited());
        self.ops.send(op).map_err(|error| error.0)?;
        if is_awaited {
            self.expected.came();
        }
        Ok(())
    }
}

impl Writers {
    /// Connects the writers and starts them.
    pub(crate) async fn start(database: &Arc<Database>) -> Result<(), StoreError> {
        let mut queues = Vec::new();
        for _ in 0..database.options.writers {
            let thread = Thread::start("aether-pg-write");
            let connected = database.connect_writer(&thread).await;
            let conn = connected.map_err(|error| error.into_store_error(&database.name))?;
            let runtime = thread.runtime();
            let (queue, ops) = mpsc::unbounded_channel();
            let writer = Writer {
                database: database.clone(),
                thread,
                conn: Arc::new(conn),
                ops,
                waiting: VecDeque::new(),
                later: BTreeMap::new(),
                later_creations: BTreeMap::new(),
                later_from: None,
                barriers: Vec::new(),
                written: Vec::new(),
                filling: Filling::default(),
                behind: None,
                expected: Arc::default(),
                gather: Gather::default(),
                stuck: None,
                given_up: None,
                holds_up: false,
                leaving: Leaving::default(),
                closing: None,
                closers: Vec::new(),
            };
            let expected = writer.expected.clone();
            runtime.spawn(writer.serve());
            queues.push(Queue { ops: queue, expected, closes: AtomicBool::new(false) });
        }
        let _started_once = database.writers.set(Self { queues });
        Ok(())
    }

    fn of(&self, shard: i16) -> Option<&Queue> {
        let number = usize::try_from(shard).unwrap_or(0);
        self.queues.get(number % self.queues.len().max(1))
    }

    /// Queues an operation of a run; returns it when the writer has ended, or closes and takes nothing new.
    pub(crate) fn send(&self, run: &str, op: Op) -> Result<(), Op> {
        self.send_of(shard(run), op)
    }

    /// Queues an operation of a bucket; returns it in the same cases.
    pub(crate) fn send_of(&self, shard: i16, op: Op) -> Result<(), Op> {
        match self.of(shard) {
            Some(queue) => queue.send(op),
            None => Err(op),
        }
    }

    /// Queues an append that another writer had in its queue.
    pub(crate) fn forward(&self, item: Item) -> Result<(), Op> {
        let shard = shard(item.append.run.as_str());
        match self.of(shard) {
            Some(queue) => queue.push(Op::Append(item)),
            None => Err(Op::Append(item)),
        }
    }

    /// Tells every writer to end, and waits for those whose end is waited for.
    pub(crate) fn close(&self) -> Vec<oneshot::Receiver<Result<(), StoreError>>> {
        let close = |queue: &Queue| {
            queue.closes.store(true, Ordering::Release);
            let (reply, ended) = oneshot::channel();
            queue.send(Op::Close(Some(reply))).is_ok().then_some(ended)
        };
        self.queues.iter().filter_map(close).collect()
    }
}

/// Why nothing can be written at the moment.
#[derive(Debug)]
struct Stuck {
    since: Instant,
    error: StoreError,
    tries: Tries,
}

pub(crate) struct Writer {
    pub(crate) database: Arc<Database>,
    /// Where it runs, and its connection with it: between the two nothing is handed from thread to thread.
    pub(crate) thread: Thread,
    pub(crate) conn: Arc<Connection>,
    pub(crate) ops: mpsc::UnboundedReceiver<Op>,
    /// Taken from the queue while nothing could be written.
    pub(crate) waiting: VecDeque<Op>,
    /// Appends that are held up by others' locks, with their runs' later ones, and when they are tried again.
    pub(crate) later: BTreeMap<RunId, (Instant, Group)>,
    /// As well, runs that are to be created.
    pub(crate) later_creations: BTreeMap<RunId, LaterCreations>,
    /// Before this none of them is tried again.
    later_from: Option<Instant>,
    /// Transaction steps that wait until what their runs queued before is answered.
    barriers: Vec<(RunId, oneshot::Sender<()>)>,
    /// Appends that are written, and whose runs were not told yet.
    pub(crate) written: Vec<Item>,
    /// The next batch, as far as it was gathered while another one was at the server.
    filling: Filling,
    /// The next batch, where it is at the server behind another one.
    behind: Option<Flight>,
    /// The appends of those who were told last.
    expected: Arc<Expected>,
    /// Which appends the next batch waits for.
    gather: Gather,
    stuck: Option<Stuck>,
    /// Why something was given up that was held up until the store closed.
    pub(crate) given_up: Option<StoreError>,
    /// Whether something was held up since the last batch was begun.
    holds_up: bool,
    /// Buckets that have left the database.
    pub(crate) leaving: Leaving,
    closing: Option<Instant>,
    closers: Vec<oneshot::Sender<Result<(), StoreError>>>,
}

/// How long a close keeps trying to write what could not be written before.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
/// How often a creation is tried alone that the server fails to write.
const CREATION_TRIES: u32 = 6;
/// A batch is not made larger than about this many bytes: a message to the server may have a gigabyte.
const BATCH_BYTES: usize = 16 << 20;

impl Writer {
    async fn serve(mut self) {
        while let Some(began) = self.turn().await {
            self.send_on();
            if self.behind.is_some() {
                self.tell_written();
                continue;
            }
            let queued = self.ops.len() + self.waiting.len() + self.filling.count;
            let gathers = self.gather.begin(self.going_on(), queued, began.elapsed());
            // Many runs are told while the server works on what the others have queued: told first, they would compute while
            // the server waits, and then wait for it all together.
            if !gathers && self.barriers.is_empty() && queued > 0 {
                continue;
            }
            self.tell_written();
            self.lower_barriers();
        }
        self.tell_written();
        // What was sent before the end was seen.
        self.ops.close();
        while let Some(op) = self.ops.recv().await {
            self.refuse(op, &gone(&self.database.name));
        }
        let error = self.stuck.take().map(|stuck| stuck.error).or(self.given_up.take());
        let closed = error.map_or(Ok(()), Err);
        for closer in self.closers.drain(..) {
            let _asker_gone = closer.send(closed.clone());
        }
    }

    /// Writes the next batch, and answers what is decided; gives when it began. `None` when the writer is to end.
    async fn turn(&mut self) -> Option<Instant> {
        let next = match self.behind.take() {
            Some(behind) => Ok(behind),
            None => {
                let batch = self.collect().await?;
                self.take_off(batch)
            }
        };
        let began = Instant::now();
        match next {
            Ok(flight) => self.fly(flight).await,
            Err(batch) => {
                let hurried = batch.hurried;
                self.holds_up = false;
                self.settle(vec![batch]).await;
                if hurried {
                    self.later_from = self.pause_of_later(began);
                }
            }
        }
        Some(began)
    }

    /// Tells the runs of what is written, in the order in which they queued it.
    pub(crate) fn tell_written(&mut self) {
        self.take_written().into_iter().for_each(answer);
    }

    /// What is written, to be told next.
    fn take_written(&mut self) -> Vec<Item> {
        if !self.written.is_empty() {
            self.expected.of(self.going_on());
        }
        std::mem::take(&mut self.written)
    }

    /// How many runs are about to append when they are told.
    fn going_on(&self) -> usize {
        self.written.iter().filter(|item| item.goes_on()).count()
    }

    /// Answers an operation of a writer that ends.
    pub(crate) fn refuse(&mut self, op: Op, error: &StoreError) {
        match op {
            Op::Append(item) => item.append.ack.failed(error.clone().into()),
            Op::Create(creation) => drop(creation.reply.send(Err(error.clone()))),
            Op::Close(reply) => self.close(reply),
            Op::Barrier(..) | Op::Moved(..) => {}
        }
    }

    /// What a batch is written with.
    pub(crate) fn link(&self) -> Link {
        Link { database: self.database.clone(), conn: self.conn.clone() }
    }

    /// Whether the store has been closing for so long that a bucket that does not come is not waited for.
    pub(crate) fn gives_up_waiting(&self) -> bool {
        self.closing.is_some_and(|since| since.elapsed() >= CLOSE_PATIENCE)
    }

    /// Whether the store closes and nothing could be written for too long.
    fn gives_up(&self) -> bool {
        self.closing.is_some_and(|since| self.stuck.is_some() && since.elapsed() >= CLOSE_PATIENCE)
    }

    fn close(&mut self, reply: Option<oneshot::Sender<Result<(), StoreError>>>) {
        self.closers.extend(reply);
        self.closing.get_or_insert_with(Instant::now);
    }

    /// Writes batches, from the last to the first, and answers everything in them, or keeps it in `later`.
    async fn settle(&mut self, mut work: Vec<Batch>) {
        while let Some(mut batch) = work.pop() {
            self.keep_order(&mut batch);
            self.leaving.take(&mut batch);
            if batch.is_empty() {
                continue;
            }
            if !self.conn.is_sound() {
                // Closed, or with a transaction on it that could not be undone: nothing of `batch` is under way there.
                let error = self.database.unusable();
                self.tell_written();
                self.wait_for_server(Failure::Lost, error, &mut batch, &mut work).await;
                work.push(batch);
                continue;
            }
            let (link, told) = (self.link(), self.take_written());
            // The first poll of `write` has the connection send the batch, or what it asks for before.
            let tell = async {
                tokio::task::yield_now().await;
                told.into_iter().for_each(answer);
            };
            let written = join(link.write(&mut batch), tell).await.0;
            self.take_answer(Landed { batch, written }, &mut work).await;
        }
    }

    /// Answers what is decided of a batch; what is to be done yet goes into `work`.
    async fn take_answer(&mut self, Landed { batch, written }: Landed, work: &mut Vec<Batch>) {
        let written = match written {
            // A group that is refused alone is told why.
            Err(OpError::Driver(error)) if is_missing(&error) && batch.is_one_group() => {
                Ok(Passed { after: vec![Head::NONE], ..Passed::default() })
            }
            written => written,
        };
        match written {
            Ok(passed) => {
                self.note_written(&batch);
                match self.answer(batch, &passed).await {
                    Ok(again) => work.extend(again),
                    Err((error, rest)) => self.failed(&error, rest, work).await,
                }
            }
            Err(error) => self.failed(&error, batch, work).await,
        }
    }

    /// A batch was not written, or nobody knows whether it was: what is done about it. Batches in `work` are written from
    /// the last to the first.
    async fn failed(&mut self, error: &OpError, mut batch: Batch, work: &mut Vec<Batch>) {
        let (kind, told) = match error {
            OpError::Driver(error) => (failure(error), translate(error, &self.database.name)),
            OpError::Refused(error) => (Failure::Final, error.clone()),
            OpError::Row(reason) => (Failure::Final, self.database.corrupt(reason.clone())),
        };
        let kind = match error {
            // What a body has done must not be lost to an error that an operator can end. It may be the fault of one run,
            // which is then held up alone; a creation waits for a moment, in case it is everybody's.
            OpError::Driver(error)
                if is_of_a_part(error) && !(batch.is_one_creation() && batch.tries < CREATION_TRIES) =>
            {
                Failure::Slow
            }
            OpError::Driver(error) if kind == Failure::Final && may_pass(error) => Failure::Moment,
            _ => kind,
        };
        if kind == Failure::Conflict {
            // Another process may have appended: where the journals end is looked up again.
            batch.groups.values().for_each(|group| self.database.heads.forget(&group.run));
        }
        batch.tries += 1;
        match kind {
            Failure::Conflict if batch.tries <= 2 => work.push(batch),
            Failure::Slow if !batch.hurried => {
                batch.hurried = true;
                work.push(batch);
            }
            Failure::Slow if batch.is_held_up_for_long() => self.hold_up(batch, &told),
            Failure::Conflict | Failure::Slow | Failure::Data | Failure::Final => match batch.halves() {
                Ok((first, second)) => work.extend([second, first]),
                Err(alone) if matches!(kind, Failure::Conflict | Failure::Slow) => self.hold_up(alone, &told),
                Err(alone) => {
                    tracing::error!(error = %told, "a write is refused for good");
                    fail(alone, &told);
                }
            },
            Failure::Moment | Failure::Lost | Failure::Pooler => {
                if kind == Failure::Pooler
                    && let OpError::Driver(error) = error
                {
                    self.database.expect_pooler(error);
                }
                self.wait_for_server(kind, told, &mut batch, work).await;
                work.push(batch);
            }
        }
    }

    fn note_written(&mut self, batch: &Batch) {
        self.is_written();
        self.database.batches.committed(batch.appends());
    }

    /// Something was written: nothing is stuck any more.
    fn is_written(&mut self) {
        if let Some(stuck) = self.stuck.take() {
            let waited = stuck.since.elapsed();
            tracing::warn!(store = %self.database.name, ?waited, "the store can be written again");
        }
    }
}

/// Answers everything in a batch with an error.
fn fail(batch: Batch, error: &StoreError) {
    for creation in batch.creations {
        let _asker_gone = creation.reply.send(Err(error.clone()));
    }
    for item in batch.groups.into_values().flat_map(|group| group.items) {
        item.append.ack.failed(AppendError::Store(error.clone()));
    }
}

impl Database {
    /// Queues an append for its writer.
    pub(crate) fn queue_append(&self, append: Box<Write>) {
        let Some(writers) = self.writers.get() else { return append.ack.failed(gone(&self.name).into()) };
        let shard = shard(append.run.as_str());
        if let Err(Op::Append(item)) = writers.send_of(shard, Op::Append(Item::new(append))) {
            item.append.ack.failed(gone(&self.name).into());
        }
    }

    /// Lets the writers end after what is queued, without waiting for it.
    pub(crate) fn finish(&self) {
        let closed = self.writers.get().map(Writers::close);
        drop(closed);
    }

    /// Waits until everything queued is written, then closes every connection. A server that does not answer is waited for
    /// no longer than two statements may take there.
    pub(crate) async fn close_writers(&self) -> Result<(), StoreError> {
        // What they hold back is queued before the writers are told to end.
        let _in_time = tokio::time::timeout(CLOSE_PATIENCE, self.lanes.idle()).await;
        let ended = self.writers.get().map(Writers::close).unwrap_or_default();
        // Two batches may be at the server.
        let patience = self.options.statement_timeout.saturating_mul(2).saturating_add(CLOSE_PATIENCE * 2);
        let silent = Err(StoreError::Unavailable {
            store: self.name.to_string(),
            reason: format!(
                "the server has not answered a write for {patience:?}, and nobody knows whether it was made"
            ),
        });
        let closed = tokio::time::timeout(patience, first_error(ended)).await.unwrap_or(silent);
        self.close();
        closed
    }
}

/// Waits for the ends of all writers.
async fn first_error(ended: Vec<oneshot::Receiver<Result<(), StoreError>>>) -> Result<(), StoreError> {
    let mut result = Ok(());
    for ended in ended {
        // A writer that has ended before had nothing left.
        if let Ok(Err(error)) = ended.await {
            result = result.and(Err(error));
        }
    }
    result
}
