//! Rows of the ledger.
//!
//! Promise: read by their keys, of one run at a time.

use aether_core::id::{IdempotencyKey, InvocationId, RunId};
use aether_core::store::StoreError;
use aether_core::store::ledger::LedgerEntry;
use tokio_postgres::Row;

use crate::database::{Database, ask};
use crate::error::OpError;
use crate::row::{self, get};
use crate::shard::shard;

/// Columns of a [`LedgerEntry`], in the order [`entry`] reads them.
pub(crate) const ENTRY: &str = "key, command, invocation, tool, digest, business_key, status, result, error, committed, \
     epoch, started_at, finished_at";

/// Reads the columns of [`ENTRY`], of a row of `run`.
pub(crate) fn entry(row: &Row, run: &RunId) -> Result<LedgerEntry, OpError> {
    Ok(LedgerEntry {
        key: IdempotencyKey::from(get::<String>(row, 0)?),
        run: run.clone(),
        command: get::<String>(row, 1)?.into(),
        invocation: InvocationId::from(get::<String>(row, 2)?),
        tool: get(row, 3)?,
        digest: row::digest(get(row, 4)?)?,
        business_key: get(row, 5)?,
        status: row::ledger_status(get(row, 6)?)?,
        result: get::<Option<String>>(row, 7)?.map(row::payload).transpose()?,
        error: get::<Option<String>>(row, 8)?.map(row::payload).transpose()?,
        committed: get(row, 9)?,
        epoch: row::nat(get(row, 10)?, "epoch")?,
        started_at: row::time(get(row, 11)?)?,
        finished_at: get::<Option<i64>>(row, 12)?.map(row::time).transpose()?,
    })
}

impl Database {
    /// See [`Store::entry`](aether_core::store::Store::entry).
    pub(crate) async fn entry(
        &self,
        run: &RunId,
        key: &IdempotencyKey,
    ) -> Result<Option<LedgerEntry>, StoreError> {
        let sql = format!(
            "SELECT {ENTRY} FROM ledger WHERE shard = $1::int2 AND run = $2::text AND key = $3::text"
        );
        ask!(self, |conn| {
            let found = conn.query_opt(&sql, &[&shard(run.as_str()), &run.as_str(), &key.as_str()]).await?;
            found.map(|row| entry(&row, run)).transpose()
        })
    }

    /// See [`Store::entries`](aether_core::store::Store::entries).
    pub(crate) async fn entries(&self, run: &RunId) -> Result<Vec<LedgerEntry>, StoreError> {
        let sql =
            format!("SELECT {ENTRY} FROM ledger WHERE shard = $1::int2 AND run = $2::text ORDER BY seq, key");
        ask!(self, |conn| {
            let rows = conn.query(&sql, &[&shard(run.as_str()), &run.as_str()]).await?;
            rows.iter().map(|row| entry(row, run)).collect()
        })
    }
}
