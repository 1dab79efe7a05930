//! The readers: threads of their own with connections of their own, so that no read blocks an async worker or the
//! writer.
//!
//! Promise: a read sees everything that was acknowledged before it was asked for.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
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

use crate::error::{OpError, gone, opening};
use crate::identity::FileWatch;
use crate::open::{Look, keep_plans};
use crate::options::SqliteOptions;
use crate::row;
use crate::sched::{JoinHandle, Receiver, Sender, spawn, unbounded};

type Job = Box<dyn FnOnce(Result<&Connection, StoreError>) + Send>;

/// The reading half of a store.
#[derive(Debug)]
pub(crate) struct Readers {
    store: Arc<str>,
    jobs: Mutex<Option<Sender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
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
        let threads = (0..options.readers.max(1))
            .map(|_| {
                let (path, store, queue) = (path.to_owned(), store.clone(), queue.clone());
                let (options, watch, opened) = (options.clone(), watch.clone(), opened.clone());
                spawn("aether-sqlite-reader", move || {
                    let connect =
                        || connect(&path, &options, &opened).map_err(|error| opening(&error, &path, &store));
                    serve(&watch, connect, &queue);
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { store: store.clone(), jobs: Mutex::new(Some(jobs)), threads: Mutex::new(threads) })
    }

    /// Asks on a reader's thread and waits for the answer.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, OpError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let store = self.store.clone();
        let job: Job = Box::new(move |conn| {
            let _asker_gone = reply
                .send(conn.and_then(|conn| question(conn).map_err(|error| error.into_store_error(&store))));
        });
        let queued = match &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(jobs) => jobs.send(job).is_ok(),
            None => false,
        };
        if !queued {
            return Err(gone(&self.store));
        }
        answer.await.unwrap_or_else(|_| Err(gone(&self.store)))
    }

    /// Answers what was asked, ends the threads and closes their connections.
    ///
    /// To be called before the writer closes its own: the connection that closes last copies the log into the file and
    /// deletes it, and of connections that close at the same time none finds itself to be the last.
    pub(crate) fn stop(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            let _a_panic_was_reported = thread.join();
        }
    }
}

fn serve(watch: &FileWatch, connect: impl Fn() -> Result<Connection, StoreError>, queue: &Receiver<Job>) {
    let mut conn = None;
    while let Ok(job) = queue.recv() {
        if conn.is_none() {
            // Watched after it is open: a connection made later must not read another file than the writer writes.
            let opened = connect();
            match watch.check().and(opened) {
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
