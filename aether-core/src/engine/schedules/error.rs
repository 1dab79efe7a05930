//! Why a schedule cannot be declared, found or changed.
//!
//! Promise: nothing was changed.

use crate::engine::start::StartError;
use crate::policy::cron::CronError;
use crate::store::error::StoreError;
use crate::vocabulary::id::RunIdError;
use crate::vocabulary::labels::LabelError;
use crate::vocabulary::payload::PayloadError;

/// Why a schedule cannot be declared, found or changed. Nothing was changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The name, with a time behind it, is no id of a run.
    #[error("`{name}` cannot name a schedule, because its runs are named `schedule:<name>:<time>`: {error}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with such an id.
        error: RunIdError,
    },
    /// Expression and zone are no schedule.
    #[error(transparent)]
    Cron(#[from] CronError),
    /// The workflow needs an input, and the schedule gives none.
    #[error(
        "workflow `{workflow}` takes an input of type `{input}`: give schedule `{name}` one with `.input(..)`"
    )]
    NoInput {
        /// Name of the schedule.
        name: String,
        /// Name of the workflow.
        workflow: &'static str,
        /// Type of its input.
        input: &'static str,
    },
    /// All missed ticks are to be started, and a tick is to be skipped, or ends the other, while an earlier run is open.
    #[error(
        "schedule `{name}` has `CatchUp::All`, and its `Overlap` would let only one of them run to its end: say `.overlap(Overlap::Wait)` for one after the other, or `Overlap::Allow` for all at once"
    )]
    SkippedCatchUp {
        /// Name of the schedule.
        name: String,
    },
    /// The input cannot be recorded.
    #[error("the input of schedule `{name}` cannot be recorded: {error}")]
    Input {
        /// Name of the schedule.
        name: String,
        /// Why it does not serialize.
        error: PayloadError,
    },
    /// A label cannot be kept.
    #[error("schedule `{name}`: {error}")]
    Label {
        /// Name of the schedule.
        name: String,
        /// What is wrong with it.
        error: LabelError,
    },
    /// The input is over the limit.
    #[error(
        "the input of schedule `{name}` has {size} bytes of JSON, over the limit of {limit} (`Limits::payload`)"
    )]
    TooLarge {
        /// Name of the schedule.
        name: String,
        /// Size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// There is no such schedule.
    #[error("there is no schedule `{name}`: `Engine::schedules` lists those that there are")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The schedule starts a workflow that this program does not have.
    #[error("schedule `{name}` starts workflow `{workflow}`, which is not linked into this program")]
    NotLinked {
        /// Name of the schedule.
        name: String,
        /// Name of the workflow.
        workflow: String,
    },
    /// A run cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
