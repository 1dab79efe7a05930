//! A store that dies at a chosen write, as the process around it would.
//!
//! Promise: after the crash point nothing is written and nothing is answered, for ever. What was written before stays
//! in the inner store, on which the next engine starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use aether_core::store::Store;
use tokio::sync::Notify;

use crate::gated::{Ask, Decision, Gate, Gated};

/// Where a process dies. Writes are creations of runs and appends, counted from 1; writes to the effect store are counted
/// from 1 on their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashPoint {
    /// The write of this number does not happen.
    Before(u64),
    /// The write of this number is durable, and nobody learns of it.
    After(u64),
    /// The write of this number to the effect store does not happen.
    BeforeEffect(u64),
    /// The write of this number to the effect store is durable, nobody learns of it, and nothing is appended.
    AfterEffect(u64),
}

impl CrashPoint {
    /// Number of the write, among those of its own sort.
    pub const fn write(self) -> u64 {
        match self {
            Self::Before(write) | Self::After(write) => write,
            Self::BeforeEffect(write) | Self::AfterEffect(write) => write,
        }
    }
}

impl std::fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Before(write) => write!(f, "before write {write}"),
            Self::After(write) => write!(f, "between write {write} and its acknowledgement"),
            Self::BeforeEffect(write) => write!(f, "before write {write} to the effect store"),
            Self::AfterEffect(write) => write!(f, "after write {write} to the effect store"),
        }
    }
}

/// A store that freezes at its crash point. Drop the engine on it then, and start the next one on the inner store.
///
/// ```
/// use std::sync::Arc;
/// use aether_core::memory::MemoryStore;
/// use aether_testing::crash::{CrashPoint, CrashStore};
///
/// let inner = Arc::new(MemoryStore::new());
/// let store = CrashStore::new(inner.clone(), Some(CrashPoint::Before(3)));
/// assert!(!store.is_frozen());
/// ```
pub type CrashStore = Gated<Fuse>;

/// Counts writes and decides when the end has come.
#[derive(Debug)]
pub struct Fuse {
    point: Option<CrashPoint>,
    writes: AtomicU64,
    effects: AtomicU64,
    frozen: AtomicBool,
    blown: Notify,
}

impl Fuse {
    fn blow(&self) {
        self.frozen.store(true, Ordering::Release);
        self.blown.notify_one();
    }
}

impl Gate for Fuse {
    fn decide(&self, ask: Ask) -> Decision {
        if self.frozen.load(Ordering::Acquire) {
            return Decision::Freeze;
        }
        let (before, after) = match ask {
            Ask::Append | Ask::Create => {
                let write = self.writes.fetch_add(1, Ordering::AcqRel) + 1;
                (CrashPoint::Before(write), CrashPoint::After(write))
            }
            Ask::Effect => {
                let write = self.effects.fetch_add(1, Ordering::AcqRel) + 1;
                (CrashPoint::BeforeEffect(write), CrashPoint::AfterEffect(write))
            }
            Ask::Load | Ask::Claim | Ask::Release | Ask::Write | Ask::Read => return Decision::Pass,
        };
        if self.point == Some(before) {
            self.blow();
            Decision::Freeze
        } else if self.point == Some(after) {
            self.blow();
            Decision::Unacknowledged
        } else {
            Decision::Pass
        }
    }
}

impl CrashStore {
    /// Writes to `inner` until `point`; for ever where there is none.
    pub fn new(inner: Arc<dyn Store>, point: Option<CrashPoint>) -> Self {
        let fuse = Fuse {
            point,
            writes: AtomicU64::new(0),
            effects: AtomicU64::new(0),
            frozen: AtomicBool::new(false),
            blown: Notify::new(),
        };
        Self::behind(inner, fuse)
    }

    /// Number of writes that were asked for until the crash.
    pub fn writes(&self) -> u64 {
        self.gate.writes.load(Ordering::Acquire)
    }

    /// Number of writes to the effect store that were asked for until the crash.
    pub fn effects(&self) -> u64 {
        self.gate.effects.load(Ordering::Acquire)
    }

    /// Whether the crash point was reached.
    pub fn is_frozen(&self) -> bool {
        self.gate.frozen.load(Ordering::Acquire)
    }

    /// Dies now, whatever the crash point: for deaths inside of a body.
    pub fn crash(&self) {
        self.gate.blow();
    }

    /// Waits until the crash point is reached.
    pub async fn crashed(&self) {
        while !self.is_frozen() {
            self.gate.blown.notified().await;
        }
        self.gate.blown.notify_one();
    }
}
