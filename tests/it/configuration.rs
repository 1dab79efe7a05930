//! Configuration that workflows read: recorded, and the same for every replay.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aether::prelude::*;
use aether_testing::Sim;
use serde::{Deserialize, Serialize};

use crate::seeds::kit::{in_time, until_waiting};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Rules {
    approve_above: u64,
}

/// Read the rules before and after a wait.
#[workflow]
async fn judged(cx: &mut Cx) -> Result<(u64, u64)> {
    let before: Rules = cx.config().await?;
    cx.signal::<()>("go").await?;
    let after = cx.config::<Rules>().await?;
    Ok((before.approve_above, after.approve_above))
}

#[tokio::test]
async fn a_value_that_was_read_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.db");
    let builder = || Engine::builder().sqlite(&file);
    let engine = builder().provide(Rules { approve_above: 100 }).start().await.unwrap();
    let run = engine.start::<judged>(()).id("r").await.unwrap();
    in_time(until_waiting(&run)).await;
    engine.shutdown().await.unwrap();

    // Without the value, what is recorded needs none, and what is not stops the run and does not fail it.
    let engine = builder().start().await.unwrap();
    let run = engine.handle::<judged>("r").await.unwrap();
    engine.signal(run.id(), "go", "1", &()).await.unwrap();
    let stopped = in_time(run.result()).await.unwrap_err();
    assert!(stopped.to_string().contains("Rules"), "{stopped}");
    engine.shutdown().await.unwrap();

    let engine = builder().provide(Rules { approve_above: 200 }).start().await.unwrap();
    let run = engine.handle::<judged>("r").await.unwrap();
    // Not only when the stopped run is due again.
    run.advance().await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), (100, 200));
}

#[aether::test(timeout = "10m")]
async fn a_simulation_provides_it_like_any_value(sim: Sim<judged>) {
    let sim = sim.provide(Rules { approve_above: 7 }).signal_at(Duration::from_secs(1), "go", ());
    assert_eq!(*sim.run(()).await.assert_completed(), (7, 7));
}

/// Rules of the same shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Limits {
    approve_above: u64,
}

/// Whether the build runs that reads the two in another order.
static SWAPPED: AtomicBool = AtomicBool::new(false);

fn is_swapped() -> bool {
    SWAPPED.load(Ordering::SeqCst)
}

/// Read two values of one shape.
#[workflow]
async fn read_two(cx: &mut Cx) -> Result<(u64, u64)> {
    let (rules, limits): (Rules, Limits) = if is_swapped() {
        let limits = cx.config().await?;
        (cx.config().await?, limits)
    } else {
        (cx.config().await?, cx.config().await?)
    };
    cx.signal::<()>("go").await?;
    Ok((rules.approve_above, limits.approve_above))
}

#[tokio::test]
async fn code_that_reads_another_type_does_not_get_the_value_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.db");
    let builder = || {
        let (rules, limits) = (Rules { approve_above: 1 }, Limits { approve_above: 2 });
        Engine::builder().sqlite(&file).provide(rules).provide(limits)
    };
    let engine = builder().start().await.unwrap();
    let run = engine.start::<read_two>(()).id("r").await.unwrap();
    in_time(until_waiting(&run)).await;
    engine.shutdown().await.unwrap();

    SWAPPED.store(true, Ordering::SeqCst);
    let engine = builder().start().await.unwrap();
    let run = engine.handle::<read_two>("r").await.unwrap();
    engine.signal(run.id(), "go", "1", &()).await.unwrap();
    let stopped = in_time(run.result()).await.unwrap_err().to_string();
    assert!(stopped.contains("Rules") && stopped.contains("Limits"), "{stopped}");
    engine.shutdown().await.unwrap();

    SWAPPED.store(false, Ordering::SeqCst);
    let engine = builder().start().await.unwrap();
    let run = engine.handle::<read_two>("r").await.unwrap();
    run.advance().await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), (1, 2));
}
