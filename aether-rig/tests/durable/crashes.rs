//! The engine is dropped at every write.

use std::sync::Arc;

use aether::store::{MemoryStore, Store};
use aether_testing::crash::{Boundary, CrashPoint, CrashStore};

use crate::kit::{Asked, Became, Declared, World, complain, complaint, engine, in_time, support};

type Stores = fn(&tempfile::TempDir) -> Arc<dyn Store>;

fn memory(_: &tempfile::TempDir) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

fn sqlite(folder: &tempfile::TempDir) -> Arc<dyn Store> {
    Arc::new(aether::sqlite::SqliteStore::open(folder.path().join("run.db")).unwrap())
}

/// A run without a crash: what was asked for, what became of it, and the boundaries that it passed.
async fn whole(declared: Declared) -> (Asked, Became, Vec<Boundary>) {
    let world = World::start(support()).await;
    let counted = Arc::new(CrashStore::new(Arc::new(MemoryStore::new()), None));
    let store: Arc<dyn Store> = counted.clone();
    let engine = engine(&store, world.agents()).await;
    let became = complain(&engine, declared).await;
    (world.asked(), became, counted.boundaries())
}

/// Crashes at `point`, and resumes with a new agent on the store behind.
async fn crashed(stores: Stores, declared: Declared, point: CrashPoint) -> (Asked, Asked, Became) {
    let (world, folder) = (World::start(support()).await, tempfile::tempdir().unwrap());
    let behind = stores(&folder);
    let crashing = Arc::new(CrashStore::new(Arc::clone(&behind), Some(point)));
    let store: Arc<dyn Store> = crashing.clone();
    let first = engine(&store, world.agents()).await;
    let starting = tokio::spawn(async move {
        let _never_answered = first.start::<complaint>(declared).id("r").await;
        std::future::pending::<()>().await;
    });
    in_time(crashing.crashed()).await;
    let before = world.asked();
    starting.abort();
    let _ended = starting.await;
    let second = engine(&behind, world.agents()).await;
    let became = complain(&second, declared).await;
    second.verify(&"r".parse().unwrap()).await.unwrap();
    (before, world.asked(), became)
}

/// Each question and each read at most once more than without a crash: its answer may be lost with those that were not
/// written yet. What changes something is called again only where the program says so, and under its key.
fn check(point: &str, whole: &Asked, crashed: &Asked, declared: Declared) -> usize {
    let mut more = 0;
    for (number, times) in &whole.questions {
        let asked = crashed.questions.get(number).copied().unwrap_or_default();
        assert!(asked <= times + 1, "{point}: question {number} was asked {asked} times");
        more += asked.saturating_sub(*times);
    }
    for (tool, keys) in &whole.tools {
        let made = crashed.calls(tool);
        let repeated = made.saturating_sub(keys.len());
        let may = tool == "search" || declared == Declared::Idempotent;
        assert!(repeated <= usize::from(may), "{point}: `{tool}` was called {made} times");
        let mut different = crashed.tools.get(tool).cloned().unwrap_or_default();
        different.sort();
        different.dedup();
        assert!(different.len() <= keys.len(), "{point}: `{tool}` was called under {different:?}");
        more += repeated;
    }
    more
}

async fn sweep(stores: Stores, declared: Declared) {
    let (undisturbed, expected, boundaries) = whole(declared).await;
    assert_eq!(expected, Became::Answered("done after 4 results".into()));
    let (mut in_doubt, mut exact, mut repeated) = (0, 0, 0);
    for boundary in &boundaries {
        let point = boundary.point;
        if matches!(point, CrashPoint::Stalled(_)) {
            continue;
        }
        let name = format!("{point} ({})", boundary.what);
        let (_, asked, became) = crashed(stores, declared, point).await;
        let more = check(&name, &undisturbed, &asked, declared);
        repeated += more;
        match became {
            Became::InDoubt(_) if declared == Declared::Not => {
                in_doubt += 1;
                // The model never heard of the call again, so it could not make it a second time.
                assert!(asked.calls("note") <= 1 && asked.calls("refund") <= 1, "{name}: {asked:?}");
            }
            became => {
                assert_eq!(became, expected, "{name}");
                // An outcome that was durable is not produced again.
                if matches!(point, CrashPoint::After(_)) && more == 0 {
                    assert_eq!(asked.counts(), undisturbed.counts(), "{name}");
                    exact += 1;
                }
            }
        }
    }
    println!("{} points: {exact} exact, {repeated} repeated, {in_doubt} in doubt", boundaries.len());
    assert!(exact > 0 && repeated > 0);
    // Each of the two calls that change something can be cut off between its intent and its outcome.
    assert_eq!(in_doubt > 1, declared == Declared::Not);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_memory_nothing_is_called_twice_for_one_call() {
    sweep(memory, Declared::Not).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_memory_idempotent_tools_end_as_without_a_crash() {
    sweep(memory, Declared::Idempotent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite_nothing_is_called_twice_for_one_call() {
    sweep(sqlite, Declared::Not).await;
}
