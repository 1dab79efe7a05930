//! Deleting runs that have ended.
//!
//! Promise: it happens inside the writer's transaction, together with the look at the run's status and at that of the
//! run that started it; a store-wide business key stays taken.

use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, params};

use aether_core::contract::Status;
use aether_core::id::RunId;
use aether_core::store::Purged;

use crate::batch::Batch;
use crate::error::OpError;
use crate::row;

impl Batch<'_> {
    /// Deletes a run, unless it or the run that started it is open, or it is not the one of that time.
    pub(crate) fn purge(&mut self, run: &RunId, created_at: Option<Timestamp>) -> Result<Purged, OpError> {
        let Some(head) = self.statements.head(run)? else { return Ok(Purged::Unknown) };
        if let Some(created_at) = created_at {
            let mut meant =
                self.conn.prepare_cached("SELECT 1 FROM aether_runs WHERE no = ?1 AND created_at = ?2")?;
            if !meant.exists(params![head.no, created_at.as_microsecond()])? {
                return Ok(Purged::Unknown);
            }
        }
        if !head.status.is_terminal() {
            return Ok(Purged::Open(head.status));
        }
        if let Some(parent) = self.open_parent(head.no)? {
            return Ok(Purged::ParentOpen(parent));
        }
        self.delete_ledger_rows(run, head.no)?;
        self.delete_blobs(run)?;
        for table in [
            "aether_journal WHERE run_no",
            "aether_inbox WHERE run_no",
            "aether_snapshots WHERE run_no",
            "aether_effects WHERE run_no",
            "aether_progress WHERE run_no",
            "aether_streams WHERE run_no",
            "aether_lost WHERE run_no",
            "aether_labels WHERE run_no",
            "aether_waits WHERE run_no",
            "aether_unlisted WHERE run_no",
            "aether_runs WHERE no",
        ] {
            self.conn.prepare_cached(&format!("DELETE FROM {table} = ?1"))?.execute([head.no])?;
        }
        self.forget_run(run);
        Ok(Purged::Deleted)
    }

    /// Deletes the bytes that only this run stored.
    pub(crate) fn delete_blobs(&self, run: &RunId) -> Result<(), OpError> {
        let only_its = "DELETE FROM aether_blobs WHERE hash IN (
            SELECT own.hash FROM aether_blob_owners AS own WHERE own.run = ?1 AND NOT EXISTS (
                SELECT 1 FROM aether_blob_owners AS other WHERE other.hash = own.hash AND other.run <> ?1))";
        self.conn.prepare_cached(only_its)?.execute([run.as_str()])?;
        self.conn.prepare_cached("DELETE FROM aether_blob_owners WHERE run = ?1")?.execute([run.as_str()])?;
        Ok(())
    }

    /// The run that started this one, if it has not ended.
    fn open_parent(&self, no: i64) -> Result<Option<RunId>, OpError> {
        let sql = "SELECT parent.id, parent.status FROM aether_runs AS child
                   JOIN aether_runs AS parent ON parent.id = child.parent WHERE child.no = ?1";
        let mut statement = self.conn.prepare_cached(sql)?;
        let parent = statement.query_row([no], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((id, status)): Option<(String, String)> = parent else { return Ok(None) };
        let status: Status = row::status(&status)?;
        if status.is_terminal() {
            return Ok(None);
        }
        RunId::new(id).map(Some).map_err(|error| OpError::Row(error.to_string()))
    }

    /// Deletes the ledger rows of a run, and seals the store-wide keys that they hold. The keys of a run all
    /// start with `aether:<run>:`, so the key's index finds them.
    fn delete_ledger_rows(&self, run: &RunId, no: i64) -> Result<(), OpError> {
        let (from, to) = (format!("aether:{run}:"), format!("aether:{run};"));
        self.seal(run, no, &from, &to)?;
        self.conn
            .prepare_cached("DELETE FROM aether_ledger WHERE key > ?1 AND key < ?2 AND run_no = ?3")?
            .execute(params![from, to, no])?;
        Ok(())
    }
}
