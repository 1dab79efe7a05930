//! Backups of a file that is in use, and what a restored one knows.

use std::path::{Path, PathBuf};
use std::process::Command;

use aether::engine::RunEnd;
use aether::prelude::*;
use aether::sqlite::rusqlite::{Connection, OpenFlags};
use aether::sqlite::{back_up, restore};
use aether::store::{RunFilter, StoreError};
use aether::view::Status;

use crate::seeds::kit::{Calls, in_time, run_id};

/// Pay.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn ba_pay(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Pay, wait for a signal, and pay again.
#[workflow]
async fn ba_order(cx: &mut Cx, cents: u32) -> Result<u32> {
    let first = ba_pay(cx, cents).await?;
    let more: u32 = cx.signal("go").await?;
    Ok(first + ba_pay(cx, more).await?)
}

async fn engine(path: &Path, calls: &Calls) -> Engine {
    Engine::builder().sqlite(path).provide(calls.clone()).start().await.unwrap()
}

async fn waits(engine: &Engine, runs: u64) {
    let waiting = RunFilter::new().workflow("ba_order").status(Status::Waiting);
    in_time(async { while engine.count(waiting.clone()).await.unwrap() < runs {} }).await;
}

/// The ways of `docs/backup.md`, each into a file.
fn backup(path: &Path, folder: &Path) -> Vec<PathBuf> {
    let (own, vacuum, command) = (folder.join("own.db"), folder.join("vacuum.db"), folder.join("command.db"));
    let report = back_up(path, &own, |_| ()).unwrap();
    assert!(report.runs > 0 && report.newest.is_some(), "{report:?}");
    let conn = Connection::open(path).unwrap();
    conn.execute("VACUUM INTO ?1", [vacuum.to_str().unwrap()]).unwrap();
    let done = Command::new("sqlite3").arg(path).arg(format!(".backup '{}'", command.display())).status();
    // The command is not part of the project.
    if done.is_ok_and(|status| status.success()) { vec![own, vacuum, command] } else { vec![own, vacuum] }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_file_in_use_opens_verifies_and_resumes() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Calls::default());
    let path = folder.path().join("agent.db");
    let live = engine(&path, &calls).await;
    live.start::<ba_order>(1).id("waits").label("customer", "acme").await.unwrap();
    waits(&live, 1).await;
    // The file is written all the while.
    let busy = live.clone();
    let writing = tokio::spawn(async move {
        for n in 0..200 {
            busy.start::<ba_order>(n).id(format!("busy-{n}")).await.unwrap();
        }
    });
    let files = backup(&path, folder.path());
    writing.await.unwrap();
    live.signal(&run_id("waits"), "go", "1", &10).await.unwrap();
    let run = live.handle::<ba_order>("waits").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 11);
    let original = calls.keys("ba_pay");
    live.shutdown().await.unwrap();

    for file in files {
        let check: String = Connection::open(&file)
            .unwrap()
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(check, "ok");
        let calls = Calls::default();
        let restored = engine(&file, &calls).await;
        assert_eq!(restored.count(RunFilter::new().label("customer", "acme")).await.unwrap(), 1);
        restored.signal(&run_id("waits"), "go", "1", &10).await.unwrap();
        let run = restored.find("waits").await.unwrap();
        assert!(matches!(in_time(run.end()).await.unwrap(), RunEnd::Completed(_)));
        restored.verify(&run_id("waits")).await.unwrap();
        // What was in the backup is not done again. What came after it is, under the key that the original used.
        let again: Vec<_> =
            calls.keys("ba_pay").into_iter().filter(|key| key.contains("aether:waits:")).collect();
        assert_eq!(again.len(), 1, "{}: {again:?}", file.display());
        assert!(original.contains(&again[0]), "{again:?}");
        restored.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_whole_alone_and_replaces_nothing() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Calls::default());
    let (path, copy) = (folder.path().join("agent.db"), folder.path().join("copy.db"));
    let live = engine(&path, &calls).await;
    live.start::<ba_order>(1).id("waits").await.unwrap();
    waits(&live, 1).await;
    let mut last = None;
    let report = back_up(&path, &copy, |at| last = Some(at)).unwrap();
    let last = last.unwrap();
    assert_eq!((report.runs, last.copied), (1, last.pages));
    assert_eq!(report.bytes, copy.metadata().unwrap().len());
    // No log belongs to it: it can be read from a medium on which nothing can be written.
    let uri = format!("file:{}?immutable=1", copy.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let runs = "SELECT count(*) FROM aether_runs";
    let count = |conn: Connection| conn.query_row(runs, [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(count(Connection::open_with_flags(uri, flags).unwrap()), 1);

    let before = std::fs::read(&copy).unwrap();
    let refused = back_up(&path, &copy, |_| ()).unwrap_err();
    assert!(refused.to_string().contains("give each backup a name of its own"), "{refused}");
    assert_eq!(std::fs::read(&copy).unwrap(), before);
    let strangers = folder.path().join("strangers.db");
    Connection::open(&strangers).unwrap().execute_batch("CREATE TABLE mine(x)").unwrap();
    for (from, says) in
        [(folder.path().join("missing.db"), "missing.db"), (strangers, "no tables of an engine")]
    {
        let to = folder.path().join("none.db");
        let refused = back_up(&from, &to, |_| ()).unwrap_err();
        assert!(refused.to_string().contains(says), "{refused}");
        assert!(!to.exists() && !from.with_file_name("none.db.partial").exists());
    }
    assert!(!folder.path().join("missing.db").exists());
    let nowhere = back_up(&path, folder.path().join("no/such/folder.db"), |_| ()).unwrap_err();
    assert!(matches!(nowhere, StoreError::Open { .. }), "{nowhere}");
    live.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_replaces_only_what_nobody_has_open_and_keeps_it() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Calls::default());
    let (path, copy) = (folder.path().join("agent.db"), folder.path().join("copy.db"));
    let live = engine(&path, &calls).await;
    live.start::<ba_order>(1).id("old").await.unwrap();
    waits(&live, 1).await;
    back_up(&path, &copy, |_| ()).unwrap();
    live.start::<ba_order>(1).id("new").await.unwrap();
    waits(&live, 2).await;
    let refused = restore(&copy, &path, |_| ()).unwrap_err();
    assert!(
        matches!(&refused, StoreError::Locked { reason, .. } if reason.contains("stop every process")),
        "{refused}"
    );
    waits(&live, 2).await;
    live.shutdown().await.unwrap();

    let mut damaged = std::fs::read(&copy).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle..].fill(0xff);
    let broken = folder.path().join("broken.db");
    std::fs::write(&broken, damaged).unwrap();
    let refused = restore(&broken, &path, |_| ()).unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");

    let mut replaced = Vec::new();
    for _ in 0..2 {
        let restored = restore(&copy, &path, |_| ()).unwrap();
        assert_eq!(restored.now.runs, 1);
        replaced.push(restored.replaced.unwrap());
        let engine = engine(&path, &calls).await;
        assert!(engine.find("new").await.is_err());
        assert_eq!(engine.count(RunFilter::new()).await.unwrap(), 1);
        engine.shutdown().await.unwrap();
    }
    let ends: Vec<_> = replaced.iter().map(|kept| kept.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(ends, ["agent.db.replaced", "agent.db.replaced-2"]);
    let kept = engine(&replaced[0], &calls).await;
    assert_eq!(kept.count(RunFilter::new()).await.unwrap(), 2);
    kept.shutdown().await.unwrap();

    // One that is not there, and one that is no database any more.
    std::fs::remove_file(&path).unwrap();
    assert_eq!(restore(&copy, &path, |_| ()).unwrap().replaced, None);
    std::fs::write(&path, b"what a disk has left of it").unwrap();
    assert!(restore(&copy, &path, |_| ()).unwrap().replaced.is_some());
    let engine = engine(&path, &calls).await;
    engine.verify(&run_id("old")).await.unwrap();
    engine.shutdown().await.unwrap();
}
