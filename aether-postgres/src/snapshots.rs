//! Snapshots, and the progress of bodies.
//!
//! Promise: a snapshot gives way only to a later one. Progress is saved only at the epoch of the run's worker, and is read
//! only while the run is open.

use aether_core::id::{CommandId, Epoch, RunId};
use aether_core::payload::Payload;
use aether_core::store::{Snapshot, StoreError};

use crate::connection::Param;
use crate::database::{Database, ask};
use crate::row::{self, get};
use crate::shard::shard;

/// Gives a row where the run is known.
const SAVE: &str = "
WITH r AS MATERIALIZED (SELECT shard, id FROM runs WHERE shard = $1::int2 AND id = $2::text),
    saved AS (INSERT INTO snapshots AS s (shard, run, position, state)
        SELECT shard, id, $3::int8, $4::text FROM r ON CONFLICT (shard, run) DO UPDATE
        SET position = excluded.position, state = excluded.state WHERE s.position <= excluded.position)
SELECT 1 FROM r";

const SNAPSHOT: &str = "SELECT position, state FROM snapshots WHERE shard = $1::int2 AND run = $2::text";

/// Some at a time: one statement over all of them would hold its locks for long.
const DELETE: &str =
    "DELETE FROM snapshots d USING (SELECT shard, run FROM snapshots ORDER BY shard, run LIMIT 1000) s
    WHERE d.shard = s.shard AND d.run = s.run";

/// Gives a row where the run is known.
const SAVE_PROGRESS: &str = "
WITH r AS MATERIALIZED (SELECT shard, id, epoch, status FROM runs WHERE shard = $1::int2 AND id = $2::text FOR SHARE),
    saved AS (INSERT INTO progress(shard, run, command, value)
        SELECT shard, id, $4::text, $5::text FROM r WHERE epoch = $3::int8 AND status < 3
        ON CONFLICT (shard, run, command) DO UPDATE SET value = excluded.value)
SELECT 1 FROM r";

const PROGRESS: &str = "SELECT p.value FROM progress p JOIN runs r ON r.shard = p.shard AND r.id = p.run
    WHERE p.shard = $1::int2 AND p.run = $2::text AND p.command = $3::text AND r.status < 3";

impl Database {
    /// See [`Store::save_snapshot`](aether_core::store::Store::save_snapshot).
    pub(crate) async fn save_snapshot(&self, run: &RunId, snapshot: &Snapshot) -> Result<(), StoreError> {
        let (of, position) = (shard(run.as_str()), row::int(snapshot.position));
        self.of_known(run, SAVE, &[&of, &run.as_str(), &position, &snapshot.state.as_str()]).await
    }

    /// See [`Store::snapshot`](aether_core::store::Store::snapshot).
    pub(crate) async fn snapshot(&self, run: &RunId) -> Result<Option<Snapshot>, StoreError> {
        ask!(self, |conn| {
            let found = conn.query_opt(SNAPSHOT, &[&shard(run.as_str()), &run.as_str()]).await?;
            let Some(row) = found else { return Ok(None) };
            let (position, state) = (row::nat(get(&row, 0)?, "position")?, row::payload(get(&row, 1)?)?);
            Ok(Some(Snapshot { position, state }))
        })
    }

    /// See [`Store::delete_snapshots`](aether_core::store::Store::delete_snapshots).
    pub(crate) async fn delete_snapshots(&self) -> Result<(), StoreError> {
        while ask!(self, |conn| conn.execute(DELETE, &[]).await)? > 0 {}
        Ok(())
    }

    /// See [`Store::save_progress`](aether_core::store::Store::save_progress).
    pub(crate) async fn save_progress(
        &self,
        run: &RunId,
        epoch: Epoch,
        command: &CommandId,
        progress: &Payload,
    ) -> Result<(), StoreError> {
        let (of, epoch) = (shard(run.as_str()), row::int(epoch));
        let params: [Param<'_>; 5] = [&of, &run.as_str(), &epoch, &command.as_str(), &progress.as_str()];
        self.of_known(run, SAVE_PROGRESS, &params).await
    }

    /// See [`Store::progress`](aether_core::store::Store::progress).
    pub(crate) async fn progress(
        &self,
        run: &RunId,
        command: &CommandId,
    ) -> Result<Option<Payload>, StoreError> {
        let of = shard(run.as_str());
        ask!(self, |conn| {
            let found = conn.query_opt(PROGRESS, &[&of, &run.as_str(), &command.as_str()]).await?;
            found.map(|row| row::payload(get(&row, 0)?)).transpose()
        })
    }

    /// A write about a run; a row says that there is such a run.
    async fn of_known(&self, run: &RunId, sql: &str, params: &[Param<'_>]) -> Result<(), StoreError> {
        ask!(self, |conn| {
            let known = conn.query_opt(sql, params).await?;
            known.map(drop).ok_or_else(|| StoreError::UnknownRun { run: run.clone() }.into())
        })
    }
}
