//! Backups of a file that is in use, and what a restored one knows.

use std::path::{Path, PathBuf};
use std::process::Command;

use aether::engine::RunEnd;
use aether::prelude::*;
use aether::sqlite::rusqlite::Connection;
use aether::store::RunFilter;
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
    let (vacuum, command) = (folder.join("vacuum.db"), folder.join("command.db"));
    let conn = Connection::open(path).unwrap();
    conn.execute("VACUUM INTO ?1", [vacuum.to_str().unwrap()]).unwrap();
    let done = Command::new("sqlite3").arg(path).arg(format!(".backup '{}'", command.display())).status();
    // The command is not part of the project.
    if done.is_ok_and(|status| status.success()) { vec![vacuum, command] } else { vec![vacuum] }
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
