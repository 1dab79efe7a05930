//! Files that are no stores, or none of today: refused before they are touched, with what to do.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use aether::sqlite::rusqlite::Connection;

use crate::desk::one_of_each;
use crate::kit::{AETHER, Desk, Said, valid};

/// Whatever opens a store, and does not make one.
const OPENS: [&[&str]; 6] = [
    &["runs", "list"],
    &["runs", "show", "r"],
    &["inbox", "list"],
    &["signal", "r", "s"],
    &["runs", "cancel", "r", "--reason", "x"],
    &["db", "prune", "--failed", "1d"],
];

/// Asserts that every command refuses the file, says this, and leaves its bytes alone; and that `doctor` says it too.
#[track_caller]
fn refused(desk: &Desk, says: &[&str]) {
    let before = std::fs::read(&desk.db).ok();
    for args in OPENS {
        let said = desk.cli(args).exits(4);
        for part in says {
            assert!(said.err.contains(part), "{args:?} does not say {part}: {}", said.err);
        }
    }
    let doctor = desk.cli(&["doctor"]).exits(6);
    assert!(says.iter().any(|part| doctor.out.contains(part)), "{}", doctor.out);
    assert!(std::fs::read(&desk.db).ok() == before, "the file was changed");
}

fn set_version(db: &Path, version: u32) {
    let conn = Connection::open(db).unwrap();
    conn.execute("UPDATE aether_schema SET version = ?1", [version]).unwrap();
    conn.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
}

#[test]
fn a_file_that_is_not_there() {
    let desk = Desk::new();
    refused(&desk, &["there is no file", "`.sqlite(..)`"]);
    desk.cli(&["db", "status"]).exits(4);
    assert!(!desk.db.exists());
}

#[test]
fn a_file_that_is_no_database() {
    let desk = Desk::new();
    std::fs::write(&desk.db, "a letter, and a long one at that. ".repeat(100)).unwrap();
    refused(&desk, &["not a database"]);
    desk.cli(&["db", "status"]).exits(4);
    desk.cli(&["db", "migrate"]).exits(4);
}

#[test]
fn a_folder() {
    let desk = Desk::new();
    std::fs::create_dir(&desk.db).unwrap();
    assert!(desk.cli(&["runs", "list"]).exits(4).err.contains("is a directory"));
    assert!(desk.cli(&["doctor"]).exits(6).out.contains("is a folder"));
}

#[test]
fn a_database_of_others() {
    let desk = Desk::new();
    let conn = Connection::open(&desk.db).unwrap();
    conn.execute_batch("CREATE TABLE accounts(cents INTEGER); PRAGMA journal_mode = WAL").unwrap();
    drop(conn);
    refused(&desk, &["no tables of the engine", "db migrate"]);
    assert!(desk.cli(&["db", "status"]).exits(0).out.contains("no tables yet"));
    desk.cli(&["db", "migrate"]).exits(0);
    desk.cli(&["runs", "list"]).exits(0);
}

#[test]
fn a_file_of_a_newer_version() {
    let desk = Desk::new();
    desk.cli(&["db", "migrate"]).exits(0);
    set_version(&desk.db, 99);
    refused(&desk, &["version 99", "newer"]);
    desk.cli(&["db", "status"]).exits(4);
    desk.cli(&["db", "migrate"]).exits(4);
}

#[test]
fn a_file_of_an_older_version_is_changed_by_migrate_alone() {
    let desk = Desk::new();
    desk.cli(&["db", "migrate"]).exits(0);
    // As the build before the last migration left it.
    let conn = Connection::open(&desk.db).unwrap();
    conn.execute_batch("DROP TABLE aether_blob_owners").unwrap();
    drop(conn);
    set_version(&desk.db, 14);
    refused(&desk, &["version 14", "db migrate"]);
    // In a program of one's own as well, also by what only looks.
    for looks in [&["runs", "list"][..], &["check"], &["signal", "parcel-1", "paid"]] {
        let said = desk.own(looks).exits(4);
        assert!(
            said.err.contains("version 14") && said.err.contains("db migrate"),
            "{looks:?}: {}",
            said.err
        );
    }
    assert!(desk.cli(&["db", "status"]).exits(0).out.contains("version     14 of"));
    let migrated = desk.json("db migrate", &[]);
    assert_eq!(migrated["from"], 14);
    assert!(migrated["to"].as_u64().unwrap() > 14);
    desk.cli(&["runs", "list"]).exits(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_may_only_be_read() {
    let desk = Desk::new();
    one_of_each(&desk.db, desk.folder.path()).await;
    // Whoever runs the tests may be somebody whom no permission stops.
    let program = desk.folder.path().join("aether");
    std::fs::copy(AETHER, &program).unwrap();
    let set =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    for (path, mode) in [(&program, 0o555), (&desk.db, 0o444), (&desk.folder.path().to_owned(), 0o555)] {
        set(path, mode);
    }
    let is_root = rustix::process::geteuid().is_root();
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(&program);
        command.arg("--db").arg(&desk.db).args(args).env("AETHER_ACTOR", "ada");
        if is_root {
            command.uid(65_534).gid(65_534);
        }
        Said::of(command.output().unwrap())
    };
    assert!(run(&["runs", "list"]).exits(0).out.contains("voyage-1"));
    let said = run(&["signal", "parcel-1", "paid"]).exits(4);
    assert!(said.err.contains("cannot be written") && said.err.contains("give this user"), "{}", said.err);
    assert!(run(&["doctor"]).exits(6).out.contains("PROBLEM  permissions"));
    set(desk.folder.path(), 0o755);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_file_and_its_runs_is_said_line_by_line() {
    let desk = Desk::new();
    one_of_each(&desk.db, desk.folder.path()).await;
    desk.cli(&["db", "check"]).exits(0);
    let conn = Connection::open(&desk.db).unwrap();
    conn.execute_batch(
        "DELETE FROM aether_runs WHERE id = 'quiz-1'; UPDATE aether_runs SET status = 'bogus' WHERE id = 'nap-1';
         UPDATE aether_runs SET chain = zeroblob(32) WHERE id = 'count-1'",
    )
    .unwrap();
    drop(conn);
    let said = desk.cli(&["db", "check"]).exits(6).out;
    for line in [
        "file: aether_journal has ",
        "run `nap-1`: its row cannot be read: run status \"bogus\"",
        "run `count-1`: its row has another chain hash than its journal",
    ] {
        assert!(said.lines().any(|found| found.starts_with(line)), "{line}: {said}");
    }
    assert!(!said.contains("\\n"), "{said}");
    let told = valid("db check", &desk.cli(&["db", "check", "--json"]).exits(6).out);
    let about: Vec<_> = told["problems"].as_array().unwrap().iter().map(|problem| &problem["run"]).collect();
    assert_eq!(said.lines().count(), about.len() + 1);
    assert!(about.contains(&&"nap-1".into()) && about.iter().any(|run| run.is_null()), "{told}");
}
