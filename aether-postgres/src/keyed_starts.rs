//! Keyed starts: what is gathered, and which run holds a key.
//!
//! Promise: a write replaces only the revision that it names. Of one whose commit was not answered, the server is asked
//! whether it took effect: what it wrote may be replaced by then. A server that is only compatible is not asked: there it
//! counts as done while what it wrote is there.

use aether_core::store::{DueStarts, KeyedStart, StoreError};
use tokio_postgres::Row;

use crate::connection::Param;
use crate::database::{Database, ask};
use crate::error::{LostAnswer, OpError};
use crate::readable::Page;
use crate::row::{self, get};

const NEW: &str = "
INSERT INTO keyed_starts(name, workflow, due_at, record, revision)
VALUES ($1::text, $2::text, $3::int8, $4::text, $5::int8) ON CONFLICT DO NOTHING";

const REPLACE: &str = "
UPDATE keyed_starts SET workflow = $2::text, due_at = $3::int8, record = $4::text, revision = $5::int8
WHERE name = $1::text AND revision = $6::int8";

/// The number of the transaction.
const NUMBER: &str = "SELECT txid_current()";

const OWN: &str =
    "SELECT 1 FROM keyed_starts WHERE name = $1::text AND record = $2::text AND revision = $3::int8";

/// Whether one of these transactions was committed.
const COMMITTED: &str =
    "SELECT 1 FROM unnest($1::int8[]) AS t(number) WHERE txid_status(t.number) = 'committed' LIMIT 1";

/// One search for each workflow: $1 now, $2 workflows, $3 limit, $4 and $5 the place behind which the page begins.
const DUE: &str = "
SELECT s.name, s.workflow, s.due_at, s.record, s.revision FROM unnest($2::text[]) AS k(workflow)
    CROSS JOIN LATERAL (SELECT * FROM keyed_starts t WHERE t.workflow = k.workflow AND t.due_at <= $1::int8
            AND (t.due_at, t.name) > ($4::int8, $5::text)
        ORDER BY t.due_at, t.name LIMIT $3::int8) s
ORDER BY s.due_at, s.name LIMIT $3";

fn read(found: &Row) -> Result<KeyedStart, OpError> {
    Ok(KeyedStart {
        name: get(found, 0)?,
        workflow: get(found, 1)?,
        due_at: row::time(get(found, 2)?)?,
        record: row::payload(get(found, 3)?)?,
        revision: row::nat(get(found, 4)?, "revision")?,
    })
}

impl Database {
    /// The keyed start of this name.
    pub(crate) async fn keyed_start(&self, name: &str) -> Result<Option<KeyedStart>, StoreError> {
        let sql = "SELECT name, workflow, due_at, record, revision FROM keyed_starts WHERE name = $1::text";
        ask!(self, |conn| conn.query_opt(sql, &[&name]).await?.as_ref().map(read).transpose())
    }

    /// Writes a keyed start in place of the revision `replaces`; says whether that was there.
    pub(crate) async fn put_keyed_start(
        &self,
        start: &KeyedStart,
        replaces: u64,
    ) -> Result<bool, StoreError> {
        let (due_at, record) = (row::micros(start.due_at), start.record.as_str());
        let (revision, former) = (row::int(start.revision), row::int(replaces));
        let params: [Param<'_>; 6] = [&start.name, &start.workflow, &due_at, &record, &revision, &former];
        let (sql, params) = if replaces == 0 { (NEW, &params[..5]) } else { (REPLACE, &params[..]) };
        let (lost, mut sent) = (LostAnswer::default(), Vec::<i64>::new());
        ask!(self, |conn| {
            let transaction = conn.begin().await?;
            let number: Option<i64> = match self.options.portable {
                true => None,
                false => transaction.query(NUMBER, &[]).await?.first().map(|row| get(row, 0)).transpose()?,
            };
            // Waits for the row, and so for the end of a try before.
            if transaction.execute(sql, params).await? > 0 {
                sent.extend(number);
                lost.noting(transaction.commit().await)?;
                return Ok(true);
            }
            transaction.rollback().await?;
            if !lost.happened() {
                return Ok(false);
            }
            if conn.query_opt(OWN, &[&start.name, &record, &revision]).await?.is_some() {
                return Ok(true);
            }
            let committed = conn.query_opt(COMMITTED, &[&sent]).await;
            // Unknown where another server has taken the place of the one that was asked.
            if let Err(OpError::Driver(error)) = &committed
                && error.as_db_error().is_some()
            {
                tracing::warn!(%error, name = start.name, "whether a keyed start was written is not known");
                return Ok(false);
            }
            Ok(committed?.is_some())
        })
    }

    /// Deletes a keyed start of this revision; says whether it was there.
    pub(crate) async fn remove_keyed_start(&self, name: &str, revision: u64) -> Result<bool, StoreError> {
        let sql = "DELETE FROM keyed_starts WHERE name = $1::text AND revision = $2::int8";
        let lost = LostAnswer::default();
        ask!(self, |conn| {
            let removed = conn.execute(sql, &[&name, &row::int(revision)]).await;
            // The try before may have removed it.
            Ok(lost.noting(removed)? > 0 || lost.happened())
        })
    }

    /// Keyed starts whose time has come, by that time and their names.
    pub(crate) async fn due_starts(&self, query: &DueStarts) -> Result<Vec<KeyedStart>, StoreError> {
        let (now, workflows) = (row::micros(query.now), &*query.workflows);
        let (at, name) = match &query.after {
            Some((due, name)) => (row::micros(*due), name.as_str()),
            None => (i64::MIN, ""),
        };
        ask!(self, |conn| {
            let mut page = Page::of(query.limit);
            loop {
                let params: [Param<'_>; 5] = [&now, &workflows, &page.rows(), &at, &name];
                if let Some(due) = page.read(&conn.query(DUE, &params).await?, read) {
                    return Ok(due);
                }
            }
        })
    }
}
