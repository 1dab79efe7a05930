//! Recorded runs as fixtures: today's code is replayed against what was recorded, and nothing is executed.
//!
//! Promise: a recording counts as matched only when today's code asked for everything that stands in it, in its order;
//! no file, a file without a recorded command and a workflow that is not linked are failures.

mod fixtures;
mod pattern;
mod report;
mod verify;

pub use fixtures::{RECORD, assert_all, assert_fixture, verify_all};
pub use report::{Counts, FileReport, RecordingFailure, Report};
