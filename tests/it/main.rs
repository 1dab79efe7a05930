//! The integration tests, in one program.

mod examples;
mod kill_sweep;
mod ui;
