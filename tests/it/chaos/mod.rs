//! Worker processes on one SQLite file, or on one Postgres, to which everything happens that happens to processes: kills,
//! pauses longer than a lease, locks, full disks, a crashing server, leaps of their clocks, and shutdowns in the middle. Then a
//! judge reads the store and what the tools wrote of their calls.
//!
//! In a normal test run each of the two takes half a minute, and longer on a machine that has no time for it: it goes on
//! until every kind of fault has happened, and waits for runs as long as some of them still end. `AETHER_CHAOS=<seconds>`
//! (see `scripts/chaos`), and for Postgres `AETHER_CHAOS_POSTGRES=<seconds>` (see `scripts/chaos-postgres`), takes as long as
//! it says, with longer faults.
//!
//! `AETHER_CHAOS_SEED` draws the same faults again, the same length of a lease, and on Postgres the same number of writers
//! and the same way to it: directly, through PgBouncer, or portable and serializable. `AETHER_STORE=postgres` (or
//! `postgres-pgbouncer`, `postgres-portable`) chooses the way. What the processes do between the faults is not drawn, so a seed does not repeat a run: with
//! `AETHER_CHAOS_KEEP=<folder>`, what a violation is to be found in is kept there.
//!
//! What holds, and is judged:
//!
//! - Every run ends once it is calm, well, with what its steps returned, and nothing is left of it: no wait, no order
//!   without an answer, no notice to a parent.
//! - No call is made again against its policy: at most one real call per key, but for reads and `retry`.
//! - A call is in doubt only where its process was killed, paused, shut down or starved, or its run cancelled, in that call.
//! - What a probe or an operator denied does not happen later. One thing is beyond a store: on Postgres, nobody knows of a
//!   process that is paused while the server restarts, or behind a pooler, or in portable mode; there a probe decides at once.
//! - A message that was acknowledged is there, is consumed once, and in order. A decision that was acknowledged is in the
//!   journal once. A run that completes was not asked to end before.
//! - Epochs never fall within a journal, positions have no gap, and nothing follows an end: no stale append.
//! - Every journal replays. The ledger knows every call that changed something.
//! - After a shutdown has returned, its process does nothing more.

mod disk;
mod driver;
mod faults;
mod figures;
mod file;
mod flows;
mod home;
mod judge;
mod plan;
mod server;
mod task;
mod worker;
mod world;

use home::Home;
use plan::Plan;
use tempfile::TempDir;

fn survives(plan: Plan, folder: TempDir, home: Box<dyn Home>) {
    println!("{plan}, {home}");
    let found = driver::Driver::begin(plan, folder, home).drive();
    found.print();
    assert!(found.violations.is_empty(), "{} violations; {}", found.violations.len(), found.plan);
    assert_eq!(found.missing(), Vec::<String>::new(), "a kind of fault never happened; {}", found.plan);
}

#[test]
fn nothing_is_lost_repeated_or_stuck_whatever_happens_to_the_processes() {
    let (plan, folder) = (Plan::on_file(), tempfile::tempdir().unwrap());
    let home = file::File::in_folder(folder.path(), &plan);
    survives(plan, folder, Box::new(home));
}

#[test]
fn nothing_is_lost_repeated_or_stuck_whatever_happens_to_processes_and_postgres() {
    let plan = Plan::on_postgres();
    let home = server::Server::begin(plan.seed);
    survives(plan, tempfile::tempdir().unwrap(), Box::new(home));
}
