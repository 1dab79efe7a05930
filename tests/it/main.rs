//! The integration tests: one program, a module a subject.

mod kill_sweep;
mod sim;
mod sim_crashes;
mod sim_models;
mod ui;
mod waits;
