//! A store with one fault: one call of it fails, is late, is done only in part, or is answered wrongly.
//!
//! Promise: every other call reaches the store behind it, in order; and appends that are late keep their order.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aether_core::store::{Append, AppendError, NewRun, Store, StoreError, StreamWrite};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::gated::{Gate, GateDecision, Gated, StoreCall};

/// How long a slow append takes.
const SLOW: Duration = Duration::from_secs(20);

/// How late a late write to streams is: an engine gives it up before.
const LATE: Duration = Duration::from_secs(40);

/// What goes wrong, once. Calls of each sort are counted from 1 in each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StoreFault {
    /// The write of this number (a creation of a run, or an append) is not done, and fails.
    WriteFails(u64),
    /// The write of this number is done, and its answer is an error.
    AnswerLost(u64),
    /// Of a batch that begins with the write of this number, only this one is done; it and the next one fail.
    Torn(u64),
    /// The append of this number takes 20 s; those after it wait.
    Slow(u64),
    /// The read of this number fails.
    ReadFails(u64),
    /// The write of this number to the effect store is not done, and fails.
    EffectFails(u64),
    /// The write of this number to streams is not done, and fails.
    StreamFails(u64),
    /// The write of this number to streams is done, and its answer is an error.
    StreamAnswerLost(u64),
    /// The write of this number to streams takes 40 s, which is more than an engine waits for it, and is done then.
    StreamLate(u64),
    /// The large value that is asked for under this number is not found.
    ValueLost(u64),
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteFails(number) => write!(f, "write {number} fails"),
            Self::AnswerLost(number) => write!(f, "write {number} is durable, and answered with an error"),
            Self::Torn(number) => {
                write!(f, "of writes {number} and {} only the first is durable", number + 1)
            }
            Self::Slow(number) => write!(f, "append {number} takes {SLOW:?}"),
            Self::ReadFails(number) => write!(f, "read {number} fails"),
            Self::EffectFails(number) => write!(f, "write {number} to the effect store fails"),
            Self::StreamFails(number) => write!(f, "write {number} to streams fails"),
            Self::StreamAnswerLost(number) => {
                write!(f, "write {number} to streams is done, and answered with an error")
            }
            Self::StreamLate(number) => write!(f, "write {number} to streams is done {LATE:?} later"),
            Self::ValueLost(number) => write!(f, "large value {number} is not found"),
        }
    }
}

/// A store that has one fault, or none.
///
/// ```
/// use std::sync::Arc;
/// use aether_core::store::memory::MemoryStore;
/// use aether_testing::faulty::{StoreFault, FaultyStore};
///
/// let store = FaultyStore::new(Arc::new(MemoryStore::new()), Some(StoreFault::WriteFails(3)));
/// assert!(!store.struck());
/// ```
pub type FaultyStore = Gated<FaultGate>;

/// CallCounts calls, and lets one go wrong.
#[derive(Debug)]
pub struct FaultGate {
    fault: Option<StoreFault>,
    error: StoreError,
    counts: Mutex<CallCounts>,
    /// Appends on their way, where one is slow.
    line: Mutex<Option<UnboundedSender<(Duration, Append)>>>,
    /// Whether the write to streams that is late was made.
    late: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CallCounts {
    writes: u64,
    reads: u64,
    effects: u64,
    values: u64,
    streams: u64,
    /// How long the append that is let through now takes.
    takes: Duration,
    struck: bool,
}

impl FaultGate {
    fn counts(&self) -> MutexGuard<'_, CallCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, append: bool) -> GateDecision {
        let mut counts = self.counts();
        counts.writes += 1;
        counts.takes = Duration::ZERO;
        let (write, broken) = (counts.writes, || AppendError::Store(self.error.clone()));
        let decision = match self.fault {
            Some(StoreFault::WriteFails(number)) if number == write => GateDecision::Fail(broken()),
            Some(StoreFault::AnswerLost(number) | StoreFault::Torn(number)) if number == write => {
                GateDecision::Misreport(broken())
            }
            Some(StoreFault::Torn(number)) if number + 1 == write => GateDecision::Fail(broken()),
            Some(StoreFault::Slow(number)) if append && number == write => {
                counts.takes = SLOW;
                counts.struck = true;
                GateDecision::Pass
            }
            _ => GateDecision::Pass,
        };
        counts.struck |= !matches!(decision, GateDecision::Pass);
        decision
    }

    fn strike(&self, hit: bool, decision: GateDecision) -> GateDecision {
        if !hit {
            return GateDecision::Pass;
        }
        self.counts().struck = true;
        decision
    }
}

impl Gate for FaultGate {
    fn decide(&self, call: StoreCall) -> GateDecision {
        let mut counts = self.counts();
        match call {
            StoreCall::Load | StoreCall::Read => {
                counts.reads += 1;
                let hit = self.fault == Some(StoreFault::ReadFails(counts.reads));
                drop(counts);
                self.strike(hit, GateDecision::Fail(self.error.clone().into()))
            }
            StoreCall::Blob => {
                counts.values += 1;
                let hit = self.fault == Some(StoreFault::ValueLost(counts.values));
                drop(counts);
                self.strike(hit, GateDecision::Lose)
            }
            StoreCall::Effect => {
                counts.effects += 1;
                let hit = self.fault == Some(StoreFault::EffectFails(counts.effects));
                drop(counts);
                self.strike(hit, GateDecision::Fail(self.error.clone().into()))
            }
            StoreCall::Append
            | StoreCall::Create
            | StoreCall::Claim
            | StoreCall::Release
            | StoreCall::Reserve
            | StoreCall::Write => GateDecision::Pass,
        }
    }

    fn decide_append(&self, _: &Append) -> GateDecision {
        self.write(true)
    }

    fn decide_create(&self, _: &NewRun) -> GateDecision {
        self.write(false)
    }

    fn decide_streams(&self, _: &[StreamWrite]) -> GateDecision {
        let number = {
            let mut counts = self.counts();
            counts.streams += 1;
            counts.streams
        };
        let broken = || AppendError::Store(self.error.clone());
        match self.fault {
            Some(StoreFault::StreamFails(at)) => self.strike(at == number, GateDecision::Fail(broken())),
            Some(StoreFault::StreamAnswerLost(at)) => {
                self.strike(at == number, GateDecision::Misreport(broken()))
            }
            Some(StoreFault::StreamLate(at)) if at == number => {
                GateDecision::Late(LATE, Arc::clone(&self.late))
            }
            _ => GateDecision::Pass,
        }
    }

    fn deliver(&self, inner: &Arc<dyn Store>, append: Append) {
        if !matches!(self.fault, Some(StoreFault::Slow(_))) {
            return inner.append(append);
        }
        let takes = self.counts().takes;
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let line = line.get_or_insert_with(|| in_line(Arc::clone(inner)));
        // Without a receiver the append is dropped unanswered, which counts as a failure.
        let _dropped = line.send((takes, append));
    }
}

/// Passes appends on in their order, each after its time.
pub(crate) fn in_line(inner: Arc<dyn Store>) -> UnboundedSender<(Duration, Append)> {
    let (line, mut waiting) = unbounded_channel::<(Duration, Append)>();
    tokio::spawn(async move {
        while let Some((takes, append)) = waiting.recv().await {
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            inner.append(append);
        }
    });
    line
}

impl FaultyStore {
    /// A store in front of `inner` with this fault.
    pub fn new(inner: Arc<dyn Store>, fault: Option<StoreFault>) -> Self {
        let error = StoreError::Unavailable { store: "faulty".into(), reason: "it fails on purpose".into() };
        let (counts, line) = (Mutex::default(), Mutex::default());
        let late = Arc::default();
        Self::behind(inner, FaultGate { fault, error, counts, line, late })
    }

    /// Lets calls fail with `error`; without it the store is not available, which an engine tries again.
    #[must_use]
    pub fn failing_with(mut self, error: StoreError) -> Self {
        self.gate.error = error;
        self
    }

    /// Whether the fault has come up; a write that is late, when it was made.
    pub fn struck(&self) -> bool {
        self.gate.counts().struck || self.gate.late.load(Ordering::Relaxed)
    }

    /// Every fault that the calls so far could have had.
    pub fn possible(&self) -> Vec<StoreFault> {
        let CallCounts { writes, reads, effects, values, streams, .. } = *self.gate.counts();
        let of_writes = (1..=writes).flat_map(|write| {
            [
                StoreFault::WriteFails(write),
                StoreFault::AnswerLost(write),
                StoreFault::Torn(write),
                StoreFault::Slow(write),
            ]
        });
        let of_reads = (1..=reads).map(StoreFault::ReadFails);
        let of_effects = (1..=effects).map(StoreFault::EffectFails);
        let of_streams = (1..=streams).flat_map(|write| {
            [
                StoreFault::StreamFails(write),
                StoreFault::StreamAnswerLost(write),
                StoreFault::StreamLate(write),
            ]
        });
        let of_values = (1..=values).map(StoreFault::ValueLost);
        of_writes.chain(of_reads).chain(of_effects).chain(of_streams).chain(of_values).collect()
    }
}
