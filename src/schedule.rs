//! Schedules: runs that start by the clock.

pub use aether_core::clock_change::{Gap, Repeat};
pub use aether_core::engine::{Backfill, NewSchedule, Schedule, ScheduleError};
pub use aether_core::policy::{Cron, CronError};
pub use aether_core::store::{CatchUp, Overlap, ScheduleRecord, ScheduleSpec, Tick, TickOutcome};
