//! Outcomes that are stored before they are appended, and the large values that events refer to.
//!
//! Promise: an outcome is stored only while the run still has the epoch of its worker: the row of the run is locked
//! meanwhile, which a claim changes. The first outcome under a key stays.

use std::time::Duration;

use aether_core::id::{Epoch, IdempotencyKey, RunId};
use aether_core::journal::{Frame, LargeValue};
use aether_core::store::{AppendError, StoreError, StoredEffect};

use crate::connection::Connection;
use crate::database::{Database, ask};
use crate::error::OpError;
use crate::row::{self, get};
use crate::shard::shard;

const PUT_BLOB: &str = "INSERT INTO blobs(shard, run, hash, bytes)
    SELECT $1::int2, $2::text, $3::text, $4::bytea
    WHERE NOT EXISTS (SELECT 1 FROM buckets b WHERE b.shard = $1 AND b.away) ON CONFLICT DO NOTHING";

/// The values of a run that is not there.
const DELETE_BLOBS: &str = "DELETE FROM blobs WHERE shard = $1::int2 AND run = $2::text
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.shard = $1 AND r.id = $2)";

const IS_THERE: &str = "SELECT EXISTS (SELECT 1 FROM runs r WHERE r.shard = $1::int2 AND r.id = $2::text)";

const BLOB: &str = "SELECT bytes FROM blobs WHERE shard = $1::int2 AND run = $2::text AND hash = $3::text";

/// Gives the run's epoch. Stores nothing unless that is $3.
const PUT_EFFECT: &str = "
WITH held AS MATERIALIZED (SELECT epoch FROM runs WHERE shard = $1::int2 AND id = $2::text FOR SHARE),
    stored AS (INSERT INTO effects(shard, run, key, n, count, events, status)
        SELECT $1, $2, $4::text, $5::int8, $6::int8, $7::text, $8::int2 FROM held WHERE epoch = $3::int8
        ON CONFLICT DO NOTHING),
    valued AS (INSERT INTO blobs(shard, run, hash, bytes)
        SELECT $1, $2, v.hash, v.bytes FROM held CROSS JOIN unnest($9::text[], $10::bytea[]) AS v(hash, bytes)
        WHERE epoch = $3 ON CONFLICT DO NOTHING)
SELECT epoch FROM held";

const EFFECTS: &str = "SELECT key, count, events, status FROM effects
    WHERE shard = $1::int2 AND run = $2::text ORDER BY n";

impl Database {
    /// See [`Store::put_blob`](aether_core::store::Store::put_blob). Gives whether it was written: it was not where it is
    /// there already, or the run in another database.
    pub(crate) async fn put_blob(&self, run: &str, hash: &str, bytes: &[u8]) -> Result<bool, StoreError> {
        ask!(self, |conn| {
            conn.execute(PUT_BLOB, &[&shard(run), &run, &hash, &bytes]).await.map(|rows| rows > 0)
        })
    }

    /// Deletes the values that were stored for a run, unless it is there. Gives whether there were any: there were none also
    /// where the run is in another database.
    pub(crate) async fn delete_values(&self, run: &str) -> Result<bool, StoreError> {
        ask!(self, |conn| {
            let transaction = conn.begin().await?;
            let deleted = transaction.execute(DELETE_BLOBS, &[&shard(run), &run]).await? > 0;
            // Looked at anew, after the rows are locked: one that was created meanwhile has found its values there. One that
            // is created after this look stores them again, which waits for this transaction.
            let is_there = match deleted {
                true => transaction.query(IS_THERE, &[&shard(run), &run]).await?,
                false => Vec::new(),
            };
            if is_there.first().map_or(Ok(false), |row| get(row, 0))? {
                transaction.rollback().await?;
                return Ok(false);
            }
            transaction.commit().await?;
            Ok(deleted)
        })
    }

    /// See [`Store::blob`](aether_core::store::Store::blob).
    pub(crate) async fn blob(&self, run: &str, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        ask!(self, |conn| {
            let found = conn.query_opt(BLOB, &[&shard(run), &run, &hash]).await?;
            found.map(|row| get(&row, 0)).transpose()
        })
    }

    /// See [`Store::put_effect`](aether_core::store::Store::put_effect).
    pub(crate) async fn put_effect(
        &self,
        effect: &StoredEffect,
        epoch: Epoch,
        values: &[LargeValue],
    ) -> Result<(), AppendError> {
        loop {
            // Drawn anew for each try: outcomes are listed in the order in which they were stored.
            let n = self.clock.next(shard(effect.run.as_str()));
            let put = ask!(self, |conn| put_effect(conn, effect, epoch, values, n).await);
            return match put {
                Ok(Some(found)) if found == epoch => Ok(()),
                Ok(Some(found)) => {
                    Err(AppendError::StaleEpoch { run: effect.run.clone(), held: epoch, found })
                }
                Ok(None) => Err(StoreError::UnknownRun { run: effect.run.clone() }.into()),
                // The body has run: its outcome is kept until it is stored, or the store is closed.
                Err(error) if is_passing(&error) && !self.is_closed() => {
                    tracing::warn!(%error, run = %effect.run, "an outcome waits to be stored");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    continue;
                }
                Err(error) => Err(error.into()),
            };
        }
    }

    /// See [`Store::effects`](aether_core::store::Store::effects).
    pub(crate) async fn effects(&self, run: &RunId) -> Result<Vec<StoredEffect>, StoreError> {
        ask!(self, |conn| {
            let rows = conn.query(EFFECTS, &[&shard(run.as_str()), &run.as_str()]).await?;
            rows.iter().map(|row| read(row, run)).collect()
        })
    }
}

/// Whether the server refuses for the moment.
fn is_passing(error: &StoreError) -> bool {
    error.is_retryable() || matches!(error, StoreError::Full { .. } | StoreError::ReadOnly { .. })
}

async fn put_effect(
    conn: &Connection,
    effect: &StoredEffect,
    epoch: Epoch,
    values: &[LargeValue],
    n: i64,
) -> Result<Option<Epoch>, OpError> {
    let run = effect.run.as_str();
    let hashes: Vec<&str> = values.iter().map(|value| value.at.sha256.as_str()).collect();
    let bytes: Vec<&[u8]> = values.iter().map(|value| value.value.as_str().as_bytes()).collect();
    let status = effect.status.map(row::ledger_number);
    let found = conn
        .query_opt(
            PUT_EFFECT,
            &[
                &shard(run),
                &run,
                &row::int(epoch),
                &effect.key.as_str(),
                &n,
                &i64::from(effect.frame.count),
                &effect.frame.text,
                &status,
                &hashes,
                &bytes,
            ],
        )
        .await?;
    found.map(|row| row::nat(get(&row, 0)?, "epoch")).transpose()
}

fn read(row: &tokio_postgres::Row, run: &RunId) -> Result<StoredEffect, OpError> {
    let status: Option<i16> = get(row, 3)?;
    Ok(StoredEffect {
        run: run.clone(),
        key: IdempotencyKey::from(get::<String>(row, 0)?),
        frame: Frame { count: row::nat32(get(row, 1)?, "count")?, text: get(row, 2)? },
        status: status.map(row::ledger_status).transpose()?,
    })
}
