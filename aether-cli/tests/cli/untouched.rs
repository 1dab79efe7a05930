//! What only looks changes nothing: neither a file that is looked at, nor one that is in the way of what is written.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use aether::sqlite::rusqlite::Connection;

use crate::desk::{Worker, builder, family, nap, one_of_each, waits};
use crate::kit::{AETHER, Desk, Said, valid};

/// Every command that only looks, and needs no code of workflows.
const LOOKS: [&[&str]; 22] = [
    &["runs", "list"],
    &["runs", "list", "--stuck"],
    &["runs", "show", "refund-1"],
    &["runs", "history", "count-1"],
    &["runs", "wait", "count-1", "--timeout", "60s"],
    &["runs", "retry", "stay-1", "--dry-run"],
    &["runs", "fork", "stay-1", "--from-start", "--dry-run"],
    &["inbox", "list"],
    &["inbox", "show", "refund-1"],
    &["ledger", "stay-1"],
    &["streams", "tail", "talk-1", "reply"],
    &["graph", "refund"],
    &["export", "count-1"],
    &["export", "count-1", "--out", "-"],
    &["evidence", "export", "count-1", "--out", "-"],
    &["db", "status"],
    &["db", "check"],
    &["db", "prune", "--completed", "0s", "--dry-run"],
    &["queues", "list"],
    &["queues", "limit", "list"],
    &["schedules", "list"],
    &["doctor"],
];

/// Every file in a folder, and what is in it; of the memory that processes share, that it is there.
fn listing(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_shared = |path: &Path| path.to_str().unwrap().ends_with("-shm");
    let bytes =
        |path: &Path| if is_shared(path) { Vec::new() } else { std::fs::read(path).unwrap_or_default() };
    paths.map(|path| (path.clone(), bytes(&path))).collect()
}

fn set(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The files as they are when every process is killed at this moment: a run is in the log alone.
async fn killed(desk: &Desk) -> Desk {
    let client = builder(&desk.db).client().start().await.unwrap();
    client.start::<nap>("tired".into()).id("newest").await.unwrap();
    let killed = Desk::new();
    for log in ["agent.db", "agent.db-wal", "agent.db-shm"] {
        std::fs::copy(desk.folder.path().join(log), killed.folder.path().join(log)).unwrap();
    }
    client.shutdown().await.unwrap();
    killed
}

#[track_caller]
fn looks_and_leaves(folder: &Path, run: impl Fn(&[&str]) -> Said) {
    let before = listing(folder);
    for args in LOOKS {
        let said = run(args);
        // A doctor may find something.
        let said = if args == ["doctor"] && said.exit == 6 { said } else { said.exits(0) };
        assert!(!said.out.is_empty() || !said.err.is_empty(), "{args:?}");
        let now = listing(folder);
        let changed = before.keys().chain(now.keys()).find(|path| now.get(*path) != before.get(*path));
        assert_eq!(changed, None, "{args:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_looks_changes_nothing() {
    let desk = Desk::new();
    one_of_each(&desk.db, desk.folder.path()).await;
    looks_and_leaves(desk.folder.path(), |args| desk.cli(args));
    let killed = killed(&desk).await;
    looks_and_leaves(killed.folder.path(), |args| killed.cli(args));
    assert_eq!(killed.json("runs list", &["--id", "newest"])["runs"][0]["status"], "pending");

    let archive = desk.folder.path().join("archive");
    std::fs::create_dir(&archive).unwrap();
    let (copy, program) = (archive.join("monday.db"), desk.folder.path().join("aether"));
    desk.json("db backup", &[copy.to_str().unwrap()]);
    std::fs::copy(AETHER, &program).unwrap();
    for (path, mode) in [(&*program, 0o555), (&copy, 0o444), (&archive, 0o555), (desk.folder.path(), 0o755)] {
        set(path, mode);
    }
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(&program);
        command.arg("--db").arg(&copy).args(args).env("AETHER_ACTOR", "ada").env_remove("AETHER_DB");
        // Whoever runs the tests may be somebody whom no permission stops.
        if rustix::process::geteuid().is_root() {
            command.uid(65_534).gid(65_534);
        }
        Said::of(command.output().unwrap())
    };
    looks_and_leaves(&archive, run);
    let said = run(&["signal", "parcel-1", "paid"]).exits(4);
    assert!(said.err.contains("this command writes to it"), "{}", said.err);
    assert!(run(&["doctor"]).exits(6).out.contains("PROBLEM  permissions"));
    set(&archive, 0o755);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_run_hides_no_other_and_is_named() {
    let desk = Desk::new();
    one_of_each(&desk.db, desk.folder.path()).await;
    let conn = Connection::open(&desk.db).unwrap();
    conn.execute("UPDATE aether_runs SET status = 'bogus' WHERE id = 'talk-1'", []).unwrap();
    drop(conn);
    let list = desk.cli(&["runs", "list", "--limit", "5"]).exits(0);
    assert!(list.out.contains("voyage-1") && list.err.contains("run talk-1 is left out"), "{}", list.err);
    let list = desk.json("runs list", &[]);
    assert_eq!((list["runs"].as_array().unwrap().len(), &list["damaged"][0]["id"]), (9, &"talk-1".into()));
    let doctor = desk.cli(&["doctor"]).exits(6).out;
    for found in ["talk-1 (run status \"bogus\")", "PROBLEM  workers", "ok       clock", "1 runs have failed"]
    {
        assert!(doctor.contains(found), "{found} is missing: {doctor}");
    }
    let check = desk.cli(&["db", "check"]).exits(6);
    assert!(
        check.out.contains("run `talk-1`: its row cannot be read: run status \"bogus\""),
        "{}",
        check.out
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_replaces_nothing_of_another_kind() {
    let desk = Desk::new();
    one_of_each(&desk.db, desk.folder.path()).await;
    let place = |name: &str| desk.folder.path().join(name);
    let exports: [&[&str]; 2] =
        [&["export", "count-1", "--out"], &["evidence", "export", "count-1", "--out"]];
    std::fs::write(place("letter.txt"), "Dear Ann,").unwrap();
    std::fs::write(place("old.db"), "SQLite format 3\0and so on").unwrap();
    symlink("letter.txt", place("link")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(place("fifo")).status().unwrap();
    assert!(fifo.success());
    for export in exports {
        for force in [&[][..], &["--force"]] {
            for (name, says) in [
                ("agent.db", "is the store itself"),
                ("agent.db-wal", "is the store itself"),
                ("agent.db-journal", "is the store itself"),
                ("old.db", "is a database"),
                ("link", "is a link"),
                ("fifo", "is no regular file"),
            ] {
                let path = place(name);
                let args = [export, &[path.to_str().unwrap()], force].concat();
                let said = desk.cli(&args).exits(5);
                assert!(said.err.contains(says), "{args:?}: {}", said.err);
            }
        }
        let letter = place("letter.txt");
        let said = desk.cli(&[export, &[letter.to_str().unwrap()]].concat()).exits(5);
        assert!(said.err.contains("--force"), "{}", said.err);
        assert_eq!(std::fs::read_to_string(&letter).unwrap(), "Dear Ann,");
        desk.cli(&[export, &[letter.to_str().unwrap(), "--force"]].concat()).exits(0);
        // Now it is of that format.
        desk.cli(&[export, &[letter.to_str().unwrap()]].concat()).exits(0);
        std::fs::write(&letter, "Dear Ann,").unwrap();

        let new = place("new.json");
        desk.cli(&[export, &[new.to_str().unwrap()]].concat()).exits(0);
        assert_eq!(std::fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o600);
        let said = desk.cli(&[export, &["-"]].concat()).exits(0);
        let format = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["format"].clone();
        assert_eq!(format(&said.out), format(&std::fs::read_to_string(&new).unwrap()));
        std::fs::remove_file(&new).unwrap();
    }
    assert!(!place("agent.db-journal").exists());
    desk.cli(&["runs", "show", "count-1"]).exits(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_names_the_logs_that_it_found_and_errors_help() {
    let desk = Desk::new();
    one_of_each(&desk.db, desk.folder.path()).await;
    let desk = killed(&desk).await;
    let place = |name: &str| desk.folder.path().join(name).to_str().unwrap().to_owned();
    let copy = place("monday.db");
    desk.json("db backup", &[&copy]);
    let taken = desk.cli(&["db", "backup", &copy]).exits(4);
    assert!(taken.err.contains("not there yet") && !taken.err.contains("doctor"), "{}", taken.err);
    // Somebody has moved the file away, and not its log.
    std::fs::rename(&desk.db, place("lost.db")).unwrap();
    let restored = desk.json("db restore", &[&copy]);
    assert_eq!(restored["replaced"], serde_json::Value::Null);
    assert_eq!(restored["logs"][0], place("agent.db.replaced-wal"));
    assert_eq!(desk.json("db check", &[])["runs"], restored["runs"]);
    let worker = Worker::start(&desk.db);
    crate::kit::until(|| !desk.json("db status", &[])["workers"].as_array().unwrap().is_empty()).await;
    let busy = desk.cli(&["db", "restore", &copy, "--json"]).exits(4);
    let said = valid("error", &busy.err).to_string();
    assert!(said.contains("stop every process") && said.contains("db status"), "{said}");
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_prune_counts_what_a_prune_deletes() {
    let desk = Desk::new();
    let engine = builder(&desk.db).start().await.unwrap();
    engine.start::<family>(2).id("parent").await.unwrap();
    engine.start::<crate::desk::count>(1).id("alone").await.unwrap().result().await.unwrap();
    waits(&engine, "parent").await;
    engine.shutdown().await.unwrap();
    let ages = &["--completed", "0s"][..];
    let would = desk.json("db prune", &[ages, &["--dry-run"]].concat());
    let done = desk.json("db prune", ages);
    assert_eq!((&would["deleted"], &would["held"]), (&done["deleted"], &done["held"]));
    assert_eq!((&done["deleted"], &done["held"]), (&1.into(), &1.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prune_in_a_program_asks_its_hook() {
    let desk = Desk::new();
    let engine = builder(&desk.db).start().await.unwrap();
    for id in ["kept-1", "gone-1"] {
        engine.start::<crate::desk::count>(1).id(id).await.unwrap().result().await.unwrap();
    }
    engine.shutdown().await.unwrap();
    let done = desk.own_json("db prune", &["--completed", "0s"]);
    assert_eq!((&done["deleted"], &done["kept"]), (&1.into(), &1.into()));
    let said = desk.own(&["db", "prune", "--completed", "0s"]).exits(0);
    assert!(said.out.contains("1 because the program keeps them"), "{}", said.out);
    assert_eq!(desk.json("runs show", &["kept-1"])["run"]["status"], "completed");
}
