//! What steps, runs and recoveries allocate, counted: every allocation of the engine and of its store in Rust, in whatever
//! thread. What SQLite itself allocates, in C, is not counted.
//!
//! Promise: a change that makes them dearer fails here, whatever the machine is busy with. The tables are upper bounds with
//! a little room; who needs less lowers them.
//!
//! Each figure is a difference between two lengths, so that set-up does not count. What still varies, by less than the
//! room: how long the text of a time is, when a table grows, and how many appends share a commit.
//!
//! `cargo test -p aether-testing --test allocations -- --nocapture` prints the figures.

#![allow(clippy::unwrap_used)]

use std::alloc::System;
use std::ops::{Div, Sub};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aether::engine::EngineBuilder;
use aether::prelude::*;
use aether::store::MemoryStore;
use aether_pg_tests::Cluster;
use flows::Class;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::sync::Notify;

#[path = "../../benches/chain/flows.rs"]
mod flows;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A store, a class of steps, and what one step may allocate. Five allocations are those of its own body, which pads a text.
const OF_STEPS: [(&str, Class, Cost); 6] = [
    ("memory", Class::Tool, Cost(45.0, 11_700.0)),
    ("memory", Class::Read, Cost(30.0, 9_000.0)),
    ("sqlite", Class::Tool, Cost(41.0, 11_700.0)),
    ("sqlite", Class::Read, Cost(29.0, 9_100.0)),
    // A batch of tool steps is never shared here: one run is in flight. Reads share one as it comes. What writes a batch is
    // kept on the heap (4.5 kB), so that the next one can be looked after meanwhile.
    ("postgres", Class::Tool, Cost(121.0, 25_000.0)),
    ("postgres", Class::Read, Cost(31.0, 9_400.0)),
];

/// A store, and what one run may allocate beside its tool steps; the growing of tables that their number causes is in it.
const OF_RUNS: [(&str, Cost); 3] =
    [("memory", Cost(80.0, 77_000.0)), ("sqlite", Cost(90.0, 42_000.0)), ("postgres", Cost(245.0, 76_000.0))];

/// A store, and what one event may allocate when a run of tool steps, of six events each, is recovered. Records that wait
/// closed are made twice, so that half of the memory is held at a time.
const OF_RECOVERY: [(&str, Cost); 3] =
    [("memory", Cost(8.2, 2_100.0)), ("sqlite", Cost(8.2, 2_100.0)), ("postgres", Cost(8.7, 2_600.0))];

const HELP: &str = "To see where allocations are made, build the bench `chain` (or `recover`) and run it under \
    `valgrind --tool=dhat --num-callers=40` with two numbers of `--steps`: what differs by stack is what the steps allocate.";

const HOUR: Duration = Duration::from_secs(3_600);

/// Allocations, those that grow among them, and the bytes that were asked for.
#[derive(Clone, Copy)]
struct Cost(f64, f64);

impl Cost {
    /// All that was allocated since the program began.
    fn so_far() -> Self {
        let stats = COUNTED.stats();
        Self((stats.allocations + stats.reallocations) as f64, stats.bytes_allocated as f64)
    }

    fn since(before: Self) -> Self {
        Self::so_far() - before
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0, self.1 - other.1)
    }
}

impl Div<f64> for Cost {
    type Output = Self;

    fn div(self, by: f64) -> Self {
        Self(self.0 / by, self.1 / by)
    }
}

/// What was found beside what is allowed.
struct Held(Vec<String>);

impl Held {
    fn look(&mut self, what: &str, found: Cost, allowed: Cost) {
        let line = format!(
            "{what:<34} {:7.2} allocations (allowed {}), {:6.0} bytes (allowed {})",
            found.0, allowed.0, found.1, allowed.1
        );
        println!("{line}");
        if found.0 > allowed.0 || found.1 > allowed.1 {
            self.0.push(line);
        }
    }

    fn end(self) {
        assert!(self.0.is_empty(), "more is allocated than allowed:\n{}\n{HELP}", self.0.join("\n"));
    }
}

/// What `runs` runs of so many steps allocate, one after the other.
async fn chains(engine: &Engine, class: Class, runs: u32, steps: u32) -> Cost {
    let before = Cost::so_far();
    flows::lanes(engine, class, (runs, steps, 1)).await.unwrap();
    Cost::since(before)
}

/// The cost of one more step in a run, and what a run costs beside its steps. Runs without steps would not tell: they end
/// so soon that the engine looks once for several of them what there is to do.
async fn per_step_and_run(engine: &Engine, class: Class) -> (Cost, Cost) {
    const RUNS: u32 = 10;
    const STEPS: u32 = 100;
    chains(engine, class, 2, STEPS).await;
    let less = chains(engine, class, RUNS, STEPS).await;
    let more = chains(engine, class, RUNS, 2 * STEPS).await;
    let of_steps = more - less;
    (of_steps / f64::from(RUNS * STEPS), (less - of_steps) / f64::from(RUNS))
}

#[derive(Default)]
struct Gauge {
    calls: AtomicU64,
    at_the_last: Notify,
    may_end: bool,
}

#[step(effect = "tool")]
async fn send(cx: &mut StepCx, number: u32) -> Result<String> {
    cx.dep::<Arc<Gauge>>()?.calls.fetch_add(1, Ordering::Relaxed);
    Ok(format!("{number:0>100}"))
}

#[step(effect = "read", retry(max_retries = 0), timeout = "none")]
async fn last(cx: &mut StepCx) -> Result<()> {
    let gauge = cx.dep::<Arc<Gauge>>()?;
    gauge.at_the_last.notify_one();
    if !gauge.may_end {
        std::future::pending::<()>().await;
    }
    Ok(())
}

#[workflow]
async fn cut_off(cx: &mut Cx, steps: u32) -> Result<usize> {
    let mut length = 0;
    for number in 0..steps {
        length += send(cx, number).await?.len();
    }
    last(cx).await?;
    Ok(length)
}

/// What it allocates to recover a run of so many steps, from opening its store to its end, and how many events it has.
async fn recovery(steps: u32, open: &impl Fn() -> EngineBuilder) -> (Cost, u64) {
    let gauge = Arc::new(Gauge::default());
    let engine = open().provide(Arc::clone(&gauge)).start().await.unwrap();
    engine.start::<cut_off>(steps).id("long").await.unwrap();
    gauge.at_the_last.notified().await;
    engine.shutdown_within(Duration::ZERO).await.unwrap();

    let gauge = Arc::new(Gauge { may_end: true, ..Gauge::default() });
    let before = Cost::so_far();
    let engine = open().provide(Arc::clone(&gauge)).start().await.unwrap();
    let run = engine.handle::<cut_off>("long").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 100 * steps as usize);
    let cost = Cost::since(before);
    assert_eq!(gauge.calls.load(Ordering::Relaxed), 0, "a recorded body is not called");
    let events = engine.view(run.id()).await.unwrap().position;
    engine.shutdown().await.unwrap();
    (cost, events)
}

/// An engine that has nothing to do but its runs: what it does by the clock would count for more on a slow machine.
fn idle(builder: EngineBuilder) -> EngineBuilder {
    builder.poll_interval(HOUR).lease(24 * HOUR)
}

/// Opens a new, empty store, and it again.
async fn place(store: &str, dir: &Path) -> Box<dyn Fn() -> EngineBuilder> {
    match store {
        "memory" => {
            let memory = Arc::new(MemoryStore::new());
            Box::new(move || idle(Engine::builder().store(Arc::clone(&memory) as _)))
        }
        "sqlite" => {
            let file = dir.join("file.db");
            Box::new(move || idle(Engine::builder().sqlite(&file)))
        }
        _ => {
            let database = Cluster::shared().database().await;
            Box::new(move || idle(Engine::builder().postgres(database.url())))
        }
    }
}

async fn look_at_chains(held: &mut Held) {
    for (store, class, of_step) in OF_STEPS {
        let dir = tempfile::tempdir().unwrap();
        let open = place(store, dir.path()).await;
        let engine = open().provide(Arc::<Gauge>::default()).start().await.unwrap();
        let (step, run) = per_step_and_run(&engine, class).await;
        engine.shutdown().await.unwrap();
        held.look(&format!("{store}, a {} step", class.name()), step, of_step);
        if class == Class::Tool
            && let Some((_, of_run)) = OF_RUNS.iter().find(|(name, _)| *name == store)
        {
            held.look(&format!("{store}, a run beside its steps"), run, *of_run);
        }
    }
}

async fn look_at_recoveries(held: &mut Held) {
    for (store, allowed) in OF_RECOVERY {
        let dir = tempfile::tempdir().unwrap();
        let (less, few) = recovery(1_000, &place(store, dir.path()).await).await;
        let dir = tempfile::tempdir().unwrap();
        let (more, many) = recovery(2_000, &place(store, dir.path()).await).await;
        held.look(&format!("{store}, an event recovered"), (more - less) / (many - few) as f64, allowed);
    }
}

/// One runtime of one thread, and one test: what another test allocates meanwhile would be counted, too.
#[tokio::test]
async fn nothing_allocates_more_than_it_may() {
    let mut held = Held(Vec::new());
    look_at_chains(&mut held).await;
    look_at_recoveries(&mut held).await;
    held.end();
}
