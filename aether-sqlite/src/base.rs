//! The first tables of a new file, as seven migrations leave them in an old one.
//!
//! Promise: a test compares the two. Never edited after its release: later migrations follow in both.

/// Tables that had other names before version 7, and what hangs on them.
pub(crate) const TABLES: &str = "
CREATE TABLE aether_runs(
    no           INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    workflow     TEXT NOT NULL,
    version      INTEGER NOT NULL,
    status       TEXT NOT NULL,
    digest       TEXT NOT NULL,
    parent       TEXT,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    next         INTEGER NOT NULL,
    chain        BLOB NOT NULL,
    epoch        INTEGER NOT NULL,
    owner        TEXT,
    wake_at      INTEGER,
    notified     INTEGER NOT NULL DEFAULT 0,
    unread       INTEGER NOT NULL DEFAULT 0,
    unread_bytes INTEGER NOT NULL DEFAULT 0,
    labels       TEXT
) STRICT;

CREATE TABLE aether_journal(
    seq      INTEGER PRIMARY KEY,
    run_no   INTEGER NOT NULL,
    position INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    epoch    INTEGER NOT NULL,
    events   TEXT NOT NULL,
    chain    BLOB NOT NULL
) STRICT;

CREATE TABLE aether_ledger(
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

CREATE TABLE aether_inbox(
    seq      INTEGER PRIMARY KEY,
    run_no   INTEGER NOT NULL,
    id       TEXT NOT NULL,
    topic    TEXT NOT NULL,
    payload  TEXT NOT NULL,
    at       INTEGER NOT NULL,
    consumed INTEGER,
    UNIQUE(run_no, id)
) STRICT;

CREATE TABLE aether_blobs(hash TEXT PRIMARY KEY, bytes BLOB NOT NULL) STRICT;

CREATE TABLE aether_snapshots(run_no INTEGER PRIMARY KEY, position INTEGER NOT NULL, state TEXT NOT NULL) STRICT;

CREATE INDEX aether_runs_held ON aether_runs(owner) WHERE owner IS NOT NULL;
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
CREATE INDEX aether_runs_unread_held ON aether_runs(owner) WHERE unread > 0;
CREATE INDEX aether_runs_unread ON aether_runs(no) WHERE unread > 0 AND status = 'waiting' AND owner IS NULL;
";
