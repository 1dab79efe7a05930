//! The file's tables, and how older files become today's.
//!
//! Promise: a released migration is never edited, only followed by another one; all of them run in one transaction;
//! a file that a newer build wrote is refused untouched, and so is a file of another program. A table that a later
//! migration adds has a name in `aether_`, which the tables of transaction steps cannot have.

use std::collections::HashSet;

use rusqlite::Connection;

use aether_core::store::StoreError;

use crate::error::OpError;

/// Marks a file as ours: `AETH`.
const APPLICATION: i64 = 0x4145_5448;

/// What leads from version `n` to version `n + 1`.
const MIGRATIONS: &[&str] = &[FIRST, EFFECTS, PROGRESS, TOMBSTONES, WORKERS, UNREAD, SCHEDULES];

const FIRST: &str = "
CREATE TABLE runs(
    no          INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    workflow    TEXT NOT NULL,
    version     INTEGER NOT NULL,
    status      TEXT NOT NULL,
    digest      TEXT NOT NULL,
    parent      TEXT,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    next        INTEGER NOT NULL,
    chain       BLOB NOT NULL,
    epoch       INTEGER NOT NULL,
    owner       TEXT,
    lease_until INTEGER,
    wake_at     INTEGER,
    notified    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX runs_due ON runs(wake_at) WHERE owner IS NULL AND wake_at IS NOT NULL;
CREATE INDEX runs_held ON runs(lease_until, owner) WHERE owner IS NOT NULL;

CREATE TABLE journal(
    seq      INTEGER PRIMARY KEY,
    run_no   INTEGER NOT NULL,
    position INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    epoch    INTEGER NOT NULL,
    events   TEXT NOT NULL,
    chain    BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX journal_place ON journal(run_no, position);

CREATE TABLE ledger(
    seq          INTEGER PRIMARY KEY,
    key          TEXT NOT NULL UNIQUE,
    run_no       INTEGER NOT NULL,
    position     INTEGER NOT NULL,
    command      TEXT NOT NULL,
    invocation   TEXT NOT NULL,
    tool         TEXT NOT NULL,
    digest       TEXT NOT NULL,
    business_key TEXT,
    status       TEXT NOT NULL,
    result       TEXT,
    error        TEXT,
    committed    INTEGER NOT NULL,
    epoch        INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    finished_at  INTEGER
) STRICT;
CREATE UNIQUE INDEX ledger_business ON ledger(business_key) WHERE business_key IS NOT NULL;

CREATE TABLE inbox(
    seq      INTEGER PRIMARY KEY,
    run_no   INTEGER NOT NULL,
    id       TEXT NOT NULL,
    topic    TEXT NOT NULL,
    payload  TEXT NOT NULL,
    at       INTEGER NOT NULL,
    consumed INTEGER,
    UNIQUE(run_no, id)
) STRICT;
CREATE INDEX inbox_unread ON inbox(run_no, seq) WHERE consumed IS NULL;

CREATE TABLE blobs(hash TEXT PRIMARY KEY, bytes BLOB NOT NULL) STRICT;

CREATE TABLE snapshots(run_no INTEGER PRIMARY KEY, position INTEGER NOT NULL, state TEXT NOT NULL) STRICT;

CREATE VIEW history(run, position, at, kind, event) AS
SELECT runs.id,
       journal.position + entry.key,
       strftime('%Y-%m-%dT%H:%M:%S', journal.at / 1000000, 'unixepoch') || printf('.%06dZ', journal.at % 1000000),
       field.key,
       field.value
FROM journal
JOIN runs ON runs.no = journal.run_no
JOIN json_each(journal.events) AS entry
JOIN json_each(entry.value) AS field;
";

/// Outcomes that are durable before they are in the journal.
const EFFECTS: &str = "
CREATE TABLE aether_effects(
    seq    INTEGER PRIMARY KEY,
    key    TEXT NOT NULL UNIQUE,
    run_no INTEGER NOT NULL,
    count  INTEGER NOT NULL,
    events TEXT NOT NULL,
    status TEXT
) STRICT;
CREATE INDEX aether_effects_run ON aether_effects(run_no, seq);
";

/// How far bodies say they have come.
const PROGRESS: &str = "
CREATE TABLE aether_progress(
    run_no  INTEGER NOT NULL,
    command TEXT NOT NULL,
    value   TEXT NOT NULL,
    PRIMARY KEY(run_no, command)
) STRICT, WITHOUT ROWID;
";

/// What is kept of ledger rows with a store-wide business key when their runs are purged.
const TOMBSTONES: &str = "
CREATE TABLE aether_tombstones(
    business_key TEXT PRIMARY KEY,
    key          TEXT NOT NULL,
    run          TEXT NOT NULL,
    command      TEXT NOT NULL,
    invocation   TEXT NOT NULL,
    tool         TEXT NOT NULL,
    digest       TEXT NOT NULL,
    status       TEXT NOT NULL,
    committed    INTEGER NOT NULL,
    epoch        INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    finished_at  INTEGER
) STRICT, WITHOUT ROWID;
";

/// Leases: how often each worker has renewed, and which runs were taken from it while it was silent. A process of an
/// older build, which renews in another way, cannot work on the file from here on.
const WORKERS: &str = "
DROP INDEX runs_held;
ALTER TABLE runs DROP COLUMN lease_until;
CREATE INDEX aether_runs_held ON runs(owner) WHERE owner IS NOT NULL;
CREATE TABLE aether_workers(
    worker   TEXT PRIMARY KEY,
    renewals INTEGER NOT NULL,
    lease    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE aether_lost(
    worker TEXT NOT NULL,
    run_no INTEGER NOT NULL,
    epoch  INTEGER NOT NULL,
    PRIMARY KEY(worker, run_no, epoch)
) STRICT, WITHOUT ROWID;
CREATE INDEX aether_lost_run ON aether_lost(run_no);
";

/// How much each inbox holds, kept by triggers, and an index of the runs that nothing wakes although theirs is not
/// empty. Counting the rows of `inbox` would cost a look at each of them for every message that is sent.
const UNREAD: &str = "
ALTER TABLE runs ADD COLUMN unread INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN unread_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET
    unread = (SELECT count(*) FROM inbox WHERE run_no = runs.no AND consumed IS NULL),
    unread_bytes = (SELECT coalesce(sum(octet_length(payload)), 0) FROM inbox
                    WHERE run_no = runs.no AND consumed IS NULL)
WHERE no IN (SELECT run_no FROM inbox WHERE consumed IS NULL);
CREATE INDEX aether_runs_unread_held ON runs(owner) WHERE unread > 0;
CREATE INDEX aether_runs_unread ON runs(no) WHERE unread > 0 AND status = 'waiting' AND owner IS NULL;
CREATE TRIGGER aether_inbox_sent AFTER INSERT ON inbox WHEN new.consumed IS NULL BEGIN
    UPDATE runs SET unread = unread + 1, unread_bytes = unread_bytes + octet_length(new.payload)
    WHERE no = new.run_no;
END;
CREATE TRIGGER aether_inbox_consumed AFTER UPDATE OF consumed ON inbox
WHEN old.consumed IS NULL AND new.consumed IS NOT NULL BEGIN
    UPDATE runs SET unread = unread - 1, unread_bytes = unread_bytes - octet_length(new.payload)
    WHERE no = new.run_no;
END;
";

/// Schedules, with what a worker looks for beside the whole record.
const SCHEDULES: &str = "
CREATE TABLE aether_schedules(
    name     TEXT PRIMARY KEY,
    workflow TEXT NOT NULL,
    revision INTEGER NOT NULL,
    due_at   INTEGER,
    record   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX aether_schedules_due ON aether_schedules(due_at) WHERE due_at IS NOT NULL;
";

/// The newest version this build can read.
pub(crate) const SUPPORTED: u32 = MIGRATIONS.len() as u32;

/// Brings the file to [`SUPPORTED`], holding the write lock while it looks and works.
pub(crate) fn migrate(conn: &Connection, store: &str) -> Result<(), OpError> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let done = apply(conn, store).and_then(|()| Ok(conn.execute_batch("COMMIT")?));
    if done.is_err() && !conn.is_autocommit() {
        let _the_first_error_counts = conn.execute_batch("ROLLBACK");
    }
    done
}

fn apply(conn: &Connection, store: &str) -> Result<(), OpError> {
    let found = version(conn, store)?;
    let rest = MIGRATIONS.iter().skip(found as usize).collect::<Vec<_>>();
    if rest.is_empty() {
        return Ok(());
    }
    for migration in rest {
        conn.execute_batch(migration)?;
    }
    conn.pragma_update(None, "application_id", APPLICATION)?;
    conn.pragma_update(None, "user_version", SUPPORTED)?;
    Ok(())
}

/// The file's version; refuses what this build must not touch.
pub(crate) fn version(conn: &Connection, store: &str) -> Result<u32, OpError> {
    let application: i64 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let found: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != APPLICATION && (tables > 0 || application != 0 || found != 0) {
        let reason = "the file is a database of another program: give Aether a file of its own".into();
        return Err(OpError::Refused(StoreError::Open { store: store.into(), reason }));
    }
    if found > SUPPORTED {
        let newer = StoreError::NewerSchema { store: store.into(), found, supported: SUPPORTED };
        return Err(OpError::Refused(newer));
    }
    Ok(found)
}

/// Names of the store's own tables and views, in lower case.
pub(crate) fn own_names() -> rusqlite::Result<HashSet<String>> {
    let conn = Connection::open_in_memory()?;
    MIGRATIONS.iter().try_for_each(|migration| conn.execute_batch(migration))?;
    let mut names = conn.prepare("SELECT lower(name) FROM sqlite_schema WHERE type IN ('table', 'view')")?;
    names.query_map([], |row| row.get(0))?.collect()
}
