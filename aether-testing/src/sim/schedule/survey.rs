//! What a plain simulation passes: the ground on which schedules are drawn.
//!
//! Promise: it is made from one simulation alone, so that the same test has the same survey.

use std::collections::BTreeSet;
use std::time::Duration;

use super::plan::PointKind;

/// The points, messages and due times of a simulation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    /// How many points of each sort were passed, in the order of [`PointKind::ALL`].
    pub(crate) points: [u32; PointKind::ALL.len()],
    /// How many messages of each sort came: signals, cancels, replies, reports.
    pub(crate) messages: [u32; 4],
    /// The shortest time limit of a body, if one has a limit.
    pub(crate) limit: Option<Duration>,
    /// When the engine waited for a time, it was so long after the beginning.
    pub(crate) dues: BTreeSet<Duration>,
    /// And so long were these waits.
    pub(crate) spans: BTreeSet<Duration>,
}
