//! Queues with their limits, and schedules.
//!
//! Promise: a limit has one kind.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;

use crate::time::{parse_duration, parse_moment};

#[derive(Debug, Subcommand)]
pub(crate) enum Queues {
    /// The queues that have open runs or limits: how many run, how many wait for a turn
    List,
    /// Limits, which count from the next turn and the next start on
    #[command(subcommand)]
    Limit(Limits),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Limits {
    /// All limits
    List,
    /// Set a limit, in place of the one of the same kind
    Set(SetLimit),
    /// Remove a limit
    Remove {
        /// What it counts together, as `queues limit list` shows it
        pattern: String,
        /// Its kind
        #[arg(value_enum)]
        kind: LimitName,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SetLimit {
    /// What it counts together: `tickets`, one key `tickets/acme`, or each key for itself `tickets/*`
    pub(crate) pattern: String,
    #[command(flatten)]
    pub(crate) kind: LimitOf,
    /// The time in which so many may begin: 60s, 1h
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "starts")]
    pub(crate) per: Option<Duration>,
}

/// What is limited.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct LimitOf {
    /// So many runs execute a turn at the same time; 0 pauses them
    #[arg(long, value_name = "NUMBER")]
    pub(crate) running: Option<u32>,
    /// So many runs begin within the time that --per says
    #[arg(long, value_name = "NUMBER", requires = "per")]
    pub(crate) starts: Option<u32>,
    /// So many runs may be open: one more is refused at its start
    #[arg(long, value_name = "NUMBER")]
    pub(crate) open: Option<u32>,
    /// So many turns for each turn of a key of weight 1
    #[arg(long, value_name = "NUMBER")]
    pub(crate) weight: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LimitName {
    Running,
    Starts,
    Open,
    Weight,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Schedules {
    /// All schedules: what they start, when next, and what became of the newest ticks
    List,
    /// Start nothing from now on
    Pause(OneSchedule),
    /// End a pause: what ticked meanwhile is not caught up with
    Resume(OneSchedule),
    /// Start a run now, or that of a tick (in the program that has its workflow)
    Trigger(Trigger),
}

#[derive(Debug, Args)]
pub(crate) struct OneSchedule {
    /// Name of the schedule
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Trigger {
    #[command(flatten)]
    pub(crate) schedule: OneSchedule,
    /// The tick of this time, unless it was started
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub(crate) at: Option<Timestamp>,
}
