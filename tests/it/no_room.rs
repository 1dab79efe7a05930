//! A transaction step that needs more room than the disk has, beside a call that has come back: its run ends, and leaves its
//! worker, with what is known of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aether::engine::RunEnd;
use aether::prelude::*;
use aether::sqlite::rusqlite::Connection;
use aether::sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

use crate::seeds::kit::{in_time, run_id};

/// Calls of the import and of the charge, and how often that has come back.
#[derive(Clone, Default)]
struct Made(Arc<[AtomicU32; 3]>);

impl Made {
    fn note(cx: &StepCx, which: usize) -> Result<()> {
        cx.dep::<Self>()?.0[which].fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn of(&self, which: usize) -> u32 {
        self.0[which].load(Ordering::SeqCst)
    }
}

/// Import more than there is room for.
#[step(effect = "transaction")]
async fn nr_import(cx: &mut StepCx) -> Result<u32> {
    Made::note(cx, 0)?;
    cx.sql(|db| db.execute("INSERT INTO bulk VALUES(zeroblob(2000000))", []))?;
    Ok(1)
}

/// Charge a card.
#[step(effect = "tool")]
async fn nr_charge(cx: &mut StepCx) -> Result<u32> {
    Made::note(cx, 1)?;
    // Until the import was tried.
    while cx.dep::<Made>()?.of(0) < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Made::note(cx, 2)?;
    Ok(7)
}

/// Both at once.
#[workflow]
async fn nr_order(cx: &mut Cx) -> Result<(u32, u32)> {
    let (charged, imported) =
        cx.join((async |cx: &mut Cx| nr_charge(cx).await, async |cx: &mut Cx| nr_import(cx).await)).await;
    Ok((charged?, imported?))
}

/// A file, and what was called.
struct Shop {
    _folder: TempDir,
    path: PathBuf,
    made: Made,
}

impl Shop {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let shop = Self { _folder: folder, path, made: Made::default() };
        shop.engine(SqliteOptions::default()).await.shutdown().await.unwrap();
        shop.db().execute_batch("CREATE TABLE bulk(bytes)").unwrap();
        shop
    }

    fn db(&self) -> Connection {
        let db = Connection::open(&self.path).unwrap();
        db.busy_timeout(Duration::from_secs(10)).unwrap();
        db
    }

    fn count(&self, sql: &str) -> i64 {
        self.db().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    async fn engine(&self, options: SqliteOptions) -> Engine {
        let store = Arc::new(SqliteStore::open_with(&self.path, options).unwrap());
        Engine::builder().store(store).provide(self.made.clone()).start().await.unwrap()
    }

    /// An engine that has room for everything but the import.
    async fn full(&self) -> Engine {
        let pages = self.count("PRAGMA page_count");
        let max_pages = u32::try_from(pages + 100).ok();
        self.engine(SqliteOptions { max_pages, ..SqliteOptions::default() }).await
    }

    /// Until the charge has come back, and a little longer.
    async fn until_charged(&self, longer: Duration) {
        in_time(async {
            while self.made.of(2) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        tokio::time::sleep(longer).await;
    }
}

#[tokio::test]
async fn a_run_is_terminated_and_cancelled_at_once_with_what_its_other_branch_came_back_with() {
    for (name, longer) in [("terminated", 1), ("terminated", 150), ("cancelled", 1), ("cancelled", 300)] {
        let shop = Shop::new().await;
        let engine = shop.full().await;
        let run = engine.start::<nr_order>(()).id(name).await.unwrap();
        shop.until_charged(Duration::from_millis(longer)).await;
        let end = match name {
            "terminated" => run.terminate("enough", "bob").await,
            _ => run.cancel("enough", "bob").await,
        };
        end.unwrap();
        let end = tokio::time::timeout(Duration::from_secs(20), run.end()).await.expect("it ends at once");
        match (name, end.unwrap()) {
            ("terminated", RunEnd::Terminated { .. }) | ("cancelled", RunEnd::Cancelled { .. }) => {}
            (_, end) => panic!("{end:?}"),
        }
        let calls = shop.made.of(0);
        let known = "SELECT count(*) FROM aether_history WHERE kind = 'tool_invocation_finished'";
        assert_eq!(shop.count(known), 1, "the charge is known");
        engine.shutdown().await.unwrap();
        assert_eq!((shop.count("SELECT count(*) FROM bulk"), shop.made.of(0)), (0, calls));
    }
}

#[tokio::test]
async fn a_drain_and_a_shutdown_keep_what_the_other_branch_came_back_with_and_leave_the_run_to_others() {
    let patience = Duration::from_millis(50);
    for drains in [true, false] {
        let shop = Shop::new().await;
        let first = shop.full().await;
        first.start::<nr_order>(()).id("order").await.unwrap();
        shop.until_charged(Duration::from_millis(if drains { 1 } else { 200 })).await;
        if drains {
            let drained = in_time(first.drain(patience)).await.unwrap();
            assert_eq!(drained.cut_off, 1, "{drained:?}");
        } else {
            in_time(first.clone().shutdown_within(patience)).await.unwrap();
        }
        let second = shop.engine(SqliteOptions::default()).await;
        let run = second.handle::<nr_order>("order").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), (7, 1), "it was left to another");
        assert_eq!((shop.made.of(1), shop.count("SELECT count(*) FROM bulk")), (1, 1));
        second.verify(&run_id("order")).await.unwrap();
        second.shutdown().await.unwrap();
        first.shutdown().await.unwrap();
    }
}
