//! The store's tables, and how older databases get today's.
//!
//! Promise: everything is in one schema of the database. A released migration is never edited, only followed by another
//! one; each start runs what is missing in one transaction, under the lock of one row, so that any number of workers may
//! start at once. A database that a newer build wrote is refused untouched. No trigger, function, sequence, foreign key or
//! partition.

use aether_core::store::StoreError;

use crate::connection::Connection;
use crate::error::{Failure, OpError, failure};
use crate::options::PostgresOptions;
use crate::row;

/// What leads from version `n` to version `n + 1`.
const MIGRATIONS: &[&str] = &[FIRST, crate::placement::TABLES, crate::streams::TABLES];

/// Shard first in every key, so that shards can be moved to another database. An append inserts into `journal` and
/// `ledger` and changes no row of `runs`: only a change of status, owner or code does.
const FIRST: &str = r#"
CREATE TABLE runs(
    shard       int2 NOT NULL,
    id          text COLLATE "C" NOT NULL,
    place       int8 NOT NULL,
    workflow    text COLLATE "C" NOT NULL,
    version     int8 NOT NULL,
    code        text COLLATE "C" NOT NULL,
    parked      bool NOT NULL,
    status      int2 NOT NULL,
    digest      text NOT NULL,
    parent      text COLLATE "C",
    created_at  int8 NOT NULL,
    ended_at    int8,
    labels      text NOT NULL,
    traceparent text,
    epoch       int8 NOT NULL,
    owner       text COLLATE "C",
    ending      int8,
    terms       text,
    queue       text COLLATE "C",
    queue_key   text COLLATE "C",
    rank        int8,
    begun       bool NOT NULL DEFAULT false,
    slot        bool NOT NULL DEFAULT false,
    started_at  int8,
    lapses_at   int8,
    PRIMARY KEY(shard, id)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX runs_place ON runs(place);
CREATE INDEX runs_status ON runs(status, place);
CREATE INDEX runs_workflow ON runs(workflow, status, place);
CREATE INDEX runs_owner ON runs(owner) WHERE owner IS NOT NULL;
CREATE INDEX runs_parent ON runs(parent, place) WHERE parent IS NOT NULL;
CREATE INDEX runs_created ON runs(created_at);
CREATE INDEX runs_open ON runs(code, place) WHERE status < 3;
CREATE INDEX runs_parked ON runs(place) WHERE parked;
CREATE INDEX runs_queue ON runs(queue, place) WHERE queue IS NOT NULL;
CREATE INDEX runs_queue_open ON runs(queue, queue_key) WHERE queue IS NOT NULL AND status < 3;
CREATE INDEX runs_slots ON runs(queue, queue_key) WHERE slot AND owner IS NOT NULL;
CREATE INDEX runs_lapses ON runs(code, lapses_at) WHERE lapses_at IS NOT NULL AND owner IS NULL;

CREATE TABLE labels(
    key   text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    place int8 NOT NULL,
    shard int2 NOT NULL,
    run   text COLLATE "C" NOT NULL,
    PRIMARY KEY(key, value, place, shard, run)
);
CREATE INDEX labels_run ON labels(shard, run);

CREATE TABLE journal(
    shard    int2 NOT NULL,
    run      text COLLATE "C" NOT NULL,
    frame    int8 NOT NULL,
    position int8 NOT NULL,
    count    int8 NOT NULL,
    at       int8 NOT NULL,
    epoch    int8 NOT NULL,
    final    bool NOT NULL,
    events   text NOT NULL,
    chain    bytea NOT NULL,
    PRIMARY KEY(shard, run, frame)
);

CREATE TABLE ledger(
    shard        int2 NOT NULL,
    run          text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    seq          int8 NOT NULL,
    command      text NOT NULL,
    invocation   text NOT NULL,
    tool         text NOT NULL,
    digest       text NOT NULL,
    business_key text COLLATE "C",
    store_wide   bool NOT NULL,
    status       int2 NOT NULL,
    result       text,
    error        text,
    committed    bool NOT NULL,
    epoch        int8 NOT NULL,
    started_at   int8 NOT NULL,
    finished_at  int8,
    PRIMARY KEY(shard, run, key)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX ledger_business ON ledger(shard, run, business_key)
    WHERE business_key IS NOT NULL AND NOT store_wide;

CREATE TABLE due(
    shard    int2 NOT NULL,
    run      text COLLATE "C" NOT NULL,
    wake_at  int8 NOT NULL,
    code     text COLLATE "C" NOT NULL,
    seq      int8 NOT NULL,
    notified bool NOT NULL,
    queue    text COLLATE "C",
    ready     int8,
    queue_key text COLLATE "C",
    begun     bool,
    rank      int8,
    place     int8,
    PRIMARY KEY(shard, run)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX due_next ON due(code, wake_at) WHERE queue IS NULL;
CREATE INDEX due_queued ON due(code, wake_at) WHERE queue IS NOT NULL;
CREATE INDEX due_unready ON due(queue, wake_at) WHERE queue IS NOT NULL AND ready IS NULL;
CREATE INDEX due_ready ON due(queue, queue_key, begun, code, rank, place) WHERE ready IS NOT NULL;

CREATE TABLE inbox(
    shard    int2 NOT NULL,
    run      text COLLATE "C" NOT NULL,
    seq      int8 NOT NULL,
    id       text COLLATE "C" NOT NULL,
    topic    text COLLATE "C" NOT NULL,
    payload  text NOT NULL,
    at       int8 NOT NULL,
    consumed int8,
    PRIMARY KEY(shard, run, seq)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX inbox_id ON inbox(shard, run, id);
CREATE INDEX inbox_unread ON inbox(shard, run, seq) WHERE consumed IS NULL;

CREATE TABLE waits(
    shard   int2 NOT NULL,
    run     text COLLATE "C" NOT NULL,
    command text COLLATE "C" NOT NULL,
    place   int8 NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    since   int8 NOT NULL,
    until   int8,
    site    text,
    detail  text NOT NULL,
    PRIMARY KEY(shard, run, command)
);
CREATE UNIQUE INDEX waits_place ON waits(place);
CREATE INDEX waits_kind ON waits(kind, place);

CREATE TABLE effects(
    shard  int2 NOT NULL,
    run    text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    n      int8 NOT NULL,
    count  int8 NOT NULL,
    events text NOT NULL,
    status int2,
    PRIMARY KEY(shard, run, key)
);

CREATE TABLE blobs(
    shard int2 NOT NULL,
    run   text COLLATE "C" NOT NULL,
    hash  text COLLATE "C" NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY(shard, run, hash)
);

CREATE TABLE snapshots(
    shard    int2 NOT NULL,
    run      text COLLATE "C" NOT NULL,
    position int8 NOT NULL,
    state    text NOT NULL,
    PRIMARY KEY(shard, run)
);

CREATE TABLE progress(
    shard   int2 NOT NULL,
    run     text COLLATE "C" NOT NULL,
    command text COLLATE "C" NOT NULL,
    value   text NOT NULL,
    PRIMARY KEY(shard, run, command)
);

CREATE TABLE reservations(
    shard        int2 NOT NULL,
    business_key text COLLATE "C" NOT NULL,
    run          text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    epoch        int8 NOT NULL,
    at           int8 NOT NULL,
    sealed       text,
    PRIMARY KEY(shard, business_key)
);

CREATE TABLE notices(
    shard  int2 NOT NULL,
    child  text COLLATE "C" NOT NULL,
    parent text COLLATE "C" NOT NULL,
    at     int8 NOT NULL,
    PRIMARY KEY(shard, child)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE workers(
    id       text COLLATE "C" NOT NULL PRIMARY KEY,
    renewals int8 NOT NULL,
    lease    int8,
    seen_at  timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

CREATE TABLE worker_codes(
    worker text COLLATE "C" NOT NULL,
    code   text COLLATE "C" NOT NULL,
    PRIMARY KEY(worker, code)
);

CREATE TABLE lost(
    worker text COLLATE "C" NOT NULL,
    shard  int2 NOT NULL,
    run    text COLLATE "C" NOT NULL,
    epoch  int8 NOT NULL,
    PRIMARY KEY(worker, shard, run, epoch)
);
CREATE INDEX lost_run ON lost(shard, run);

CREATE TABLE schedules(
    name     text COLLATE "C" NOT NULL PRIMARY KEY,
    workflow text COLLATE "C" NOT NULL,
    revision int8 NOT NULL,
    due_at   int8,
    record   text NOT NULL
);
CREATE INDEX schedules_due ON schedules(due_at, name) WHERE due_at IS NOT NULL;

CREATE TABLE definitions(
    code       text COLLATE "C" NOT NULL PRIMARY KEY,
    workflow   text NOT NULL,
    version    int8 NOT NULL,
    definition text NOT NULL,
    first_seen int8 NOT NULL
);

CREATE TABLE queues(
    queue  text COLLATE "C" NOT NULL PRIMARY KEY,
    time   int8 NOT NULL,
    served int8 NOT NULL,
    looked text COLLATE "C" NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX queues_served ON queues(served);

CREATE TABLE lanes(
    queue text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    time  int8 NOT NULL,
    state int2 NOT NULL,
    begun bool NOT NULL,
    until int8,
    PRIMARY KEY(queue, key)
) WITH (fillfactor = 70);
CREATE INDEX lanes_active ON lanes(queue, time, key) WHERE state = 0;
CREATE INDEX lanes_begun ON lanes(queue, time, key) WHERE state = 0 AND begun;
CREATE INDEX lanes_idle ON lanes(queue, time) WHERE state = 1;
CREATE INDEX lanes_aside ON lanes(queue, until) WHERE state = 2;

CREATE TABLE limits(
    pattern text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    queue   text COLLATE "C" NOT NULL,
    n       int8 NOT NULL,
    per     int8,
    PRIMARY KEY(pattern, kind)
);
CREATE INDEX limits_queue ON limits(queue, kind);

CREATE TABLE starts(
    counter text COLLATE "C" NOT NULL,
    seq     int8 NOT NULL,
    at      int8 NOT NULL,
    PRIMARY KEY(counter, seq)
);
CREATE INDEX starts_at ON starts(at);

CREATE TABLE keyed_starts(
    name     text COLLATE "C" NOT NULL PRIMARY KEY,
    workflow text COLLATE "C" NOT NULL,
    due_at   int8 NOT NULL,
    record   text NOT NULL,
    revision int8 NOT NULL
);
CREATE INDEX keyed_starts_due ON keyed_starts(workflow, due_at, name);
"#;

/// Brings the schema up to date; see [`MIGRATIONS`].
pub(crate) async fn migrate(
    conn: &Connection,
    store: &str,
    options: &PostgresOptions,
) -> Result<(), OpError> {
    let supported = newest();
    loop {
        match version(conn).await? {
            Some(found) if found > supported => return Err(newer(store, found, supported)),
            Some(found) if found == supported => return Ok(()),
            Some(found) if found > 0 && !options.migrate => return Err(older(store, found, supported)),
            _ => {}
        }
        match upgrade(conn, store, options).await {
            Ok(()) => return Ok(()),
            // Another worker has just created the same schema or table, or holds the lock for long.
            Err(OpError::Driver(error)) if is_race(&error) => {
                tracing::debug!(store, error = %crate::error::said(&error), "another worker migrates as well");
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_race(error: &tokio_postgres::Error) -> bool {
    let exists = matches!(error.code().map(|code| code.code()), Some("42P06" | "42P07" | "42710" | "XX000"))
        && !crate::error::said(error).contains("permission");
    exists || matches!(failure(error), Failure::Conflict | Failure::Slow)
}

/// The version of the tables; `None` where there are none.
async fn version(conn: &Connection) -> Result<Option<i64>, OpError> {
    let there = conn
        .query(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = $1::text AND table_name = 'schema_version'",
            &[&conn.schema()],
        )
        .await?;
    if there.is_empty() {
        return Ok(None);
    }
    let rows = conn.query("SELECT version FROM schema_version", &[]).await?;
    rows.first().map(|row| row::get(row, 0)).transpose()
}

async fn upgrade(conn: &Connection, store: &str, options: &PostgresOptions) -> Result<(), OpError> {
    let schema = quoted(conn.schema());
    // Looked for first: an account that may not create schemas may use one that was made for it.
    let there = conn
        .query("SELECT 1 FROM information_schema.schemata WHERE schema_name = $1::text", &[&conn.schema()])
        .await?;
    if there.is_empty() {
        conn.batch(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")).await?;
    }
    conn.batch(
        "CREATE TABLE IF NOT EXISTS schema_version(one int2 NOT NULL PRIMARY KEY, version int8 NOT NULL)",
    )
    .await?;
    conn.batch("INSERT INTO schema_version VALUES (1, 0) ON CONFLICT DO NOTHING").await?;
    let transaction = conn.begin().await?;
    // The lock that the others wait for; who gets it next finds the version that was written meanwhile.
    let rows = transaction.query("SELECT version FROM schema_version WHERE one = 1 FOR UPDATE", &[]).await?;
    let found: i64 = rows.first().map_or(Ok(0), |row| row::get(row, 0))?;
    let supported = newest();
    if found > supported {
        transaction.rollback().await?;
        return Err(newer(store, found, supported));
    }
    let done = usize::try_from(found).unwrap_or(0);
    for migration in MIGRATIONS.iter().skip(done) {
        let sql = if options.portable { without_storage(migration) } else { (*migration).to_owned() };
        if let Err(error) = transaction.batch(&sql).await {
            transaction.rollback().await?;
            return Err(taken(error, store, conn.schema()));
        }
    }
    transaction.execute("UPDATE schema_version SET version = $1::int8 WHERE one = 1", &[&supported]).await?;
    transaction.commit().await?;
    tracing::info!(store, from = found, to = supported, "the tables are up to date");
    Ok(())
}

/// The version of the tables that this build makes.
pub(crate) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Under the lock of a migration no other worker makes tables: what is there already is somebody else's.
fn taken(error: OpError, store: &str, schema: &str) -> OpError {
    match &error {
        OpError::Driver(exists) if exists.code().is_some_and(|code| code.code() == "42P07") => {
            let reason = format!(
                "{}, and it is not the store's: drop it, or choose another schema with PostgresOptions::schema (here `{schema}`)",
                crate::error::said(exists)
            );
            StoreError::Open { store: store.into(), reason }.into()
        }
        _ => error,
    }
}

fn newer(store: &str, found: i64, supported: i64) -> OpError {
    let (found, supported) = (number(found), number(supported));
    StoreError::NewerSchema { store: store.into(), found, supported }.into()
}

fn older(store: &str, found: i64, supported: i64) -> OpError {
    let (found, supported) = (number(found), number(supported));
    StoreError::OlderSchema { store: store.into(), found, supported }.into()
}

fn number(version: i64) -> u32 {
    u32::try_from(version).unwrap_or(u32::MAX)
}

/// Tables without `WITH (..)`: storage parameters are Postgres' own.
fn without_storage(sql: &str) -> String {
    let mut plain = String::new();
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once(" WITH (") {
        plain.push_str(before);
        rest = after.split_once(')').map_or("", |(_, behind)| behind);
    }
    plain + rest
}

/// A name as it stands in SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_tables_have_no_storage_parameters() {
        let plain = without_storage(FIRST);
        assert!(!plain.contains("fillfactor") && !plain.contains("autovacuum"), "{plain}");
        assert_eq!(plain.matches("CREATE TABLE").count(), FIRST.matches("CREATE TABLE").count());
        assert_eq!(plain.matches(';').count(), FIRST.matches(';').count());
    }

    #[test]
    fn every_key_of_a_run_begins_with_its_shard() {
        for table in FIRST.split("CREATE TABLE ").skip(1).filter(|table| table.contains("shard ")) {
            let name = table.split('(').next().unwrap_or_default();
            if !["labels", "lost"].contains(&name) {
                assert!(table.contains("PRIMARY KEY(shard"), "{name}");
            }
        }
    }
}
