//! Workflows on stores that fail: what must hold after a crash holds after each fault of each call.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::engine::Limits;
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::StoreError;
use aether_testing::{FaultyStore, Sim, StoreFault};

/// Look something up.
#[step(effect = "read")]
async fn look(_cx: &mut StepCx, what: String) -> Result<String> {
    Err(Failure::permanent(what))
}

/// Pay somebody; a crash leaves it in doubt.
#[step(effect = "tool")]
async fn pay(_cx: &mut StepCx, to: String) -> Result<String> {
    Err(Failure::permanent(to))
}

/// Tell somebody, again if need be.
#[step(effect = "external", idempotent)]
async fn tell(_cx: &mut StepCx, to: String) -> Result<String> {
    Err(Failure::permanent(to))
}

/// Something of every kind, and large values.
#[workflow]
async fn errand(cx: &mut Cx) -> Result<String> {
    let found = look(cx, "ann".into()).await?;
    let paid = pay(cx, found).await?;
    cx.sleep(Duration::from_secs(3600)).await;
    let told = tell(cx, paid).await?;
    Ok(format!("{} {}", told.len(), told.starts_with("ann")))
}

fn sim() -> Sim<errand> {
    let large = |to: String| Ok(format!("{to} {}", "x".repeat(400)));
    let limits = Limits { inline: 256, ..Limits::default() };
    Sim::new::<errand>().stub::<look>(large).stub::<pay>(large).stub::<tell>(large).limits(limits)
}

#[tokio::test]
async fn a_run_outlives_every_fault_of_its_store() {
    let report = sim().fail_at_every_call(()).await;
    println!("{report}");
    let came_up =
        |wanted: fn(&StoreFault) -> bool| report.stopped.iter().chain(&report.outlasted).any(wanted);
    assert!(came_up(|fault| matches!(fault, StoreFault::WriteFails(_))), "{report:?}");
    assert!(came_up(|fault| matches!(fault, StoreFault::AnswerLost(_))), "{report:?}");
    assert!(came_up(|fault| matches!(fault, StoreFault::Torn(_))), "{report:?}");
    assert!(came_up(|fault| matches!(fault, StoreFault::Slow(_))), "{report:?}");
    assert!(came_up(|fault| matches!(fault, StoreFault::ReadFails(_))), "{report:?}");
    assert!(came_up(|fault| matches!(fault, StoreFault::EffectFails(_))), "{report:?}");
    assert!(came_up(|fault| matches!(fault, StoreFault::ValueLost(_))), "{report:?}");
}

#[tokio::test]
async fn the_large_values_of_a_run_survive_every_crash() {
    let report = sim().crash_at_every_boundary(()).await;
    println!("{report}");
    assert!(report.effects > 0 && !report.in_doubt.is_empty(), "{report}");
}

/// Pay nobody in particular.
#[step(effect = "external", idempotent, on_unknown = "retry")]
async fn note(cx: &mut StepCx, what: String) -> Result<String> {
    let key = cx.idempotency_key().to_string();
    cx.dep::<Calls>()?.0.lock().map_err(|_| Failure::permanent("poisoned"))?.push(key);
    Ok(what)
}

/// Three real calls.
#[workflow]
async fn noted(cx: &mut Cx) -> Result<String> {
    let one = note(cx, "a".into()).await?;
    let two = note(cx, format!("{one}b")).await?;
    Ok(note(cx, format!("{two}c")).await?)
}

/// Keys of real calls.
#[derive(Clone, Debug, Default)]
struct Calls(Arc<Mutex<Vec<String>>>);

/// One run on a file, on a store with this fault in the first process; its calls, and every fault it could have had.
async fn on_sqlite(
    folder: &Path,
    number: usize,
    fault: Option<StoreFault>,
) -> (Vec<String>, Vec<StoreFault>) {
    let path = folder.join(format!("{number}.db"));
    let calls = Calls::default();
    let full = StoreError::Full { store: "disk".into(), reason: "no space left".into() };
    let faulty = FaultyStore::new(Arc::new(SqliteStore::open(&path).unwrap()), fault).failing_with(full);
    let faulty = Arc::new(faulty);
    // A run that its engine let go of is found when an engine looks for such runs.
    let builder =
        || aether::Engine::builder().poll_interval(Duration::from_millis(20)).provide(calls.clone());
    let first = builder().store(faulty.clone());
    let first = match first.start().await {
        Ok(engine) => {
            let first = match engine.start::<noted>(()).id("run").await {
                Ok(run) => run.result().await.ok(),
                Err(_) => None,
            };
            drop(engine);
            first
        }
        Err(_) => None,
    };
    let possible = faulty.possible();
    drop(faulty);
    let last = match first {
        Some(done) => done,
        None => {
            let engine = builder().sqlite(&path).start().await.unwrap();
            engine.start::<noted>(()).id("run").await.unwrap().result().await.unwrap()
        }
    };
    assert_eq!(last, "abc", "{fault:?}");
    let calls = calls.0.lock().unwrap().clone();
    (calls, possible)
}

#[tokio::test]
async fn a_run_on_sqlite_outlives_every_fault_of_its_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (calls, possible) = on_sqlite(folder.path(), 0, None).await;
    assert_eq!(calls.len(), 3);
    let of_writes = |fault: &&StoreFault| {
        matches!(fault, StoreFault::WriteFails(_) | StoreFault::AnswerLost(_) | StoreFault::Torn(_))
    };
    let faults: Vec<&StoreFault> = possible.iter().filter(of_writes).collect();
    assert!(faults.len() >= 15, "{possible:?}");
    // All at once: an engine lets a run whose store failed rest for seconds.
    let tried = faults.into_iter().enumerate().map(async |(number, fault)| {
        let (mut found, _) = on_sqlite(folder.path(), number + 1, Some(*fault)).await;
        found.dedup();
        assert_eq!(found, calls, "{fault}: a call was made under another key, or out of order");
    });
    futures::future::join_all(tried).await;
}

/// Nobody but its owner could advance the run, and the owner was told that there is none.
#[tokio::test]
async fn a_creation_that_is_durable_and_answered_with_an_error_is_advanced_by_its_worker() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = SqliteStore::open(folder.path().join("runs.db")).unwrap();
    let faulty = FaultyStore::new(Arc::new(sqlite), Some(StoreFault::AnswerLost(1)));
    let builder =
        aether::Engine::builder().poll_interval(Duration::from_millis(20)).provide(Calls::default());
    let engine = builder.store(Arc::new(faulty)).start().await.unwrap();
    engine.start::<noted>(()).id("run").await.unwrap_err();
    let run = engine.start::<noted>(()).id("run").await.unwrap();
    let done = tokio::time::timeout(Duration::from_secs(120), run.result()).await;
    assert_eq!(done.expect("its worker owns it, and nobody advances it").unwrap(), "abc");
}
