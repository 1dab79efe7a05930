//! A store works on when the runtime in which it was opened has ended, for engines in others.

use std::sync::Arc;
use std::time::Duration;

use aether::postgres::PostgresStore;
use aether::prelude::*;
use aether::store::Store;
use aether::view::Status;
use tokio::runtime::{Builder, Runtime};

use super::kit::{Bank, Calls, in_time};
use super::refusals::in_a_file;

/// Far longer than an end may take to reach its parent, and far shorter than anything that looks for parents by itself.
const SOON: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(1200);

/// Write a row.
#[step(effect = "transaction")]
async fn note_down(cx: &mut StepCx, text: String) -> Result<u64> {
    Calls::count(cx)?;
    Ok(cx.postgres(|db| db.execute("INSERT INTO notes(text) VALUES($1)", &[&text]))?)
}

#[workflow]
async fn noting(cx: &mut Cx, text: String) -> Result<u64> {
    Ok(note_down(cx, text).await?)
}

#[workflow]
async fn child_that_waits(cx: &mut Cx) -> Result<u32> {
    Ok(cx.signal("word").await?)
}

#[workflow]
async fn parent_that_sleeps(cx: &mut Cx) -> Result<u32> {
    let child = cx.start_child::<child_that_waits>(()).id("child").await?;
    Ok(child.result(cx).await?)
}

fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A store that was opened in a runtime of its own, which has ended.
fn opened_elsewhere(bank: &Bank) -> Arc<dyn Store> {
    let opening = threads();
    let store = opening.block_on(PostgresStore::connect_with(bank.url(), bank.options.clone())).unwrap();
    drop(opening);
    Arc::new(store)
}

fn on(store: &Arc<dyn Store>, bank: &Bank) -> aether::engine::EngineBuilder {
    let builder = Engine::builder().store(store.clone()).provide(bank.calls.clone()).without::<in_a_file>();
    builder.eviction_grace(Duration::from_millis(20)).lease(LEASE)
}

async fn until_waiting<W>(run: &RunHandle<W>) {
    while run.status().await.unwrap() != Status::Waiting {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn the_end_of_a_child_reaches_its_parent() {
    let home = threads();
    let bank = home.block_on(Bank::new());
    let store = opened_elsewhere(&bank);
    home.block_on(async {
        let engine = on(&store, &bank).start().await.unwrap();
        let parent = engine.start::<parent_that_sleeps>(()).id("parent").await.unwrap();
        in_time(until_waiting(&parent)).await;
        let child = engine.handle::<child_that_waits>("child").await.unwrap();
        in_time(until_waiting(&child)).await;
        // The parent is not in memory: nothing but the store can tell it.
        in_time(async {
            while engine.health().await.active > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        engine.signal(child.id(), "word", "1", &7).await.unwrap();
        assert_eq!(tokio::time::timeout(SOON, parent.result()).await.expect("nobody tells it").unwrap(), 7);
        in_time(engine.shutdown()).await.unwrap();
    });
}

#[test]
fn a_transaction_step_leaves_its_lane() {
    let home = threads();
    let bank = home.block_on(Bank::new());
    let store = opened_elsewhere(&bank);
    home.block_on(async {
        let engine = on(&store, &bank).start().await.unwrap();
        for text in ["one", "two"] {
            let run = engine.start::<noting>(text.to_owned()).id(text).await.unwrap();
            assert_eq!(tokio::time::timeout(SOON, run.result()).await.expect("it never ends").unwrap(), 1);
        }
        assert_eq!((bank.calls.made(), bank.notes().await), (2, vec!["one".to_owned(), "two".to_owned()]));
        in_time(engine.shutdown()).await.unwrap();
    });
}

/// The engine of the first runtime ends with it; another one goes on with the same store.
#[test]
fn a_store_outlives_the_runtimes_of_its_engines() {
    let home = threads();
    let bank = home.block_on(Bank::new());
    let store = opened_elsewhere(&bank);
    for text in ["one", "two"] {
        let (engines, callers) = (threads(), threads());
        let engine = engines.block_on(on(&store, &bank).start()).unwrap();
        let noted = callers.block_on(async {
            let run = engine.start::<noting>(text.to_owned()).id(text).await.unwrap();
            tokio::time::timeout(SOON, run.result()).await.expect("it never ends").unwrap()
        });
        assert_eq!(noted, 1);
        drop(engines);
        callers.block_on(in_time(engine.shutdown())).unwrap();
    }
    assert_eq!(home.block_on(bank.notes()), ["one", "two"]);
    home.block_on(store.close()).unwrap();
}
