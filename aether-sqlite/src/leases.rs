//! Workers in the file: registering, renewing, retiring, and what was taken from them.
//!
//! Promise: each function runs inside the writer's transaction, like those of `calls`. No time of day is kept.

use std::time::Duration;

use rusqlite::{OptionalExtension as _, params};

use aether_core::id::{CodeId, WorkerId};
use aether_core::queue::Serves;
use aether_core::store::LostRun;

use crate::batch::Batch;
use crate::error::OpError;
use crate::row;

impl Batch<'_> {
    /// Registers a worker, unless one of that name is known; says whether it did.
    pub(crate) fn register(
        &mut self,
        worker: &WorkerId,
        lease: Duration,
        codes: &[CodeId],
    ) -> Result<bool, OpError> {
        let inserted = self
            .conn
            .prepare_cached(
                "INSERT INTO aether_workers(worker, renewals, lease) VALUES(?1, 0, ?2) ON CONFLICT DO NOTHING",
            )?
            .execute(params![worker.as_str(), row::micros(lease)])?;
        if inserted == 1 {
            self.register_codes(worker, codes)?;
        }
        Ok(inserted == 1)
    }

    /// Keeps which runs a registered worker takes.
    pub(crate) fn serve(&mut self, worker: &WorkerId, serves: &Serves) -> Result<(), OpError> {
        let serves = serde_json::to_string(serves);
        let serves = serves.map_err(|error| OpError::Row(format!("what a worker serves: {error}")))?;
        self.conn
            .prepare_cached("UPDATE aether_workers SET serves = ?2 WHERE worker = ?1")?
            .execute([worker.as_str(), &serves])?;
        Ok(())
    }

    /// How often a worker has renewed; 0 for an unknown one.
    pub(crate) fn renewals(&self, worker: &WorkerId) -> Result<u64, OpError> {
        let renewals = self
            .conn
            .prepare_cached("SELECT renewals FROM aether_workers WHERE worker = ?1")?
            .query_row([worker.as_str()], |row| row.get(0))
            .optional()?;
        Ok(renewals.map_or(0, row::renewals))
    }

    /// Renews the leases of a worker; returns the runs that others took from it and that it has not noticed.
    pub(crate) fn renew(
        &mut self,
        worker: &WorkerId,
        lease: Duration,
        noticed: &[LostRun],
    ) -> Result<Vec<LostRun>, OpError> {
        self.conn
            .prepare_cached(
                "INSERT INTO aether_workers(worker, renewals, lease) VALUES(?1, 1, ?2)
                 ON CONFLICT(worker) DO UPDATE SET renewals = max(renewals, 0) + 1, lease = excluded.lease",
            )?
            .execute(params![worker.as_str(), row::micros(lease)])?;
        for LostRun { run, epoch } in noticed {
            self.conn
                .prepare_cached(
                    "DELETE FROM aether_lost
                     WHERE worker = ?1 AND run_no = (SELECT no FROM aether_runs WHERE id = ?2) AND epoch = ?3",
                )?
                .execute(params![worker.as_str(), run.as_str(), row::int(*epoch)])?;
        }
        let mut statement = self.conn.prepare_cached(
            "SELECT runs.id, aether_lost.epoch FROM aether_lost
             JOIN aether_runs AS runs ON runs.no = aether_lost.run_no WHERE aether_lost.worker = ?1 ORDER BY aether_lost.run_no, aether_lost.epoch",
        )?;
        row::readable(statement.query([worker.as_str()])?, usize::MAX, "a run that was lost", |row| {
            Ok(Some(LostRun { run: row::run_id(row.get(0)?)?, epoch: row::nat(row.get(1)?, "epoch")? }))
        })
    }

    /// Frees every run of a worker that has died. Those that it was advancing are due `now`: their due times are those of its
    /// claims, by whatever clock it had.
    pub(crate) fn bury(&mut self, worker: &WorkerId, now: i64) -> Result<(), OpError> {
        self.conn
            .prepare_cached("UPDATE aether_runs SET wake_at = ?2 WHERE owner = ?1 AND status = 'running'")?
            .execute(params![worker.as_str(), now])?;
        self.retire(worker)
    }

    /// Frees every run of a worker that advances none any more, and forgets the worker.
    pub(crate) fn retire(&mut self, worker: &WorkerId) -> Result<(), OpError> {
        for sql in [
            "UPDATE aether_runs SET owner = NULL WHERE owner = ?1",
            "DELETE FROM aether_lost WHERE worker = ?1",
            "DELETE FROM aether_workers WHERE worker = ?1",
            "DELETE FROM aether_worker_codes WHERE worker = ?1",
        ] {
            self.conn.prepare_cached(sql)?.execute([worker.as_str()])?;
        }
        Ok(())
    }
}
