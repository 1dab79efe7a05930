//! Definitions, and what other workers can advance.
//!
//! Promise: the first definition of a code stays. The codes of a worker count until it retires, or was not seen for so long
//! that it counts as gone.

use aether_core::id::{CodeId, WorkerId};
use aether_core::store::{DefinitionRecord, Recode, StoreError};
use tokio_postgres::Row;

use crate::connection::Param;
use crate::database::{Database, ask};
use crate::error::OpError;
use crate::queues::PAUSED;
use crate::row::{self, get};
use crate::shard::shard;
use crate::workers::GONE;

const PUT: &str = "INSERT INTO definitions(code, workflow, version, definition, first_seen)
    VALUES ($1::text, $2::text, $3::int8, $4::text, $5::int8) ON CONFLICT DO NOTHING";

const ALL: &str =
    "SELECT code, workflow, version, definition, first_seen FROM definitions ORDER BY first_seen, code";

/// Locks the queues of runs, as a claim does: one that makes runs ready writes the codes that it has read. $1 shards, $2 ids.
const LOCK_QUEUES: &str = "
SELECT q.queue FROM queues q WHERE q.queue IN (SELECT r.queue FROM unnest($1::int2[], $2::text[]) AS n(shard, id)
    JOIN runs r ON r.shard = n.shard AND r.id = n.id)
ORDER BY q.queue FOR UPDATE";

/// Other code for free runs: $3 epochs, $4 their codes, $5 the new ones.
const RECODE: &str = "
WITH recoded AS (UPDATE runs r SET code = n.code
    FROM unnest($1::int2[], $2::text[], $3::int8[], $4::text[], $5::text[]) AS n(shard, id, epoch, was, code)
    WHERE r.shard = n.shard AND r.id = n.id AND r.epoch = n.epoch AND r.code = n.was AND r.owner IS NULL AND r.status < 3
        AND NOT r.parked
    RETURNING r.shard, r.id, r.code),
due_rows AS (UPDATE due d SET code = c.code FROM recoded c WHERE d.shard = c.shard AND d.run = c.id)
SELECT count(*) FROM recoded";

fn definition(row: &Row) -> Result<DefinitionRecord, OpError> {
    Ok(DefinitionRecord {
        code: CodeId::from(get::<String>(row, 0)?),
        workflow: get(row, 1)?,
        version: row::nat32(get(row, 2)?, "version")?,
        definition: row::payload(get(row, 3)?)?,
        first_seen: row::time(get(row, 4)?)?,
    })
}

impl Database {
    /// See [`Store::codes_elsewhere`](aether_core::store::Store::codes_elsewhere). No process is known to have died; one that
    /// was not seen for long is taken for dead here, so that its runs do not wait for it for ever.
    pub(crate) async fn codes_elsewhere(&self, me: &WorkerId) -> Result<Vec<CodeId>, StoreError> {
        let sql = format!(
            "SELECT DISTINCT c.code FROM worker_codes c JOIN workers w ON w.id = c.worker
             WHERE c.worker <> $1::text AND w.seen_at > clock_timestamp() - {GONE}"
        );
        ask!(self, |conn| {
            let rows = conn.query(&sql, &[&me.as_str()]).await?;
            rows.iter().map(|row| Ok(CodeId::from(get::<String>(row, 0)?))).collect()
        })
    }

    /// See [`Store::recode`](aether_core::store::Store::recode).
    pub(crate) async fn recode(&self, runs: &[Recode]) -> Result<usize, StoreError> {
        let shards: Vec<i16> = runs.iter().map(|of| shard(of.run.as_str())).collect();
        let ids: Vec<&str> = runs.iter().map(|of| of.run.as_str()).collect();
        let epochs: Vec<i64> = runs.iter().map(|of| row::int(of.epoch)).collect();
        let former: Vec<&str> = runs.iter().map(|of| of.was.as_str()).collect();
        let codes: Vec<&str> = runs.iter().map(|of| of.code.as_str()).collect();
        ask!(self, |conn| {
            let transaction = conn.begin_for(PAUSED).await?;
            transaction.query(LOCK_QUEUES, &[&shards, &ids]).await?;
            let found = transaction.query(RECODE, &[&shards, &ids, &epochs, &former, &codes]).await?;
            let recoded: i64 = found.first().map_or(Ok(0), |row| get(row, 0))?;
            transaction.commit().await?;
            Ok(usize::try_from(recoded).unwrap_or_default())
        })
    }

    /// See [`Store::put_definition`](aether_core::store::Store::put_definition).
    pub(crate) async fn put_definition(&self, definition: &DefinitionRecord) -> Result<(), StoreError> {
        let DefinitionRecord { code, workflow, version, definition, first_seen } = definition;
        let (version, seen) = (i64::from(*version), row::micros(*first_seen));
        let (code, text) = (code.as_str(), definition.as_str());
        let params: [Param<'_>; 5] = [&code, workflow, &version, &text, &seen];
        ask!(self, |conn| conn.execute(PUT, &params).await.map(drop))
    }

    /// See [`Store::definitions`](aether_core::store::Store::definitions).
    pub(crate) async fn definitions(&self) -> Result<Vec<DefinitionRecord>, StoreError> {
        ask!(self, |conn| conn.query(ALL, &[]).await?.iter().map(definition).collect())
    }
}
