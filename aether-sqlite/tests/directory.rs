//! A program that changes its directory goes on with the file that it has opened. One test alone: the directory is that of
//! the whole process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken promise panics with what it saw")]

use std::time::Duration;

use aether_core::id::WorkerId;
use aether_core::store::Store;
use aether_sqlite::SqliteStore;

use kit::{append, frame, id, new_run, queue};

mod kit;

#[tokio::test]
async fn a_relative_path_means_the_same_file_wherever_the_program_goes() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    for (path, file) in [("agent.db", "agent.db"), ("file:a%20uri.db?cache=private", "a uri.db")] {
        std::env::set_current_dir(folder.path()).unwrap();
        let store = SqliteStore::open(path).unwrap();
        std::env::set_current_dir(&elsewhere).unwrap();
        let me = WorkerId::from("me".to_owned());
        assert!(store.register(&me, Duration::from_secs(60), Vec::new()).await.unwrap());
        assert!(folder.path().join(format!("{file}-workers")).join("me").exists(), "{file}");
        store.create(new_run("a")).await.unwrap();
        queue(&store, append("a", 1, 1, frame("event"))).await.unwrap().unwrap();
        assert_eq!(store.load(&id("a"), 0).await.unwrap().len(), 2);
        assert_eq!(store.damage().await.unwrap(), [""; 0]);
        store.close().await.unwrap();
        drop(store);

        std::env::set_current_dir(folder.path()).unwrap();
        let looking = SqliteStore::open_read_only(file).unwrap();
        std::env::set_current_dir(&elsewhere).unwrap();
        assert_eq!(looking.load(&id("a"), 0).await.unwrap().len(), 2);
        drop(looking);
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0, "nothing is made here");
    }
    std::env::set_current_dir("/").unwrap();
}
