//! Store-wide business keys in the file: who has reserved which.
//!
//! Promise: the comparison and the write are one transaction of the writer; a sealed reservation is never replaced.

use rusqlite::{Connection, Row, params};

use aether_core::id::{IdempotencyKey, RunId};
use aether_core::store::ledger::{PURGED, Reservation, STORE_WIDE};

use crate::batch::Batch;
use crate::error::OpError;
use crate::row;

/// Columns of a [`Reservation`], in the order [`reservation`] reads them: first its own, then what is left of a row, in
/// the order of [`row::ENTRY`].
const COLUMNS: &str = "business_key, run, key, epoch, at, \
     sealed_key, run, command, invocation, tool, digest, business_key, status, NULL, NULL, committed, row_epoch, \
     started_at, finished_at";

/// How many columns stand before the row's.
const OWN: usize = 5;

impl Batch<'_> {
    /// Writes a reservation where none is, or exactly `replaces`; answers what is there afterwards.
    pub(crate) fn reserve(
        &mut self,
        wanted: &Reservation,
        replaces: Option<&Reservation>,
    ) -> Result<Reservation, OpError> {
        if let Some(found) = reservation(self.conn, &wanted.business_key)?
            && !replaces.is_some_and(|replaces| replaces.is_same(&found))
        {
            return Ok(found);
        }
        self.conn
            .prepare_cached(
                "INSERT INTO aether_reservations(business_key, run, key, epoch, at) VALUES(?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT(business_key) DO UPDATE SET
                     run = excluded.run, key = excluded.key, epoch = excluded.epoch, at = excluded.at",
            )?
            .execute(params![
                wanted.business_key,
                wanted.run.as_str(),
                wanted.key.as_str(),
                row::int(wanted.epoch),
                wanted.at.as_microsecond(),
            ])?;
        Ok(wanted.clone())
    }

    /// Seals the store-wide keys that the ledger rows of a run hold, before the rows are deleted. The keys of the rows
    /// stand between `from` and `to`.
    pub(crate) fn seal(&self, run: &RunId, no: i64, from: &str, to: &str) -> Result<(), OpError> {
        self.conn
            .prepare_cached(
                "INSERT OR REPLACE INTO aether_reservations(business_key, run, key, epoch, at, sealed_key, command,
                     invocation, tool, digest, status, committed, row_epoch, started_at, finished_at)
                 SELECT business_key, ?1, key, epoch, started_at, ?6 || key, command, invocation, tool, digest, status,
                     committed, epoch, started_at, finished_at
                 FROM aether_ledger WHERE key > ?2 AND key < ?3 AND run_no = ?4
                     AND substr(business_key, 1, length(?5)) = ?5",
            )?
            .execute(params![run.as_str(), from, to, no, STORE_WIDE, PURGED])?;
        Ok(())
    }
}

/// Who has reserved a business key.
pub(crate) fn reservation(conn: &Connection, business_key: &str) -> Result<Option<Reservation>, OpError> {
    let sql = format!("SELECT {COLUMNS} FROM aether_reservations WHERE business_key = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([business_key])?;
    rows.next()?.map(read).transpose()
}

fn read(row: &Row<'_>) -> Result<Reservation, OpError> {
    let is_sealed = row.get::<_, Option<String>>(OWN)?.is_some();
    Ok(Reservation {
        business_key: row.get(0)?,
        run: row::run_id(row.get(1)?)?,
        key: IdempotencyKey::from(row.get::<_, String>(2)?),
        epoch: row::nat(row.get(3)?, "epoch")?,
        at: row::time(row.get(4)?)?,
        sealed: if is_sealed { Some(Box::new(row::entry_from(row, OWN)?)) } else { None },
    })
}
