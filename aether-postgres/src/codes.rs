//! Definitions, and what other workers can advance.
//!
//! Promise: the first definition of a code stays. The codes of a worker count until it retires, or was not seen for so long
//! that it counts as gone.

use aether_core::id::{CodeId, WorkerId};
use aether_core::store::{DefinitionRecord, StoreError};
use tokio_postgres::Row;

use crate::connection::Param;
use crate::database::{Database, ask};
use crate::error::OpError;
use crate::row::{self, get};
use crate::workers::GONE;

const PUT: &str = "INSERT INTO definitions(code, workflow, version, definition, first_seen)
    VALUES ($1::text, $2::text, $3::int8, $4::text, $5::int8) ON CONFLICT DO NOTHING";

const ALL: &str =
    "SELECT code, workflow, version, definition, first_seen FROM definitions ORDER BY first_seen, code";

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
