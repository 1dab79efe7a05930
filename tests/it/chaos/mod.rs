//! Three worker processes on one SQLite file, to which everything happens that happens to processes: kills, pauses longer
//! than a lease, locks, full disks, leaps of their clocks, and shutdowns in the middle. Then a judge reads the file and
//! what the tools wrote of their calls.
//!
//! In a normal test run this takes half a minute. `AETHER_CHAOS=<seconds>` (see `scripts/chaos`) takes as long as it says,
//! with longer faults. `AETHER_CHAOS_SEED` draws the same faults again.

mod disk;
mod driver;
mod faults;
mod figures;
mod file;
mod flows;
mod home;
mod judge;
mod plan;
mod worker;
mod world;

use plan::Plan;

#[test]
fn nothing_is_lost_repeated_or_stuck_whatever_happens_to_the_processes() {
    let (plan, folder) = (Plan::on_file(), tempfile::tempdir().unwrap());
    let home = file::File::in_folder(folder.path(), &plan);
    println!("{plan}, {home}");
    let found = driver::Driver::begin(plan, folder, Box::new(home)).drive();
    found.print();
    assert!(found.violations.is_empty(), "{} violations; {}", found.violations.len(), found.plan);
    assert_eq!(found.missing(), Vec::<String>::new(), "a kind of fault never happened; {}", found.plan);
}
