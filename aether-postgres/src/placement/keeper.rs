//! Reads the map again and again, and completes moves that nobody completes.
//!
//! Promise: what another process has moved is known here about a second later, without anybody running into it; a move
//! whose process is gone is completed a few seconds later by whoever sees it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use aether_core::store::StoreError;

use crate::database::ask;
use crate::moves::steps::{self, Move};
use crate::network;
use crate::placement::map::Spot;
use crate::placement::shared::Shared;
use crate::row::get;

/// How often the map is read.
const EVERY: Duration = Duration::from_secs(1);

/// The sum says whether any bucket was moved since.
const CHANGED: &str = "SELECT coalesce(sum(version), 0)::int8 FROM placement";

const SPOTS: &str = "SELECT shard, database, version FROM placement WHERE version > 0 ORDER BY shard";

/// Moves that nobody has worked at for a while.
const LEFT: &str = "SELECT shard, database, target, version FROM placement
    WHERE target IS NOT NULL AND touched_at < clock_timestamp() - interval '5 seconds' ORDER BY shard LIMIT 64";

/// The task that keeps a store's map.
#[derive(Debug)]
pub(crate) struct Keeper;

impl Keeper {
    /// Starts it, for as long as the store is there.
    pub(crate) fn start(shared: &Arc<Shared>) {
        network::runtime().spawn(keep(Arc::downgrade(shared)));
    }
}

async fn keep(store: Weak<Shared>) {
    let mut sum = 0;
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(shared) = store.upgrade() else { return };
        if shared.home().is_closed() {
            return;
        }
        if let Err(error) = look(&shared, &mut sum).await {
            tracing::debug!(%error, "the map of the buckets is read later");
        }
    }
}

async fn look(shared: &Shared, sum: &mut i64) -> Result<(), StoreError> {
    let home = shared.home();
    let found = ask!(home, |conn| conn.query_opt(CHANGED, &[]).await?.map_or(Ok(0), |row| get(&row, 0)))?;
    if found != *sum {
        for (shard, spot) in spots(shared).await? {
            shared.follow(shard, spot).await?;
        }
        *sum = found;
    }
    let left = ask!(home, |conn| {
        conn.query(LEFT, &[]).await?.iter().map(Move::read).collect::<Result<Vec<_>, _>>()
    })?;
    for one in left {
        tracing::info!(bucket = one.shard, to = one.to, "a move that was left is completed");
        // One that cannot be completed now keeps no other waiting.
        if let Err(error) = steps::complete(shared, &one).await {
            tracing::warn!(bucket = one.shard, to = one.to, %error, "a move that was left is not completed yet");
        }
    }
    Ok(())
}

/// Where the buckets are that were ever moved.
pub(crate) async fn spots(shared: &Shared) -> Result<Vec<(i16, Spot)>, StoreError> {
    let home = shared.home();
    let rows: Vec<(i16, String, i64)> = ask!(home, |conn| {
        let rows = conn.query(SPOTS, &[]).await?;
        rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?))).collect::<Result<_, _>>()
    })?;
    let spot = |(shard, name, version): (i16, String, i64)| {
        Ok((shard, Spot { database: shared.number(&name)?, version, settled: true }))
    };
    rows.into_iter().map(spot).collect()
}
