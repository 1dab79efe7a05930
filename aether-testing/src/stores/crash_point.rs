//! The points at which a process can die, and the boundaries that a run passed.
//!
//! Promise: a point has a short name that parses back, so that a failure can name the one to try again.

use std::fmt;
use std::str::FromStr;

/// Where a process dies. Writes are creations of runs and appends, counted from 1 in each process; writes to the effect
/// store, reservations, writes to streams, calls of bodies and suspensions are counted from 1 on their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CrashPoint {
    /// The write of this number does not happen.
    Before(u64),
    /// The write of this number is durable, and its acknowledgement is lost.
    After(u64),
    /// The process stalls before its append of this number, and another one claims its runs. Then the append
    /// arrives.
    Stalled(u64),
    /// The write of this number to the effect store does not happen.
    BeforeEffect(u64),
    /// The write of this number to the effect store is durable, its acknowledgement is lost, and nothing is appended.
    AfterEffect(u64),
    /// The reservation of a store-wide key of this number does not happen.
    BeforeReserve(u64),
    /// The reservation of a store-wide key of this number is durable, and its acknowledgement is lost.
    AfterReserve(u64),
    /// The write of this number to streams does not happen.
    BeforeStream(u64),
    /// The write of this number to streams is durable, and its acknowledgement is lost.
    AfterStream(u64),
    /// The body call of this number has begun and did nothing yet.
    InBody(u64),
    /// The body call of this number came back, and its outcome is lost.
    AfterBody(u64),
    /// A run was suspended for the time of this number, and half of the suspension is over. How long it lasts, a sweep knows
    /// from the run without a crash. Elsewhere it is half of the time until a timer or a limit ends it, and where something
    /// else ends it sooner, that moment.
    Waiting(u64),
}

impl CrashPoint {
    /// Number of the write, call or suspension, among those of its own sort.
    pub const fn write(self) -> u64 {
        self.parts().1
    }

    const fn parts(self) -> (&'static str, u64) {
        match self {
            Self::Before(number) => ("before-write", number),
            Self::After(number) => ("after-write", number),
            Self::Stalled(number) => ("stalled-write", number),
            Self::BeforeEffect(number) => ("before-effect", number),
            Self::AfterEffect(number) => ("after-effect", number),
            Self::BeforeReserve(number) => ("before-reserve", number),
            Self::AfterReserve(number) => ("after-reserve", number),
            Self::BeforeStream(number) => ("before-stream", number),
            Self::AfterStream(number) => ("after-stream", number),
            Self::InBody(number) => ("in-body", number),
            Self::AfterBody(number) => ("after-body", number),
            Self::Waiting(number) => ("waiting", number),
        }
    }

    /// Its short name, for example `before-write-3`; parses back.
    pub fn id(self) -> String {
        let (kind, number) = self.parts();
        format!("{kind}-{number}")
    }
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(write) => write!(f, "before write {write}"),
            Self::After(write) => write!(f, "between write {write} and its acknowledgement"),
            Self::Stalled(write) => {
                write!(f, "with write {write} on its way, which arrives after a takeover")
            }
            Self::BeforeEffect(write) => write!(f, "before write {write} to the effect store"),
            Self::AfterEffect(write) => write!(f, "after write {write} to the effect store"),
            Self::BeforeReserve(number) => write!(f, "before reservation {number} of a store-wide key"),
            Self::AfterReserve(number) => write!(f, "after reservation {number} of a store-wide key"),
            Self::BeforeStream(number) => write!(f, "before write {number} to streams"),
            Self::AfterStream(number) => write!(f, "after write {number} to streams"),
            Self::InBody(call) => write!(f, "in body call {call}, which did nothing yet"),
            Self::AfterBody(call) => write!(f, "after body call {call} came back"),
            Self::Waiting(wait) => write!(f, "half-way through suspension {wait}"),
        }
    }
}

/// A text that names no crash point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{found}` names no crash point: write one of before-write-N, after-write-N, stalled-write-N, before-effect-N, after-effect-N, before-reserve-N, after-reserve-N, before-stream-N, after-stream-N, in-body-N, after-body-N and waiting-N, with N from 1"
)]
pub struct UnknownCrashPoint {
    /// The text that was to be parsed.
    pub found: String,
}

impl FromStr for CrashPoint {
    type Err = UnknownCrashPoint;

    fn from_str(text: &str) -> Result<Self, UnknownCrashPoint> {
        let parsed = text.rsplit_once('-').and_then(|(kind, number)| Some((kind, number.parse().ok()?)));
        match parsed {
            Some(("before-write", number)) if number > 0 => Ok(Self::Before(number)),
            Some(("after-write", number)) if number > 0 => Ok(Self::After(number)),
            Some(("stalled-write", number)) if number > 0 => Ok(Self::Stalled(number)),
            Some(("before-effect", number)) if number > 0 => Ok(Self::BeforeEffect(number)),
            Some(("after-effect", number)) if number > 0 => Ok(Self::AfterEffect(number)),
            Some(("before-reserve", number)) if number > 0 => Ok(Self::BeforeReserve(number)),
            Some(("after-reserve", number)) if number > 0 => Ok(Self::AfterReserve(number)),
            Some(("before-stream", number)) if number > 0 => Ok(Self::BeforeStream(number)),
            Some(("after-stream", number)) if number > 0 => Ok(Self::AfterStream(number)),
            Some(("in-body", number)) if number > 0 => Ok(Self::InBody(number)),
            Some(("after-body", number)) if number > 0 => Ok(Self::AfterBody(number)),
            Some(("waiting", number)) if number > 0 => Ok(Self::Waiting(number)),
            _ => Err(UnknownCrashPoint { found: text.to_owned() }),
        }
    }
}

/// A boundary of a run that was not disturbed, and what happens there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Where a process can die.
    pub point: CrashPoint,
    /// What is written, called or waited for there.
    pub what: String,
    /// Whether a run is being unwound there.
    pub unwinding: bool,
}
