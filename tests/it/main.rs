//! The integration tests: one program, a module a subject.

#![allow(clippy::unwrap_used, clippy::expect_used)]

aether::allow_missing_deps!("each test runs a few of the workflows that are linked here");

mod adoption;
mod backups;
mod bad_input;
mod begins_later;
mod budgets;
mod built;
mod came_back;
mod cancel;
#[path = "../built/cargo_build.rs"]
mod cargo_build;
mod chaos;
mod children;
mod configuration;
mod crash;
mod credentials;

mod definitions;
mod drain;
mod edits;
mod encryption;
mod evidence;
mod examples;
mod foretold;
mod forks;
mod fuzz;
mod gone_children;
mod heartbeats;
mod hostile;
mod keyed;
mod kill_sweep;
mod known_at_end;
mod known_of_losers;
mod limits;
mod lists;
mod locks;
mod logs;
mod lost_answers;
mod lost_claims;
mod many_waits;
mod marks;
mod matters;
mod moved_steps;
mod names;
mod namesakes;
mod open_waits;
mod own_tables;
mod patience;
mod planted;
mod postgres;
mod queues;
mod recordings;
mod redaction;
mod renewal;
mod reservations;
mod retries;
mod runtimes;
mod schedule_edits;
mod schedule_races;
mod schedules;
mod seeds;
mod shapes;
mod side_by_side;
mod sim;
mod sim_crashes;
mod sim_models;
#[path = "../sins/mod.rs"]
mod sins;
mod step_limits;
mod step_options;
mod streams;
mod told_at_end;
mod tools;
mod transactions;
mod trap;
mod turns;
mod ui;
mod undoing;
mod upkeep;
mod versions;
mod view_pages;
mod waits;
mod why;
