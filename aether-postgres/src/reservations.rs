//! Business keys that are unique in the whole store: who has reserved which.
//!
//! Promise: the write itself compares; a sealed reservation is never replaced. A reservation belongs to no run and lies in
//! the shard of its key.

use aether_core::id::{IdempotencyKey, InvocationId, RunId};
use aether_core::store::StoreError;
use aether_core::store::ledger::{LedgerEntry, LedgerStatus, Reservation};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_postgres::Row;

use crate::connection::{Connection, Param};
use crate::database::{Database, ask};
use crate::error::OpError;
use crate::row::{self, get};
use crate::shard::shard;

const RESERVE: &str = "INSERT INTO reservations(shard, business_key, run, key, epoch, at)
    SELECT $1::int2, $2::text, $3::text, $4::text, $5::int8, $6::int8
    WHERE NOT EXISTS (SELECT 1 FROM buckets b WHERE b.shard = $1 AND b.away) ON CONFLICT DO NOTHING";

const AWAY: &str = "SELECT 1 FROM buckets WHERE shard = $1::int2 AND away";

/// Replaces exactly the reservation of $7 to $10.
const REPLACE: &str =
    "UPDATE reservations SET run = $3::text, key = $4::text, epoch = $5::int8, at = $6::int8
    WHERE shard = $1::int2 AND business_key = $2::text AND sealed IS NULL
        AND run = $7::text AND key = $8::text AND epoch = $9::int8 AND at = $10::int8";

const RESERVATION: &str = "SELECT business_key, run, key, epoch, at, sealed FROM reservations
    WHERE shard = $1::int2 AND business_key = $2::text";

/// Seals the reservation that names the row; where there is none, the row alone held the key.
const SEAL: &str = "INSERT INTO reservations AS o (shard, business_key, run, key, epoch, at, sealed)
    SELECT $1::int2, $2::text, $3::text, $4::text, $5::int8, $6::int8, $7::text
    WHERE NOT EXISTS (SELECT 1 FROM buckets b WHERE b.shard = $1 AND b.away)
    ON CONFLICT (shard, business_key) DO UPDATE SET sealed = excluded.sealed
    WHERE o.sealed IS NULL AND o.run = excluded.run AND o.key = excluded.key";

impl Database {
    /// See [`Store::reserve`](aether_core::store::Store::reserve). `None`: the key's bucket is in another database.
    pub(crate) async fn reserve(
        &self,
        wanted: &Reservation,
        replaces: Option<&Reservation>,
    ) -> Result<Option<Reservation>, StoreError> {
        let of = shard(&wanted.business_key);
        let (epoch, at) = (row::int(wanted.epoch), row::micros(wanted.at));
        let (run, key) = (wanted.run.as_str(), wanted.key.as_str());
        ask!(self, |conn| {
            let mine: [Param<'_>; 6] = [&of, &wanted.business_key, &run, &key, &epoch, &at];
            loop {
                let mut written = conn.execute(RESERVE, &mine).await?;
                if let Some(old) = replaces.filter(|old| written == 0 && old.sealed.is_none()) {
                    let (epoch, at) = (row::int(old.epoch), row::micros(old.at));
                    let (run, key) = (old.run.as_str(), old.key.as_str());
                    let former: [Param<'_>; 4] = [&run, &key, &epoch, &at];
                    let params: Vec<Param<'_>> = mine.iter().chain(&former).copied().collect();
                    written = conn.execute(REPLACE, &params).await?;
                }
                if written > 0 {
                    return Ok(Some(wanted.clone()));
                }
                // Nobody deletes a reservation, so that there is one, or its bucket has moved; should it be gone, this
                // begins again.
                if let Some(found) = look(conn, &wanted.business_key).await? {
                    return Ok(Some(found));
                }
                if conn.query_opt(AWAY, &[&of]).await?.is_some() {
                    return Ok(None);
                }
            }
        })
    }

    /// See [`Store::reservation`](aether_core::store::Store::reservation).
    pub(crate) async fn reservation(&self, business_key: &str) -> Result<Option<Reservation>, StoreError> {
        ask!(self, |conn| look(conn, business_key).await)
    }

    /// The run of `row` is about to be deleted: the key that the row holds stays taken.
    /// Gives whether anything was written: it was not where the key is sealed already, or in another database.
    pub(crate) async fn seal(&self, row: &LedgerEntry) -> Result<bool, StoreError> {
        let (Some(wanted), Some(tombstone)) = (Reservation::of_row(row), row.clone().tombstone()) else {
            return Ok(true);
        };
        let sealed = written(&tombstone);
        let (epoch, at) = (row::int(wanted.epoch), row::micros(wanted.at));
        let (of, run, key) = (shard(&wanted.business_key), wanted.run.as_str(), wanted.key.as_str());
        let params: [Param<'_>; 7] = [&of, &wanted.business_key, &run, &key, &epoch, &at, &sealed];
        ask!(self, |conn| conn.execute(SEAL, &params).await.map(|rows| rows > 0))
    }
}

async fn look(conn: &Connection, business_key: &str) -> Result<Option<Reservation>, OpError> {
    // No row can hold this character, and no statement can be asked with it.
    if business_key.contains('\0') {
        return Ok(None);
    }
    let found = conn.query_opt(RESERVATION, &[&shard(business_key), &business_key]).await?;
    found.as_ref().map(reservation).transpose()
}

fn reservation(row: &Row) -> Result<Reservation, OpError> {
    let sealed: Option<&str> = get(row, 5)?;
    Ok(Reservation {
        business_key: get(row, 0)?,
        run: row::run_id(get(row, 1)?)?,
        key: IdempotencyKey::from(get::<String>(row, 2)?),
        epoch: row::nat(get(row, 3)?, "epoch")?,
        at: row::time(get(row, 4)?)?,
        sealed: sealed.map(read).transpose()?.map(Box::new),
    })
}

/// What is left of a row, as it is kept.
fn written(row: &LedgerEntry) -> String {
    json!({
        "key": row.key.as_str(),
        "run": row.run.as_str(),
        "command": row.command.as_str(),
        "invocation": row.invocation.as_str(),
        "tool": row.tool,
        "digest": row.digest,
        "business_key": row.business_key,
        "status": row.status.as_str(),
        "committed": row.committed,
        "epoch": row.epoch,
        "started_at": row::micros(row.started_at),
        "finished_at": row.finished_at.map(row::micros),
    })
    .to_string()
}

/// Reads what [`written`] wrote.
fn read(text: &str) -> Result<LedgerEntry, OpError> {
    let damaged = |what: &str| OpError::Row(format!("the sealed row of a reservation: {what}"));
    let value: Value = serde_json::from_str(text).map_err(|e| damaged(&e.to_string()))?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).ok_or_else(|| damaged(name));
    let time = |name: &str| -> Result<Option<Timestamp>, OpError> {
        value.get(name).and_then(Value::as_i64).map(row::time).transpose()
    };
    Ok(LedgerEntry {
        key: IdempotencyKey::from(text("key")?.to_owned()),
        run: RunId::new(text("run")?).map_err(|e| damaged(&e.to_string()))?,
        command: text("command")?.to_owned().into(),
        invocation: InvocationId::from(text("invocation")?.to_owned()),
        tool: text("tool")?.to_owned(),
        digest: row::digest(text("digest")?.to_owned())?,
        business_key: value.get("business_key").and_then(Value::as_str).map(str::to_owned),
        status: LedgerStatus::parse(text("status")?).ok_or_else(|| damaged("status"))?,
        result: None,
        error: None,
        committed: value.get("committed").and_then(Value::as_bool).ok_or_else(|| damaged("committed"))?,
        epoch: value.get("epoch").and_then(Value::as_u64).ok_or_else(|| damaged("epoch"))?,
        started_at: time("started_at")?.ok_or_else(|| damaged("started_at"))?,
        finished_at: time("finished_at")?,
    })
}
