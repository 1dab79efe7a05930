//! What a store must do: one trait, and the values that cross it.
//!
//! Promise asked of every implementation: see [`Store`]. The conformance suite of `aether-testing` checks it.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::journal::frame::StoredFrame;
use crate::journal::large_values::LargeValue;
use crate::store::append::{Append, END_REQUESTS, StoredEffect};
use crate::store::birth::BirthNotice;
use crate::store::codes::{DefinitionRecord, ForeignRuns, Recode};
use crate::store::error::{AppendError, StoreError};
use crate::store::filter::{Cursor, RunFilter};
use crate::store::ledger::{LedgerEntry, Reservation};
use crate::store::purge::{EndedRuns, Purged};
use crate::store::queues::{DueStarts, KeyedStart, Limit, QueuePosition};
use crate::store::records::{
    ClaimRequest, Created, DamagedRun, Decision, Lease, Message, NewRun, RunRecord, RunRow, Sent, Snapshot,
    Unread,
};
use crate::store::schedules::{DueSchedules, ScheduleRecord};
use crate::store::streams::{StreamItem, StreamWrite};
use crate::store::waits::{ListedWait, OpenWait, WaitFilter};
use crate::store::workers::{KnownWorker, LostRun, Serving, WorkerRecord};
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CodeId, CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::measures::Batches;
use crate::vocabulary::payload::Payload;
use crate::vocabulary::queue::{LimitPattern, Serves};

/// A clock that the machines on one store share. Reading it costs nothing: it was compared with the store's before.
pub trait StoreClock: Send + Sync + Debug {
    /// The time; `None` while it is not known.
    fn now(&self) -> Option<Timestamp>;
}

/// What an acknowledged append survives. Ordered: a greater value survives more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing: it lives in this process's memory.
    Volatile,
    /// A crash of the process, but not of the machine.
    ProcessCrash,
    /// A crash of the machine, and loss of power.
    PowerLoss,
}

/// Keeps journals, ledger, inboxes, leases, blobs and snapshots. For authors of stores; programs only choose one.
///
/// # Contract
/// - Appends of one run take effect in the order in which [`Store::append`] was called.
/// - An append takes effect whole or not at all, with its ledger, status and inbox changes.
/// - An append is refused unless its epoch is the run's and its position is the next one. The write itself checks
///   both: a check before the write would let two workers pass.
/// - [`Ack::durable`](crate::store::ack::Ack::durable) is called only when the append would survive what
///   [`Store::durability`] says.
/// - A refused append leaves the other appends of its batch alone.
/// - An append is answered only when it is decided: a medium that refuses writes for the moment fails none.
/// - The database changes of a [`Work`](crate::store::append::Work) are kept exactly if the append that carries it takes
///   effect.
/// - After a terminal status every append is refused.
/// - Every method may be called at any time from any thread. Timestamps come from the caller; a store makes none.
///
/// # Order of calls
/// A worker calls [`register`](Store::register) once, then [`claim`](Store::claim) again and again, and about four times
/// in each lease [`renew`](Store::renew) and, to see which others are silent, [`workers`](Store::workers). For each run
/// that it claims it calls [`load`](Store::load), [`inbox`](Store::inbox) and [`effects`](Store::effects), then any
/// number of [`append`](Store::append)s without waiting for the answers in between. The last append of a claim suspends
/// or ends the run and releases its lease; a worker that stops before that calls [`release`](Store::release), and
/// [`retire`](Store::retire) after its last run. [`create`](Store::create) and [`send`](Store::send) come from any
/// process at any time. [`close`](Store::close) comes last.
///
/// ```
/// use std::sync::Arc;
/// use aether_core::contract::Status;
/// use aether_core::id::{CodeId, CommandId, RunId, WorkerId};
/// use aether_core::journal::Frame;
/// use aether_core::journal::event::NodeFinished;
/// use aether_core::labels::Labels;
/// use aether_core::payload::{Digest, Payload};
/// use aether_core::store::memory::MemoryStore;
/// use aether_core::store::{Ack, Append, DurableWatermark, NewRun, Store};
/// # use jiff::Timestamp;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let at = Timestamp::UNIX_EPOCH;
/// let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
/// let run = RunId::new("ticket-42")?;
/// let event = NodeFinished { command: CommandId::new("0", "search") };
/// let frame = Frame::encode(&[event.into()])?;
/// store
///     .create(NewRun {
///         id: run.clone(), workflow: "triage".into(), version: 1, code: CodeId::of("shop", "triage", 1, "0011223344556677"), digest: Digest::of(&Payload::null())?,
///         parent: None, labels: Labels::default(), traceparent: None, frame: frame.clone(), at, owner: Some(WorkerId::from("w1".to_owned())), parent_epoch: None, terms: Default::default(),
///     })
///     .await?;
///
/// let watermark = Arc::new(DurableWatermark::from(1));
/// let (ack, reply) = Ack::awaited(run.clone(), 2, Arc::clone(&watermark));
/// store.append(Append {
///     run: run.clone(), epoch: 1, expected: 1, at, frame, work: None, acquire: None,
///     ledger: Vec::new(), status: None, consumed: Vec::new(), waits: Vec::new(),
///     code: None, unless_asked_to_end: false, renews: None, streams: Vec::new(), ack,
/// });
/// assert_eq!(reply.await??.next, 2);
/// assert_eq!(watermark.durable(), 2);
/// assert_eq!(store.run(&run).await?.map(|record| record.status), Some(Status::Running));
/// # Ok(()) }
/// ```
///
/// # Testing a store
/// The conformance suite, `aether_testing::conformance`, makes one test of each rule. It needs a closure that opens an
/// empty store:
///
/// ```text
/// aether_testing::store_suite!(my_store, async || Fixture::new(Arc::new(MyStore::open_empty().await)));
/// ```
///
/// # Errors
/// Every method that answers with a [`StoreError`] returns [`StoreError::Closed`] when the store is closed,
/// [`StoreError::Unavailable`] when it cannot be reached, and the error of its medium ([`StoreError::Full`], [`StoreError::ReadOnly`],
/// [`StoreError::Locked`], [`StoreError::Corrupt`]) where there is one. The methods list only what they add. An error
/// of a write says that the write may not have happened; the caller looks before it tries again.
pub trait Store: Any + Send + Sync + Debug {
    /// Which store this is, for messages: kind and place, such as `sqlite agent.db`.
    fn describe(&self) -> String;

    /// What an acknowledged append survives. Constant for the life of the store.
    fn durability(&self) -> Durability;

    /// A clock that all machines on this store share, where there is one. An engine on the system's clock takes its time
    /// from there, so that hosts whose clocks differ agree on what is due. The default has none.
    fn clock(&self) -> Option<Arc<dyn StoreClock>> {
        None
    }

    /// The batches that it has written, where it writes in batches and counts them. The default does not.
    fn batches(&self) -> Option<Batches> {
        None
    }

    /// Announces a worker, before its first claim; `lease` is how long others must see it silent before they may take its
    /// runs over, and `codes` is what it can advance (see [`Store::codes_elsewhere`]). Answers `false`, and does nothing, where a worker of that name is known: the caller takes another name.
    /// A store that can tell that a worker's process has died may let others claim its runs at once.
    fn register(
        &self,
        worker: &WorkerId,
        lease: Duration,
        codes: Vec<CodeId>,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Keeps which runs a registered worker takes, for those who look; its claims say it themselves. A worker of which
    /// nothing is kept takes all. The default keeps nothing.
    fn serve(&self, _worker: &WorkerId, _serves: Serves) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What each worker other than `me` advances, of those whose codes [`Store::codes_elsewhere`] lists, in any order. The
    /// default says of all of them together that they take all runs.
    fn serving_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<Serving>, StoreError>> {
        let codes = self.codes_elsewhere(me);
        Box::pin(async move { Ok(vec![Serving { codes: codes.await?, ..Serving::default() }]) })
    }

    /// The codes that workers other than `me` have registered, each once, also those of workers that hold no run. Left
    /// out are workers that have retired and those whose process is known to have died. A worker that is only silent
    /// counts: it may be back.
    fn codes_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<CodeId>, StoreError>>;

    /// The workers that hold runs, in any order. A store whose parts renew apart from each other, as several databases do,
    /// may list a worker once for each part, with numbers that it tells apart when a claim names them as silent: who is
    /// silent in one part only then loses what it holds there, and nothing else.
    fn workers(&self) -> BoxFuture<'_, Result<Vec<WorkerRecord>, StoreError>>;

    /// All workers that have registered and not retired, and those that hold runs, in any order, with what they registered:
    /// for people who look, so it may cost a count of the runs that each of them holds. The default knows only those that
    /// hold runs, and not how many.
    fn known_workers(&self) -> BoxFuture<'_, Result<Vec<KnownWorker>, StoreError>> {
        let holders = self.workers();
        Box::pin(async move { Ok(holders.await?.into_iter().map(KnownWorker::of).collect()) })
    }

    /// Ends a worker that advances nothing any more: whatever it still holds is free, and its name is forgotten. Does
    /// nothing for an unknown one.
    fn retire(&self, worker: &WorkerId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Workers that `run` was taken from while they were silent, that did not notice it yet (see [`Store::renew`]), and
    /// whose processes are known to be there: a paused process may wake and finish what it had begun. The default knows of
    /// none.
    fn unaware_owners(&self, _run: &RunId) -> BoxFuture<'_, Result<Vec<WorkerId>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// How the body of a transaction step reaches the store's database, such as `cx.sql`. `None` where appends may not carry
    /// a [`Work`](crate::store::append::Work): then one that does fails with [`StoreError::NoTransactions`].
    fn transactions(&self) -> Option<&'static str> {
        None
    }

    /// Says which labels a run will have for which values are about to be stored, although it is not there yet. The default
    /// does nothing.
    fn announce(&self, _run: &RunId, _labels: &Labels) {}

    /// Creates a run unless its id is taken; run and first frame are written together. Durable when it answers. It is
    /// queued before this function returns, so that appends to the new run may follow at once. With a
    /// [`NewRun::parent_epoch`] the write itself checks that the parent is open and at that epoch, so that a worker that
    /// lost the parent creates no child of it; a run that exists is answered in any case. Where the run is refused and there is
    /// none of its id, whatever was stored for that id with [`Store::put_blob`] is deleted with the refusal. This goes for
    /// every function that creates runs; who is answered [`Created::New`] stores such values once more, in case that another
    /// start of the same id was refused meanwhile.
    fn create(&self, new: NewRun) -> BoxFuture<'_, Result<Created, StoreError>>;

    /// As [`Store::create`], and tells through `notice` as soon as it is certain that the run is new, unless the write
    /// fails: the run is begun while its first event is on its way to the disk. A store that tells then refuses appends where
    /// [`Append::unborn`] says that the write did fail. The default never tells.
    fn create_early(&self, new: NewRun, notice: BirthNotice) -> BoxFuture<'_, Result<Created, StoreError>> {
        drop(notice);
        self.create(new)
    }

    /// As [`Store::create`], as long as `decision` stands: the write itself checks it, and answers
    /// [`Created::DecisionGone`] where the record has another revision or is not there. A run that exists is answered in any
    /// case. A store that keeps the record in another database than the run holds it there until the run is created: nobody
    /// replaces or removes it meanwhile. It never takes the run back.
    fn create_decided(&self, new: NewRun, decision: Decision) -> BoxFuture<'_, Result<Created, StoreError>>;

    /// Creates a fork as [`Store::create`] creates a run, together with the ledger rows of the calls that it has copied: in
    /// one write, so that there is never a fork without its rows. The rows are those of the new run, whatever their
    /// [`LedgerEntry::run`] says. One whose key or business key is taken is left out.
    fn create_fork(
        &self,
        new: NewRun,
        ledger: Vec<LedgerEntry>,
    ) -> BoxFuture<'_, Result<Created, StoreError>>;

    /// Queues an append and returns at once. The result comes through [`Append::ack`], in any order among runs.
    ///
    /// In one transaction: check epoch, status, position and ledger rows; acquire the ledger row, or append
    /// [`Acquire::otherwise`](crate::store::ledger::Acquire::otherwise) in place of the frame if its key is taken (a
    /// store-wide business key is not looked at: it was reserved); append the frame; change ledger rows; mark
    /// messages as consumed; change the list of open waits; change what is known of the run's code; write the status and
    /// make the run to be notified due. A terminal status ends the parking of the run. With [`Append::renews`], before the
    /// frame is appended, also what a [`Renewal`](crate::store::renewal::Renewal) says.
    ///
    /// Answers with [`Ack::failed`](crate::store::ack::Ack::failed), and changes nothing, with
    /// [`AppendError::StaleEpoch`](crate::store::error::AppendError::StaleEpoch) when another worker has claimed the
    /// run, [`AppendError::RunEnded`](crate::store::error::AppendError::RunEnded) after a terminal status,
    /// [`AppendError::WrongPosition`](crate::store::error::AppendError::WrongPosition) when the append does not follow
    /// the last one, [`AppendError::AskedToEnd`](crate::store::error::AppendError::AskedToEnd) where
    /// [`Append::unless_asked_to_end`] says so, [`StoreError::UnknownRun`] when there is no such run, and [`StoreError::Corrupt`] when a ledger
    /// row to change is missing.
    ///
    /// An append is answered only when it is decided: durable, refused for one of these reasons, or impossible for good
    /// (the store is closed, damaged or read-only). While the medium refuses writes for the moment (a full disk, a file
    /// that another process has locked, an I/O error), the store keeps it, and every append of its run behind it, and
    /// tries again: the body whose outcome it carries has changed the world already. When a commit fails without saying
    /// whether it happened, an append that is found in the journal (same run, epoch, position and frame) is durable.
    /// A refusal is answered only when what caused it is durable. One exception: an append with a
    /// [`Work`](crate::store::append::Work) whose call was made and whose changes were rolled back because of the medium is
    /// answered with its error, for then nothing has happened.
    fn append(&self, append: Append);

    /// The frames of a run in order, beginning with the one that holds position `from`. Empty for an unknown run. Sees
    /// every append that was acknowledged before the call.
    fn load(&self, run: &RunId, from: Position) -> BoxFuture<'_, Result<Vec<StoredFrame>, StoreError>>;

    /// As [`Store::load`], but no frame that begins `events` or more behind `from`, or behind the first event of the journal
    /// where that is later: a part of a journal that may be too long for memory. The next part begins behind its last event. Empty at the end of the journal. The default reads
    /// all of it; a store that can read a part should.
    fn load_page<'s>(
        &'s self,
        run: &RunId,
        from: Position,
        events: u64,
    ) -> BoxFuture<'s, Result<Vec<StoredFrame>, StoreError>> {
        let frames = self.load(run, from);
        Box::pin(async move {
            let mut frames = frames.await?;
            let begins = frames.first().map_or(0, |first| first.position);
            let end = from.max(begins).saturating_add(events.max(1));
            frames.retain(|frame| frame.position < end);
            Ok(frames)
        })
    }

    /// The newest frame of a run; `None` for an unknown run.
    fn last_frame(&self, run: &RunId) -> BoxFuture<'_, Result<Option<StoredFrame>, StoreError>>;

    /// One run; `None` for an unknown one.
    fn run(&self, run: &RunId) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>>;

    /// The runs that `filter` lets through, newest first: in the order of [`RunRecord::place`], from the highest. A run
    /// that was created later than another has a higher place than it, as long as either is there.
    ///
    /// One damaged run must not hide the others: one whose row cannot be read is left out, with a warning that names it, and
    /// does not count against the limit. [`Store::damaged_runs`] lists it, and [`Store::run`] says what is wrong with it.
    fn runs(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>>;

    /// The runs that [`Store::runs`] leaves out of its answer to the same `filter`, because their rows cannot be read; in the
    /// same order. The default says that there are none, as in a store that keeps records and no rows.
    fn damaged_runs(&self, _filter: RunFilter) -> BoxFuture<'_, Result<Vec<DamagedRun>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// As [`Store::runs`], for a check of the store: a row that cannot be read does not hide the others, and where a store
    /// keeps the end of a journal in the row, too, it says what is there.
    fn run_rows(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>> {
        let runs = self.runs(filter);
        Box::pin(async move { Ok(runs.await?.into_iter().map(RunRow::from).collect()) })
    }

    /// What is wrong with the medium itself, whatever is written on it, and what is on it of runs that are not there. The
    /// default does not look.
    fn damage(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// How many runs `filter` lets through, whatever its `after` and `limit`. The default lists them; a store that can
    /// count without that should.
    fn count(&self, filter: RunFilter) -> BoxFuture<'_, Result<u64, StoreError>> {
        let all = self.runs(RunFilter { after: None, limit: 0, ..filter });
        Box::pin(async move { Ok(all.await?.len() as u64) })
    }

    /// Claims due runs that no worker holds, the longest due first. A run is due when it has not ended and its `wake_at`
    /// is not after `now`. Nobody holds a run without an owner, and one whose owner is among `silent` and has the number
    /// of renewals given there: the write itself compares them. A run that is taken from a silent worker is kept for that
    /// worker's next [`Store::renew`].
    ///
    /// A run whose [`RunRecord::code`] is not among [`ClaimRequest::codes`], and a parked one, is claimed only by
    /// [`ClaimRequest::adopt`].
    ///
    /// Runs of queues are taken as [`queueing`](crate::store::queueing) says, within the limits, and runs and slots in one
    /// write. A run has a slot of its queue for as long as an owner holds it, also one that is silent. One without a slot
    /// is claimed only where it has not begun and has expired or is asked to end; its
    /// [`QueueState::started_at`](crate::store::queues::QueueState::started_at) is `None` then, and the claim may do nothing but end it.
    /// With [`ClaimRequest::only`] and [`ClaimRequest::adopt`], too, a run of a queue is claimed only if there is a slot.
    ///
    /// For each run, one atomic write sets the owner and raises the epoch by one. Of two workers that claim at the same
    /// time, only one may get a run.
    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Vec<Lease>, StoreError>>;

    /// Gives runs another code, each if it is open at the epoch and with the code given, held by no worker and not parked;
    /// returns how many. Its
    /// journal stays as it is, and says which code recorded it. So a run of a queue whose code no worker has any more comes to
    /// those that its journal fits in the order of its queue.
    fn recode(&self, runs: Vec<Recode>) -> BoxFuture<'_, Result<usize, StoreError>>;

    /// Open runs that none of the query's codes records, and open runs that are parked, in the order of
    /// [`RunRecord::place`], from the lowest. Every worker asks about once a second with [`ForeignRuns::due`]: runs of its
    /// own codes must cost nothing.
    fn foreign(&self, query: ForeignRuns) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>>;

    /// Keeps a definition, unless there is one of its code. Durable when it answers.
    fn put_definition(&self, definition: DefinitionRecord) -> BoxFuture<'_, Result<(), StoreError>>;

    /// All definitions, by when they were first seen and by code: one for each build of each workflow that ever ran here.
    fn definitions(&self) -> BoxFuture<'_, Result<Vec<DefinitionRecord>, StoreError>>;

    /// Renews all leases of `worker`: raises its number of renewals by one, and registers it if it is unknown. Answers
    /// with the runs that others have taken from it while it was silent, again and again until they are in `noticed`:
    /// those of which it has stopped everything.
    fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        noticed: Vec<LostRun>,
    ) -> BoxFuture<'_, Result<Vec<LostRun>, StoreError>>;

    /// Whether the last [`Store::renew`] of `worker` that succeeded has also renewed its lease on `run`. A store of several
    /// databases renews where it can: the lease on a run whose database could not be reached may be over, and no body of it
    /// begins until a renewal has reached that database again. For every other store a renewal is a renewal.
    fn is_renewed(&self, worker: &WorkerId, run: &RunId) -> bool {
        let _no_run_is_elsewhere = (worker, run);
        true
    }

    /// Whether the last [`Store::renew`] of `worker` that succeeded has renewed its lease in every database of the store. Until
    /// it has, also a worker that holds nothing goes on renewing: where it cannot renew it does not see other workers, as in
    /// [`Store::workers`]. For every other store a renewal is a renewal.
    fn is_renewed_everywhere(&self, worker: &WorkerId) -> bool {
        let _there_is_one_database = worker;
        true
    }

    /// How often [`Store::renew`] of `worker` failed in one of the databases, or succeeded there again: what was known before
    /// of the worker's runs may not be true any more, although no renewal has said so. One number for all of them, which only
    /// rises: a run may be moved from one database to another. Only for a store of several databases.
    fn lapses(&self, worker: &WorkerId) -> u64 {
        let _there_is_one_database = worker;
        0
    }

    /// Releases the lease of `worker` on a run without changing its journal; the run is due again at `wake_at`. Does nothing
    /// with a stale `epoch`, for a run that another worker holds, and for one that has ended: a worker that lost a run must
    /// not release it from the new owner. Both are compared, because an epoch is given out again where a store lost the claim
    /// that had it, as a database does that was set back.
    ///
    /// # Errors
    /// [`StoreError::UnknownRun`] when there is no such run.
    fn release(
        &self,
        worker: &WorkerId,
        run: &RunId,
        epoch: Epoch,
        wake_at: Timestamp,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Makes runs due `now` that wait for nothing and are due later than `beyond` all the same: by a clock that was ahead,
    /// a worker released them in the middle of their work, or somebody created them to begin at once. Runs that sleep, that wait
    /// in queues for their first turns, or were to begin at a time, stay as they are. Returns how many there were; some hundreds
    /// at most, and the rest by the next call. The default knows of none.
    fn hasten(&self, _now: Timestamp, _beyond: Timestamp) -> BoxFuture<'_, Result<usize, StoreError>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// The earliest `wake_at` of any run without an owner that is not parked; `None` when there is none.
    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>>;

    /// One ledger row of `run`; `None` when it never acquired the key.
    fn entry(
        &self,
        run: &RunId,
        key: &IdempotencyKey,
    ) -> BoxFuture<'_, Result<Option<LedgerEntry>, StoreError>>;

    /// As [`Store::entry`], for the row that holds a business key for which another run asks: that a value of the row cannot
    /// be read is no error, and leaves it out.
    fn holder_entry(
        &self,
        run: &RunId,
        key: &IdempotencyKey,
    ) -> BoxFuture<'_, Result<Option<LedgerEntry>, StoreError>> {
        self.entry(run, key)
    }

    /// Whether `stored`, the business key of a row, is the one that is asked for. For a store that keeps such keys in another
    /// form.
    fn is_business_key(&self, stored: &str, asked: &str) -> bool {
        stored == asked
    }

    /// Writes who holds a store-wide business key, if nobody has reserved it, or if what is there is exactly `replaces`
    /// ([`Reservation::is_same`]); a sealed reservation is never replaced. Answers what is there afterwards. Durable when it
    /// answers; the write itself compares.
    ///
    /// It is not ordered with appends, and belongs to no run: it may live in another place than the run's rows. The caller
    /// decides whether a reservation may be replaced.
    fn reserve(
        &self,
        wanted: Reservation,
        replaces: Option<Reservation>,
    ) -> BoxFuture<'_, Result<Reservation, StoreError>>;

    /// Who has reserved a store-wide business key; `None` where nobody ever did. Sees every reservation that was answered
    /// before the call.
    fn reservation(&self, business_key: &str) -> BoxFuture<'_, Result<Option<Reservation>, StoreError>>;

    /// The ledger rows of a run, in the order in which they were acquired. There are as many as its journal has
    /// world-changing calls.
    fn entries(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<LedgerEntry>, StoreError>>;

    /// Puts a message into a run's inbox and, in the same write, makes the run due at the message's time unless it is
    /// due earlier. A [pending](Status::Pending) run that has a [time to begin](crate::queue::StartTerms::not_before) stays due then,
    /// unless the message is one of the [`END_REQUESTS`]. Durable when it answers. Ids that the run got before are
    /// duplicates also after the run has ended.
    ///
    /// # Errors
    /// [`StoreError::UnknownRun`] when there is no such run.
    fn send(&self, run: &RunId, message: Message) -> BoxFuture<'_, Result<Sent, StoreError>>;

    /// The messages with a number above `after` that no append has consumed, in the order in which they were sent. 0
    /// reads the whole inbox. The messages left out must cost nothing: a worker asks after every message for what it
    /// has not seen, while thousands may be unread.
    fn inbox(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<Vec<Message>, StoreError>>;

    /// The unread requests to end the run, by their topics ([`END_REQUESTS`]). No other message is looked at, so that these
    /// are found also where the others cannot be read.
    fn end_requests<'s>(&'s self, run: &RunId) -> BoxFuture<'s, Result<Vec<Message>, StoreError>> {
        let inbox = self.inbox(run, 0);
        Box::pin(async move {
            let mut messages = inbox.await?;
            messages.retain(|message| END_REQUESTS.contains(&&*message.topic));
            Ok(messages)
        })
    }

    /// How much the whole inbox holds. The default reads it; a store that can count without reading should.
    fn unread<'s>(&'s self, run: &RunId) -> BoxFuture<'s, Result<Unread, StoreError>> {
        let inbox = self.inbox(run, 0);
        Box::pin(async move { Ok(inbox.await?.iter().map(Unread::of).sum()) })
    }

    /// The waiting runs without an owner whose inbox is not empty, each with the number of its newest unread message: at
    /// most `limit` (0 for all) with a lower [`RunRecord::place`] than `after`, from the highest. The default reads the inbox of every
    /// waiting run; a store that can list them without that should.
    fn unread_waiting(
        &self,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunRecord, u64)>, StoreError>> {
        Box::pin(async move {
            let mut waiting = RunFilter { after, ..RunFilter::new().status(Status::Waiting).limit(200) };
            let mut found = Vec::new();
            loop {
                let page = self.runs(waiting.clone()).await?;
                let Some(last) = page.last() else { return Ok(found) };
                waiting.after = Some(last.place);
                for record in page {
                    if record.owner.is_none()
                        && let Some(newest) = self.inbox(&record.id, 0).await?.last()
                    {
                        found.push((record, newest.seq));
                    }
                    if limit > 0 && found.len() == limit {
                        return Ok(found);
                    }
                }
            }
        })
    }

    /// The open waits that `filter` lets through, in the order in which they were opened. Reads no journal.
    fn waits(&self, filter: WaitFilter) -> BoxFuture<'_, Result<Vec<ListedWait>, StoreError>>;

    /// At most `limit` (0 for all) runs whose open waits are not listed: those that an older build left open in a store that had no such
    /// list. The default says that there are none.
    fn unlisted_waits(&self, _limit: usize) -> BoxFuture<'_, Result<Vec<RunId>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Replaces the list of a run's open waits by `waits`, which were read from its journal up to position `next`, and
    /// counts it as listed. Does nothing, and answers `false`, where the journal has become longer meanwhile.
    fn list_waits<'s>(
        &'s self,
        _run: &RunId,
        _next: Position,
        _waits: Vec<OpenWait>,
    ) -> BoxFuture<'s, Result<bool, StoreError>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    /// The open runs that `worker` owns, each with its epoch. Asked once in each lease: its cost depends on what the worker
    /// owns, and not on what waits. A store in front of another one must ask that; the default says that there are none.
    fn held(&self, _worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, Epoch)>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The runs that `worker` holds and whose inbox is not empty, each with the number of its newest unread message.
    fn unread_held(&self, worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, u64)>, StoreError>>;

    /// Saves the newest progress of the body of `command`, in place of the progress saved before. A stale `epoch`
    /// changes nothing. Progress is deleted when the run ends. The default saves none, so that bodies start from the
    /// beginning.
    fn save_progress(
        &self,
        _run: &RunId,
        _epoch: Epoch,
        _command: &CommandId,
        _progress: Payload,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The progress that [`Store::save_progress`] saved last for `command`.
    fn progress(
        &self,
        _run: &RunId,
        _command: &CommandId,
    ) -> BoxFuture<'_, Result<Option<Payload>, StoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Writes to the streams of runs, in order, and answers for each write which items it made; `None` for one that is
    /// refused, because its run has ended or has another epoch. The write itself checks that. A refused one leaves the
    /// others alone. All of them are one write of the medium, or few. Durable when it answers.
    ///
    /// Streams belong to their run: they stay when it continues as new, and go when it is purged. What an append says of
    /// them ([`Append::streams`]) takes effect with it.
    fn write_streams(
        &self,
        writes: Vec<StreamWrite>,
    ) -> BoxFuture<'_, Result<Vec<Option<Vec<StreamItem>>>, StoreError>>;

    /// The commands of a run that have open chunks in streams, each once: see [`StreamEnd`](crate::store::streams::StreamEnd).
    fn open_streams(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<CommandId>, StoreError>>;

    /// At most `limit` items of the stream `stream` of a run with numbers above `after`, by their numbers. They are one
    /// state of the stream.
    fn stream(
        &self,
        run: &RunId,
        stream: &str,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StreamItem>, StoreError>>;

    /// Stores `bytes` for `run` under `hash`, their SHA-256 as 64 hexadecimal digits. The run may not be there yet. Storing
    /// the same bytes again does nothing. Durable when it answers.
    fn put_blob(&self, run: &RunId, hash: &str, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The bytes stored for `run` under `hash`; `None` when there are none. A store may keep equal bytes of several runs
    /// once, but nobody may rely on that: what one run stored, another need not find.
    fn blob(&self, run: &RunId, hash: &str) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>>;

    /// Stores an outcome under its key, and for its run the values it refers to as [`Store::put_blob`] does, all in one write.
    /// Durable when it answers. The first outcome under a key stays: a second one is dropped, its values are stored.
    /// Kept as an append is while the medium refuses writes for the moment.
    ///
    /// # Errors
    /// [`AppendError::StaleEpoch`] when `epoch` is not the run's: another worker has claimed it and may have decided what
    /// this outcome is about, so nothing is stored. [`StoreError::UnknownRun`] when there is no such run.
    fn put_effect(
        &self,
        effect: StoredEffect,
        epoch: Epoch,
        values: Vec<LargeValue>,
    ) -> BoxFuture<'_, Result<(), AppendError>>;

    /// The outcomes stored for a run, in the order in which they were stored.
    fn effects(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<StoredEffect>, StoreError>>;

    /// Saves a snapshot of a run unless it already has one of a later position.
    ///
    /// # Errors
    /// [`StoreError::UnknownRun`] when there is no such run.
    fn save_snapshot(&self, run: &RunId, snapshot: Snapshot) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The newest snapshot of a run.
    fn snapshot(&self, run: &RunId) -> BoxFuture<'_, Result<Option<Snapshot>, StoreError>>;

    /// Writes a schedule: a new one with `replaces` 0, else in place of the one of that name and revision. Answers `false`,
    /// and writes nothing, where another revision is there, or none. Durable when it answers.
    fn put_schedule(
        &self,
        schedule: ScheduleRecord,
        replaces: u64,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// At most `limit` (0 for all) schedules, by name, with names after `after`.
    fn schedules(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>>;

    /// The schedule of this name; `None` when there is none.
    fn schedule(&self, name: &str) -> BoxFuture<'_, Result<Option<ScheduleRecord>, StoreError>>;

    /// The schedules whose [`ScheduleRecord::due_at`] is not after the query's time, by that time and their names.
    fn due_schedules(&self, query: DueSchedules) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>>;

    /// Deletes the schedule of this name; says whether there was one. The runs that it started stay.
    fn remove_schedule(&self, name: &str) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Sets a limit in place of the one of its pattern and kind. It counts from the next claim and the next
    /// [`Store::create`] on.
    fn put_limit(&self, _limit: Limit) -> BoxFuture<'_, Result<(), StoreError>> {
        no_queues(self.describe())
    }

    /// Deletes a limit by its pattern and the name of its kind; says whether there was one.
    fn remove_limit(&self, _pattern: &LimitPattern, _kind: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        no_queues(self.describe())
    }

    /// All limits, by pattern and name of their kind.
    fn limits(&self) -> BoxFuture<'_, Result<Vec<Limit>, StoreError>> {
        no_queues(self.describe())
    }

    /// Why a run of a queue has no turn; `None` where it does not wait for one.
    ///
    /// # Errors
    /// [`StoreError::UnknownRun`] when there is no such run.
    fn queue_position(
        &self,
        _run: &RunId,
        _now: Timestamp,
    ) -> BoxFuture<'_, Result<Option<QueuePosition>, StoreError>> {
        no_queues(self.describe())
    }

    /// The keyed start of this name; `None` when there is none.
    fn keyed_start(&self, _name: &str) -> BoxFuture<'_, Result<Option<KeyedStart>, StoreError>> {
        no_queues(self.describe())
    }

    /// Writes a keyed start: a new one with `replaces` 0, else in place of the one of that name and revision. Answers
    /// `false`, and writes nothing, where another revision is there, or none. Durable when it answers.
    fn put_keyed_start(&self, _start: KeyedStart, _replaces: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        no_queues(self.describe())
    }

    /// Deletes the keyed start of this name if it has this revision; says whether it did.
    fn remove_keyed_start(&self, _name: &str, _revision: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        no_queues(self.describe())
    }

    /// The keyed starts whose time has come, by that time and their names.
    fn due_starts(&self, _query: DueStarts) -> BoxFuture<'_, Result<Vec<KeyedStart>, StoreError>> {
        no_queues(self.describe())
    }

    /// Runs that ended before a time, in the order in which they were created, each with its place in that order. The
    /// place of the last one is [`EndedRuns::after`] of the next page.
    fn ended(&self, query: EndedRuns) -> BoxFuture<'_, Result<Vec<(u64, RunRecord)>, StoreError>>;

    /// Deletes a run that has ended: its journal, ledger rows, inbox and snapshot. The write itself checks that the
    /// run may be deleted. Where `created_at` is given, it is the time of the run that is meant: another one of the same id is
    /// [`Purged::Unknown`], and stays. Before the rows go, each store-wide business key that one of them holds is sealed: its
    /// reservation, which names that row, gets [`LedgerEntry::tombstone`] as [`Reservation::sealed`], so that the key stays taken. Durable
    /// when it answers.
    fn purge(&self, run: &RunId, created_at: Option<Timestamp>) -> BoxFuture<'_, Result<Purged, StoreError>>;

    /// Deletes every snapshot. Changes no outcome: snapshots only shorten replay.
    fn delete_snapshots(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Whether something else in this process holds the store that stands behind this one, so that it must not be closed
    /// for an engine that ends. A store behind which none stands says `false`.
    fn is_shared(&self) -> bool {
        false
    }

    /// Waits until everything queued is durable, then closes the store. Calls that come later fail with
    /// [`StoreError::Closed`]; a store that lives in memory may stay open.
    ///
    /// # Errors
    /// The error of the medium when it still refuses writes. It comes in bounded time and says what was not written.
    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

fn no_queues<T: Send + 'static>(store: String) -> BoxFuture<'static, Result<T, StoreError>> {
    Box::pin(std::future::ready(Err(StoreError::NoQueues { store })))
}
