//! When an invocation of unknown outcome is sent again, as its decision holds it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A sending under a key that was used before, which is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resend {
    /// Which one it is, from 1: so many came before it, the first sending included.
    pub number: u32,
    /// When it is due.
    pub due: Timestamp,
    /// How long the step's attempts and their waits took so far, this wait included, in milliseconds. Time in which no
    /// process ran is not in it.
    pub spent_ms: u64,
}
