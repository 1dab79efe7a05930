//! Listing and counting runs.
//!
//! Promise: one index finds the runs, and the other conditions are checked on what it finds. A list in the order of its
//! index reads no more than its limit needs; only id prefixes and times of creation need sorting. Without any of these,
//! a list reads the runs from the newest on.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use aether_core::contract::Status;
use aether_core::store::{Cursor, DamagedRun, RunFilter, RunRecord, RunRow};

use crate::error::OpError;
use crate::row::{self, OPEN};

/// Runs, newest first. A damaged one must not hide the others: it is left out, and the next one takes its place.
pub(crate) fn runs(conn: &Connection, filter: &RunFilter) -> Result<Vec<RunRecord>, OpError> {
    let mut found = Vec::new();
    walk(conn, filter, |run| match run {
        Ok(run) => found.push(run),
        Err(DamagedRun { id, reason }) => {
            tracing::warn!(id, %reason, "a damaged run is left out of a list");
        }
    })?;
    Ok(found)
}

/// The runs that [`runs`] leaves out.
pub(crate) fn damaged(conn: &Connection, filter: &RunFilter) -> Result<Vec<DamagedRun>, OpError> {
    let mut found = Vec::new();
    walk(conn, filter, |run| found.extend(run.err()))?;
    Ok(found)
}

/// Reads rows until as many can be read as are wanted.
fn walk(
    conn: &Connection,
    filter: &RunFilter,
    mut each: impl FnMut(Result<RunRecord, DamagedRun>),
) -> Result<(), OpError> {
    let mut filter = filter.clone();
    loop {
        let query = Query::new(&filter, true);
        let mut statement = conn.prepare_cached(&query.list(&row::RUN_IN_RUNS, filter.limit))?;
        let mut rows = statement.query(params_from_iter(query.values))?;
        let (mut left_out, mut last) = (0, None);
        while let Some(row) = rows.next()? {
            last = row.get::<_, Option<i64>>("no")?;
            match row::run(row) {
                Ok(run) => each(Ok(run)),
                Err(OpError::Row(reason)) => {
                    left_out += 1;
                    let id = row.get_ref(0)?.as_bytes().unwrap_or_default();
                    each(Err(DamagedRun { id: String::from_utf8_lossy(id).into_owned(), reason }));
                }
                Err(error) => return Err(error),
            }
        }
        match last {
            Some(last) if left_out > 0 && filter.limit > 0 => {
                filter.after = Some(Cursor::new(row::nat(last, "number of a run")?));
                filter.limit = left_out;
            }
            _ => return Ok(()),
        }
    }
}

/// As [`runs`], with the rows that cannot be read, and the chain hash that stands in each.
pub(crate) fn run_rows(conn: &Connection, filter: &RunFilter) -> Result<Vec<RunRow>, OpError> {
    let query = Query::new(filter, true);
    let columns = format!("{}, {}", *row::RUN_IN_RUNS, row::tip_column("runs"));
    let mut statement = conn.prepare_cached(&query.list(&columns, filter.limit))?;
    let mut rows = statement.query(params_from_iter(query.values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id = String::from_utf8_lossy(row.get_ref(0)?.as_bytes().unwrap_or_default()).into_owned();
        let place = Cursor::new(row::nat(row.get(row::RUN_NO)?, "run number")?);
        let read = row::run(row).and_then(|run| {
            let tip = row.get_ref(row::RUN_COLUMNS)?.as_blob_or_null();
            let tip = tip.map_err(|e| OpError::Row(e.to_string()))?.map(row::chain).transpose()?;
            Ok((run, tip))
        });
        let (run, tip) = match read {
            Ok((run, tip)) => (Ok(run), tip),
            Err(OpError::Row(reason)) => (Err(reason), None),
            Err(error) => return Err(error),
        };
        found.push(RunRow { place, id, run, tip });
    }
    Ok(found)
}

/// How many runs there are.
pub(crate) fn count(conn: &Connection, filter: &RunFilter) -> Result<u64, OpError> {
    let query = Query::new(filter, false);
    let mut statement = conn.prepare_cached(&query.count())?;
    let count = statement.query_row(params_from_iter(query.values), |row| row.get(0))?;
    row::nat(count, "number of runs")
}

/// What stands behind `SELECT`: several arms where the filter names several statuses. SQLite merges them in order; with
/// `IN` it would sort everything they hold.
struct Query {
    arms: Vec<String>,
    /// Column of the run's number, in the index that finds the runs.
    order: &'static str,
    /// The index that finds the runs is in another order.
    sorts: bool,
    values: Vec<Value>,
}

impl Query {
    fn new(filter: &RunFilter, is_paged: bool) -> Self {
        let source = source(filter);
        let order = if source == Source::Label { "label.run_no" } else { "no" };
        let sorts = source == Source::Index(BY_ID) || source == Source::Index(BY_TIME);
        let mut query = Self { arms: Vec::new(), order, sorts, values: Vec::new() };
        let mut conditions = query.conditions(filter, is_paged);
        // Where another index finds the runs, their statuses are a condition like the others, below.
        // The index of queues goes by status, and keeps the order only within one.
        let all: &[Status] = &Status::ALL;
        let is_any = source == Source::Index(BY_QUEUE) && filter.statuses.is_empty();
        let statuses = if is_any { all } else { &filter.statuses };
        if source.is_by_status() && statuses.len() > 1 {
            for status in statuses {
                let status = query.bind(status.as_str().to_owned());
                let arm = conditions.iter().cloned().chain([format!("runs.status = {status}")]);
                query.arms.push(source.arm(arm));
            }
            return query;
        }
        if !filter.statuses.is_empty() {
            let bound = filter.statuses.iter().map(|status: &Status| query.bind(status.as_str().to_owned()));
            let bound = bound.collect::<Vec<_>>();
            conditions.push(match &*bound {
                [status] => format!("runs.status = {status}"),
                several => format!("runs.status IN ({})", several.join(", ")),
            });
        }
        query.arms.push(source.arm(conditions.into_iter()));
        query
    }

    /// Everything but the statuses.
    fn conditions(&mut self, filter: &RunFilter, is_paged: bool) -> Vec<String> {
        let mut conditions = Vec::new();
        for (n, (key, value)) in filter.labels.iter().enumerate() {
            let (key, value) = (self.bind(key.clone()), self.bind(value.clone()));
            conditions.push(match n {
                0 => format!("label.key = {key} AND label.value = {value}"),
                _ => format!(
                    "EXISTS(SELECT 1 FROM aether_labels WHERE key = {key} AND value = {value} AND run_no = runs.no)"
                ),
            });
        }
        if let Some(prefix) = &filter.id_prefix {
            let from = self.bind(prefix.clone());
            conditions.push(format!("runs.id >= {from}"));
            if let Some(end) = end_of_prefix(prefix) {
                let to = self.bind(end);
                conditions.push(format!("runs.id < {to}"));
            }
        }
        conditions.extend(filter.queue_key.as_ref().map(|_| "runs.queue IS NOT NULL".to_owned()));
        let mut all = |condition: &str, value: Option<Value>| {
            if let Some(value) = value {
                let place = self.bind(value);
                conditions.push(condition.replace('?', &place));
            }
        };
        all("instr(runs.id, ?) > 0", filter.id_contains.clone().map(Value::from));
        all("runs.queue = ?", filter.queue.clone().map(Value::from));
        all(
            "(runs.queue_key = ? OR substr(runs.queue_key, 1, length(?) + 1) = ? || '/')",
            filter.queue_key.clone().filter(|key| !key.is_empty()).map(Value::from),
        );
        all("runs.parent = ?", filter.parent.as_ref().map(|parent| parent.as_str().to_owned().into()));
        all("runs.workflow = ?", filter.workflow.clone().map(Value::from));
        all("runs.version = ?", filter.version.map(Value::from));
        all("runs.code = ?", filter.code.as_ref().map(|code| code.as_str().to_owned().into()));
        all("runs.created_at >= ?", filter.created_after.map(|time| time.as_microsecond().into()));
        all("runs.created_at < ?", filter.created_before.map(|time| time.as_microsecond().into()));
        let after = filter.after.filter(|_| is_paged).map(|after| row::int(after.number()).into());
        let place = if filter.labels.is_empty() { "runs.no < ?" } else { "label.run_no < ?" };
        all(place, after);
        // Written out, and not bound: only so SQLite sees that a partial index serves it.
        conditions.extend(filter.parked.map(|parked| format!("runs.parked = {}", u8::from(parked))));
        if source(filter) == Source::Index(BY_CODE) {
            conditions.push(format!("runs.{OPEN}"));
        }
        conditions
    }

    /// Binds a value and says where it stands.
    fn bind(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len())
    }

    fn list(&self, columns: &str, limit: usize) -> String {
        let limit = if limit == 0 { -1 } else { row::int(limit as u64) };
        let list = |columns: &str| {
            let arms = self.arms.iter().map(|arm| format!("SELECT {columns} {arm}")).collect::<Vec<_>>();
            format!("{} ORDER BY {} DESC LIMIT {limit}", arms.join(" UNION ALL "), self.order)
        };
        if !self.sorts {
            return list(columns);
        }
        // Columns that ask the journal are read of the runs that are listed, and not of all that are sorted.
        format!(
            "SELECT {columns} FROM ({}) CROSS JOIN aether_runs AS runs ON runs.no = listed ORDER BY listed DESC",
            list("runs.no AS listed")
        )
    }

    fn count(&self) -> String {
        let arms = self.arms.iter().map(|arm| format!("(SELECT count(*) {arm})")).collect::<Vec<_>>();
        format!("SELECT {}", arms.join(" + "))
    }
}

/// What finds the runs: the narrowest that the filter has an index for.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    Label,
    Index(&'static str),
    Newest,
}

fn source(filter: &RunFilter) -> Source {
    let is_named = filter.workflow.is_some();
    match filter {
        _ if !filter.labels.is_empty() => Source::Label,
        _ if filter.parent.is_some() => Source::Index("aether_runs_parent"),
        // An empty prefix is every id.
        _ if filter.id_prefix.as_ref().is_some_and(|prefix| !prefix.is_empty()) => Source::Index(BY_ID),
        _ if filter.queue.is_some() && filter.parked != Some(true) => Source::Index(BY_QUEUE),
        _ if filter.parked == Some(true) => Source::Index("aether_runs_parked"),
        // The index holds open runs only.
        _ if filter.code.is_some() && is_open(filter) => Source::Index(BY_CODE),
        _ if is_named && !filter.statuses.is_empty() => Source::Index(BY_WORKFLOW_AND_STATUS),
        _ if !filter.statuses.is_empty() => Source::Index(BY_STATUS),
        _ if is_named => Source::Index("aether_runs_workflow"),
        _ if filter.created_after.is_some() || filter.created_before.is_some() => Source::Index(BY_TIME),
        _ => Source::Newest,
    }
}

fn is_open(filter: &RunFilter) -> bool {
    !filter.statuses.is_empty() && !filter.statuses.iter().any(|status| status.is_terminal())
}

const BY_CODE: &str = "aether_runs_code";
const BY_QUEUE: &str = "aether_runs_queue_status";
const BY_STATUS: &str = "aether_runs_status";
const BY_WORKFLOW_AND_STATUS: &str = "aether_runs_workflow_status";
/// In the order of ids.
const BY_ID: &str = "sqlite_autoindex_aether_runs_1";
/// In the order of times of creation.
const BY_TIME: &str = "aether_runs_created";

impl Source {
    fn is_by_status(self) -> bool {
        matches!(self, Self::Index(BY_STATUS | BY_WORKFLOW_AND_STATUS | BY_QUEUE))
    }

    fn arm(self, conditions: impl Iterator<Item = String>) -> String {
        let from = match self {
            // The order of a cross join is the one that is written.
            Self::Label => {
                "aether_labels AS label CROSS JOIN aether_runs AS runs ON runs.no = label.run_no".into()
            }
            Self::Index(index) => format!("aether_runs AS runs INDEXED BY {index}"),
            Self::Newest => "aether_runs AS runs".to_owned(),
        };
        let conditions = conditions.collect::<Vec<_>>().join(" AND ");
        if conditions.is_empty() { format!("FROM {from}") } else { format!("FROM {from} WHERE {conditions}") }
    }
}

/// The first text, in the order of SQLite, that is behind all texts with this prefix. `None` where there is none.
fn end_of_prefix(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // The step over the surrogates included.
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests;
