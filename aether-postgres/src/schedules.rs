//! Schedules, by name.
//!
//! Promise: a write replaces only the revision that it names. One whose answer was lost is made again, and finds its own
//! record.

use aether_core::payload::without_values;
use aether_core::store::{DueSchedules, ScheduleRecord, StoreError};
use tokio_postgres::Row;

use crate::connection::Param;
use crate::database::{Database, ask};
use crate::error::{LostAnswer, OpError};
use crate::readable::Page;
use crate::row::{self, get};
use crate::runs::limit;

/// $1 name, $2 workflow, $3 revision, $4 due time, $5 record.
const NEW: &str = "INSERT INTO schedules(name, workflow, revision, due_at, record)
    VALUES ($1::text, $2::text, $3::int8, $4::int8, $5::text) ON CONFLICT DO NOTHING";

const REPLACE: &str =
    "UPDATE schedules SET workflow = $2::text, revision = $3::int8, due_at = $4::int8, record = $5::text
    WHERE name = $1::text AND revision = $6::int8";

/// $1 now, $2 workflows, $3 and $4 the place behind which the page begins, $5 limit.
const DUE: &str = "SELECT name, record FROM schedules WHERE due_at IS NOT NULL AND due_at <= $1::int8
    AND workflow = ANY($2::text[]) AND ($3::int8 IS NULL OR (due_at, name) > ($3, $4::text))
    ORDER BY due_at, name LIMIT $5::int8";

fn schedule(row: &Row) -> Result<ScheduleRecord, OpError> {
    schedule_in(row, 0)
}

fn schedule_in(row: &Row, column: usize) -> Result<ScheduleRecord, OpError> {
    serde_json::from_str(get(row, column)?)
        .map_err(|e| OpError::Row(format!("schedule: {}", without_values(&e.to_string()))))
}

impl Database {
    /// See [`Store::put_schedule`](aether_core::store::Store::put_schedule).
    pub(crate) async fn put_schedule(
        &self,
        schedule: &ScheduleRecord,
        replaces: u64,
    ) -> Result<bool, StoreError> {
        let record = serde_json::to_string(schedule).map_err(|e| StoreError::Unencodable {
            what: format!("the schedule `{}`", schedule.name),
            reason: e.to_string(),
        })?;
        let (revision, due) = (row::int(schedule.revision), schedule.due_at().map(row::micros));
        let (workflow, former) = (&schedule.spec.workflow, row::int(replaces));
        let params: [Param<'_>; 6] = [&schedule.name, workflow, &revision, &due, &record, &former];
        let (sql, params) = if replaces == 0 { (NEW, &params[..5]) } else { (REPLACE, &params[..]) };
        let lost = LostAnswer::default();
        ask!(self, |conn| {
            if lost.noting(conn.execute(sql, params).await)? > 0 {
                return Ok(true);
            }
            if !lost.happened() {
                return Ok(false);
            }
            let own = "SELECT 1 FROM schedules WHERE name = $1::text AND record = $2::text";
            Ok(conn.query_opt(own, &[&schedule.name, &record]).await?.is_some())
        })
    }

    /// See [`Store::schedules`](aether_core::store::Store::schedules).
    pub(crate) async fn schedules(
        &self,
        after: Option<&str>,
        schedules: usize,
    ) -> Result<Vec<ScheduleRecord>, StoreError> {
        let sql =
            "SELECT record FROM schedules WHERE $1::text IS NULL OR name > $1 ORDER BY name LIMIT $2::int8";
        ask!(self, |conn| {
            conn.query(sql, &[&after, &limit(schedules)]).await?.iter().map(schedule).collect()
        })
    }

    /// See [`Store::schedule`](aether_core::store::Store::schedule).
    pub(crate) async fn schedule(&self, name: &str) -> Result<Option<ScheduleRecord>, StoreError> {
        ask!(self, |conn| {
            let found =
                conn.query_opt("SELECT record FROM schedules WHERE name = $1::text", &[&name]).await?;
            found.as_ref().map(schedule).transpose()
        })
    }

    /// See [`Store::due_schedules`](aether_core::store::Store::due_schedules).
    pub(crate) async fn due_schedules(
        &self,
        query: &DueSchedules,
    ) -> Result<Vec<ScheduleRecord>, StoreError> {
        let (at, name) = match &query.after {
            Some((at, name)) => (Some(row::micros(*at)), Some(name.as_str())),
            None => (None, None),
        };
        let (now, workflows) = (row::micros(query.now), &*query.workflows);
        ask!(self, |conn| {
            let mut page = Page::or_all(query.limit);
            loop {
                let params: [Param<'_>; 5] = [&now, &workflows, &at, &name, &page.rows()];
                let rows = conn.query(DUE, &params).await?;
                if let Some(due) = page.read(&rows, |row| schedule_in(row, 1)) {
                    return Ok(due);
                }
            }
        })
    }

    /// See [`Store::remove_schedule`](aether_core::store::Store::remove_schedule).
    pub(crate) async fn remove_schedule(&self, name: &str) -> Result<bool, StoreError> {
        let lost = LostAnswer::default();
        ask!(self, |conn| {
            let removed = conn.execute("DELETE FROM schedules WHERE name = $1::text", &[&name]).await;
            // The try before may have removed it.
            Ok(lost.noting(removed)? > 0 || lost.happened())
        })
    }
}
