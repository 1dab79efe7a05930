//! How values stand in columns, and how rows become values again.
//!
//! Promise: reading a damaged row is an [`OpError::Row`] that names what is wrong with it, never a panic. Times are
//! microseconds since 1970, numbers are what SQLite can hold: 63 bits.

use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Row, Rows};

use aether_core::contract::Status;
use aether_core::id::{CodeId, IdempotencyKey, InvocationId, RunId, WorkerId};
use aether_core::journal::{ChainHash, Frame, StoredFrame};
use aether_core::labels::Labels;
use aether_core::payload::{Digest, Payload};
use aether_core::queue::{QueuePlace, StartTerms};
use aether_core::store::StoredEffect;
use aether_core::store::ledger::{LedgerEntry, LedgerStatus};
use aether_core::store::{Cursor, Message, QueueState, RunRecord, StoreError};

use crate::error::OpError;

/// Columns of a [`RunRecord`] in rows of `aether_runs`, in the order [`run`] reads them. While a run is being advanced, its
/// row is behind its journal: see [`Batch::append`](crate::batch::Batch::append).
pub(crate) static RUN: LazyLock<String> = LazyLock::new(|| run_columns("aether_runs"));

/// The same where that table is called `runs`.
pub(crate) static RUN_IN_RUNS: LazyLock<String> = LazyLock::new(|| run_columns("runs"));

fn run_columns(runs: &str) -> String {
    let (next, at) = (moved(runs, "next", "position + count"), moved(runs, "updated_at", "at"));
    let plain =
        |names: &str| names.split(' ').map(|name| format!("{runs}.{name}")).collect::<Vec<_>>().join(", ");
    let (before, between) = (plain("id workflow version status digest parent created_at"), plain("epoch"));
    let after = plain("owner wake_at no labels code parked terms first_taken_at ready traceparent");
    format!("{before}, {at}, {next}, {between}, {after}")
}

/// A column of a run's row, or what its last frame says where that is more. The end of a run is written to both.
fn moved(runs: &str, column: &str, of_frame: &str) -> String {
    format!(
        "CASE WHEN {runs}.{OPEN} THEN max({runs}.{column}, coalesce((SELECT {of_frame} FROM aether_journal
         WHERE run_no = {runs}.no ORDER BY position DESC LIMIT 1), 0)) ELSE {runs}.{column} END"
    )
}

/// The chain hash in a run's row, where the row is not behind the journal.
pub(crate) fn tip_column(runs: &str) -> String {
    format!("CASE WHEN {runs}.next = {} THEN {runs}.chain END", moved(runs, "next", "position + count"))
}

/// The condition of runs that have not ended, and of their index.
pub(crate) const OPEN: &str = "status NOT IN ('completed', 'failed', 'rejected', 'cancelled')";

/// Which of them is the run's number, and how many they are.
pub(crate) const RUN_NO: usize = 12;
pub(crate) const RUN_COLUMNS: usize = 20;

/// Columns of a [`StoredFrame`], in the order [`frame`] reads them.
pub(crate) const FRAME: &str = "position, at, epoch, events, chain";

/// Columns of a [`LedgerEntry`], in the order [`entry`] reads them, from [`ENTRIES`].
pub(crate) const ENTRY: &str = "ledger.key, runs.id, ledger.command, ledger.invocation, ledger.tool, \
     ledger.digest, ledger.business_key, ledger.status, ledger.result, ledger.error, ledger.committed, \
     ledger.epoch, ledger.started_at, ledger.finished_at";

/// The ledger, each row with its run.
pub(crate) const ENTRIES: &str =
    "aether_ledger AS ledger JOIN aether_runs AS runs ON runs.no = ledger.run_no";

/// Columns of a [`StoredEffect`], in the order [`effect`] reads them.
pub(crate) const EFFECT: &str = "key, count, events, status";

/// Columns of a [`Message`], in the order [`message`] reads them.
pub(crate) const MESSAGE: &str = "seq, id, topic, payload, at";

/// A claim looks past at most so many damaged rows in a place where it looks for one to take.
pub(crate) const DAMAGED: usize = 1_000;

/// Rows, at most `most`, as far as `read` wants them. One that cannot be read hides no other: it is left out with a warning,
/// and the next one takes its place, so that fewer than `most` are all that there are.
pub(crate) fn readable<T>(
    mut rows: Rows<'_>,
    most: usize,
    what: &str,
    mut read: impl FnMut(&Row<'_>) -> Result<Option<T>, OpError>,
) -> Result<Vec<T>, OpError> {
    let mut found = Vec::new();
    while found.len() < most
        && let Some(row) = rows.next()?
    {
        match read(row) {
            Ok(wanted) => found.extend(wanted),
            Err(OpError::Row(reason)) => tracing::warn!(%reason, "{what} is damaged and left alone"),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// A number as SQLite holds it. What does not fit becomes the largest one, which no condition will match.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A limit as SQLite takes it: 0 is none.
pub(crate) fn limit(limit: usize) -> i64 {
    if limit == 0 { -1 } else { i64::try_from(limit).unwrap_or(i64::MAX) }
}

/// How many rows such a limit lets through.
pub(crate) fn most(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}

/// A length of time as SQLite holds it: microseconds.
pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Texts as a JSON array, for a condition with `json_each`.
pub(crate) fn json_list<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    serde_json::Value::from_iter(texts).to_string()
}

/// A number as it was before [`int`].
pub(crate) fn nat<E>(number: i64, what: &str) -> Result<u64, OpError<E>> {
    u64::try_from(number).map_err(|_| OpError::Row(format!("{what} is {number}")))
}

/// A time as it was stored.
pub(crate) fn time<E>(micros: i64) -> Result<Timestamp, OpError<E>> {
    // Not `from_microsecond`, which refuses the last second that a timestamp can hold.
    let (second, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    Timestamp::new(second, rest as i32 * 1_000).map_err(|e| OpError::Row(format!("time {micros}: {e}")))
}

/// A time as it was stored, or the nearest one that there is.
pub(crate) fn nearest_time(micros: i64) -> Timestamp {
    let end = if micros < 0 { Timestamp::MIN } else { Timestamp::MAX };
    time::<StoreError>(micros).unwrap_or(end)
}

/// How often a worker has renewed. What is no such number counts as never, until the worker renews.
pub(crate) fn renewals(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

/// A status as it was stored.
pub(crate) fn status<E>(name: &str) -> Result<Status, OpError<E>> {
    Status::parse(name).ok_or_else(|| OpError::Row(format!("run status {name:?}")))
}

/// A chain hash as it was stored.
pub(crate) fn chain<E>(bytes: &[u8]) -> Result<ChainHash, OpError<E>> {
    bytes.try_into().map_err(|_| OpError::Row(format!("chain hash of {} bytes", bytes.len())))
}

/// A run's id as it was stored.
pub(crate) fn run_id<E>(id: String) -> Result<RunId, OpError<E>> {
    RunId::new(id).map_err(|e| OpError::Row(e.to_string()))
}

fn digest<E>(text: String) -> Result<Digest, OpError<E>> {
    serde_json::from_value(serde_json::Value::String(text)).map_err(|e| OpError::Row(e.to_string()))
}

fn labels<E>(text: String) -> Result<Labels, OpError<E>> {
    serde_json::from_str(&text).map_err(|e| OpError::Row(format!("labels: {e}")))
}

fn terms<E>(text: String) -> Result<StartTerms, OpError<E>> {
    serde_json::from_str(&text).map_err(|e| OpError::Row(format!("terms: {e}")))
}

/// A payload as it was stored.
pub(crate) fn payload<E>(text: String) -> Result<Payload, OpError<E>> {
    Payload::from_text(text).map_err(|e| OpError::Row(e.to_string()))
}

/// Reads the columns of [`RUN`].
pub(crate) fn run<E>(row: &Row<'_>) -> Result<RunRecord, OpError<E>> {
    Ok(RunRecord {
        id: run_id(row.get(0)?)?,
        workflow: row.get(1)?,
        version: row.get(2)?,
        status: status(row.get_ref(3)?.as_str().map_err(|e| OpError::Row(e.to_string()))?)?,
        digest: digest(row.get(4)?)?,
        parent: row.get::<_, Option<String>>(5)?.map(run_id).transpose()?,
        created_at: time(row.get(6)?)?,
        updated_at: time(row.get(7)?)?,
        next: nat(row.get(8)?, "position")?,
        epoch: nat(row.get(9)?, "epoch")?,
        owner: row.get::<_, Option<String>>(10)?.map(WorkerId::from),
        wake_at: row.get::<_, Option<i64>>(11)?.map(time).transpose()?,
        place: Cursor::new(nat(row.get(RUN_NO)?, "run number")?),
        labels: row.get::<_, Option<String>>(13)?.map_or_else(|| Ok(Labels::default()), labels)?,
        code: CodeId::from(row.get::<_, String>(14)?),
        parked: row.get(15)?,
        terms: row.get::<_, Option<String>>(16)?.map_or_else(|| Ok(StartTerms::default()), terms)?,
        queue: QueueState {
            started_at: row.get::<_, Option<i64>>(17)?.map(time).transpose()?,
            waits_since: row.get::<_, Option<i64>>(18)?.map(time).transpose()?,
        },
        traceparent: row.get(19)?,
    })
}

/// Reads the columns of [`FRAME`].
pub(crate) fn frame(row: &Row<'_>) -> Result<StoredFrame, OpError> {
    Ok(StoredFrame {
        position: nat(row.get(0)?, "position")?,
        at: time(row.get(1)?)?,
        epoch: nat(row.get(2)?, "epoch")?,
        text: row.get(3)?,
        chain: chain(row.get_ref(4)?.as_blob().map_err(|e| OpError::Row(e.to_string()))?)?,
        decoded: None,
    })
}

/// Reads the columns of [`ENTRY`].
pub(crate) fn entry<E>(row: &Row<'_>) -> Result<LedgerEntry, OpError<E>> {
    entry_from(row, 0)
}

/// Reads the columns of [`ENTRY`] that stand behind `first` others.
pub(crate) fn entry_from<E>(row: &Row<'_>, first: usize) -> Result<LedgerEntry, OpError<E>> {
    let status: String = row.get(first + 7)?;
    Ok(LedgerEntry {
        key: IdempotencyKey::from(row.get::<_, String>(first)?),
        run: run_id(row.get(first + 1)?)?,
        command: row.get::<_, String>(first + 2)?.into(),
        invocation: InvocationId::from(row.get::<_, String>(first + 3)?),
        tool: row.get(first + 4)?,
        digest: digest(row.get(first + 5)?)?,
        business_key: row.get(first + 6)?,
        status: ledger_status(&status)?,
        result: row.get::<_, Option<String>>(first + 8)?.map(payload).transpose()?,
        error: row.get::<_, Option<String>>(first + 9)?.map(payload).transpose()?,
        committed: row.get(first + 10)?,
        epoch: nat(row.get(first + 11)?, "epoch")?,
        started_at: time(row.get(first + 12)?)?,
        finished_at: row.get::<_, Option<i64>>(first + 13)?.map(time).transpose()?,
    })
}

fn ledger_status<E>(name: &str) -> Result<LedgerStatus, OpError<E>> {
    LedgerStatus::parse(name).ok_or_else(|| OpError::Row(format!("ledger status {name:?}")))
}

/// Reads the columns of [`EFFECT`], of an outcome of `run`.
pub(crate) fn effect(row: &Row<'_>, run: &RunId) -> Result<StoredEffect, OpError> {
    let status: Option<String> = row.get(3)?;
    Ok(StoredEffect {
        run: run.clone(),
        key: IdempotencyKey::from(row.get::<_, String>(0)?),
        frame: Frame { count: row.get(1)?, text: row.get(2)? },
        status: status.as_deref().map(ledger_status).transpose()?,
    })
}

/// Reads the columns of [`MESSAGE`].
pub(crate) fn message(row: &Row<'_>) -> Result<Message, OpError> {
    Ok(Message {
        seq: nat(row.get(0)?, "message number")?,
        id: row.get(1)?,
        topic: row.get(2)?,
        payload: payload(row.get(3)?)?,
        at: time(row.get(4)?)?,
    })
}

/// The place of a run from its columns `queue` and `queue_key`; `None` for one that is in no queue.
pub(crate) fn place(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<QueuePlace>> {
    let queue: Option<String> = row.get(column)?;
    let place = queue.map(|queue| Ok(QueuePlace { queue, key: row.get(column + 1)?, priority: 0 }));
    place.transpose()
}
