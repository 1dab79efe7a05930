//! Files of every earlier version become today's with what they hold, and a new file has the same tables.

#![allow(clippy::unwrap_used, reason = "a broken promise panics with what it saw")]

use std::collections::BTreeMap;
use std::path::Path;

use aether_core::id::{CommandId, IdempotencyKey, RunId};
use aether_core::journal::event::NodeFinished;
use aether_core::journal::{CHAIN_START, Frame, chain, read_verified};
use aether_core::store::Store as _;
use aether_core::store::ledger::STORE_WIDE;
use jiff::Timestamp;
use rusqlite::params;

use super::*;
use crate::SqliteStore;

const RELEASED: u32 = 6;

/// A file as the build of an earlier version left it.
fn old_file(path: &Path, version: u32) {
    let conn = Connection::open(path).unwrap();
    for sql in MIGRATIONS[..version as usize].iter().copied().flatten() {
        conn.execute_batch(sql).unwrap();
    }
    conn.pragma_update(None, "application_id", APPLICATION).unwrap();
    conn.pragma_update(None, "user_version", version).unwrap();
    let frame = Frame::encode(&[NodeFinished { command: CommandId::new("0", "x") }.into()]).unwrap();
    let at = Timestamp::from_microsecond(7).unwrap();
    let hash = chain(&CHAIN_START, 0, at, &frame.text);
    let digest = format!("\"{}\"", "0".repeat(64)).trim_matches('"').to_owned();
    conn.execute(
        "INSERT INTO runs(id, workflow, version, status, digest, parent, created_at, updated_at, next, chain, epoch, wake_at)
         VALUES('a', 'flow', 1, 'waiting', ?1, 'p', 7, 7, 1, ?2, 3, NULL)",
        params![digest, &hash[..]],
    )
    .unwrap();
    conn.execute(
        "INSERT INTO journal(run_no, position, count, at, epoch, events, chain) VALUES(1, 0, 1, 7, 3, ?1, ?2)",
        params![frame.text, &hash[..]],
    )
    .unwrap();
    let row =
        "INSERT INTO ledger(key, run_no, position, command, invocation, tool, digest, business_key, status,
                   committed, epoch, started_at)
               VALUES('aether:a:0:pay:0', 1, 0, '0:pay', '0:pay#0', 'pay', ?1, ?2, 'started', 0, 3, 7)";
    conn.execute(row, params![digest, format!("{STORE_WIDE}invoice")]).unwrap();
    conn.execute_batch(
        "INSERT INTO inbox(run_no, id, topic, payload, at) VALUES(1, 'm1', 'signal:x', '\"ü\"', 7), (1, 'm2', 'signal:x', '22', 7);
         UPDATE inbox SET consumed = 0 WHERE id = 'm1';
         INSERT INTO blobs VALUES('hash', x'0102');
         INSERT INTO snapshots VALUES(1, 1, '{}');
         CREATE TABLE notes(run INTEGER REFERENCES runs(no), text);
         INSERT INTO notes VALUES(1, 'mine');
         CREATE VIEW kinds AS SELECT kind FROM history;
         CREATE VIEW open_runs AS SELECT id FROM runs WHERE status = 'waiting'",
    )
    .unwrap();
    if version >= 2 {
        conn.execute_batch("INSERT INTO aether_effects(key, run_no, count, events) VALUES('k', 1, 1, '[]')")
            .unwrap();
    }
    if version >= 3 {
        conn.execute_batch("INSERT INTO aether_progress VALUES(1, '0:x', '50')").unwrap();
    }
}

fn one<T: rusqlite::types::FromSql>(conn: &Connection, sql: &str) -> T {
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_file_of_every_earlier_version_becomes_todays_and_keeps_what_it_holds() {
    for version in 1..=RELEASED {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        old_file(&path, version);
        let store = SqliteStore::open(&path).unwrap();
        let run = RunId::new("a").unwrap();
        let record = store.run(&run).await.unwrap().unwrap();
        assert_eq!(
            (record.epoch, record.next, record.workflow.as_str()),
            (3, 1, "flow"),
            "version {version}"
        );
        assert_eq!(read_verified(&store.load(&run, 0).await.unwrap()).unwrap().len(), 1);
        assert_eq!(store.inbox(&run, 0).await.unwrap().iter().map(|m| &*m.id).collect::<Vec<_>>(), ["m2"]);
        assert_eq!(store.unread(&run).await.unwrap().bytes, 2, "version {version}");
        let key = IdempotencyKey::from("aether:a:0:pay:0".to_owned());
        let found = store.reservation(&format!("{STORE_WIDE}invoice")).await.unwrap().unwrap();
        assert_eq!((found.key, found.run, found.epoch, found.sealed), (key, run.clone(), 3, None));
        assert_eq!(store.blob(&run, "hash").await.unwrap(), Some(vec![1, 2]));
        assert_eq!(store.snapshot(&run).await.unwrap().map(|snapshot| snapshot.position), Some(1));
        assert_eq!(store.effects(&run).await.unwrap().len(), usize::from(version >= 2));
        let progress = store.progress(&run, &CommandId::new("0", "x")).await.unwrap();
        assert_eq!(progress.is_some(), version >= 3);
        assert_eq!(store.stream(&run, "reply", 0, 9).await, Ok(Vec::new()), "version {version}");
        store.close().await.unwrap();

        let conn = Connection::open(&path).unwrap();
        assert_eq!(one::<u32>(&conn, "SELECT version FROM aether_schema"), SUPPORTED);
        assert_eq!(one::<i64>(&conn, "PRAGMA user_version"), 0, "the number is the user's from here on");
        assert_eq!(one::<i64>(&conn, "PRAGMA application_id"), 0);
        assert_eq!(one::<String>(&conn, "SELECT kind FROM aether_history WHERE run = 'a'"), "node_finished");
        assert_eq!(
            one::<String>(&conn, "SELECT id FROM open_runs"),
            "a",
            "a view of the user's follows the name"
        );
        assert_eq!(one::<String>(&conn, "SELECT text FROM notes JOIN aether_runs ON no = run"), "mine");
        let (shape, ours) = (shape_of(&conn), shape_of(&new_file()));
        assert_eq!(shape, ours, "version {version}");
    }
}

#[test]
fn a_broken_view_or_trigger_of_the_users_is_named_and_the_file_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (sql, named)) in [
        (
            "CREATE VIEW v AS SELECT * FROM nothing_here; CREATE VIEW v1 AS SELECT 1",
            "drop or repair view `v` first",
        ),
        (
            "CREATE TRIGGER \"my: own\" AFTER INSERT ON notes BEGIN DELETE FROM nothing_here; END",
            "drop or repair trigger `my: own` first",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path().join(format!("{number}.db"));
        old_file(&path, RELEASED);
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(sql).unwrap();
        let error = SqliteStore::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Open { .. }), "{error}");
        assert!(error.to_string().contains(named), "{error}");
        assert!(error.to_string().contains("nothing_here"), "{error}");
        let schema = "SELECT group_concat(name || coalesce(sql, '')) FROM sqlite_schema";
        assert_eq!(one::<i64>(&conn, "PRAGMA user_version"), i64::from(RELEASED));
        assert!(!one::<String>(&conn, schema).contains("aether_runs("));
        conn.execute_batch("DROP VIEW IF EXISTS v; DROP TRIGGER IF EXISTS \"my: own\"").unwrap();
        drop(SqliteStore::open(&path).unwrap());
    }
}

#[test]
fn what_reads_the_old_view_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    old_file(&path, RELEASED);
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "CREATE TRIGGER counted AFTER INSERT ON notes BEGIN UPDATE notes SET text = (SELECT count(*) FROM \"History\"); END;
         CREATE VIEW others AS SELECT run AS my_history FROM notes",
    )
    .unwrap();
    migrate(&conn, "old").unwrap();
    let mut orphans = users::orphans(&conn).unwrap();
    orphans.sort();
    let named = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
    assert_eq!(orphans, [named("trigger", "counted"), named("view", "kinds")]);
}

fn new_file() -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    migrate(&conn, "new").unwrap();
    conn
}

/// What the engine's tables, indexes, triggers and views are, apart from how their SQL is written.
fn shape_of(conn: &Connection) -> BTreeMap<String, String> {
    let mut objects = conn
        .prepare("SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE tbl_name LIKE 'aether\\_%' ESCAPE '\\'")
        .unwrap();
    let objects = objects.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let mut shape = BTreeMap::new();
    for object in objects {
        let (kind, name, sql): (String, String, String) = object.unwrap();
        let text = if kind == "table" {
            let columns = format!(
                "SELECT group_concat(name || ' ' || type || ' ' || \"notnull\" || ' ' ||
                 coalesce(dflt_value, '-') || ' ' || pk, ', ') FROM pragma_table_xinfo('{name}')"
            );
            let kind = format!("SELECT strict || ' ' || wr FROM pragma_table_list('{name}')");
            format!("{} {}", one::<String>(conn, &columns), one::<String>(conn, &kind))
        } else {
            sql.replace('"', "").split_whitespace().collect::<Vec<_>>().join(" ")
        };
        shape.insert(format!("{kind} {name}"), text);
    }
    shape
}

#[test]
fn everything_of_the_engines_has_a_name_in_aether() {
    let conn = new_file();
    let names = "SELECT group_concat(name) FROM sqlite_schema
                 WHERE name NOT LIKE 'aether\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    assert_eq!(one::<Option<String>>(&conn, names), None);
}

/// What the builds up to version 6 looked at before they touched a file, as they were released.
fn released_version(conn: &Connection) -> Result<u32, &'static str> {
    let application: i64 = one(conn, "PRAGMA application_id");
    let found: u32 = one(conn, "PRAGMA user_version");
    let tables: i64 = one(conn, "SELECT count(*) FROM sqlite_schema");
    if application != APPLICATION && (tables > 0 || application != 0 || found != 0) {
        return Err("the file is a database of another program");
    }
    if found > RELEASED { Err("newer") } else { Ok(found) }
}

#[test]
fn a_build_of_an_earlier_version_refuses_todays_file() {
    let conn = new_file();
    assert!(released_version(&conn).is_err());
    for version in [0, 3, 6, 7, 1_000] {
        conn.pragma_update(None, "user_version", version).unwrap();
        assert!(released_version(&conn).is_err(), "whatever the user writes there");
    }
}

/// A file as the build of version 10 left it, with keys that a call holds, that a failed call held, and whose run is gone.
fn file_of_version_10(path: &Path) {
    let conn = Connection::open(path).unwrap();
    for sql in BASE.iter().chain(MIGRATIONS[BASE_VERSION..10].iter().copied().flatten()) {
        conn.execute_batch(sql).unwrap();
    }
    let digest = "0".repeat(64);
    conn.execute("INSERT INTO aether_schema(only, version) VALUES(1, 10)", []).unwrap();
    conn.execute(
        "INSERT INTO aether_runs(id, workflow, version, status, digest, created_at, updated_at, next, chain, epoch, wake_at)
         VALUES('a', 'flow', 1, 'waiting', ?1, 7, 7, 0, ?2, 3, NULL)",
        params![digest, &CHAIN_START[..]],
    )
    .unwrap();
    let rows = [
        ("aether:a:0:pay:0", Some(format!("{STORE_WIDE}held")), "in_doubt"),
        ("aether:a:1:pay:0", None, "failed"),
        ("aether:a:2:pay:0", Some("a/shop::pay:mine".to_owned()), "succeeded"),
    ];
    for (key, business_key, status) in rows {
        conn.execute(
            "INSERT INTO aether_ledger(key, run_no, position, command, invocation, tool, digest, business_key, status,
                 committed, epoch, started_at, finished_at)
             VALUES(?1, 1, 0, '0:pay', '0:pay#0', 'pay', ?2, ?3, ?4, 1, 3, 8, 9)",
            params![key, digest, business_key, status],
        )
        .unwrap();
    }
    conn.execute(
        "INSERT INTO aether_tombstones(business_key, key, run, command, invocation, tool, digest, status, committed,
             epoch, started_at, finished_at)
         VALUES(?1, 'purged:aether:gone:0:pay:0', 'gone', '0:pay', '0:pay#0', 'pay', ?2, 'succeeded', 1, 5, 8, 9)",
        params![format!("{STORE_WIDE}purged"), digest],
    )
    .unwrap();
}

#[tokio::test]
async fn keys_within_the_store_become_reservations() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    file_of_version_10(&path);
    let store = SqliteStore::open(&path).unwrap();
    let run = RunId::new("a").unwrap();
    let at = Timestamp::from_microsecond(8).unwrap();
    let held = store.reservation(&format!("{STORE_WIDE}held")).await.unwrap().unwrap();
    assert_eq!((held.run.as_str(), held.key.as_str(), held.epoch, held.at), ("a", "aether:a:0:pay:0", 3, at));
    let row = store.entry(&run, &held.key).await.unwrap().unwrap();
    let holder = aether_core::store::holder(&store, &run, &held.business_key).await.unwrap().unwrap();
    assert_eq!((held.sealed, holder.row), (None, Some(row)));
    assert_eq!(store.reservation("a/shop::pay:mine").await, Ok(None), "a key within a run is not reserved");
    let mine = aether_core::store::holder(&store, &run, "a/shop::pay:mine").await.unwrap().unwrap();
    assert_eq!(mine.key.as_str(), "aether:a:2:pay:0");
    let purged = store.reservation(&format!("{STORE_WIDE}purged")).await.unwrap().unwrap();
    assert_eq!((purged.run.as_str(), purged.key.as_str(), purged.epoch), ("gone", "aether:gone:0:pay:0", 5));
    let left = purged.sealed.unwrap();
    assert_eq!((left.key.as_str(), left.run.as_str()), ("purged:aether:gone:0:pay:0", "gone"));
    assert_eq!((left.committed, left.started_at, left.epoch), (true, at, 5));
    assert_eq!(left.business_key.as_deref(), Some(&*purged.business_key));
    store.close().await.unwrap();
    let conn = Connection::open(&path).unwrap();
    assert_eq!(one::<u32>(&conn, "SELECT version FROM aether_schema"), SUPPORTED);
    assert_eq!(shape_of(&conn), shape_of(&new_file()));
}
