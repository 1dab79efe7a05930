//! The integration tests: one program, a module a subject.

mod examples;
mod kill_sweep;
mod names;
mod sim;
mod sim_crashes;
mod sim_models;
mod ui;
