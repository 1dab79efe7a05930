//! A new generation of a run: what belongs to the one before is deleted.
//!
//! Promise: it happens inside the writer's transaction, together with the append that begins the generation; rows that
//! hold a business key, or whose outcome is unknown, stay.

use rusqlite::{Connection, params};

use aether_core::id::{Position, RunId};
use aether_core::store::Renewal;

use crate::row;

/// The ledger rows for which [`Renewal::drops`] holds. The keys of a run all start with `aether:<run>:`, so the key's
/// index finds them.
const ROWS: &str = "DELETE FROM aether_ledger WHERE key > ?1 AND key < ?2 AND run_no = ?3
    AND business_key IS NULL AND status NOT IN ('started', 'in_doubt')";

/// Deletes what belongs to the generation that ends with the frame before `base`.
pub(crate) fn begin_generation(
    conn: &Connection,
    run: &RunId,
    no: i64,
    base: Position,
    renewal: &Renewal,
) -> rusqlite::Result<()> {
    let execute =
        |sql: &str, params: &[&dyn rusqlite::ToSql]| conn.prepare_cached(sql)?.execute(params).map(drop);
    let (from, to) = (format!("aether:{run}:"), format!("aether:{run};"));
    execute("DELETE FROM aether_journal WHERE run_no = ?1 AND position < ?2", params![no, row::int(base)])?;
    execute(ROWS, params![from, to, no])?;
    execute(
        "DELETE FROM aether_effects WHERE run_no = ?1
             AND NOT EXISTS(SELECT 1 FROM aether_ledger AS kept WHERE kept.key = aether_effects.key)",
        params![no],
    )?;
    execute(
        "DELETE FROM aether_inbox WHERE run_no = ?1 AND consumed < ?2",
        params![no, row::int(renewal.began)],
    )?;
    execute("DELETE FROM aether_snapshots WHERE run_no = ?1", params![no])?;
    execute("DELETE FROM aether_progress WHERE run_no = ?1", params![no])?;
    execute(
        "UPDATE aether_runs SET workflow = ?2, version = ?3 WHERE no = ?1",
        params![no, renewal.workflow, renewal.version],
    )
}
