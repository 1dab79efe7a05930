//! The statements of the hot path, prepared once per writer.
//!
//! Promise: every change of a run's row names the epoch and position it expects; a row that does not match is not
//! changed.

use jiff::Timestamp;
use rusqlite::{Connection, Statement, params};

use aether_core::contract::Status;
use aether_core::id::{Epoch, Position, RunId};
use aether_core::journal::{ChainHash, Frame};
use aether_core::payload::Payload;
use aether_core::store::ledger::{LedgerEntry, LedgerStatus, LedgerUpdate};
use aether_core::store::{CodeChange, END_REQUESTS, StatusChange};

use crate::error::{NewerTables, OpError};
use crate::row;
use crate::schema::SUPPORTED;
use crate::waits::WaitStatements;

/// What the writer knows of a run's row.
#[derive(Debug)]
pub(crate) struct Head {
    /// Number of the run in this file.
    pub(crate) no: i64,
    /// Next position.
    pub(crate) next: Position,
    /// Next position as it stands in the row.
    pub(crate) saved: Position,
    /// Chain hash after the last frame.
    pub(crate) chain: ChainHash,
    /// Epoch of the run.
    pub(crate) epoch: Epoch,
    /// Where the run stands.
    pub(crate) status: Status,
    /// When it last changed.
    pub(crate) at: Timestamp,
    /// The same as it stands in the row.
    pub(crate) saved_at: Timestamp,
    /// Whether the row is to be brought up to date with this transaction.
    pub(crate) behind: bool,
}

/// So long a row may be behind the journal of its run, in microseconds.
const BEHIND: i64 = 1_000_000;

impl Head {
    /// The row was brought up to date.
    pub(crate) fn set_saved(&mut self) {
        (self.saved, self.saved_at, self.behind) = (self.next, self.at, false);
    }

    /// Whether the row has to follow. Clocks leap in both directions.
    pub(crate) fn is_far_behind(&self) -> bool {
        let behind = self.at.as_microsecond() - self.saved_at.as_microsecond();
        !self.behind && behind.abs() >= BEHIND
    }
}

pub(crate) struct Statements<'c> {
    begin: Statement<'c>,
    commit: Statement<'c>,
    rollback: Statement<'c>,
    data_version: Statement<'c>,
    schema: Statement<'c>,
    savepoint: Statement<'c>,
    undo: Statement<'c>,
    keep: Statement<'c>,
    head: Statement<'c>,
    frame: Statement<'c>,
    frame_at: Statement<'c>,
    touch: Statement<'c>,
    status: Statement<'c>,
    acquire: Statement<'c>,
    holder: Statement<'c>,
    business_holder: Statement<'c>,
    settle: Statement<'c>,
    free: Statement<'c>,
    asked_to_end: Statement<'c>,
    consume: Statement<'c>,
    notify: Statement<'c>,
    forget_progress: Statement<'c>,
    adopt: Statement<'c>,
    park: Statement<'c>,
    pub(crate) waits: WaitStatements<'c>,
}

/// Which business keys are unique in the ledger, as the index of them says it: without these very words SQLite does not use it.
const OF_RUN: &str = "substr(ledger.business_key, 1, 6) <> 'store' || char(9)";

/// A run's row, and the last frame of its journal: the row may be behind.
const HEAD: &str = "
SELECT runs.no, runs.next, runs.chain, runs.epoch, runs.status, runs.updated_at,
    last.position + last.count, last.chain, last.at
FROM aether_runs AS runs LEFT JOIN aether_journal AS last ON last.run_no = runs.no
    AND last.position = (SELECT max(position) FROM aether_journal WHERE run_no = runs.no)
WHERE runs.id = ?1";

/// Waiting runs stay due while something came in that this append did not see; see [`Statements::status`]. What came in may
/// have an earlier time than the append, where a clock was set back, and the run is due since then. In `notified` stands the
/// time of the first notification, or 0. (`min` of rows skips NULL; `min` of values is NULL where one of them is.)
const STATUS: &str = "
UPDATE aether_runs SET status = ?4, updated_at = ?5, next = ?6, chain = ?7,
    wake_at = CASE ?8
        WHEN 2 THEN NULL
        WHEN 1 THEN coalesce((
            SELECT min(came, ?5, coalesce(?10, ?5)) FROM (SELECT min(at) AS came FROM (
                SELECT at FROM aether_inbox WHERE run_no = ?1 AND consumed IS NULL AND seq > ?9
                UNION ALL SELECT notified WHERE notified <> 0))), ?10)
        ELSE coalesce(?10, created_at) END,
    notified = CASE ?8 WHEN 1 THEN 0 ELSE notified END,
    owner = CASE WHEN ?11 THEN NULL ELSE owner END,
    parked = CASE ?8 WHEN 2 THEN 0 ELSE parked END,
    lapses_at = CASE ?8 WHEN 2 THEN NULL ELSE lapses_at END
WHERE no = ?1 AND epoch = ?2 AND next = ?3";

impl<'c> Statements<'c> {
    /// Prepares all of them.
    pub(crate) fn prepare(conn: &'c Connection) -> rusqlite::Result<Self> {
        let holder = |condition: &str| {
            let (columns, entries) = (row::ENTRY, row::ENTRIES);
            conn.prepare(&format!("SELECT {columns} FROM {entries} WHERE {condition}"))
        };
        Ok(Self {
            begin: conn.prepare("BEGIN IMMEDIATE")?,
            commit: conn.prepare("COMMIT")?,
            rollback: conn.prepare("ROLLBACK")?,
            data_version: conn.prepare("PRAGMA data_version")?,
            schema: conn.prepare("SELECT version FROM aether_schema")?,
            savepoint: conn.prepare("SAVEPOINT one")?,
            undo: conn.prepare("ROLLBACK TO one")?,
            keep: conn.prepare("RELEASE one")?,
            head: conn.prepare(HEAD)?,
            frame: conn.prepare(
                "INSERT INTO aether_journal(run_no, position, count, at, epoch, events, chain)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?,
            frame_at: conn.prepare(
                "SELECT journal.epoch, journal.events FROM aether_journal AS journal
                 JOIN aether_runs AS runs ON runs.no = journal.run_no
                 WHERE runs.id = ?1 AND journal.position = ?2",
            )?,
            touch: conn.prepare(
                "UPDATE aether_runs SET next = ?4, chain = ?5, updated_at = ?6
                 WHERE no = ?1 AND epoch = ?2 AND next = ?3",
            )?,
            status: conn.prepare(STATUS)?,
            acquire: conn.prepare(
                "INSERT INTO aether_ledger(key, run_no, command, invocation, tool, digest, business_key, status, result,
                     error, committed, epoch, started_at, finished_at, position)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
                 ON CONFLICT DO NOTHING",
            )?,
            holder: holder("ledger.key = ?1")?,
            business_holder: holder(&format!("ledger.business_key = ?1 AND {OF_RUN}"))?,
            settle: conn.prepare(
                "UPDATE aether_ledger SET status = ?2, result = ?3, error = ?4, committed = ?5, finished_at = ?6
                 WHERE key = ?1",
            )?,
            free: conn.prepare(
                "UPDATE aether_ledger SET business_key = NULL WHERE key = ?1 AND business_key IS NOT NULL",
            )?,
            waits: WaitStatements::prepare(conn)?,
            forget_progress: conn.prepare("DELETE FROM aether_progress WHERE run_no = ?1")?,
            adopt: conn.prepare("UPDATE aether_runs SET code = ?2, parked = 0 WHERE no = ?1")?,
            park: conn.prepare("UPDATE aether_runs SET parked = 1 WHERE no = ?1")?,
            asked_to_end: conn.prepare(
                "SELECT 1 FROM aether_inbox WHERE run_no = ?1 AND consumed IS NULL AND topic IN (?2, ?3)",
            )?,
            consume: conn.prepare(
                "UPDATE aether_inbox SET consumed = ?3 WHERE seq = ?2 AND run_no = ?1 AND consumed IS NULL",
            )?,
            notify: conn.prepare(
                "UPDATE aether_runs SET notified = CASE notified WHEN 0 THEN ?2 ELSE min(notified, ?2) END,
                     wake_at = min(coalesce(wake_at, ?2), ?2)
                 WHERE id = ?1 AND status NOT IN ('completed', 'failed', 'rejected', 'cancelled')",
            )?,
        })
    }

    /// Takes the write lock.
    pub(crate) fn begin(&mut self) -> rusqlite::Result<()> {
        self.begin.execute([]).map(drop)
    }

    /// Makes the transaction durable.
    pub(crate) fn commit(&mut self) -> rusqlite::Result<()> {
        self.commit.execute([]).map(drop)
    }

    /// Undoes the transaction.
    pub(crate) fn rollback(&mut self) -> rusqlite::Result<()> {
        self.rollback.execute([]).map(drop)
    }

    /// A number that changes when another connection has committed.
    pub(crate) fn data_version(&mut self) -> rusqlite::Result<i64> {
        self.data_version.query_row([], |row| row.get(0))
    }

    /// Fails where the file has the tables of a newer build.
    pub(crate) fn known_tables(&mut self) -> rusqlite::Result<()> {
        let found: u32 = self.schema.query_row([], |row| row.get(0))?;
        if found <= SUPPORTED { Ok(()) } else { Err(NewerTables { found, supported: SUPPORTED }.into()) }
    }

    /// Begins a part of the transaction that can be undone alone.
    pub(crate) fn savepoint(&mut self) -> rusqlite::Result<()> {
        self.savepoint.execute([]).map(drop)
    }

    /// Ends that part, undoing it unless `keep`.
    pub(crate) fn end_savepoint(&mut self, keep: bool) -> rusqlite::Result<()> {
        if !keep {
            self.undo.execute([])?;
        }
        self.keep.execute([]).map(drop)
    }

    /// A run's row.
    pub(crate) fn head<E>(&mut self, run: &RunId) -> Result<Option<Head>, OpError<E>> {
        let mut rows = self.head.query([run.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let saved = row::nat(row.get(1)?, "position")?;
        let (mut chain, status): (Vec<u8>, String) = (row.get(2)?, row.get(4)?);
        let saved_at = row::time(row.get(5)?)?;
        let (mut next, mut at) = (saved, saved_at);
        let ahead = row.get::<_, Option<i64>>(6)?.map(|end| row::nat(end, "position")).transpose()?;
        if let Some(end) = ahead.filter(|end| *end > saved) {
            (next, chain, at) = (end, row.get(7)?, row::time(row.get(8)?)?);
        }
        Ok(Some(Head {
            no: row.get(0)?,
            next,
            saved,
            chain: row::chain(&chain)?,
            epoch: row::nat(row.get(3)?, "epoch")?,
            status: row::status(&status)?,
            at,
            saved_at,
            behind: false,
        }))
    }

    /// One frame, at the head's next position.
    pub(crate) fn frame(
        &mut self,
        head: &Head,
        frame: &Frame,
        at: Timestamp,
        chain: &ChainHash,
    ) -> rusqlite::Result<()> {
        self.frame
            .execute(params![
                head.no,
                row::int(head.next),
                frame.count,
                at.as_microsecond(),
                row::int(head.epoch),
                frame.text,
                &chain[..],
            ])
            .map(drop)
    }

    /// Epoch and events of the frame at a position.
    pub(crate) fn frame_at<E>(
        &mut self,
        run: &RunId,
        position: Position,
    ) -> Result<Option<(Epoch, String)>, OpError<E>> {
        let mut rows = self.frame_at.query(params![run.as_str(), row::int(position)])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some((row::nat(row.get(0)?, "epoch")?, row.get(1)?)))
    }

    /// Brings the row of a head up to date.
    pub(crate) fn touch(&mut self, head: &Head) -> rusqlite::Result<()> {
        one(self.touch.execute(params![
            head.no,
            row::int(head.epoch),
            row::int(head.saved),
            row::int(head.next),
            &head.chain[..],
            head.at.as_microsecond(),
        ])?)
    }

    /// Brings the row of a head up to date, with a new status.
    ///
    /// A waiting run whose inbox holds messages above `seen`, or that was notified since it was claimed or last
    /// began to wait, stays due. A run that is neither waiting nor over is always due: without a time, since its
    /// creation; its lease protects it.
    pub(crate) fn status(&mut self, head: &Head, change: &StatusChange) -> rusqlite::Result<()> {
        let over = change.status.is_terminal();
        if over {
            self.forget_progress.execute([head.no])?;
        }
        let kind = if over { 2 } else { i64::from(change.status == Status::Waiting) };
        one(self.status.execute(params![
            head.no,
            row::int(head.epoch),
            row::int(head.saved),
            change.status.as_str(),
            head.at.as_microsecond(),
            row::int(head.next),
            &head.chain[..],
            kind,
            row::int(change.seen),
            change.wake_at.map(Timestamp::as_microsecond),
            over || change.release,
        ])?)
    }

    /// Changes what is known of a run's code. The append that carries the change was admitted at the run's epoch.
    pub(crate) fn code(&mut self, no: i64, change: &CodeChange) -> rusqlite::Result<()> {
        let changed = match change {
            CodeChange::Adopted(code) => self.adopt.execute(params![no, code.as_str()]),
            CodeChange::Parked => self.park.execute([no]),
        };
        one(changed?)
    }

    /// Inserts a ledger row unless its key, or its business key within its run, is taken; says whether it did.
    pub(crate) fn acquire(&mut self, head: &Head, entry: &LedgerEntry) -> rusqlite::Result<bool> {
        let inserted = self.acquire.execute(params![
            entry.key.as_str(),
            head.no,
            entry.command.as_str(),
            entry.invocation.as_str(),
            entry.tool,
            entry.digest.as_str(),
            entry.business_key,
            entry.status.as_str(),
            entry.result.as_ref().map(Payload::as_str),
            entry.error.as_ref().map(Payload::as_str),
            entry.committed,
            row::int(entry.epoch),
            entry.started_at.as_microsecond(),
            entry.finished_at.map(Timestamp::as_microsecond),
            row::int(head.next),
        ])?;
        Ok(inserted == 1)
    }

    /// The row that stands in the way of `entry`.
    pub(crate) fn holder<E>(&mut self, entry: &LedgerEntry) -> Result<LedgerEntry, OpError<E>> {
        if let Some(row) = self.holder.query([entry.key.as_str()])?.next()? {
            return row::entry(row);
        }
        match self.business_holder.query([&entry.business_key])?.next()? {
            Some(row) => row::entry(row),
            None => Err(OpError::Row(format!("key `{}` is taken by a row that is not there", entry.key))),
        }
    }

    /// Changes a ledger row; says whether it is there.
    pub(crate) fn settle(&mut self, update: &LedgerUpdate, at: Timestamp) -> rusqlite::Result<bool> {
        let changed = self.settle.execute(params![
            update.key.as_str(),
            update.status.as_str(),
            update.result.as_ref().map(Payload::as_str),
            update.error.as_ref().map(Payload::as_str),
            update.committed,
            (update.status != LedgerStatus::Started).then(|| at.as_microsecond()),
        ])?;
        // A statement of its own: one that may change the key looks at its index each time.
        if update.status == LedgerStatus::Failed {
            self.free.execute([update.key.as_str()])?;
        }
        Ok(changed == 1)
    }

    /// Whether an inbox holds a request to end its run.
    pub(crate) fn is_asked_to_end(&mut self, no: i64) -> rusqlite::Result<bool> {
        let [cancel, terminate] = END_REQUESTS;
        self.asked_to_end.exists(params![no, cancel, terminate])
    }

    /// Marks a message as taken in.
    pub(crate) fn consume(&mut self, no: i64, seq: u64, at: Position) -> rusqlite::Result<()> {
        self.consume.execute([no, row::int(seq), row::int(at)]).map(drop)
    }

    /// Makes a run due, unless it is over or unknown.
    pub(crate) fn notify(&mut self, run: &RunId, at: Timestamp) -> rusqlite::Result<()> {
        // 0 would say that there was none.
        self.notify.execute(params![run.as_str(), at.as_microsecond().max(1)]).map(drop)
    }
}

/// A fenced change must hit its row.
fn one(changed: usize) -> rusqlite::Result<()> {
    if changed == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(changed)) }
}
