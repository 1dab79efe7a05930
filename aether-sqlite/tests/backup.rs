//! Backups, restores, and looks at a file: what is there at every moment, whose it is, and what is left alone.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken promise panics with what it saw")]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aether_core::id::WorkerId;
use aether_core::store::{NewRun, RunFilter, Store, StoreError};
use aether_sqlite::{SqliteStore, back_up, inspect, restore};
use rusqlite::Connection;
use tempfile::TempDir;

use kit::{append, frame, id, new_run, queue};

mod kit;

/// Where a child process has its files.
const PLACE: &str = "AETHER_SQLITE_BACKUP_PLACE";

struct Files {
    folder: TempDir,
    db: PathBuf,
    copy: PathBuf,
}

fn files() -> Files {
    let folder = tempfile::tempdir().unwrap();
    let (db, copy) = (folder.path().join("agent.db"), folder.path().join("monday.db"));
    Files { folder, db, copy }
}

fn run(name: &str) -> NewRun {
    NewRun { owner: None, ..new_run(name) }
}

/// Makes a store with these runs, and closes it.
async fn made(db: &Path, runs: &[&str]) {
    let store = SqliteStore::open(db).unwrap();
    for name in runs {
        store.create(run(name)).await.unwrap();
    }
    store.close().await.unwrap();
}

/// The runs of a file, by a connection that is not the store's.
fn runs(db: &Path) -> Vec<String> {
    let conn = Connection::open(db).unwrap();
    let check: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let mut ids = conn.prepare("SELECT id FROM aether_runs ORDER BY id").unwrap();
    ids.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Every file of a folder with a hash of its bytes; of the memory that processes share, only that it is there.
fn listing(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let hash = |path: &Path| {
        let mut hasher = DefaultHasher::new();
        fs::read(path).unwrap_or_default().hash(&mut hasher);
        if path.to_str().unwrap().ends_with("-shm") { 0 } else { hasher.finish() }
    };
    entries.map(|path| (path.clone(), hash(&path))).collect()
}

/// Files as a process leaves them that is killed: the log is not in the database.
async fn killed(db: &Path, runs: &[&str]) {
    let live = tempfile::tempdir().unwrap();
    let path = live.path().join("live.db");
    let store = SqliteStore::open(&path).unwrap();
    for name in runs {
        store.create(run(name)).await.unwrap();
    }
    for log in ["", "-wal", "-shm"] {
        fs::copy(beside(&path, log), beside(db, log)).unwrap();
    }
    assert!(fs::metadata(beside(db, "-wal")).unwrap().len() > 0);
}

#[tokio::test]
async fn a_log_of_another_file_is_not_read_into_a_restored_one() {
    let Files { folder, db, copy } = files();
    made(&db, &["monday"]).await;
    back_up(&db, &copy, |_| ()).unwrap();
    fs::remove_file(&db).unwrap();
    killed(&db, &["tuesday", "wednesday"]).await;
    // Somebody has moved the file away without its log; and an older build left a journal.
    fs::rename(&db, folder.path().join("lost.db")).unwrap();
    let log = fs::read(beside(&db, "-wal")).unwrap();
    fs::write(beside(&db, "-journal"), "what is left of one").unwrap();
    let restored = restore(&copy, &db, |_| ()).unwrap();
    assert_eq!(restored.replaced, None);
    assert_eq!(
        restored.logs,
        ["-wal", "-shm", "-journal"].map(|log| beside(&db, &format!(".replaced{log}")))
    );
    assert_eq!(fs::read(&restored.logs[0]).unwrap(), log, "it is kept");
    assert_eq!(runs(&db), ["monday"]);
    made(&db, &["thursday"]).await;
    assert_eq!(runs(&db), ["monday", "thursday"]);
}

#[tokio::test]
async fn the_log_of_a_damaged_file_is_kept_beside_it() {
    let Files { db, copy, folder: _folder } = files();
    made(&db, &["monday"]).await;
    back_up(&db, &copy, |_| ()).unwrap();
    killed(&db, &["tuesday"]).await;
    fs::write(&db, "what a disk has left of it, and that is not a database any more").unwrap();
    let restored = restore(&copy, &db, |_| ()).unwrap();
    let kept = restored.replaced.unwrap();
    assert_eq!(kept, beside(&db, ".replaced"));
    assert_eq!(restored.logs, [beside(&kept, "-wal"), beside(&kept, "-shm")]);
    assert!(restored.logs.iter().all(|log| log.exists()));
    assert_eq!(runs(&db), ["monday"]);
    // What is kept is never replaced, also where only a log has the name.
    fs::remove_file(&kept).unwrap();
    assert_eq!(restore(&copy, &db, |_| ()).unwrap().replaced, Some(beside(&db, ".replaced-2")));
}

#[tokio::test]
async fn a_restore_through_a_link_replaces_the_file_that_it_leads_to() {
    let Files { folder, db, copy } = files();
    made(&db, &["monday"]).await;
    back_up(&db, &copy, |_| ()).unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let (real, link) = (disk.join("real.db"), folder.path().join("link.db"));
    killed(&real, &["tuesday"]).await;
    symlink("disk/real.db", &link).unwrap();
    let restored = restore(&copy, &link, |_| ()).unwrap();
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("disk/real.db"));
    assert_eq!(restored.replaced, Some(fs::canonicalize(&disk).unwrap().join("real.db.replaced")));
    assert_eq!(
        (runs(&real), runs(&restored.replaced.unwrap())),
        (vec!["monday".into()], vec!["tuesday".into()])
    );
    assert!(!beside(&real, "-wal").exists(), "its log was copied into it");
    // Also a link that leads nowhere yet.
    fs::remove_file(&real).unwrap();
    restore(&copy, &link, |_| ()).unwrap();
    assert_eq!(runs(&real), ["monday"]);
    for taken in [folder.path(), Path::new("/dev/null")] {
        let refused = restore(&copy, taken, |_| ()).unwrap_err();
        assert!(refused.to_string().contains("no regular file"), "{refused}");
    }
}

/// Is a backup, or a restore, that comes no further than its first pages, where a test started this program for that.
#[test]
fn stops_in_the_middle() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let place = PathBuf::from(place);
    let stop = |_| {
        println!("\nin the middle");
        std::io::stdout().flush().unwrap();
        loop {
            std::thread::park();
        }
    };
    let (db, copy) = (place.join("agent.db"), place.join("monday.db"));
    match std::env::var("AETHER_SQLITE_BACKUP_WHAT").unwrap().as_str() {
        "backup" => drop(back_up(&db, &copy, stop)),
        _ => drop(restore(place.join("sunday.db"), &db, stop)),
    }
}

/// `kill -9` in the middle.
fn killed_in_the_middle(place: &Path, what: &str) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["stops_in_the_middle", "--exact", "--nocapture"])
        .envs([(PLACE, place.as_os_str()), ("AETHER_SQLITE_BACKUP_WHAT", what.as_ref())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "in the middle"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn a_backup_or_a_restore_that_is_killed_leaves_no_file_under_the_name() {
    let Files { folder, db, copy } = files();
    made(&db, &["monday"]).await;
    killed_in_the_middle(folder.path(), "backup");
    assert!(!copy.exists());
    let named = |path: &PathBuf| path.to_str().unwrap().contains("monday.db");
    let left: Vec<_> = listing(folder.path()).into_keys().filter(named).collect();
    assert!(
        !left.is_empty() && left.iter().all(|path| path.to_str().unwrap().contains(".partial-")),
        "{left:?}"
    );
    assert!(left.iter().all(|path| mode(path) == 0o600));
    assert_eq!(back_up(&db, &copy, |_| ()).unwrap().runs, 1);
    assert_eq!(runs(&copy), ["monday"]);

    fs::rename(&copy, folder.path().join("sunday.db")).unwrap();
    made(&db, &["tuesday"]).await;
    killed_in_the_middle(folder.path(), "restore");
    assert_eq!(runs(&db), ["monday", "tuesday"], "nothing was changed");
    restore(folder.path().join("sunday.db"), &db, |_| ()).unwrap();
    assert_eq!(runs(&db), ["monday"]);
}

#[tokio::test]
async fn a_backup_never_replaces_what_came_under_its_name_meanwhile() {
    let Files { db, copy, folder } = files();
    made(&db, &["monday"]).await;
    let refused = back_up(&db, &copy, |_| fs::write(&copy, "another one").unwrap()).unwrap_err();
    assert!(refused.to_string().contains("a name of its own"), "{refused}");
    assert_eq!(fs::read_to_string(&copy).unwrap(), "another one");
    // Nor a link that leads nowhere.
    let link = folder.path().join("link.db");
    symlink("nowhere", &link).unwrap();
    assert!(back_up(&db, &link, |_| ()).is_err());
    assert!(!folder.path().join("nowhere").exists());
    assert!(listing(folder.path()).keys().all(|path| !path.to_str().unwrap().contains("partial")));
}

#[tokio::test]
async fn a_copy_has_the_owner_and_the_mode_of_what_it_stands_for() {
    let Files { db, copy, folder } = files();
    made(&db, &["monday"]).await;
    set_mode(&db, 0o600);
    let partial_is_private = |name: &str| {
        let entries = listing(folder.path()).into_keys();
        let partials: Vec<_> = entries.filter(|path| path.to_str().unwrap().contains(name)).collect();
        assert!(!partials.is_empty() && partials.iter().all(|path| mode(path) == 0o600), "{partials:?}");
    };
    back_up(&db, &copy, |_| partial_is_private("monday.db.partial-")).unwrap();
    assert_eq!(mode(&copy), 0o600);
    set_mode(&copy, 0o644);
    restore(&copy, &db, |_| partial_is_private("agent.db.partial-")).unwrap();
    assert_eq!(mode(&db), 0o600);
    set_mode(&db, 0o640);
    back_up(&db, folder.path().join("tuesday.db"), |_| ()).unwrap();
    assert_eq!(mode(&folder.path().join("tuesday.db")), 0o640);
    // Where there is nothing to replace, that of the backup.
    set_mode(&copy, 0o600);
    fs::remove_file(&db).unwrap();
    restore(&copy, &db, |_| ()).unwrap();
    assert_eq!(mode(&db), 0o600);

    // Only who may give files away can try that.
    if chown(&db, Some(65_534), Some(65_533)).is_ok() {
        fs::remove_file(beside(&db, "-prepare")).unwrap();
        restore(&copy, &db, |_| ()).unwrap();
        let owner = |path: &Path| fs::metadata(path).map(|data| (data.uid(), data.gid())).unwrap();
        assert_eq!((owner(&db), mode(&db)), ((65_534, 65_533), 0o600));
        assert_eq!(
            owner(&beside(&db, "-prepare")),
            (65_534, 65_533),
            "who prepares the file must be able to lock it"
        );
    }
}

/// Is a restore by whoever a test started this program as.
#[test]
fn restores() {
    let Some(place) = std::env::var_os("AETHER_SQLITE_RESTORE_PLACE") else { return };
    let place = PathBuf::from(place);
    let refused = restore(place.join("monday.db"), place.join("agent.db"), |_| ()).unwrap_err();
    println!("\n{refused}");
}

#[tokio::test]
async fn a_restore_that_cannot_keep_the_owner_is_refused_and_says_how() {
    let Files { db, copy, folder } = files();
    made(&db, &["monday"]).await;
    back_up(&db, &copy, |_| ()).unwrap();
    // Only who may give files away can make one of somebody else.
    if chown(&db, Some(65_533), None).is_err() {
        return;
    }
    for (path, mode) in [(folder.path(), 0o777), (&db, 0o666), (&copy, 0o666)] {
        set_mode(path, mode);
    }
    let program = folder.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let before = (fs::read(&db).unwrap(), fs::metadata(&db).unwrap().ino());
    let said = Command::new(&program)
        .args(["restores", "--exact", "--nocapture"])
        .env("AETHER_SQLITE_RESTORE_PLACE", folder.path())
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("belongs to user 65533") && said.contains("or as root"), "{said}");
    assert!((fs::read(&db).unwrap(), fs::metadata(&db).unwrap().ino()) == before);
}

#[tokio::test]
async fn of_two_restores_at_a_time_one_is_refused_and_the_other_is_whole() {
    let Files { db, copy, folder } = files();
    made(&db, &["monday"]).await;
    back_up(&db, &copy, |_| ()).unwrap();
    made(&db, &["tuesday"]).await;
    let mut tried = false;
    let restored = restore(&copy, &db, |_| {
        if !std::mem::replace(&mut tried, true) {
            let refused = restore(&copy, &db, |_| ()).unwrap_err();
            assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
            assert!(refused.to_string().contains("another process restores"), "{refused}");
            // A backup to the same place does not touch what is being made.
            assert!(back_up(&copy, &db, |_| ()).is_err());
            back_up(&db, folder.path().join("other.db"), |_| ()).unwrap();
        }
    });
    assert_eq!((restored.unwrap().now.runs, runs(&db)), (1, vec!["monday".to_owned()]));
    // A file that comes while a missing one is restored stays.
    fs::remove_file(&db).unwrap();
    let mut store = None;
    let refused = restore(&copy, &db, |_| store = Some(SqliteStore::open(&db).unwrap())).unwrap_err();
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
    drop(store);
    assert!(runs(&db).is_empty());
}

#[tokio::test]
async fn a_file_that_is_open_is_not_replaced() {
    let Files { db, copy, folder } = files();
    made(&db, &["monday"]).await;
    back_up(&db, &copy, |_| ()).unwrap();
    let store = SqliteStore::open(&db).unwrap();
    store.create(run("tuesday")).await.unwrap();
    let refused = restore(&copy, &db, |_| ()).unwrap_err();
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
    store.create(run("wednesday")).await.unwrap();
    store.close().await.unwrap();
    // Nor one that some other program only reads.
    let reader = Connection::open(&db).unwrap();
    reader.query_row("SELECT count(*) FROM aether_runs", [], |row| row.get::<_, i64>(0)).unwrap();
    let refused = restore(&copy, &db, |_| ()).unwrap_err();
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
    drop(reader);
    assert_eq!(runs(&db), ["monday", "tuesday", "wednesday"]);
    assert!(listing(folder.path()).keys().all(|path| !path.to_str().unwrap().contains("partial")));
    assert_eq!(restore(&copy, &db, |_| ()).unwrap().logs, [] as [PathBuf; 0]);
    assert_eq!(runs(&beside(&db, ".replaced")).len(), 3);
}

#[tokio::test]
async fn there_is_a_file_at_every_moment_of_a_restore() {
    let Files { db, copy, folder: _folder } = files();
    made(&db, &["monday"]).await;
    back_up(&db, &copy, |_| ()).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                assert!(fs::metadata(&db).is_ok(), "the name was free");
            }
        });
        // Not judged before the watching is over: the scope would wait for it for ever.
        let restored: Vec<_> = (0..20).map(|_| restore(&copy, &db, |_| ()).map(drop)).collect();
        is_done.store(true, Ordering::Relaxed);
        watching.join().unwrap();
        restored.into_iter().for_each(|restored| restored.unwrap());
    });
}

/// Whether this process has opened the file more often than so many times.
#[cfg(target_os = "linux")]
fn is_opened(file: &Path, more_than: usize) -> bool {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == file)).count() > more_than
}

/// What a restore does, in slow motion, and a program that starts in the middle of it.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn who_opens_a_file_while_it_is_replaced_works_on_the_new_one() {
    let Files { db, copy, folder } = files();
    let db = fs::canonicalize(folder.path()).unwrap().join(db.file_name().unwrap());
    made(&db, &["old"]).await;
    made(&copy, &["new"]).await;
    let restoring = Connection::open(&db).unwrap();
    restoring
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE")
        .unwrap();
    let opened = tokio::task::spawn_blocking({
        let db = db.clone();
        let options =
            aether_sqlite::SqliteOptions { busy_timeout: Duration::from_secs(60), ..Default::default() };
        move || SqliteStore::open_with(db, options)
    });
    while !is_opened(&db, 1) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let kept = beside(&db, ".replaced");
    fs::hard_link(&db, &kept).unwrap();
    fs::rename(&copy, &db).unwrap();
    drop(restoring);
    let store = opened.await.unwrap().unwrap();
    store.create(run("newer")).await.unwrap();
    assert_eq!(store.runs(RunFilter::default()).await.unwrap().len(), 2);
    store.close().await.unwrap();
    assert_eq!((runs(&db), runs(&kept)), (vec!["new".to_owned(), "newer".into()], vec!["old".to_owned()]));
}

#[tokio::test]
async fn a_look_changes_nothing_and_needs_no_right_to_write() {
    let Files { db, copy, folder } = files();
    made(&db, &["monday", "tuesday"]).await;
    back_up(&db, &copy, |_| ()).unwrap();
    let killed_db = folder.path().join("a %41? killed.db");
    killed(&killed_db, &["wednesday"]).await;
    set_mode(&copy, 0o444);
    let before = listing(folder.path());
    for (path, found) in [(&db, 2), (&copy, 2), (&killed_db, 1)] {
        assert!(!inspect(path).unwrap().is_older());
        let store = SqliteStore::open_read_only(path).unwrap();
        assert_eq!(store.runs(RunFilter::default()).await.unwrap().len(), found);
        let worker = WorkerId::from("me".to_owned());
        assert!(store.register(&worker, Duration::from_secs(9), Vec::new()).await.unwrap());
        assert_eq!(store.renew(&worker, Duration::from_secs(9), Vec::new()).await.unwrap(), []);
        for refused in [
            store.create(run("new")).await.map(drop).unwrap_err(),
            store.purge(&id("monday"), None).await.map(drop).unwrap_err(),
        ] {
            assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused}");
        }
        let appended = queue(&store, append("monday", 0, 1, frame("event"))).await.unwrap().unwrap_err();
        assert!(appended.to_string().contains("to look at it"), "{appended}");
        store.retire(&worker).await.unwrap();
        store.close().await.unwrap();
        drop(store);
        assert_eq!(listing(folder.path()), before, "{}", path.display());
    }
    let empty = folder.path().join("empty.db");
    Connection::open(&empty).unwrap().execute_batch("CREATE TABLE mine(x)").unwrap();
    for (path, says) in [(empty, "version 0"), (folder.path().join("none.db"), "unable to open")] {
        let refused = SqliteStore::open_read_only(&path).unwrap_err();
        assert!(refused.to_string().contains(says), "{refused}");
    }
    assert!(!folder.path().join("none.db").exists());
}

/// Looks at the file that cannot be written, as somebody whom permissions stop.
#[tokio::test]
async fn looks() {
    let Some(file) = std::env::var_os("AETHER_SQLITE_LOOK_AT") else { return };
    let store = SqliteStore::open_read_only(file).unwrap();
    println!("\nfound {}", store.runs(RunFilter::default()).await.unwrap().len());
}

#[tokio::test]
async fn a_file_that_may_only_be_read_is_read_as_it_lies_there() {
    let Files { db, folder, copy: _ } = files();
    // In write-ahead mode, as an engine leaves it.
    made(&db, &["monday"]).await;
    let program = folder.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for (path, mode) in [(&db, 0o444), (&program, 0o555), (&folder.path().to_owned(), 0o555)] {
        set_mode(path, mode);
    }
    let before = listing(folder.path());
    let mut looking = Command::new(&program);
    looking.args(["looks", "--exact", "--nocapture"]).env("AETHER_SQLITE_LOOK_AT", &db);
    if fs::metadata(folder.path()).unwrap().uid() == 0 {
        looking.uid(65_534).gid(65_534);
    }
    let said = String::from_utf8(looking.output().unwrap().stdout).unwrap();
    assert!(said.contains("found 1"), "{said}");
    assert_eq!(listing(folder.path()), before);
    set_mode(folder.path(), 0o755);
}

#[tokio::test]
async fn a_damaged_run_hides_no_other_one() {
    let Files { db, copy: _, folder: _folder } = files();
    made(&db, &["a", "b", "c", "d", "e"]).await;
    let conn = Connection::open(&db).unwrap();
    conn.execute("UPDATE aether_runs SET status = 'bogus' WHERE id IN ('d', 'b')", []).unwrap();
    let store = SqliteStore::open(&db).unwrap();
    let listed = async |filter: RunFilter| {
        let runs = store.runs(filter).await.unwrap();
        runs.into_iter().map(|run| run.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listed(RunFilter::new()).await, ["e", "c", "a"]);
    // A page is as long as there are runs for it: who reads pages takes a shorter one for the last.
    assert_eq!(listed(RunFilter::new().limit(2)).await, ["e", "c"]);
    let after = store.runs(RunFilter::new().limit(1)).await.unwrap()[0].place;
    assert_eq!(listed(RunFilter::new().limit(2).after(after)).await, ["c", "a"]);
    let damaged = store.damaged_runs(RunFilter::new()).await.unwrap();
    assert_eq!(damaged.iter().map(|run| &*run.id).collect::<Vec<_>>(), ["d", "b"]);
    assert!(damaged[0].reason.contains("bogus"), "{damaged:?}");
    assert_eq!(store.damaged_runs(RunFilter::new().limit(2)).await.unwrap().len(), 1);
    assert!(matches!(store.run(&id("d")).await, Err(StoreError::Corrupt { .. })));
}

#[tokio::test]
async fn a_damaged_time_of_one_run_is_no_reason_to_have_no_copy() {
    for damaged in [i64::MAX, i64::MIN] {
        let Files { db, copy, folder } = files();
        made(&db, &["a", "b"]).await;
        let conn = Connection::open(&db).unwrap();
        conn.execute("UPDATE aether_runs SET updated_at = ?1 WHERE id = 'a'", [damaged]).unwrap();
        drop(conn);
        let report = back_up(&db, &copy, |_| ()).unwrap();
        assert!(report.runs == 2 && report.newest.is_some(), "{report:?}");
        assert_eq!(runs(&copy), ["a", "b"]);
        assert_eq!(restore(&copy, folder.path().join("new.db"), |_| ()).unwrap().now.runs, 2);
        assert_eq!(restore(&copy, &db, |_| ()).unwrap().now.runs, 2);
    }
}
