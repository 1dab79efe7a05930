//! The timeline of a run: one row for each command, its attempts and waits as bars, idle time folded.
//!
//! Promise: a pure function of a view and a time. Every moment at which something was at work keeps its share of the
//! width; a stretch in which nothing was is as wide as any other, however long it took, and says how long that was.

pub(crate) mod bars;
pub(crate) mod rows;
pub(crate) mod scale;
