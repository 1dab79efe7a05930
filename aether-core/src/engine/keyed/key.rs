//! What a start says about its key.
//!
//! Promise: plain values; what is not usable is refused before anything is recorded.

use std::time::Duration;

/// Longest key, in bytes.
const MAX_KEY: usize = 512;

/// What becomes of a start whose key another open run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Singleton {
    /// It is refused with [`StartError::Held`](crate::engine::StartError::Held).
    Reject,
    /// It returns a handle to that run. The new input is dropped.
    Join,
    /// The new run is started, and that run is asked to cancel. Steps of the old run may still be undone then; where that
    /// must not overlap, give the queue a limit of one running per key. Where a limit refuses the new run, the old one goes
    /// on and keeps the key.
    Replace,
}

/// Why a start cannot have a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key is the empty string, or only space.
    #[error("the key of a start must not be empty")]
    Empty,
    /// The key is longer than 512 bytes.
    #[error("the key of a start has {length} bytes, over the limit of {MAX_KEY}: {start:?}…")]
    TooLong {
        /// Length of the refused key in bytes.
        length: usize,
        /// Its first characters.
        start: String,
    },
    /// A time or a number is zero.
    #[error("{what} must be more than zero")]
    Zero {
        /// Which one.
        what: &'static str,
    },
}

/// How starts with one key relate.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyKind {
    OncePer(Singleton),
    Dedup(Duration),
    Debounce { quiet: Duration, max: Duration },
    Collect { max: usize, wait: Duration },
}

impl KeyKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::OncePer(_) => "once",
            Self::Dedup(_) => "dedup",
            Self::Debounce { .. } => "debounce",
            Self::Collect { .. } => "collect",
        }
    }
}

pub(super) fn check(key: &str, times: &[(&'static str, bool)]) -> Result<(), KeyError> {
    if key.trim().is_empty() {
        return Err(KeyError::Empty);
    }
    if key.len() > MAX_KEY {
        return Err(KeyError::TooLong { length: key.len(), start: key.chars().take(32).collect() });
    }
    match times.iter().find(|(_, is_zero)| *is_zero) {
        Some((what, _)) => Err(KeyError::Zero { what }),
        None => Ok(()),
    }
}
