//! The engine's tables, and how older files become today's.
//!
//! Promise: every table, view, index and trigger of the engine has a name in `aether_`, the rest of the file is the
//! user's, and so are its `user_version` and `application_id`. A released migration is never edited, only followed by
//! another one; all of them run in one transaction. A file that a newer build wrote is refused untouched, and so is one
//! that has a table of somebody else's in `aether_`.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension as _};

use aether_core::store::StoreError;

use crate::base::TABLES;
use crate::error::OpError;

mod users;

/// Marked a file as ours up to version 6: `AETH`.
const APPLICATION: i64 = 0x4145_5448;

/// What leads from version `n` to version `n + 1`.
const MIGRATIONS: &[&[&str]] = &[
    &[FIRST],
    &[EFFECTS],
    &[PROGRESS],
    &[TOMBSTONES],
    &[WORKERS],
    &[UNREAD],
    &[NAMES, PARTS],
    &[WAITS],
    &[SCHEDULES],
    &[CODE],
    &[RESERVATIONS],
    &[QUEUES],
    &[SERVES],
    &[STREAMS],
    &[BLOB_OWNERS],
];

/// What a new file begins with, in place of the first seven: a table of the user's may have a name that the engine's
/// tables had in between.
const BASE: &[&str] = &[TABLES, EFFECTS, PROGRESS, TOMBSTONES, PARTS];
const BASE_VERSION: usize = 7;

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

/// All names in `aether_`, labels, and indexes for lists. The tables are renamed while the old view is there, so that
/// views of the user's follow; the old view goes last. The file's numbers become the user's.
const NAMES: &str = "
DROP TRIGGER aether_inbox_sent;
DROP TRIGGER aether_inbox_consumed;
DROP INDEX runs_due;
DROP INDEX journal_place;
DROP INDEX ledger_business;
DROP INDEX inbox_unread;
ALTER TABLE runs RENAME TO aether_runs;
ALTER TABLE journal RENAME TO aether_journal;
ALTER TABLE ledger RENAME TO aether_ledger;
ALTER TABLE inbox RENAME TO aether_inbox;
ALTER TABLE blobs RENAME TO aether_blobs;
ALTER TABLE snapshots RENAME TO aether_snapshots;
ALTER TABLE aether_runs ADD COLUMN labels TEXT;
DROP VIEW history;
PRAGMA application_id = 0;
PRAGMA user_version = 0;
";

/// What a file of version 7 has besides the tables that were there before: also in [`BASE`].
const PARTS: &str = "
CREATE INDEX aether_runs_due ON aether_runs(wake_at) WHERE owner IS NULL AND wake_at IS NOT NULL;
CREATE INDEX aether_runs_status ON aether_runs(status);
CREATE INDEX aether_runs_workflow ON aether_runs(workflow);
CREATE INDEX aether_runs_workflow_status ON aether_runs(workflow, status);
CREATE INDEX aether_runs_created ON aether_runs(created_at);
CREATE INDEX aether_runs_parent ON aether_runs(parent) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX aether_journal_place ON aether_journal(run_no, position);
CREATE UNIQUE INDEX aether_ledger_business ON aether_ledger(business_key) WHERE business_key IS NOT NULL;
CREATE INDEX aether_inbox_unread ON aether_inbox(run_no, seq) WHERE consumed IS NULL;
CREATE TRIGGER aether_inbox_sent AFTER INSERT ON aether_inbox WHEN new.consumed IS NULL BEGIN
    UPDATE aether_runs SET unread = unread + 1, unread_bytes = unread_bytes + octet_length(new.payload)
    WHERE no = new.run_no;
END;
CREATE TRIGGER aether_inbox_consumed AFTER UPDATE OF consumed ON aether_inbox
WHEN old.consumed IS NULL AND new.consumed IS NOT NULL BEGIN
    UPDATE aether_runs SET unread = unread - 1, unread_bytes = unread_bytes - octet_length(new.payload)
    WHERE no = new.run_no;
END;
CREATE TABLE aether_labels(
    key    TEXT NOT NULL,
    value  TEXT NOT NULL,
    run_no INTEGER NOT NULL,
    PRIMARY KEY(key, value, run_no)
) STRICT, WITHOUT ROWID;
CREATE INDEX aether_labels_run ON aether_labels(run_no);
CREATE TABLE aether_schema(only INTEGER PRIMARY KEY CHECK(only = 1), version INTEGER NOT NULL) STRICT;
CREATE VIEW aether_history(run, position, at, kind, event) AS
SELECT runs.id,
       journal.position + entry.key,
       strftime('%Y-%m-%dT%H:%M:%S', journal.at / 1000000, 'unixepoch') || printf('.%06dZ', journal.at % 1000000),
       field.key,
       field.value
FROM aether_journal AS journal
JOIN aether_runs AS runs ON runs.no = journal.run_no
JOIN json_each(journal.events) AS entry
JOIN json_each(entry.value) AS field;
";

/// Open waits. A wait keeps its number until it is closed, so that pages follow each other, and no number is used again:
/// the last one is in `aether_counters`, which, unlike SQLite's own `sqlite_sequence`, the user's SQL cannot change.
/// `aether_unlisted` has the runs that were open when the table was made.
const WAITS: &str = "
CREATE TABLE aether_counters(name TEXT PRIMARY KEY, last INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO aether_counters VALUES('waits', 0);
CREATE TABLE aether_waits(
    seq     INTEGER PRIMARY KEY,
    run_no  INTEGER NOT NULL,
    command TEXT NOT NULL,
    kind    TEXT NOT NULL,
    name    TEXT NOT NULL,
    since   INTEGER NOT NULL,
    until   INTEGER,
    site    TEXT,
    detail  TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX aether_waits_of ON aether_waits(run_no, command);
CREATE TRIGGER aether_waits_numbered AFTER INSERT ON aether_waits BEGIN
    UPDATE aether_counters SET last = new.seq WHERE name = 'waits';
END;
CREATE TABLE aether_unlisted(run_no INTEGER PRIMARY KEY) STRICT;
INSERT INTO aether_unlisted
SELECT no FROM aether_runs WHERE status NOT IN ('completed', 'failed', 'rejected', 'cancelled');
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

/// Which code records a run, whether it is parked, and what the workers can advance. Which code recorded the rows of
/// older builds is not known. The index of due runs leaves parked ones out, so that they hide none of the others.
const CODE: &str = "
ALTER TABLE aether_runs ADD COLUMN code TEXT NOT NULL DEFAULT '';
ALTER TABLE aether_runs ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;
DROP INDEX aether_runs_due;
CREATE INDEX aether_runs_due ON aether_runs(wake_at)
WHERE owner IS NULL AND wake_at IS NOT NULL AND parked = 0;
CREATE INDEX aether_runs_code ON aether_runs(code, wake_at, owner)
WHERE status NOT IN ('completed', 'failed', 'rejected', 'cancelled');
CREATE INDEX aether_runs_parked ON aether_runs(wake_at) WHERE parked = 1;
CREATE TABLE aether_worker_codes(
    worker TEXT NOT NULL,
    code   TEXT NOT NULL,
    PRIMARY KEY(worker, code)
) STRICT, WITHOUT ROWID;
CREATE TABLE aether_definitions(
    code       TEXT PRIMARY KEY,
    workflow   TEXT NOT NULL,
    version    INTEGER NOT NULL,
    definition TEXT NOT NULL,
    first_seen INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Store-wide business keys are reserved, each in a row of its own, before the ledger row that holds it is written; what
/// was left of rows whose runs were purged stands there too. The index of the ledger holds the other business keys only.
const RESERVATIONS: &str = "
ALTER TABLE aether_runs ADD COLUMN traceparent TEXT;
CREATE TABLE aether_reservations(
    business_key TEXT PRIMARY KEY,
    run          TEXT NOT NULL,
    key          TEXT NOT NULL,
    epoch        INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    sealed_key   TEXT,
    command      TEXT,
    invocation   TEXT,
    tool         TEXT,
    digest       TEXT,
    status       TEXT,
    committed    INTEGER,
    row_epoch    INTEGER,
    started_at   INTEGER,
    finished_at  INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO aether_reservations(business_key, run, key, epoch, at)
SELECT ledger.business_key, runs.id, ledger.key, ledger.epoch, ledger.started_at
FROM aether_ledger AS ledger JOIN aether_runs AS runs ON runs.no = ledger.run_no
WHERE substr(ledger.business_key, 1, 6) = 'store' || char(9);
INSERT OR IGNORE INTO aether_reservations(business_key, run, key, epoch, at, sealed_key, command, invocation, tool,
    digest, status, committed, row_epoch, started_at, finished_at)
SELECT business_key, run, substr(key, length('purged:') + 1), epoch, started_at, key, command, invocation, tool,
    digest, status, committed, epoch, started_at, finished_at
FROM aether_tombstones;
DROP TABLE aether_tombstones;
DROP INDEX aether_ledger_business;
CREATE UNIQUE INDEX aether_ledger_business ON aether_ledger(business_key)
WHERE business_key IS NOT NULL AND substr(business_key, 1, 6) <> 'store' || char(9);
";

/// Tables of former versions.
const FORMER: [&str; 1] = ["aether_tombstones"];

/// Queues. A ready run waits for a turn of its queue; a slot is a run of a queue with an owner. The index of due runs leaves
/// runs of queues out, so that a long queue hides none of the others.
const QUEUES: &str = "
ALTER TABLE aether_runs ADD COLUMN terms TEXT;
ALTER TABLE aether_runs ADD COLUMN queue TEXT;
ALTER TABLE aether_runs ADD COLUMN queue_key TEXT;
ALTER TABLE aether_runs ADD COLUMN rank INTEGER;
ALTER TABLE aether_runs ADD COLUMN begun INTEGER NOT NULL DEFAULT 0;
ALTER TABLE aether_runs ADD COLUMN first_taken_at INTEGER;
ALTER TABLE aether_runs ADD COLUMN ready INTEGER;
ALTER TABLE aether_runs ADD COLUMN lapses_at INTEGER;
ALTER TABLE aether_runs ADD COLUMN slot INTEGER NOT NULL DEFAULT 0;
DROP INDEX aether_runs_due;
CREATE INDEX aether_runs_due ON aether_runs(wake_at)
WHERE owner IS NULL AND wake_at IS NOT NULL AND parked = 0 AND queue IS NULL;
CREATE INDEX aether_runs_queue_due ON aether_runs(wake_at)
WHERE queue IS NOT NULL AND owner IS NULL AND wake_at IS NOT NULL AND parked = 0 AND ready IS NULL;
CREATE INDEX aether_runs_lapses ON aether_runs(lapses_at)
WHERE lapses_at IS NOT NULL AND owner IS NULL AND parked = 0;
CREATE INDEX aether_runs_ready ON aether_runs(queue, queue_key, begun, code, rank) WHERE ready IS NOT NULL;
CREATE INDEX aether_runs_slots ON aether_runs(queue, queue_key) WHERE slot = 1 AND owner IS NOT NULL;
CREATE INDEX aether_runs_queue_open ON aether_runs(queue, queue_key)
WHERE queue IS NOT NULL AND status NOT IN ('completed', 'failed', 'rejected', 'cancelled');
CREATE INDEX aether_runs_queue_status ON aether_runs(queue, status) WHERE queue IS NOT NULL;
CREATE TABLE aether_lanes(
    queue TEXT NOT NULL,
    key   TEXT NOT NULL,
    time  INTEGER NOT NULL,
    state INTEGER NOT NULL,
    begun INTEGER NOT NULL,
    until INTEGER,
    PRIMARY KEY(queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX aether_lanes_active ON aether_lanes(queue, time, key) WHERE state = 0;
CREATE INDEX aether_lanes_begun ON aether_lanes(queue, time, key) WHERE state = 0 AND begun = 1;
CREATE INDEX aether_lanes_idle ON aether_lanes(queue, time) WHERE state = 1;
CREATE INDEX aether_lanes_aside ON aether_lanes(until) WHERE state = 2;
CREATE TABLE aether_queues(queue TEXT PRIMARY KEY, time INTEGER NOT NULL, served INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX aether_queues_served ON aether_queues(served);
CREATE TABLE aether_limits(
    pattern TEXT NOT NULL,
    kind    TEXT NOT NULL,
    n       INTEGER NOT NULL,
    per     INTEGER,
    PRIMARY KEY(pattern, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE aether_starts(
    counter TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY(counter, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX aether_starts_at ON aether_starts(at);
CREATE TABLE aether_keyed_starts(
    name     TEXT PRIMARY KEY,
    workflow TEXT NOT NULL,
    due_at   INTEGER NOT NULL,
    record   TEXT NOT NULL,
    revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX aether_keyed_starts_due ON aether_keyed_starts(due_at);
";

/// Which runs a worker takes, as JSON; all of them without.
const SERVES: &str = "ALTER TABLE aether_workers ADD COLUMN serves TEXT";

/// What bodies sent to streams.
const STREAMS: &str = "
CREATE TABLE aether_streams(
    run_no  INTEGER NOT NULL,
    stream  TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    since   INTEGER NOT NULL,
    kind    INTEGER NOT NULL,
    command TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    epoch   INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    part    INTEGER NOT NULL,
    data    TEXT NOT NULL,
    PRIMARY KEY(run_no, stream, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX aether_streams_open ON aether_streams(run_no, command, stream, seq) WHERE kind IN (0, 2);
";

/// Which runs stored the bytes in `aether_blobs`, so that those go with the last of them. Whose the bytes of older builds
/// are is not known: they belong to no run, and stay.
const BLOB_OWNERS: &str = "
CREATE TABLE aether_blob_owners(
    run  TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY(run, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX aether_blob_owners_of ON aether_blob_owners(hash);
INSERT INTO aether_blob_owners(run, hash) SELECT '', hash FROM aether_blobs;
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
    if found == SUPPORTED {
        return Ok(());
    }
    for sql in missing(found as usize) {
        conn.execute_batch(sql).map_err(|error| users::explained(error, conn, store))?;
    }
    if (1..BASE_VERSION).contains(&(found as usize)) {
        users::warn_of_orphans(conn, store)?;
    }
    conn.execute(
        "INSERT INTO aether_schema(only, version) VALUES(1, ?1)
         ON CONFLICT(only) DO UPDATE SET version = excluded.version",
        [SUPPORTED],
    )?;
    Ok(())
}

/// What brings a file of version `found` to [`SUPPORTED`]; a file of version 0 has none of our tables.
fn missing(found: usize) -> impl Iterator<Item = &'static str> {
    let (base, done) = if found == 0 { (BASE, BASE_VERSION) } else { (&[] as &[&str], found) };
    base.iter().chain(MIGRATIONS.iter().skip(done).copied().flatten()).copied()
}

/// As [`version`], without the write lock: what it reads is one state of the file, and not half of what another process
/// is about to commit.
pub(crate) fn look(conn: &Connection, store: &str) -> Result<u32, OpError> {
    let _snapshot = conn.unchecked_transaction()?;
    version(conn, store)
}

/// Names of the tables of runs and of journals in a file of this version.
pub(crate) fn main_tables(version: u32) -> (&'static str, &'static str) {
    if (version as usize) < BASE_VERSION { ("runs", "journal") } else { ("aether_runs", "aether_journal") }
}

/// The file's version, 0 where the engine has no tables in it; refuses what this build must not touch. To be called in a
/// transaction.
fn version(conn: &Connection, store: &str) -> Result<u32, OpError> {
    let found = recorded(conn, store)?;
    if found > SUPPORTED {
        let newer = StoreError::NewerSchema { store: store.into(), found, supported: SUPPORTED };
        return Err(OpError::Refused(newer));
    }
    let own = if found == 0 { HashSet::new() } else { own_names()? };
    if let Some(name) =
        reserved_names(conn)?.into_iter().find(|name| !own.contains(&name.to_ascii_lowercase()))
    {
        return Err(stranger(store, &name));
    }
    Ok(found)
}

fn recorded(conn: &Connection, store: &str) -> Result<u32, OpError> {
    let table = "SELECT name FROM sqlite_schema WHERE name = 'aether_schema' COLLATE NOCASE";
    if let Some(table) = conn.query_row(table, [], |row| row.get::<_, String>(0)).optional()? {
        return recorded_in(&table, conn, store);
    }
    let application: i64 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if application != APPLICATION {
        return Ok(0);
    }
    Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

fn recorded_in(table: &str, conn: &Connection, store: &str) -> Result<u32, OpError> {
    let columns = "SELECT count(*) FROM pragma_table_info('aether_schema') WHERE name IN ('only', 'version')";
    if conn.query_row(columns, [], |row| row.get::<_, u32>(0))? != 2 {
        return Err(stranger(store, table));
    }
    let version =
        conn.query_row("SELECT version FROM aether_schema", [], |row| row.get::<_, u32>(0)).optional()?;
    let lost = || {
        OpError::Row("the table `aether_schema` does not say which version the other tables are of".into())
    };
    version.filter(|version| *version > 0).ok_or_else(lost)
}

/// A table in `aether_` that no build of ours has made.
fn stranger(store: &str, name: &str) -> OpError {
    let reason = format!(
        "the file has a table or view `{name}` that is not the engine's, and names that begin with `{RESERVED}` are kept \
         for the engine: rename it, or give the engine a file of its own"
    );
    OpError::Refused(StoreError::Open { store: store.into(), reason })
}

/// Beginning of the names of the engine's tables, of today's and of later versions'.
pub(crate) const RESERVED: &str = "aether_";

/// Whether a name is kept for the engine.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.get(..RESERVED.len()).is_some_and(|head| head.eq_ignore_ascii_case(RESERVED))
}

/// The tables and views of the file whose names are kept for the engine.
pub(crate) fn reserved_names(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut names = conn.prepare("SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view')")?;
    let names = names.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(names.into_iter().filter(|name| is_reserved(name)).collect())
}

/// Names of the engine's own tables and views, in lower case.
pub(crate) fn own_names() -> rusqlite::Result<HashSet<String>> {
    let conn = Connection::open_in_memory()?;
    missing(0).try_for_each(|sql| conn.execute_batch(sql))?;
    // Names that a former version has, and this one has not, belong in here too.
    let own = reserved_names(&conn)?.into_iter().map(|name| name.to_ascii_lowercase());
    Ok(own.chain(FORMER.map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests;
