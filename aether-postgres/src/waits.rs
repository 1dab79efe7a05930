//! The list of open waits.
//!
//! Promise: a page reads what it shows; of the kinds that are asked for, each is one search.

use aether_core::id::{Position, RunId};
use aether_core::store::{ListedWait, OpenWait, StoreError, WaitFilter, WaitPlace};
use aether_core::waiting::Waiting;
use tokio_postgres::Row;

use crate::connection::Param;
use crate::database::{Database, ask};
use crate::error::OpError;
use crate::row::{self, get};
use crate::runs::limit;
use crate::shard::shard;

/// In the order [`listed`] reads them.
const COLUMNS: &str =
    "w.place, w.run, r.workflow, r.parked, w.command, w.kind, w.name, w.since, w.until, w.site, w.detail";

/// $1 kinds, $2 place, $3 name, $4 workflow, $5 limit.
const OF_KINDS: &str = "unnest($1::text[]) AS k(kind) CROSS JOIN LATERAL (SELECT o.* FROM waits o
    JOIN runs p ON p.shard = o.shard AND p.id = o.run
    WHERE o.kind <= k.kind AND (o.kind, o.place) > (k.kind, $2::int8) AND ($3::text IS NULL OR o.name = $3)
        AND ($4::text IS NULL OR p.workflow = $4) ORDER BY o.kind, o.place LIMIT $5::int8) w
    JOIN runs r ON r.shard = w.shard AND r.id = w.run";

const OF_ANY: &str = "waits w JOIN runs r ON r.shard = w.shard AND r.id = w.run
    WHERE $1::text[] IS NOT NULL AND w.place > $2::int8 AND ($3::text IS NULL OR w.name = $3)
        AND ($4::text IS NULL OR r.workflow = $4)";

/// Replaces what is listed of a run: $1 shard, $2 run, $3 next position, then the waits. Gives whether the journal ends
/// there.
const LIST: &str = "
WITH j AS MATERIALIZED (SELECT l.position + l.count = $3::int8 AS fits FROM journal l
        WHERE l.shard = $1::int2 AND l.run = $2::text ORDER BY l.frame DESC LIMIT 1),
    gone AS (DELETE FROM waits w USING j WHERE w.shard = $1 AND w.run = $2 AND j.fits
        AND w.command <> ALL($4::text[])),
    put AS (INSERT INTO waits(shard, run, command, place, kind, name, since, until, site, detail)
        SELECT $1, $2, n.command, n.place, n.kind, n.name, n.since, n.until, n.site, n.detail FROM j
        CROSS JOIN unnest($4, $5::int8[], $6::text[], $7::text[], $8::int8[], $9::int8[], $10::text[], $11::text[])
            AS n(command, place, kind, name, since, until, site, detail) WHERE j.fits
        ON CONFLICT (shard, run, command) DO UPDATE SET place = excluded.place, kind = excluded.kind,
            name = excluded.name, since = excluded.since, until = excluded.until, site = excluded.site,
            detail = excluded.detail)
SELECT fits FROM j";

fn listed(row: &Row) -> Result<ListedWait, OpError> {
    let kind: &str = get(row, 5)?;
    let waiting = Waiting::parse(kind).ok_or_else(|| OpError::Row(format!("kind of a wait {kind:?}")))?;
    Ok(ListedWait {
        place: WaitPlace::new(row::nat(get(row, 0)?, "place")?),
        run: row::run_id(get(row, 1)?)?,
        workflow: get(row, 2)?,
        parked: get(row, 3)?,
        wait: OpenWait {
            command: get::<String>(row, 4)?.into(),
            waiting,
            name: get(row, 6)?,
            since: row::time(get(row, 7)?)?,
            until: get::<Option<i64>>(row, 8)?.map(row::time).transpose()?,
            site: get(row, 9)?,
            detail: row::payload(get(row, 10)?)?,
        },
    })
}

impl Database {
    /// See [`Store::waits`](aether_core::store::Store::waits).
    pub(crate) async fn waits(&self, filter: &WaitFilter) -> Result<Vec<ListedWait>, StoreError> {
        let mut kinds: Vec<_> = filter.kinds.iter().map(|kind| kind.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let from = if kinds.is_empty() { OF_ANY } else { OF_KINDS };
        let sql = format!("SELECT {COLUMNS} FROM {from} ORDER BY w.place LIMIT $5::int8");
        let after = filter.after.map_or(-1, |place| row::int(place.number()));
        let rows = limit(filter.limit);
        let params: [Param<'_>; 5] = [&kinds, &after, &filter.name, &filter.workflow, &rows];
        ask!(self, |conn| conn.query(&sql, &params).await?.iter().map(listed).collect())
    }

    /// See [`Store::list_waits`](aether_core::store::Store::list_waits). No engine needs it here: every append lists its waits.
    pub(crate) async fn list_waits(
        &self,
        run: &RunId,
        next: Position,
        waits: &[OpenWait],
    ) -> Result<bool, StoreError> {
        let of = shard(run.as_str());
        let commands: Vec<_> = waits.iter().map(|wait| wait.command.as_str()).collect();
        let places: Vec<_> = waits.iter().map(|_| self.clock.next(of)).collect();
        let kinds: Vec<_> = waits.iter().map(|wait| wait.waiting.as_str()).collect();
        let names: Vec<_> = waits.iter().map(|wait| wait.name.as_str()).collect();
        let since: Vec<_> = waits.iter().map(|wait| row::micros(wait.since)).collect();
        let until: Vec<_> = waits.iter().map(|wait| wait.until.map(row::micros)).collect();
        let sites: Vec<_> = waits.iter().map(|wait| wait.site.as_deref()).collect();
        let details: Vec<_> = waits.iter().map(|wait| wait.detail.as_str()).collect();
        let (id, next) = (run.as_str(), row::int(next));
        let params: [Param<'_>; 11] =
            [&of, &id, &next, &commands, &places, &kinds, &names, &since, &until, &sites, &details];
        ask!(self, |conn| {
            let fits = conn.query_opt(LIST, &params).await?;
            match fits {
                Some(row) => get(&row, 0),
                None => Err(StoreError::UnknownRun { run: run.clone() }.into()),
            }
        })
    }
}
