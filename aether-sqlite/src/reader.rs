//! The readers: threads of their own with connections of their own, so that no read blocks an async worker or the
//! writer.
//!
//! Promise: a read sees everything that was acknowledged before it was asked for. The readers of a store that closes end in
//! bounded time, whatever they are reading.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Params, Row, params};
use tokio::sync::oneshot;

use aether_core::contract::Status;
use aether_core::id::{CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use aether_core::journal::StoredFrame;
use aether_core::payload::Payload;
use aether_core::store::StoredEffect;
use aether_core::store::ledger::LedgerEntry;
use aether_core::store::{Cursor, EndedRuns, Message, RunRecord, Snapshot, StoreError, Unread, WorkerRecord};
use jiff::Timestamp;

use crate::error::{OpError, gone, translate};
use crate::identity::FileWatch;
use crate::open::{Look, keep_plans, sync_fully};
use crate::options::SqliteOptions;
use crate::row;
use crate::sched::{Instant, Receiver, Sender, TryRecvError, spawn, unbounded};

/// A question, which answers its asker by itself.
pub(crate) type Job = Box<dyn FnOnce(Result<&Connection, StoreError>) + Send>;

/// How long a store that closes lets its readers answer what was asked, and how long it then waits for those that were
/// interrupted.
const PATIENCE: Duration = Duration::from_secs(5);

/// Instructions of SQLite's machine between two looks whether a read is still wanted.
const INSTRUCTIONS: i32 = 1_000;

/// The reading half of a store.
#[derive(Debug)]
pub(crate) struct Readers {
    reader: Reader,
    open: Mutex<Option<Open>>,
    end: ReadersEnd,
}

/// What a store has that is not closed.
#[derive(Debug)]
struct Open {
    jobs: Sender<Job>,
    /// Every reader has one of these, and drops it when its connection is closed.
    alive: Sender<Infallible>,
}

impl Readers {
    /// Starts `options.readers` threads. Each opens its connection at its first read.
    pub(crate) fn start(
        path: &Path,
        watch: &FileWatch,
        store: &Arc<str>,
        options: &SqliteOptions,
        opened: Opened,
    ) -> std::io::Result<Self> {
        let (jobs, queue) = unbounded();
        let (alive, ended) = unbounded();
        let end = ReadersEnd { store: store.clone(), ended, is_cut_off: Arc::default() };
        let reader = Reader {
            path: path.to_owned(),
            store: store.clone(),
            options: options.clone(),
            watch: watch.clone(),
            opened,
            is_cut_off: Arc::clone(&end.is_cut_off),
        };
        for _ in 0..options.readers.max(1) {
            reader.start(queue.clone(), alive.clone())?;
        }
        Ok(Self { reader, open: Mutex::new(Some(Open { jobs, alive })), end })
    }

    /// Asks on a reader's thread and waits for the answer.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, OpError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (job, answer) = self.job(question);
        let queued = self.open().as_ref().is_some_and(|open| open.jobs.send(job).is_ok());
        if !queued {
            return Err(gone(&self.reader.store));
        }
        self.answered(answer).await
    }

    /// Asks what may take minutes, on a thread and a connection of its own: no other read waits for it. A file that is only
    /// looked at has one reader at all times, and it is that one which is asked.
    pub(crate) async fn ask_apart<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, OpError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if matches!(self.reader.opened, Opened::ToLook(_)) {
            return self.ask(question).await;
        }
        let store = &self.reader.store;
        let (job, answer) = self.job(question);
        let Some(alive) = self.open().as_ref().map(|open| open.alive.clone()) else {
            return Err(gone(store));
        };
        // A queue with one job, behind which it ends.
        let (jobs, queue) = unbounded();
        drop(jobs.send(job));
        drop(jobs);
        self.reader.start(queue, alive).map_err(|error| StoreError::Unavailable {
            store: store.to_string(),
            reason: format!("no thread could be started: {error}"),
        })?;
        self.answered(answer).await
    }

    /// The answer of a read that was begun.
    async fn answered<T>(&self, answer: oneshot::Receiver<Result<T, StoreError>>) -> Result<T, StoreError> {
        let store = &self.reader.store;
        let failed =
            || StoreError::Unavailable { store: store.to_string(), reason: "a reader has failed".into() };
        let answer = answer.await.unwrap_or_else(|_| Err(failed()));
        match answer {
            // It was interrupted, or is not begun any more.
            Err(StoreError::Unavailable { .. }) if self.open().is_none() => Err(gone(store)),
            answer => answer,
        }
    }

    /// A thread with a connection of its own, for who asks again and again what takes long. It ends when the sender is dropped.
    pub(crate) fn thread(&self) -> std::io::Result<Sender<Job>> {
        let (jobs, queue) = unbounded();
        if let Some(alive) = self.open().as_ref().map(|open| open.alive.clone()) {
            self.reader.start(queue, alive)?;
        }
        Ok(jobs)
    }

    fn job<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, OpError> + Send + 'static,
    ) -> (Job, oneshot::Receiver<Result<T, StoreError>>) {
        let (reply, answer) = oneshot::channel();
        let store = self.reader.store.clone();
        let job: Job = Box::new(move |conn| {
            let _asker_gone = reply
                .send(conn.and_then(|conn| question(conn).map_err(|error| error.into_store_error(&store))));
        });
        (job, answer)
    }

    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes no more questions, and lets the threads end with what was asked. Does not wait for that: see [`Readers::end`].
    pub(crate) fn stop(&self) {
        self.open().take();
    }

    /// The end of the threads, which comes after [`Readers::stop`].
    pub(crate) fn end(&self) -> ReadersEnd {
        self.end.clone()
    }
}

/// The end of the readers.
#[derive(Clone, Debug)]
pub(crate) struct ReadersEnd {
    store: Arc<str>,
    /// Disconnected when the last reader has closed its connection.
    ended: Receiver<Infallible>,
    is_cut_off: Arc<AtomicBool>,
}

impl ReadersEnd {
    /// Waits until all connections are closed, in bounded time: what is not answered in five seconds is interrupted. Blocks
    /// its thread.
    pub(crate) fn wait(&self) {
        let store = &self.store;
        if self.comes() {
            return;
        }
        tracing::warn!(%store, "the store closes, and interrupts what is still being read");
        self.is_cut_off.store(true, Ordering::Release);
        if !self.comes() {
            tracing::warn!(%store, "a read does not end; its connection stays open");
        }
    }

    fn comes(&self) -> bool {
        let _nothing_is_ever_sent = self.ended.recv_deadline(Instant::now() + PATIENCE);
        matches!(self.ended.try_recv(), Err(TryRecvError::Disconnected))
    }
}

/// What a reader's thread is started with.
#[derive(Clone, Debug)]
struct Reader {
    path: PathBuf,
    store: Arc<str>,
    options: SqliteOptions,
    watch: FileWatch,
    opened: Opened,
    /// The store closes and waits no longer: what is read is interrupted, what was asked is not begun.
    is_cut_off: Arc<AtomicBool>,
}

impl Reader {
    fn start(&self, queue: Receiver<Job>, alive: Sender<Infallible>) -> std::io::Result<()> {
        let reader = self.clone();
        let thread = spawn("aether-sqlite-reader", move || {
            reader.serve(&queue);
            drop(alive);
        });
        thread.map(drop)
    }

    /// Answers what is asked until the queue ends. The connection is closed when this returns.
    fn serve(&self, queue: &Receiver<Job>) {
        let mut conn = None;
        while let Ok(job) = queue.recv() {
            if self.is_cut_off.load(Ordering::Acquire) {
                job(Err(gone(&self.store)));
                continue;
            }
            if conn.is_none() {
                // Watched after it is open: a connection made later must not read another file than the writer writes.
                let opened = self.connect();
                match self.watch.check().and(opened) {
                    Ok(fresh) => conn = Some(fresh),
                    Err(error) => {
                        job(Err(error));
                        continue;
                    }
                }
            }
            if let Some(conn) = &conn {
                job(Ok(conn));
            }
        }
        if let Some(conn) = &conn {
            self.watch.before_close(conn);
        }
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        let is_cut_off = Arc::clone(&self.is_cut_off);
        let connect = || {
            let mut conn = connect(&self.path, &self.options, &self.opened)?;
            conn.progress_handler(INSTRUCTIONS, Some(move || is_cut_off.load(Ordering::Acquire)))?;
            Ok(conn)
        };
        // The file was open before: what keeps it from being opened once more, such as a lack of handles, may pass.
        connect().map_err(|error: rusqlite::Error| translate(&error, &self.store))
    }
}

/// What a store was opened for.
#[derive(Clone, Debug)]
pub(crate) enum Opened {
    ToWork,
    ToLook(Look),
}

fn connect(path: &Path, options: &SqliteOptions, opened: &Opened) -> Result<Connection, rusqlite::Error> {
    if let Opened::ToLook(look) = opened {
        let conn = look.connect(options.busy_timeout)?;
        keep_plans(&conn)?;
        return Ok(conn);
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(options.busy_timeout)?;
    keep_plans(&conn)?;
    // It may copy the log.
    sync_fully(&conn)?;
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

fn list<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T, OpError>,
) -> Result<Vec<T>, OpError> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn first<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T, OpError>,
) -> Result<Option<T>, OpError> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}

/// The frames that hold events at `from` or later.
pub(crate) fn load(conn: &Connection, run: &RunId, from: Position) -> Result<Vec<StoredFrame>, OpError> {
    let Some(no) = number(conn, run)? else { return Ok(Vec::new()) };
    let sql = format!(
        "SELECT {} FROM aether_journal WHERE run_no = ?1 AND position + count > ?2 AND position >= \
         (SELECT coalesce(max(position), 0) FROM aether_journal WHERE run_no = ?1 AND position <= ?2) ORDER BY position",
        row::FRAME
    );
    list(conn, &sql, params![no, row::int(from)], row::frame)
}

/// As [`load`], but no frame that begins `events` or more behind `from`, or behind the first event that there is.
pub(crate) fn load_page(
    conn: &Connection,
    run: &RunId,
    from: Position,
    events: u64,
) -> Result<Vec<StoredFrame>, OpError> {
    let Some(no) = number(conn, run)? else { return Ok(Vec::new()) };
    let sql = format!(
        "SELECT {} FROM aether_journal WHERE run_no = ?1 AND position + count > ?2 AND position < ?3 + \
         max(?2, (SELECT coalesce(min(position), 0) FROM aether_journal WHERE run_no = ?1)) AND position >= \
         (SELECT coalesce(max(position), 0) FROM aether_journal WHERE run_no = ?1 AND position <= ?2) ORDER BY position",
        row::FRAME
    );
    list(conn, &sql, params![no, row::int(from), row::int(events)], row::frame)
}

/// The newest frame.
pub(crate) fn last_frame(conn: &Connection, run: &RunId) -> Result<Option<StoredFrame>, OpError> {
    let Some(no) = number(conn, run)? else { return Ok(None) };
    let sql =
        format!("SELECT {} FROM aether_journal WHERE run_no = ?1 ORDER BY position DESC LIMIT 1", row::FRAME);
    first(conn, &sql, [no], row::frame)
}

/// One run.
pub(crate) fn run(conn: &Connection, run: &RunId) -> Result<Option<RunRecord>, OpError> {
    first(conn, &format!("SELECT {} FROM aether_runs WHERE id = ?1", *row::RUN), [run.as_str()], row::run)
}

/// Who holds a run, by its number; an error where its row cannot be read.
pub(crate) fn holder(conn: &Connection, no: i64) -> Result<Option<WorkerId>, OpError> {
    let sql = format!("SELECT {} FROM aether_runs WHERE no = ?1", *row::RUN);
    Ok(first(conn, &sql, [no], row::run)?.and_then(|run: RunRecord| run.owner))
}

/// Runs that wait for nothing and are due later than `?1`, each by an index.
pub(crate) const LATE: &str = "
    SELECT no FROM aether_runs INDEXED BY aether_runs_status
    WHERE status = 'running' AND owner IS NULL AND parked = 0 AND wake_at > ?1
    UNION ALL
    SELECT no FROM aether_runs INDEXED BY aether_runs_created
    WHERE created_at > ?1 AND status = 'pending' AND owner IS NULL AND queue IS NULL AND parked = 0 AND wake_at > ?1
        AND (terms IS NULL OR json_extract(terms, '$.not_before') IS NULL)";

/// Whether there is a run that waits for nothing and is due later than `beyond`.
pub(crate) fn is_any_late(conn: &Connection, beyond: Timestamp) -> Result<bool, OpError> {
    let mut any = conn.prepare_cached(LATE)?;
    Ok(any.exists([beyond.as_microsecond()])?)
}

/// The earliest time at which a run that no worker holds is due.
pub(crate) fn next_wake(conn: &Connection) -> Result<Option<Timestamp>, OpError> {
    // What waits for a turn waits for no time. Each of the three is the first entry of an index.
    let sql = "SELECT min(at) FROM (
        SELECT min(wake_at) AS at FROM aether_runs
        WHERE owner IS NULL AND wake_at IS NOT NULL AND parked = 0 AND queue IS NULL
        UNION ALL
        SELECT min(wake_at) FROM aether_runs INDEXED BY aether_runs_queue_due
        WHERE queue IS NOT NULL AND owner IS NULL AND wake_at IS NOT NULL AND parked = 0 AND ready IS NULL
        UNION ALL
        SELECT min(lapses_at) FROM aether_runs INDEXED BY aether_runs_lapses
        WHERE lapses_at IS NOT NULL AND owner IS NULL AND parked = 0)";
    let at: Option<i64> = conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(at.map(row::nearest_time))
}

/// The workers that hold runs, with their leases.
pub(crate) fn workers(conn: &Connection) -> Result<Vec<WorkerRecord>, OpError> {
    // One step through the index for each worker, not for each run.
    let mut statement = conn.prepare_cached(
        "WITH RECURSIVE holders(owner) AS (
             SELECT min(owner) FROM aether_runs WHERE owner IS NOT NULL
             UNION ALL
             SELECT (SELECT min(owner) FROM aether_runs WHERE owner > holders.owner) FROM holders
             WHERE holders.owner IS NOT NULL)
         SELECT owner, renewals, lease FROM holders LEFT JOIN aether_workers ON worker = owner
         WHERE owner IS NOT NULL",
    )?;
    row::readable(statement.query([])?, usize::MAX, "a worker", |row| worker(row).map(Some))
}

/// A worker from its name, its renewals and its lease. One whose numbers are damaged counts as one that has not registered:
/// its runs can be taken over.
pub(crate) fn worker(row: &Row<'_>) -> Result<WorkerRecord, OpError> {
    let lease: Option<i64> = row.get(2)?;
    Ok(WorkerRecord {
        id: WorkerId::from(row.get::<_, String>(0)?),
        renewals: row::renewals(row.get::<_, Option<i64>>(1)?.unwrap_or(0)),
        lease: lease.and_then(|lease| u64::try_from(lease).ok()).map(Duration::from_micros),
    })
}

/// The open runs that a worker owns, each with its epoch.
pub(crate) fn held(conn: &Connection, worker: &WorkerId) -> Result<Vec<(RunId, Epoch)>, OpError> {
    let sql = "SELECT id, epoch FROM aether_runs INDEXED BY aether_runs_held WHERE owner = ?1
               AND status IN ('pending', 'running', 'waiting')";
    let mut statement = conn.prepare_cached(sql)?;
    row::readable(statement.query([worker.as_str()])?, usize::MAX, "a run that is held", |row| {
        Ok(Some((row::run_id(row.get(0)?)?, row::nat(row.get(1)?, "epoch")?)))
    })
}

/// The runs that a worker holds and whose inbox is not empty, each with its newest unread message.
pub(crate) fn unread_held(conn: &Connection, worker: &WorkerId) -> Result<Vec<(RunId, u64)>, OpError> {
    let sql = "SELECT id, (SELECT max(seq) FROM aether_inbox WHERE run_no = no AND consumed IS NULL)
               FROM aether_runs INDEXED BY aether_runs_unread_held WHERE owner = ?1 AND unread > 0";
    let mut statement = conn.prepare_cached(sql)?;
    row::readable(statement.query([worker.as_str()])?, usize::MAX, "a run with messages", |row| {
        let newest: Option<i64> = row.get(1)?;
        Ok(Some((row::run_id(row.get(0)?)?, row::nat(newest.unwrap_or(0), "message")?)))
    })
}

/// All workers that have registered and not retired.
pub(crate) fn known_workers(conn: &Connection) -> Result<Vec<WorkerId>, OpError> {
    let mut statement = conn.prepare_cached("SELECT worker FROM aether_workers")?;
    row::readable(statement.query([])?, usize::MAX, "a worker", name)
}

fn name(row: &Row<'_>) -> Result<Option<WorkerId>, OpError> {
    Ok(Some(WorkerId::from(row.get::<_, String>(0)?)))
}

/// Workers that a run was taken from and that have not noticed.
pub(crate) fn unaware_owners(conn: &Connection, run: &RunId) -> Result<Vec<WorkerId>, OpError> {
    let mut statement = conn.prepare_cached(
        "SELECT DISTINCT worker FROM aether_lost WHERE run_no = (SELECT no FROM aether_runs WHERE id = ?1)",
    )?;
    let workers = statement.query_map([run.as_str()], |row| row.get::<_, String>(0).map(WorkerId::from))?;
    Ok(workers.collect::<Result<_, _>>()?)
}

/// Names of the workers that hold runs.
pub(crate) fn owners(conn: &Connection) -> Result<Vec<WorkerId>, OpError> {
    let sql = "SELECT DISTINCT owner FROM aether_runs INDEXED BY aether_runs_held WHERE owner IS NOT NULL";
    let mut statement = conn.prepare_cached(sql)?;
    row::readable(statement.query([])?, usize::MAX, "the owner of a run", name)
}

/// One ledger row of a run.
pub(crate) fn entry(
    conn: &Connection,
    run: &RunId,
    key: &IdempotencyKey,
) -> Result<Option<LedgerEntry>, OpError> {
    let sql = format!("SELECT {} FROM {} WHERE ledger.key = ?1 AND runs.id = ?2", row::ENTRY, row::ENTRIES);
    first(conn, &sql, [key.as_str(), run.as_str()], row::entry)
}

/// Runs that have ended, with their numbers, in the order of these.
pub(crate) fn ended(conn: &Connection, query: &EndedRuns) -> Result<Vec<(u64, RunRecord)>, OpError> {
    let before = |status: Status| {
        let limit = query.before.iter().find(|(ended, _)| *ended == status);
        limit.map(|(_, before)| before.as_microsecond())
    };
    let sql = format!(
        "SELECT {} FROM aether_runs WHERE no > ?1 AND updated_at < CASE status
             WHEN 'completed' THEN ?2 WHEN 'failed' THEN ?3 WHEN 'rejected' THEN ?4 WHEN 'cancelled' THEN ?5 END
         ORDER BY no",
        *row::RUN
    );
    let params = params![
        row::int(query.after),
        before(Status::Completed),
        before(Status::Failed),
        before(Status::Rejected),
        before(Status::Cancelled),
    ];
    let mut statement = conn.prepare_cached(&sql)?;
    row::readable(statement.query(params)?, query.limit, "a run that has ended", |row| {
        let run: RunRecord = row::run(row)?;
        Ok(Some((run.place.number(), run)))
    })
}

/// The ledger rows of a run: their keys all start with `aether:<run>:`, so the key's index finds them.
pub(crate) fn entries(conn: &Connection, run: &RunId) -> Result<Vec<LedgerEntry>, OpError> {
    let sql = format!(
        "SELECT {} FROM {}
         WHERE ledger.key > ?2 AND ledger.key < ?3 AND runs.id = ?1 ORDER BY ledger.position",
        row::ENTRY,
        row::ENTRIES
    );
    let (from, to) = (format!("aether:{run}:"), format!("aether:{run};"));
    list(conn, &sql, params![run.as_str(), from, to], row::entry)
}

/// Messages above a number that no append has taken in.
pub(crate) fn inbox(conn: &Connection, run: &RunId, after: u64) -> Result<Vec<Message>, OpError> {
    let Some(no) = number(conn, run)? else { return Ok(Vec::new()) };
    let sql = format!(
        "SELECT {} FROM aether_inbox WHERE run_no = ?1 AND seq > ?2 AND consumed IS NULL ORDER BY seq",
        row::MESSAGE
    );
    list(conn, &sql, params![no, row::int(after)], row::message)
}

/// How much an inbox holds that no append has taken in.
pub(crate) fn unread(conn: &Connection, run: &RunId) -> Result<Unread, OpError> {
    let size = |size: i64| usize::try_from(size).unwrap_or(0);
    let unread =
        first(conn, "SELECT unread, unread_bytes FROM aether_runs WHERE id = ?1", [run.as_str()], |row| {
            Ok(Unread { messages: size(row.get(0)?), bytes: size(row.get(1)?) })
        })?;
    Ok(unread.unwrap_or_default())
}

/// Waiting runs that no worker holds and whose inbox is not empty, the newest first.
pub(crate) fn unread_waiting(
    conn: &Connection,
    after: Option<Cursor>,
    limit: usize,
) -> Result<Vec<(RunRecord, u64)>, OpError> {
    let sql = format!(
        "SELECT {}, (SELECT max(seq) FROM aether_inbox WHERE run_no = aether_runs.no AND consumed IS NULL) AS newest
         FROM aether_runs INDEXED BY aether_runs_unread
         WHERE unread > 0 AND status = 'waiting' AND owner IS NULL AND no < ?1 ORDER BY no DESC",
        *row::RUN
    );
    let before = after.map_or(i64::MAX, |after| row::int(after.number()));
    let mut statement = conn.prepare_cached(&sql)?;
    row::readable(statement.query([before])?, row::most(limit), "a waiting run", |row| {
        // No number: the counters were changed by hand.
        let newest = row.get::<_, Option<i64>>("newest")?.unwrap_or(0);
        Ok(Some((row::run(row)?, row::nat(newest, "message number")?)))
    })
}

/// The bytes under `hash`.
pub(crate) fn blob(conn: &Connection, hash: &str) -> Result<Option<Vec<u8>>, OpError> {
    let mut statement = conn.prepare_cached("SELECT bytes FROM aether_blobs WHERE hash = ?1")?;
    Ok(statement.query_row([hash], |row| row.get(0)).optional()?)
}

/// The outcomes kept for a run.
pub(crate) fn effects(conn: &Connection, run: &RunId) -> Result<Vec<StoredEffect>, OpError> {
    let Some(no) = number(conn, run)? else { return Ok(Vec::new()) };
    let sql = format!("SELECT {} FROM aether_effects WHERE run_no = ?1 ORDER BY seq", row::EFFECT);
    list(conn, &sql, [no], |row| row::effect(row, run))
}

/// The newest snapshot.
pub(crate) fn snapshot(conn: &Connection, run: &RunId) -> Result<Option<Snapshot>, OpError> {
    let Some(no) = number(conn, run)? else { return Ok(None) };
    first(conn, "SELECT position, state FROM aether_snapshots WHERE run_no = ?1", [no], |row| {
        Ok(Snapshot { position: row::nat(row.get(0)?, "position")?, state: row::payload(row.get(1)?)? })
    })
}

/// How far a body has come.
pub(crate) fn progress(
    conn: &Connection,
    run: &RunId,
    command: &CommandId,
) -> Result<Option<Payload>, OpError> {
    let Some(no) = number(conn, run)? else { return Ok(None) };
    let query = "SELECT value FROM aether_progress WHERE run_no = ?1 AND command = ?2";
    first(conn, query, rusqlite::params![no, command.as_str()], |row| row::payload(row.get(0)?))
}

fn number(conn: &Connection, run: &RunId) -> Result<Option<i64>, OpError> {
    let mut statement = conn.prepare_cached("SELECT no FROM aether_runs WHERE id = ?1")?;
    Ok(statement.query_row([run.as_str()], |row| row.get(0)).optional()?)
}
