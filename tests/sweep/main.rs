//! The sweeps: crashes at every boundary, every order of branches, every fault of a store, schedules; and that they notice when a
//! rule is broken.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[allow(dead_code)]
#[path = "../../examples/research/agent.rs"]
mod agent;
#[allow(dead_code)]
#[path = "../../examples/research/report.rs"]
mod report;
#[allow(dead_code)]
#[path = "../../examples/research/tools.rs"]
mod tools;
#[allow(dead_code)]
#[path = "../../examples/research/tree.rs"]
mod tree;

mod boundaries;
mod faults;
mod mutants;
mod orders;
mod people;
mod research;
mod schedules;
