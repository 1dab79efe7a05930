//! The integration tests, in one program.

mod kill_sweep;
mod ui;
