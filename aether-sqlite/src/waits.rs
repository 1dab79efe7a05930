//! The list of open waits: its changes by appends, and reading it.
//!
//! Promise: a row is written in the transaction of the append that opens or closes its wait; an append without waits
//! costs no statement. A number is never used again, also after its wait was closed. Runs that an older build left open are kept apart until they are listed.

use jiff::Timestamp;
use rusqlite::{Connection, Row, Statement, params};

use aether_core::id::{CommandId, RunId};
use aether_core::store::{ListedWait, OpenWait, WaitChange, WaitFilter, WaitPlace};
use aether_core::waiting::Waiting;

use crate::error::OpError;
use crate::row;

const OPEN: &str = "
INSERT INTO aether_waits(seq, run_no, command, kind, name, since, until, site, detail)
VALUES((SELECT last + 1 FROM aether_counters WHERE name = 'waits'), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT(run_no, command) DO UPDATE SET kind = excluded.kind, name = excluded.name, since = excluded.since,
    until = excluded.until, site = excluded.site, detail = excluded.detail";

const CLOSE: &str = "DELETE FROM aether_waits WHERE run_no = ?1 AND command = ?2";

/// The statements of the writer.
pub(crate) struct WaitStatements<'c> {
    open: Statement<'c>,
    close: Statement<'c>,
}

impl<'c> WaitStatements<'c> {
    pub(crate) fn prepare(conn: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self { open: conn.prepare(OPEN)?, close: conn.prepare(CLOSE)? })
    }

    /// Makes one change of the list.
    pub(crate) fn change(&mut self, run_no: i64, change: &WaitChange) -> rusqlite::Result<()> {
        match change {
            WaitChange::Opened(wait) => open(&mut self.open, run_no, wait),
            WaitChange::Closed(command) => self.close.execute(params![run_no, command.as_str()]).map(drop),
        }
    }
}

fn open(statement: &mut Statement<'_>, run_no: i64, wait: &OpenWait) -> rusqlite::Result<()> {
    let written = statement.execute(params![
        run_no,
        wait.command.as_str(),
        wait.waiting.as_str(),
        wait.name,
        wait.since.as_microsecond(),
        wait.until.map(Timestamp::as_microsecond),
        wait.site,
        wait.detail.as_str(),
    ]);
    written.map(drop)
}

/// Puts waits into the list of a run.
pub(crate) fn insert(conn: &Connection, run_no: i64, waits: &[OpenWait]) -> rusqlite::Result<()> {
    let mut statement = conn.prepare_cached(OPEN)?;
    waits.iter().try_for_each(|wait| open(&mut statement, run_no, wait))
}

/// Deletes everything that is listed of a run.
pub(crate) fn forget(conn: &Connection, run_no: i64) -> rusqlite::Result<()> {
    for table in ["aether_waits", "aether_unlisted"] {
        conn.prepare_cached(&format!("DELETE FROM {table} WHERE run_no = ?1"))?.execute([run_no])?;
    }
    Ok(())
}

/// Open waits, in the order of their numbers.
pub(crate) fn waits(conn: &Connection, filter: &WaitFilter) -> Result<Vec<ListedWait>, OpError> {
    // Those of one run are found by the run, all others in their order.
    let tables = match &filter.run {
        Some(_) => "aether_runs AS runs CROSS JOIN aether_waits AS waits ON waits.run_no = runs.no",
        None => "aether_waits AS waits CROSS JOIN aether_runs AS runs ON runs.no = waits.run_no",
    };
    // With a bare `OR` the plan would not look the run up.
    let of_run = if filter.run.is_some() { "AND runs.id = ?5" } else { "AND ?5 IS NULL" };
    let mut statement = conn.prepare_cached(&format!(
        "SELECT waits.seq, runs.id, runs.workflow, waits.command, waits.kind, waits.name, waits.since, waits.until,
             waits.site, waits.detail, runs.parked
         FROM {tables}
         WHERE waits.seq > ?1 AND (?2 IS NULL OR waits.name = ?2) AND (?3 IS NULL OR runs.workflow = ?3)
             AND (?4 IS NULL OR instr(?4, ' ' || waits.kind || ' ') > 0) {of_run}
         ORDER BY waits.seq"
    ))?;
    let run = filter.run.as_ref().map(RunId::as_str);
    let after = filter.after.map_or(0, |place| row::int(place.number()));
    let kinds: String = filter.kinds.iter().map(|kind| format!(" {} ", kind.as_str())).collect();
    let kinds = (!kinds.is_empty()).then_some(kinds);
    let rows = statement.query(params![after, filter.name, filter.workflow, kinds, run])?;
    row::readable(rows, row::most(filter.limit), "an open wait", |row| listed(row).map(Some))
}

fn listed(row: &Row<'_>) -> Result<ListedWait, OpError> {
    let kind: String = row.get(4)?;
    let waiting = Waiting::parse(&kind).ok_or_else(|| OpError::Row(format!("kind of wait {kind:?}")))?;
    let until: Option<i64> = row.get(7)?;
    Ok(ListedWait {
        place: WaitPlace::new(row::nat(row.get(0)?, "number of a wait")?),
        run: row::run_id(row.get(1)?)?,
        workflow: row.get(2)?,
        parked: row.get(10)?,
        wait: OpenWait {
            command: CommandId::from(row.get::<_, String>(3)?),
            waiting,
            name: row.get(5)?,
            since: row::time(row.get(6)?)?,
            until: until.map(row::time).transpose()?,
            site: row.get(8)?,
            detail: row::payload(row.get(9)?)?,
        },
    })
}

/// The runs of an older build whose waits are not listed.
pub(crate) fn unlisted(conn: &Connection, limit: usize) -> Result<Vec<RunId>, OpError> {
    let mut statement = conn.prepare_cached(
        "SELECT runs.id FROM aether_unlisted JOIN aether_runs AS runs ON runs.no = aether_unlisted.run_no",
    )?;
    let id = |row: &Row<'_>| row::run_id(row.get(0)?).map(Some);
    row::readable(statement.query([])?, row::most(limit), "a run whose waits are not listed", id)
}
