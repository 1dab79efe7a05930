//! What a time of day means on the days on which clocks change.
//!
//! Promise: the names are those of stored schedules, and are never changed.

use serde::{Deserialize, Serialize};

/// What becomes of a time of day that clocks skip because they are put forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Gap {
    /// It ticks at the moment of the change; several skipped times tick once.
    #[default]
    Shift,
    /// It does not tick on that day.
    Skip,
}

/// What becomes of a time of day that comes twice because clocks are put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Repeat {
    /// The first time ticks.
    #[default]
    Once,
    /// Both times tick.
    Twice,
}
