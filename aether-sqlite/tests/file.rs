//! What is particular to a file: reopening, sharing it between stores, refusing it, and running out of room.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken promise panics with what it saw")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::id::{CodeId, CommandId, IdempotencyKey, InvocationId, WorkerId};
use aether_core::journal::event::{NodeFinished, StepCommitted};
use aether_core::journal::{Frame, JournalError, read_verified};
use aether_core::payload::{Digest, Payload};
use aether_core::store::ledger::{Acquire, Acquired, LedgerEntry, LedgerStatus};
use aether_core::store::{
    Append, AppendError, ClaimRequest, Message, NewRun, Receipt, RunFilter, SilentWorker, StatusChange,
    Store, StoreError,
};
use aether_sqlite::{SqliteOptions, SqliteStore};
use futures_util::future::join_all;
use rusqlite::Connection;
use tempfile::TempDir;

use kit::{append, at, claim, frame, id, new_run, queue};

mod kit;

fn event(name: &str, epoch: u64, expected: u64) -> Append {
    append(name, epoch, expected, frame("event"))
}

async fn put(store: &SqliteStore, name: &str, epoch: u64, expected: u64) -> Result<Receipt, AppendError> {
    queue(store, event(name, epoch, expected)).await.unwrap()
}

fn message(id: &str) -> Message {
    Message { seq: 0, id: id.into(), topic: "signal:m".into(), payload: Payload::null(), at: at(1) }
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    (folder, path)
}

fn refused(path: impl AsRef<Path>) -> StoreError {
    SqliteStore::open(path).expect_err("this file must be refused")
}

#[tokio::test]
async fn dropping_and_reopening_keeps_everything() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    store.create(new_run("a")).await.unwrap();
    store.send(&id("a"), message("m")).await.unwrap();
    for expected in 1..500 {
        store.append(event("a", 1, expected));
    }
    let (run, inbox) = (store.run(&id("a")).await.unwrap().unwrap(), store.inbox(&id("a"), 0).await.unwrap());
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    let events = read_verified(&store.load(&id("a"), 0).await.unwrap()).unwrap();
    let now = store.run(&id("a")).await.unwrap().unwrap();
    assert_eq!((events.len(), now.next, now.epoch, now.owner), (500, 500, 1, run.owner));
    assert_eq!(store.inbox(&id("a"), 0).await.unwrap(), inbox);
    put(&store, "a", 1, 500).await.unwrap();
    read_verified(&store.load(&id("a"), 0).await.unwrap()).unwrap();
}

#[tokio::test]
async fn times_that_mean_for_ever_are_taken() {
    let (_folder, path) = place();
    let ever = Duration::MAX;
    let options = || SqliteOptions {
        busy_timeout: ever,
        lock_patience: ever,
        linger: ever,
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open_with(&path, options()).unwrap();
    store.create(new_run("a")).await.unwrap();
    put(&store, "a", 1, 1).await.unwrap();
    // Nobody waits for this one: its batch stays open until the store is closed.
    store.append(event("a", 1, 2));
    store.close().await.unwrap();
    let store = SqliteStore::open_with(&path, options()).unwrap();
    assert_eq!(store.run(&id("a")).await.unwrap().unwrap().next, 3);
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    store.create(new_run("a")).await.unwrap();
    let before = queue(&store, event("a", 1, 1));
    store.close().await.unwrap();
    store.close().await.unwrap();
    before.await.unwrap().unwrap();
    let gone = |error: &StoreError| matches!(error, StoreError::Closed { .. });
    assert!(matches!(put(&store, "a", 1, 2).await, Err(AppendError::Store(error)) if gone(&error)));
    assert!(gone(&store.create(new_run("b")).await.unwrap_err()));
    assert!(gone(&store.run(&id("a")).await.unwrap_err()));
    assert!(!path.with_extension("db-wal").exists(), "closing folds the log into the file");
}

/// Of connections that close at the same time none is the last one, and the log would stay.
#[tokio::test]
async fn a_store_that_was_closed_or_dropped_is_one_file_however_many_readers_it_has() {
    for round in 0..200 {
        let (_folder, path) = place();
        let options = SqliteOptions { readers: 8, ..SqliteOptions::default() };
        let store = SqliteStore::open_with(&path, options).unwrap();
        store.create(new_run("a")).await.unwrap();
        // So that every reader has a connection.
        let reads = join_all((0..64).map(|_| store.load(&id("a"), 0))).await;
        assert!(reads.iter().all(Result::is_ok));
        let appended = queue(&store, event("a", 1, 1));
        match round % 2 {
            0 => store.close().await.unwrap(),
            _ => drop(store),
        }
        appended.await.unwrap().unwrap();
        assert!(!path.with_extension("db-wal").exists(), "the log is there after close number {round}");
    }
}

/// As two processes that are told to stop at the same time.
#[tokio::test]
async fn a_file_is_complete_alone_when_two_stores_have_closed_it_at_the_same_time() {
    for round in 0..100 {
        let (folder, path) = place();
        let stores = [SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap()];
        for (store, name) in stores.iter().zip(["a", "b"]) {
            store.create(new_run(name)).await.unwrap();
            put(store, name, 1, 1).await.unwrap();
            store.load(&id(name), 0).await.unwrap();
        }
        let closing = stores.map(|store| std::thread::spawn(move || drop(store)));
        closing.into_iter().for_each(|closing| closing.join().unwrap());
        let alone = folder.path().join("copy").with_extension(round.to_string());
        std::fs::copy(&path, &alone).unwrap();
        let copy = SqliteStore::open(&alone).unwrap();
        for name in ["a", "b"] {
            assert_eq!(
                copy.run(&id(name)).await.unwrap().map(|run| run.next),
                Some(2),
                "{name}, round {round}"
            );
        }
    }
}

#[tokio::test]
async fn two_stores_on_one_file_see_each_other() {
    let (_folder, path) = place();
    let (one, two) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
    one.create(new_run("a")).await.unwrap();
    for round in 0..20 {
        put(&one, "a", 1, 1 + 2 * round).await.unwrap();
        put(&two, "a", 1, 2 + 2 * round).await.unwrap();
        let stale = put(&one, "a", 1, 2 + 2 * round).await.unwrap_err();
        assert!(
            matches!(stale, AppendError::WrongPosition { found, .. } if found == 3 + 2 * round),
            "{stale}"
        );
    }
    let silent = vec![SilentWorker { id: new_run("a").owner.unwrap(), renewals: 0 }];
    assert_eq!(two.claim(ClaimRequest { silent, ..claim("w", 60) }).await.unwrap()[0].run.epoch, 2);
    let fenced = put(&one, "a", 1, 41).await.unwrap_err();
    assert_eq!(fenced, AppendError::StaleEpoch { run: id("a"), held: 1, found: 2 });
    let mut end = event("a", 2, 41);
    end.status =
        Some(StatusChange { status: Status::Failed, wake_at: None, release: true, seen: 0, notify: None });
    queue(&two, end).await.unwrap().unwrap();
    let ended = put(&one, "a", 2, 42).await.unwrap_err();
    assert_eq!(ended, AppendError::RunEnded { run: id("a"), status: Status::Failed });
    assert_eq!(read_verified(&one.load(&id("a"), 0).await.unwrap()).unwrap().len(), 42);
}

fn ask(name: &str, business: &str) -> Append {
    let command = CommandId::new("1", "pay");
    let entry = LedgerEntry {
        key: IdempotencyKey::new(&id(name), &command, 0),
        run: id(name),
        invocation: InvocationId::new(&command, 0),
        command,
        tool: "pay".into(),
        digest: Digest::of(&Payload::null()).unwrap(),
        business_key: Some(business.into()),
        status: LedgerStatus::Started,
        result: None,
        error: None,
        committed: false,
        epoch: 1,
        started_at: at(2),
        finished_at: None,
    };
    Append { acquire: Some(Acquire { entry, otherwise: frame("refused") }), ..event(name, 1, 1) }
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_race_for_runs_and_keys_share_them_out() {
    let (_folder, path) = place();
    let stores: Vec<_> = (0..4).map(|_| Arc::new(SqliteStore::open(&path).unwrap())).collect();
    for n in 0..40 {
        stores[0].create(NewRun { owner: None, ..new_run(&format!("run{n}")) }).await.unwrap();
        stores[0].create(new_run(&format!("asks{n}"))).await.unwrap();
    }
    let racers = stores.iter().cloned().enumerate().map(|(number, store)| {
        tokio::spawn(async move {
            let mut claimed = 0;
            for _ in 0..10 {
                let request = ClaimRequest { limit: 3, ..claim(&format!("w{number}"), 1) };
                claimed += store.claim(request).await.unwrap().len();
            }
            let mut granted = 0;
            for n in (number..40).step_by(4) {
                let receipt =
                    queue(&store, ask(&format!("asks{n}"), &format!("key{}", n / 8))).await.unwrap().unwrap();
                granted += usize::from(receipt.acquired == Acquired::Granted);
            }
            (claimed, granted)
        })
    });
    let mut total = (0, 0);
    for racer in racers.collect::<Vec<_>>() {
        let (claimed, granted) = racer.await.unwrap();
        total = (total.0 + claimed, total.1 + granted);
    }
    assert_eq!(total, (40, 5));
    let runs = stores[3].runs(RunFilter::new().status(Status::Pending)).await.unwrap();
    assert!(runs.iter().all(|run| run.epoch == 1));
}

#[tokio::test]
async fn history_is_plain_sql() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    store.create(new_run("a")).await.unwrap();
    let mut two = event("a", 1, 1);
    let committed = StepCommitted { command: CommandId::new("0", "x"), step: "naïve".into(), key: None };
    let finished = NodeFinished { command: CommandId::new("0", "x") };
    two.frame = Frame::encode(&[finished.into(), committed.into()]).unwrap();
    queue(&store, two).await.unwrap().unwrap();
    let conn = Connection::open(&path).unwrap();
    let rows: Vec<(String, i64, String, String, String)> = conn
        .prepare(
            "SELECT run, position, at, kind, event FROM aether_history WHERE run = 'a' ORDER BY position",
        )
        .unwrap()
        .query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let row = |position, second: &str, kind: &str, event: &str| {
        let time = format!("2023-11-14T22:13:{second}.123456Z");
        ("a".to_owned(), position, time, kind.to_owned(), event.to_owned())
    };
    assert_eq!(
        rows,
        [
            row(0, "20", "node_finished", r#"{"command":"0:created"}"#),
            row(1, "23", "node_finished", r#"{"command":"0:x"}"#),
            row(2, "23", "step_committed", r#"{"command":"0:x","step":"naïve"}"#),
        ]
    );
}

#[tokio::test]
async fn an_altered_row_is_found_and_a_damaged_one_is_an_error() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    store.create(new_run("a")).await.unwrap();
    put(&store, "a", 1, 1).await.unwrap();
    let conn = Connection::open(&path).unwrap();
    conn.execute(
        "UPDATE aether_journal SET events = replace(events, 'event', 'evil') WHERE position = 1",
        [],
    )
    .unwrap();
    let altered = read_verified(&store.load(&id("a"), 0).await.unwrap());
    assert_eq!(altered, Err(JournalError::Altered { position: 1 }));
    for damage in [
        "UPDATE aether_runs SET status = 'dancing'",
        "UPDATE aether_runs SET status = 'running', next = -5",
        "UPDATE aether_runs SET next = 2, chain = x'00'",
    ] {
        conn.execute(damage, []).unwrap();
        let error = put(&store, "a", 1, 2).await.unwrap_err();
        assert!(matches!(error, AppendError::Store(StoreError::Corrupt { .. })), "{damage}: {error}");
    }
    conn.execute("UPDATE aether_journal SET chain = x'00' WHERE position = 1", []).unwrap();
    assert!(matches!(store.load(&id("a"), 0).await, Err(StoreError::Corrupt { .. })));
    conn.execute("UPDATE aether_runs SET id = ''", []).unwrap();
    assert_eq!(store.runs(RunFilter::default()).await.unwrap(), [], "it hides no other one");
    assert_eq!(store.damaged_runs(RunFilter::default()).await.unwrap().len(), 1);
    store.create(new_run("b")).await.expect("damage to one run is not damage to another");
}

#[tokio::test]
async fn a_newer_schema_is_refused_untouched() {
    let (_folder, path) = place();
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().execute("UPDATE aether_schema SET version = 99", []).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = refused(&path);
    assert!(matches!(error, StoreError::NewerSchema { found: 99, supported: 15, .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_untouched() {
    let (_folder, path) = place();
    let letter = "this is a letter to my grandmother, ".repeat(100);
    std::fs::write(&path, &letter).unwrap();
    let error = refused(&path);
    assert!(
        matches!(&error, StoreError::Corrupt { reason, .. } if reason.contains("give the engine another path")),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), letter);
}

#[tokio::test]
async fn tables_of_others_in_the_engines_names_are_refused_untouched() {
    for table in ["aether_notes", "Aether_Schema", "aether_runs"] {
        let (_folder, path) = place();
        Connection::open(&path).unwrap().execute_batch(&format!("CREATE TABLE {table}(text)")).unwrap();
        let before = std::fs::read(&path).unwrap();
        let error = refused(&path);
        assert!(
            matches!(&error, StoreError::Open { reason, .. } if reason.contains(table) && reason.contains("rename it")),
            "{error}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    let (_folder, path) = place();
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().execute_batch("CREATE VIEW aether_mine AS SELECT 1").unwrap();
    assert!(matches!(refused(&path), StoreError::Open { reason, .. } if reason.contains("`aether_mine`")));
}

#[test]
fn many_that_open_a_new_file_at_once_all_can() {
    for _ in 0..10 {
        let (_folder, path) = place();
        std::thread::scope(|scope| {
            let opened =
                (0..8).map(|_| scope.spawn(|| SqliteStore::open(&path).map(drop))).collect::<Vec<_>>();
            opened.into_iter().for_each(|opened| opened.join().unwrap().unwrap());
        });
    }
}

#[tokio::test]
async fn a_database_of_the_users_is_accepted_as_it_is() {
    const NAMES: [&str; 7] = ["runs", "journal", "ledger", "inbox", "blobs", "snapshots", "history"];
    for vacuum in ["NONE", "FULL", "INCREMENTAL"] {
        let (_folder, path) = place();
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(&format!("PRAGMA page_size = 8192; PRAGMA auto_vacuum = {vacuum}")).unwrap();
        for name in NAMES {
            conn.execute_batch(&format!("CREATE TABLE {name}(text); INSERT INTO {name} VALUES('mine')"))
                .unwrap();
        }
        conn.execute_batch("PRAGMA application_id = 77; PRAGMA user_version = 1234").unwrap();
        drop(conn);
        for round in 0..2 {
            let store = SqliteStore::open(&path).unwrap();
            store.create(new_run(&format!("run{round}"))).await.unwrap();
            assert_eq!(store.runs(RunFilter::default()).await.unwrap().len(), round + 1);
        }
        let conn = Connection::open(&path).unwrap();
        for name in NAMES {
            let kept = conn.query_row(&format!("SELECT text FROM {name}"), [], |row| row.get::<_, String>(0));
            assert_eq!(kept.unwrap(), "mine");
        }
        let number = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!((number("application_id"), number("user_version"), number("page_size")), (77, 1234, 8192));
    }
}

#[tokio::test]
async fn a_place_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no").join("such").join("agent.db");
    let error = refused(&missing).to_string();
    assert!(error.contains("create it first") && error.contains(&missing.display().to_string()), "{error}");
    let error = refused(folder.path()).to_string();
    assert!(error.contains("is a directory"), "{error}");
    let error = refused(":memory:").to_string();
    assert!(error.contains("cannot be WAL"), "{error}");
}

#[tokio::test]
async fn a_read_only_file_is_refused() {
    let (_folder, path) = place();
    drop(SqliteStore::open(&path).unwrap());
    let uri = format!("file:{}?mode=ro", path.display());
    assert!(matches!(refused(&uri), StoreError::ReadOnly { .. }));
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    if std::fs::OpenOptions::new().append(true).open(&path).is_err() {
        assert!(matches!(refused(&path), StoreError::ReadOnly { .. }));
    }
}

/// How SQLite finds the rows of a query.
fn plan(conn: &Connection, sql: &str) -> String {
    let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let rows = plan.query_map([], |row| row.get::<_, String>(3)).unwrap();
    rows.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
}

#[test]
fn what_an_engine_asks_again_and_again_reads_no_whole_table() {
    let (_folder, path) = place();
    drop(SqliteStore::open(&path).unwrap());
    let conn = Connection::open(&path).unwrap();
    for (sql, expected) in [
        (
            "SELECT id, (SELECT max(seq) FROM aether_inbox WHERE run_no = aether_runs.no AND consumed IS NULL)
             FROM aether_runs INDEXED BY aether_runs_unread WHERE unread > 0 AND status = 'waiting' AND owner IS NULL",
            "SCAN aether_runs USING INDEX aether_runs_unread; CORRELATED SCALAR SUBQUERY 1; \
             SEARCH aether_inbox USING INDEX aether_inbox_unread (run_no=?)",
        ),
        (
            "SELECT * FROM aether_inbox WHERE run_no = 1 AND seq > 7 AND consumed IS NULL ORDER BY seq",
            "SEARCH aether_inbox USING INDEX aether_inbox_unread (run_no=? AND seq>?)",
        ),
        (
            "SELECT unread, unread_bytes FROM aether_runs WHERE id = 'a'",
            "SEARCH aether_runs USING INDEX sqlite_autoindex_aether_runs_1 (id=?)",
        ),
        (
            "SELECT min(wake_at) FROM aether_runs
             WHERE owner IS NULL AND wake_at IS NOT NULL AND parked = 0 AND queue IS NULL",
            "SEARCH aether_runs USING INDEX aether_runs_due (wake_at>?)",
        ),
        (
            "SELECT no FROM aether_runs INDEXED BY aether_runs_ready
             WHERE queue = 'q' AND queue_key = 'k' AND begun = 0 AND code = 'c' AND ready IS NOT NULL
             ORDER BY rank, no LIMIT 1",
            "SEARCH aether_runs USING INDEX aether_runs_ready (queue=? AND queue_key=? AND begun=? AND code=?)",
        ),
        (
            "SELECT time, key FROM aether_lanes INDEXED BY aether_lanes_active
             WHERE queue = 'q' AND state = 0 AND (time, key) > (1, 'k') ORDER BY time, key LIMIT 1",
            "SEARCH aether_lanes USING COVERING INDEX aether_lanes_active (queue=? AND (time,key)>(?,?))",
        ),
        (
            "SELECT 1 FROM aether_runs INDEXED BY aether_runs_slots
             WHERE slot = 1 AND owner IS NOT NULL AND queue = 'q' AND queue_key > 'k/' AND queue_key < 'k0'",
            "SEARCH aether_runs USING INDEX aether_runs_slots (queue=? AND queue_key>? AND queue_key<?)",
        ),
        (
            "SELECT no, wake_at FROM aether_runs
             WHERE owner IS NULL AND wake_at IS NOT NULL AND wake_at <= 7 AND parked = 0 AND queue IS NULL
                 AND code IN (SELECT value FROM json_each('[]')) ORDER BY wake_at, no LIMIT 9",
            "SEARCH aether_runs USING INDEX aether_runs_due (wake_at>? AND wake_at<?); LIST SUBQUERY 1; \
             SCAN json_each VIRTUAL TABLE INDEX 1:; CREATE BLOOM FILTER",
        ),
    ] {
        assert_eq!(plan(&conn, sql), expected);
    }
}

/// They are due from the moment on at which they are found, whatever their worker's clock said: a clock that was set back
/// holds none of them up, and workers of their own code have a lease for them.
#[tokio::test]
async fn the_runs_of_a_dead_worker_are_due_when_it_is_found_dead() {
    for seconds in [1, 1_000_000] {
        let (_folder, path) = place();
        let (alive, dead) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
        let gone = WorkerId::from("gone".to_owned());
        dead.register(&gone, std::time::Duration::from_secs(60), Vec::new()).await.unwrap();
        dead.create(NewRun { at: at(seconds), owner: Some(gone), ..new_run("a") }).await.unwrap();
        assert_eq!(alive.claim(claim("w", 500)).await.unwrap(), []);
        drop(dead);
        let another = ClaimRequest {
            codes: vec![CodeId::of("shop", "another", 1, "0011223344556677")],
            ..claim("w", 500)
        };
        assert_eq!(alive.claim(another).await.unwrap(), []);
        let found = alive.run(&id("a")).await.unwrap().unwrap();
        assert_eq!((found.owner, found.wake_at), (None, Some(at(500))));
        assert_eq!(alive.claim(claim("w", 500)).await.unwrap().len(), 1);
    }
}

/// The workers of a process that ended without a word can advance nothing, and no later worker is told that they can.
#[tokio::test]
async fn the_codes_of_a_dead_worker_do_not_count() {
    let (_folder, path) = place();
    let code = |name: &str| CodeId::of("shop", name, 1, "0011223344556677");
    let (alive, dead) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
    let [me, gone, late] = ["me", "gone", "late"].map(|name| WorkerId::from(name.to_owned()));
    alive.register(&me, std::time::Duration::from_secs(60), vec![code("mine")]).await.unwrap();
    dead.register(&gone, std::time::Duration::from_secs(60), vec![code("theirs")]).await.unwrap();
    assert_eq!(alive.codes_elsewhere(&me).await.unwrap(), [code("theirs")]);
    drop(dead);
    assert_eq!(alive.codes_elsewhere(&me).await.unwrap(), []);
    let third = SqliteStore::open(&path).unwrap();
    third.register(&late, std::time::Duration::from_secs(60), vec![code("new")]).await.unwrap();
    assert_eq!(third.codes_elsewhere(&late).await.unwrap(), [code("mine")]);
    let rows = "SELECT count(*) FROM aether_worker_codes WHERE worker = 'gone'";
    let left: i64 = Connection::open(&path).unwrap().query_row(rows, [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0, "a worker that registers retires the dead");
    assert!(!path.with_file_name("agent.db-workers").join("gone").exists());
}

/// As two releases of a program may come to one file, each by a link in a folder of its own.
#[cfg(unix)]
#[tokio::test]
async fn processes_that_come_by_different_links_see_each_others_workers() {
    let (folder, path) = place();
    let link = |release: &str| {
        let link = folder.path().join(release).join("agent.db");
        std::fs::create_dir(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("../agent.db", &link).unwrap();
        link
    };
    let old = SqliteStore::open(link("41")).unwrap();
    let new = SqliteStore::open(link("42")).unwrap();
    let [first, second] = ["first", "second"].map(|name| WorkerId::from(name.to_owned()));
    let minute = std::time::Duration::from_secs(60);
    assert!(old.register(&first, minute, vec![]).await.unwrap());
    assert!(new.register(&second, minute, vec![]).await.unwrap());
    for name in ["a", "b"] {
        old.create(new_run(name)).await.unwrap();
    }
    let renewals = new.workers().await.unwrap()[0].renewals;
    let silent = vec![SilentWorker { id: first.clone(), renewals }];
    let taken = ClaimRequest { silent, only: Some(id("a")), ..claim("second", 1) };
    assert_eq!(new.claim(taken).await.unwrap().len(), 1);
    assert_eq!(new.unaware_owners(&id("a")).await.unwrap(), [first], "its process is there");
    assert_eq!(new.claim(claim("second", 1)).await.unwrap(), [], "and keeps what it has");
    drop(old);
    assert_eq!(new.unaware_owners(&id("a")).await.unwrap(), []);
    assert_eq!(
        new.claim(claim("second", 1)).await.unwrap().len(),
        1,
        "the lock says at once that it is gone"
    );
    for release in ["41", "42"] {
        let beside = std::fs::read_dir(folder.path().join(release)).unwrap().count();
        assert_eq!(beside, 1, "everything lies beside the file: {path:?}");
    }
}

/// The size of the file, and of its log, behind so many MB of events.
async fn grown(checkpoint_pages: u32) -> (u64, u64) {
    let (_folder, path) = place();
    let options = SqliteOptions { checkpoint_pages, ..SqliteOptions::default() };
    let store = SqliteStore::open_with(&path, options).unwrap();
    store.create(new_run("a")).await.unwrap();
    let large = Frame { text: format!("[\"{}\"]", "x".repeat(10_000)), count: 1 };
    for expected in 1..1_000 {
        queue(&store, append("a", 1, expected, large.clone())).await.unwrap().unwrap();
    }
    let size = |path: &Path| std::fs::metadata(path).unwrap().len() >> 20;
    (size(&path), size(&path.with_extension("db-wal")))
}

#[tokio::test]
async fn the_log_is_copied_into_the_file_and_begun_anew() {
    let (file, log) = grown(256).await;
    assert!(file > 7 && log < 8, "the file has {file} MiB, its log {log}");
    let (file, log) = grown(0).await;
    assert!(file < 2 && log > 9, "somebody else copies: the file has {file} MiB, its log {log}");
}
