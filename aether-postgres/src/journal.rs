//! Reading journals.
//!
//! Promise: fences, and appends without events, are never seen: a reader gets the frames that hold events, in order.

use aether_core::id::{Position, RunId};
use aether_core::journal::StoredFrame;
use aether_core::store::StoreError;

use crate::connection::Param;
use crate::database::{Database, ask};
use crate::error::OpError;
use crate::row;
use crate::shard::shard;

/// Events of frames that end behind a position.
const LOAD: &str = "SELECT position, at, epoch, events, chain FROM journal
    WHERE shard = $1::int2 AND run = $2::text AND position + count > $3::int8 AND count > 0 ORDER BY frame";

/// As [`LOAD`], up to a number of events behind the position, or behind the first event where that is later.
const LOAD_PAGE: &str = "SELECT position, at, epoch, events, chain FROM journal
    WHERE shard = $1::int2 AND run = $2::text AND position + count > $3::int8 AND count > 0
    AND position < $4::int8 + greatest($3, coalesce((SELECT position FROM journal
        WHERE shard = $1 AND run = $2 AND position + count > $3 AND count > 0 ORDER BY frame LIMIT 1), 0))
    ORDER BY frame";

const LAST: &str = "SELECT position, at, epoch, events, chain FROM journal
    WHERE shard = $1::int2 AND run = $2::text AND count > 0 ORDER BY frame DESC LIMIT 1";

impl Database {
    /// See [`Store::load`](aether_core::store::Store::load).
    pub(crate) async fn load(&self, run: &RunId, from: Position) -> Result<Vec<StoredFrame>, StoreError> {
        self.frames(LOAD, &[&shard(run.as_str()), &run.as_str(), &row::int(from)]).await
    }

    /// See [`Store::load_page`](aether_core::store::Store::load_page).
    pub(crate) async fn load_page(
        &self,
        run: &RunId,
        from: Position,
        events: u64,
    ) -> Result<Vec<StoredFrame>, StoreError> {
        // Half of what a number can be, so that the sum with a position is one, too.
        let events = row::int(events.max(1)).min(i64::MAX / 2);
        let from = row::int(from).min(i64::MAX / 2);
        self.frames(LOAD_PAGE, &[&shard(run.as_str()), &run.as_str(), &from, &events]).await
    }

    /// See [`Store::last_frame`](aether_core::store::Store::last_frame).
    pub(crate) async fn last_frame(&self, run: &RunId) -> Result<Option<StoredFrame>, StoreError> {
        let frames = self.frames(LAST, &[&shard(run.as_str()), &run.as_str()]).await?;
        Ok(frames.into_iter().next())
    }

    async fn frames(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<StoredFrame>, StoreError> {
        ask!(self, |conn| {
            let rows = conn.query(sql, params).await?;
            rows.iter().map(row::frame).collect::<Result<Vec<_>, OpError>>()
        })
    }
}
