//! Schedules in the file.
//!
//! Promise: a write replaces only the revision that it names.

use rusqlite::{Connection, Row, params};

use aether_core::payload::without_values;
use aether_core::store::{DueSchedules, ScheduleRecord};

use crate::batch::Batch;
use crate::error::OpError;
use crate::row;

impl Batch<'_> {
    /// Writes a schedule in place of the revision `replaces`; says whether that was there.
    pub(crate) fn put_schedule(&mut self, schedule: &ScheduleRecord, replaces: u64) -> Result<bool, OpError> {
        let record = serde_json::to_string(schedule)
            .map_err(|error| OpError::Row(format!("schedule `{}` is no JSON: {error}", schedule.name)))?;
        let due = schedule.due_at().map(|due| due.as_microsecond());
        let ScheduleRecord { name, revision, .. } = schedule;
        let sql = if replaces == 0 {
            "INSERT INTO aether_schedules(name, workflow, revision, due_at, record) VALUES(?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO NOTHING"
        } else {
            "UPDATE aether_schedules SET workflow = ?2, revision = ?3, due_at = ?4, record = ?5
             WHERE name = ?1 AND revision = ?6"
        };
        let mut statement = self.conn.prepare_cached(sql)?;
        let (workflow, revision) = (&schedule.spec.workflow, row::int(*revision));
        let written = if replaces == 0 {
            statement.execute(params![name, workflow, revision, due, record])?
        } else {
            statement.execute(params![name, workflow, revision, due, record, row::int(replaces)])?
        };
        Ok(written == 1)
    }

    /// Deletes a schedule; says whether it was there.
    pub(crate) fn remove_schedule(&mut self, name: &str) -> Result<bool, OpError> {
        let mut statement = self.conn.prepare_cached("DELETE FROM aether_schedules WHERE name = ?1")?;
        Ok(statement.execute([name])? == 1)
    }
}

/// Schedules with names after `after`, by name.
pub(crate) fn page(
    conn: &Connection,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<ScheduleRecord>, OpError> {
    let mut statement = conn
        .prepare_cached("SELECT record FROM aether_schedules WHERE name > ?1 OR ?1 IS NULL ORDER BY name")?;
    row::readable(statement.query([after])?, row::most(limit), "a schedule", read)
}

/// The schedule of this name.
pub(crate) fn of_name(conn: &Connection, name: &str) -> Result<Option<ScheduleRecord>, OpError> {
    let mut statement = conn.prepare_cached("SELECT record FROM aether_schedules WHERE name = ?1")?;
    let mut rows = statement.query([name])?;
    rows.next()?.map_or(Ok(None), read)
}

/// Due schedules, by when they are due and their names.
pub(crate) fn due(conn: &Connection, query: &DueSchedules) -> Result<Vec<ScheduleRecord>, OpError> {
    let workflows = serde_json::to_string(&*query.workflows)
        .map_err(|error| OpError::Row(format!("names of workflows are no JSON: {error}")))?;
    let mut statement = conn.prepare_cached(
        "SELECT record FROM aether_schedules
         WHERE due_at <= ?1 AND (due_at, name) > (?2, ?3)
             AND workflow IN (SELECT value FROM json_each(?4))
         ORDER BY due_at, name",
    )?;
    let (due, name) = match &query.after {
        Some((due, name)) => (due.as_microsecond(), name.as_str()),
        None => (i64::MIN, ""),
    };
    let rows = statement.query(params![query.now.as_microsecond(), due, name, workflows])?;
    row::readable(rows, query.limit, "a schedule", read)
}

fn read(row: &Row<'_>) -> Result<Option<ScheduleRecord>, OpError> {
    let record: String = row.get(0)?;
    serde_json::from_str(&record).map(Some).map_err(|error| {
        OpError::Row(format!("a schedule cannot be read: {}", without_values(&error.to_string())))
    })
}
