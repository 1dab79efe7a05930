//! Databases become part of a store, and know it.
//!
//! Promise: a database belongs to one store for good, under one name. One that holds runs of its own does not join as a
//! further one: their buckets would be in two databases. A process that knows only some databases of a store is refused,
//! so that no run is looked for where it is not.

use std::sync::Arc;

use aether_core::store::StoreError;

use crate::database::{Database, ask};
use crate::placement::keeper::{Keeper, spots};
use crate::placement::shared::Shared;
use crate::row::get;

/// Name of a database and of the first one of its store.
const IDENTITY: &str = "SELECT name, home FROM identity WHERE one = 1";

const JOIN: &str =
    "INSERT INTO identity(one, name, home) VALUES (1, $1::text, $2::text) ON CONFLICT DO NOTHING";

/// A further database has no bucket before one is moved there.
const EMPTY: &str = "INSERT INTO buckets(shard, version, away)
    SELECT s.shard, 0, true FROM generate_series(0, 4095) AS s(shard) ON CONFLICT DO NOTHING";

/// Opens a store of several databases.
pub(crate) async fn several(databases: Vec<(String, Arc<Database>)>) -> Result<Arc<Shared>, StoreError> {
    let Some((home, _)) = databases.first().cloned() else {
        return Err(refused("postgres", "a store needs at least one database".into()));
    };
    for (at, (name, database)) in databases.iter().enumerate() {
        if name.is_empty() || databases.iter().take(at).any(|(other, _)| other == name) {
            return Err(refused(
                &database.name,
                format!("the name `{name}` is empty, or is that of another database"),
            ));
        }
        join(database, name, &home).await?;
    }
    let shared = Shared::several(databases);
    for (shard, spot) in spots(&shared).await? {
        shared.map.hold().set(shard, spot);
    }
    Keeper::start(&shared);
    Ok(shared)
}

/// Refuses a database that is one of several: alone it would have some of the runs.
pub(crate) async fn alone(database: &Database) -> Result<(), StoreError> {
    let found = identity(database).await?;
    let is_first = found.as_ref().is_some_and(|(name, home)| name == home);
    let moved = "SELECT 1 FROM placement WHERE version > 0 OR target IS NOT NULL LIMIT 1";
    if found.is_none()
        || (is_first && ask!(database, |conn| Ok(conn.query_opt(moved, &[]).await?.is_none()))?)
    {
        return Ok(());
    }
    let name = found.map(|(name, _)| name).unwrap_or_default();
    Err(refused(
        &database.name,
        format!(
            "it is the database `{name}` of a store of several: open them with PostgresStore::connect_all"
        ),
    ))
}

async fn join(database: &Database, name: &str, home: &str) -> Result<(), StoreError> {
    let known = match identity(database).await? {
        Some(known) => known,
        None => {
            become_part(database, name, home).await?;
            identity(database).await?.unwrap_or_default()
        }
    };
    if known == (name.to_owned(), home.to_owned()) {
        return Ok(());
    }
    let (name_there, home_there) = known;
    Err(refused(
        &database.name,
        format!(
            "it is the database `{name_there}` of the store whose first one is `{home_there}`, and was opened as `{name}` \
             behind `{home}`"
        ),
    ))
}

async fn become_part(database: &Database, name: &str, home: &str) -> Result<(), StoreError> {
    let is_first = name == home;
    let joined = ask!(database, |conn| {
        let transaction = conn.begin().await?;
        if !is_first {
            transaction.batch("LOCK TABLE runs, reservations IN SHARE MODE").await?;
            let held = "SELECT 1 WHERE EXISTS (SELECT 1 FROM runs) OR EXISTS (SELECT 1 FROM reservations)";
            if !transaction.query(held, &[]).await?.is_empty() {
                transaction.rollback().await?;
                return Ok(false);
            }
            transaction.execute(EMPTY, &[]).await?;
        }
        transaction.execute(JOIN, &[&name, &home]).await?;
        transaction.commit().await?;
        Ok(true)
    })?;
    let reason = "it has runs of its own: only the first database of a store may have some before it is one of several";
    if joined { Ok(()) } else { Err(refused(&database.name, reason.into())) }
}

async fn identity(database: &Database) -> Result<Option<(String, String)>, StoreError> {
    ask!(database, |conn| {
        let found = conn.query_opt(IDENTITY, &[]).await?;
        found.map(|row| Ok((get(&row, 0)?, get(&row, 1)?))).transpose()
    })
}

fn refused(store: &str, reason: String) -> StoreError {
    StoreError::Open { store: store.into(), reason }
}
