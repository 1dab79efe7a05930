//! What a step of a run allocates, counted: every allocation of the engine and of its store, in whatever thread.
//!
//! Promise: a change that makes steps dearer fails here, whatever the machine is busy with. The numbers are upper bounds with
//! a little room; who needs fewer allocations lowers them.

#![allow(unsafe_code, reason = "an allocator can be counted only by an allocator")]
#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aether::prelude::*;
use aether_pg_tests::Cluster;
use flows::Class;

#[path = "../../benches/chain/flows.rs"]
mod flows;

const HOUR: Duration = Duration::from_secs(3_600);

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A store, a class of steps, and what one step and one run without steps may allocate.
type Limit = (&'static str, Class, f64, f64);

const LIMITS: [Limit; 6] = [
    ("memory", Class::Tool, 53.0, 71.0),
    ("memory", Class::Read, 34.0, 71.0),
    ("sqlite", Class::Tool, 52.0, 115.0),
    ("sqlite", Class::Read, 35.0, 115.0),
    // A batch is never shared here: one run is in flight.
    ("postgres", Class::Tool, 130.0, 240.0),
    ("postgres", Class::Read, 40.0, 240.0),
];

/// Allocations of `runs` runs of so many steps, one after the other.
async fn allocations(engine: &Engine, class: Class, runs: u32, steps: u32) -> f64 {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    flows::lanes(engine, class, (runs, steps, 1)).await.unwrap();
    (ALLOCATIONS.load(Ordering::Relaxed) - before) as f64
}

/// Allocations of one more step in a run, and of one more run without a step.
async fn per_step_and_run(engine: &Engine, class: Class) -> (f64, f64) {
    const RUNS: u32 = 20;
    const STEPS: u32 = 100;
    allocations(engine, class, 2, STEPS).await;
    let none = allocations(engine, class, RUNS, 0).await;
    let many = allocations(engine, class, RUNS, STEPS).await;
    ((many - none) / f64::from(RUNS * STEPS), none / f64::from(RUNS))
}

/// An engine that has nothing to do but its runs: what it does by the clock would count for more on a slow machine.
async fn engine(store: &str, dir: &Path, database: &str) -> Engine {
    let builder = match store {
        "memory" => Engine::builder().memory(),
        "sqlite" => Engine::builder().sqlite(dir.join("file.db")),
        _ => Engine::builder().postgres(database),
    };
    builder.poll_interval(HOUR).lease(24 * HOUR).start().await.unwrap()
}

/// One runtime of one thread, and one test: what another test allocates meanwhile would be counted, too.
#[tokio::test]
async fn a_step_allocates_no_more_than_it_may() {
    let (database, mut over) = (Cluster::shared().database().await, Vec::new());
    for (store, class, step_limit, run_limit) in LIMITS {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine(store, dir.path(), &database.url()).await;
        let (step, run) = per_step_and_run(&engine, class).await;
        engine.shutdown().await.unwrap();
        let found = format!(
            "{store} {}: {step:.2} per step (limit {step_limit}), {run:.2} per run (limit {run_limit})",
            class.name()
        );
        println!("{found}");
        if step > step_limit || run > run_limit {
            over.push(found);
        }
    }
    assert!(over.is_empty(), "more allocations than allowed:\n{}", over.join("\n"));
}
