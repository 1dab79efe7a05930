//! Schedules: declaring them, what an operator does with them, and starting what is due.
//!
//! Promise: each tick of a schedule is decided once and has at most one run, whatever dies in between and however many
//! workers look.

mod backfill;
mod decision;
mod declare;
mod error;
mod handle;
mod jitter;
pub(crate) mod ticking;

pub use backfill::Backfill;
pub use declare::NewSchedule;
pub use error::ScheduleError;
pub use handle::Schedule;
