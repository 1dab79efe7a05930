//! Reading journals.
//!
//! Promise: fences, and appends without events, are never seen: a reader gets the frames that hold events, in order. A part
//! of a journal costs what it holds, however long the journal is: where it begins and ends is found by halving, because
//! positions rise with the numbers of frames.

use std::sync::LazyLock;

use aether_core::id::{Position, RunId};
use aether_core::journal::StoredFrame;
use aether_core::store::StoreError;

use crate::connection::Param;
use crate::database::{Database, ask};
use crate::error::OpError;
use crate::row;
use crate::shard::shard;

/// The frames from the one that holds position $3.
static LOAD: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH RECURSIVE {BOUNDS}, {}
        SELECT position, at, epoch, events, chain FROM journal
        WHERE shard = $1 AND run = $2 AND count > 0 AND frame >= (SELECT max(low) FROM a)
            AND position + count > $3::int8 ORDER BY frame",
        halves("a", "j.position + j.count > $3::int8")
    )
});

/// As [`LOAD`], but no frame that begins $4 or more behind $3, or behind the first event where that is later.
static LOAD_PAGE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH RECURSIVE {BOUNDS}, {},
        stop AS MATERIALIZED (SELECT greatest($3, j.position) + $4::int8 AS position FROM journal j
            WHERE j.shard = $1 AND j.run = $2 AND j.frame = (SELECT max(low) FROM a)), {}
        SELECT position, at, epoch, events, chain FROM journal
        WHERE shard = $1 AND run = $2 AND count > 0 AND frame >= (SELECT max(low) FROM a)
            AND frame <= (SELECT max(low) FROM z) AND position + count > $3
            AND position < (SELECT position FROM stop) ORDER BY frame",
        halves("a", "j.position + j.count > $3::int8"),
        halves("z", "j.position >= (SELECT position FROM stop)")
    )
});

/// The first and the last frame.
const BOUNDS: &str = "bounds AS MATERIALIZED (SELECT
    (SELECT frame FROM journal WHERE shard = $1::int2 AND run = $2::text ORDER BY frame LIMIT 1) AS low,
    (SELECT frame FROM journal WHERE shard = $1 AND run = $2 ORDER BY frame DESC LIMIT 1) AS high)";

/// Finds the first frame of which `condition` holds, or else the last one: it is the highest `low`.
fn halves(name: &str, condition: &str) -> String {
    format!(
        "{name}(low, high) AS (SELECT low, high FROM bounds
        UNION ALL SELECT CASE WHEN m.holds THEN {name}.low ELSE m.middle + 1 END,
            CASE WHEN m.holds THEN m.middle ELSE {name}.high END
        FROM {name} CROSS JOIN LATERAL (SELECT j.frame AS middle, {condition} AS holds FROM journal j
            WHERE j.shard = $1 AND j.run = $2 AND j.frame = ({name}.low + {name}.high) / 2) m
        WHERE {name}.low < {name}.high)"
    )
}

const LAST: &str = "SELECT position, at, epoch, events, chain FROM journal
    WHERE shard = $1::int2 AND run = $2::text AND count > 0 ORDER BY frame DESC LIMIT 1";

/// A whole journal.
const ALL: &str = "SELECT position, at, epoch, events, chain FROM journal
    WHERE shard = $1::int2 AND run = $2::text AND count > 0 ORDER BY frame";

impl Database {
    /// See [`Store::load`](aether_core::store::Store::load).
    pub(crate) async fn load(&self, run: &RunId, from: Position) -> Result<Vec<StoredFrame>, StoreError> {
        let shard = shard(run.as_str());
        match from {
            0 => self.frames(ALL, &[&shard, &run.as_str()]).await,
            from => self.frames(&LOAD, &[&shard, &run.as_str(), &row::int(from)]).await,
        }
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
        self.frames(&LOAD_PAGE, &[&shard(run.as_str()), &run.as_str(), &from, &events]).await
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
