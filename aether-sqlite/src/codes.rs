//! Code in the file: runs of other code, what the workers can advance, and definitions.
//!
//! Promise: looking for due runs of other code costs one step for each code that open runs have, and nothing for each run
//! of the codes that are known. The first definition of a code stays.

use std::collections::BTreeMap;

use rusqlite::{Connection, ToSql, params};

use aether_core::id::{CodeId, WorkerId};
use aether_core::queue::Serves;
use aether_core::store::{DefinitionRecord, ForeignRuns, KnownWorker, Recode, RunRecord, Serving};

use crate::batch::Batch;
use crate::error::OpError;
use crate::reader;
use crate::row::{self, OPEN};

impl Batch<'_> {
    /// Keeps what a worker can advance.
    pub(crate) fn register_codes(&mut self, worker: &WorkerId, codes: &[CodeId]) -> Result<(), OpError> {
        let mut statement = self.conn.prepare_cached(
            "INSERT INTO aether_worker_codes(worker, code) VALUES(?1, ?2) ON CONFLICT DO NOTHING",
        )?;
        for code in codes {
            statement.execute([worker.as_str(), code.as_str()])?;
        }
        Ok(())
    }

    /// See [`Store::recode`](aether_core::store::Store::recode).
    pub(crate) fn recode(&mut self, runs: &[Recode]) -> Result<usize, OpError> {
        let sql = format!(
            "UPDATE aether_runs SET code = ?4 WHERE id = ?1 AND epoch = ?2 AND code = ?3 AND owner IS NULL AND parked = 0
                 AND {OPEN}"
        );
        let mut recode = self.conn.prepare_cached(&sql)?;
        let recoded = runs.iter().map(|Recode { run, epoch, was, code }| {
            recode.execute(params![run.as_str(), row::int(*epoch), was.as_str(), code.as_str()])
        });
        Ok(recoded.sum::<Result<usize, _>>()?)
    }

    /// Keeps a definition, unless there is one of its code.
    pub(crate) fn put_definition(&mut self, definition: &DefinitionRecord) -> Result<(), OpError> {
        let DefinitionRecord { code, workflow, version, definition, first_seen } = definition;
        self.conn
            .prepare_cached(
                "INSERT INTO aether_definitions(code, workflow, version, definition, first_seen)
                 VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                code.as_str(),
                workflow,
                version,
                definition.as_str(),
                first_seen.as_microsecond()
            ])?;
        Ok(())
    }
}

/// All definitions, by when they were first seen and by code.
pub(crate) fn definitions(conn: &Connection) -> Result<Vec<DefinitionRecord>, OpError> {
    let mut statement = conn.prepare_cached(
        "SELECT code, workflow, version, definition, first_seen FROM aether_definitions ORDER BY first_seen, code",
    )?;
    row::readable(statement.query([])?, usize::MAX, "a definition", |row| {
        Ok(Some(DefinitionRecord {
            code: CodeId::from(row.get::<_, String>(0)?),
            workflow: row.get(1)?,
            version: row.get(2)?,
            definition: row::payload(row.get(3)?)?,
            first_seen: row::time(row.get(4)?)?,
        }))
    })
}

/// The codes of all registered workers but one, each with its worker.
pub(crate) fn codes_of_others(conn: &Connection, me: &WorkerId) -> Result<Vec<(WorkerId, CodeId)>, OpError> {
    let mut statement = conn
        .prepare_cached("SELECT worker, code FROM aether_worker_codes WHERE worker <> ?1 ORDER BY worker")?;
    row::readable(statement.query([me.as_str()])?, usize::MAX, "a code of a worker", |row| {
        Ok(Some((WorkerId::from(row.get::<_, String>(0)?), CodeId::from(row.get::<_, String>(1)?))))
    })
}

/// What each registered worker but one advances.
pub(crate) fn serving_of_others(
    conn: &Connection,
    me: &WorkerId,
) -> Result<Vec<(WorkerId, Serving)>, OpError> {
    let codes = codes_of_others(conn, me)?;
    let serves = serves(conn)?;
    let groups = codes.chunk_by(|(one, _), (other, _)| one == other);
    let serving = groups.filter_map(|group| {
        let (worker, _) = group.first()?;
        let codes = group.iter().map(|(_, code)| code.clone()).collect();
        let serves = serves.get(worker).cloned().unwrap_or_default();
        Some((worker.clone(), Serving { codes, serves }))
    });
    Ok(serving.collect())
}

/// Which runs those workers take that do not take all of them.
fn serves(conn: &Connection) -> Result<BTreeMap<WorkerId, Serves>, OpError> {
    let mut statement =
        conn.prepare_cached("SELECT worker, serves FROM aether_workers WHERE serves IS NOT NULL")?;
    let found = row::readable(statement.query([])?, usize::MAX, "what a worker serves", |row| {
        let (worker, text): (String, String) = (row.get(0)?, row.get(1)?);
        let serves = serde_json::from_str(&text);
        let serves = serves.map_err(|error| OpError::Row(format!("what {worker} serves: {error}")))?;
        Ok(Some((WorkerId::from(worker), serves)))
    });
    Ok(found?.into_iter().collect())
}

/// Every worker that is registered or holds runs.
pub(crate) fn known_workers(conn: &Connection) -> Result<Vec<KnownWorker>, OpError> {
    let mut known: Vec<_> = reader::workers(conn)?.into_iter().map(KnownWorker::of).collect();
    let mut statement = conn.prepare_cached("SELECT worker, renewals, lease FROM aether_workers")?;
    for worker in
        row::readable(statement.query([])?, usize::MAX, "a worker", |row| reader::worker(row).map(Some))?
    {
        if known.iter().all(|holder| holder.id != worker.id) {
            known.push(KnownWorker::of(worker));
        }
    }
    // All codes, those of this worker included: nobody has no name.
    let codes = codes_of_others(conn, &WorkerId::from(String::new()))?;
    let serves = serves(conn)?;
    let mut held = conn.prepare_cached("SELECT count(*) FROM aether_runs WHERE owner = ?1")?;
    for worker in &mut known {
        worker.runs = row::nat(held.query_row([worker.id.as_str()], |row| row.get(0))?, "number of runs")?;
        worker.codes =
            codes.iter().filter(|(id, _)| *id == worker.id).map(|(_, code)| code.clone()).collect();
        worker.serves = serves.get(&worker.id).cloned().unwrap_or_default();
    }
    Ok(known)
}

/// Open runs that none of the codes records, and parked ones, in the order of their numbers.
pub(crate) fn foreign(conn: &Connection, query: &ForeignRuns) -> Result<Vec<RunRecord>, OpError> {
    let due = query.due.as_ref().map(|(now, silent)| {
        // A JSON object: workers and their renewals.
        let renewals = silent.iter().map(|silent| (silent.id.as_str(), row::int(silent.renewals)));
        (now.as_microsecond(), serde_json::Value::from_iter(renewals).to_string())
    });
    let codes = row::json_list(query.codes.iter().map(CodeId::as_str));
    let mut after = query.after.map_or(0, |place| row::int(place.number()));
    let (limit, most) = (row::limit(query.limit), row::most(query.limit));
    let mut statement = conn.prepare_cached(&foreign_sql(due.is_some()))?;
    let mut found = Vec::new();
    loop {
        let mut values: Vec<&dyn ToSql> = vec![&codes, &after, &limit];
        if let Some((now, silent)) = &due {
            values.extend([now as &dyn ToSql, silent]);
        }
        let (mut read, mut last) = (0, after);
        found.append(&mut row::readable(statement.query(&*values)?, most, "a run", |row| {
            (read, last) = (read + 1, row.get(row::RUN_NO)?);
            row::run(row).map(Some)
        })?);
        // A page is as long as there are runs for it: who reads pages takes a shorter one for the last.
        if found.len() >= most || read < most {
            found.truncate(most);
            return Ok(found);
        }
        after = last;
    }
}

/// One step through the index for each code of open runs, then one search for each of them that is not known.
fn foreign_sql(is_due: bool) -> String {
    let open = OPEN;
    let due =
        if is_due { "AND runs.wake_at <= ?4 AND (runs.owner IS NULL OR runs.owner IN silent)" } else { "" };
    // A parked run is due for nobody: whoever looks at all of them finds it.
    let parked = if is_due { "AND runs.parked = 0" } else { "" };
    let silent = if is_due {
        ", silent(worker) AS MATERIALIZED (
            SELECT watched.key FROM json_each(?5) AS watched
            WHERE watched.value
                = coalesce((SELECT renewals FROM aether_workers WHERE worker = watched.key), 0))"
    } else {
        ""
    };
    let columns = &*row::RUN_IN_RUNS;
    // One that was being advanced is due, whatever the time of its claim.
    let taken_over = if is_due {
        format!(
            "UNION ALL
            SELECT {columns} FROM silent CROSS JOIN aether_runs AS runs INDEXED BY aether_runs_held
            ON runs.owner = silent.worker
            WHERE runs.status = 'running' AND (runs.wake_at > ?4 OR runs.wake_at IS NULL) AND runs.parked = 0
                AND runs.code NOT IN (SELECT value FROM json_each(?1)) AND runs.no > ?2"
        )
    } else {
        String::new()
    };
    format!(
        "WITH RECURSIVE present(code) AS (
            SELECT min(code) FROM aether_runs INDEXED BY aether_runs_code WHERE {open}
            UNION ALL
            SELECT (SELECT min(code) FROM aether_runs INDEXED BY aether_runs_code
                    WHERE code > present.code AND {open})
            FROM present WHERE present.code IS NOT NULL)
         {silent}
         SELECT * FROM (
            SELECT {columns} FROM present CROSS JOIN aether_runs AS runs INDEXED BY aether_runs_code
            ON runs.code = present.code AND runs.{open}
            WHERE present.code NOT IN (SELECT value FROM json_each(?1)) AND runs.no > ?2 {due} {parked}
            UNION ALL
            SELECT {columns} FROM aether_runs AS runs INDEXED BY aether_runs_parked
            WHERE runs.parked = 1 AND runs.code IN (SELECT value FROM json_each(?1)) AND runs.no > ?2 {due} {parked}
            {taken_over})
         ORDER BY no LIMIT ?3"
    )
}

#[cfg(test)]
mod tests;
