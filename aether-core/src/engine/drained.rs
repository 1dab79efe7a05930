//! What a drain did with the runs of an engine.
//!
//! Promise: plain values.

/// What became of the runs that a drained engine advanced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// How many ended, were suspended or were released in time.
    pub in_time: usize,
    /// How many were cut off in the middle of a body. A world-changing body that was is in doubt.
    pub cut_off: usize,
}
