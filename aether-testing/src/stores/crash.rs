//! A store that dies at a chosen boundary, as the process around it would.
//!
//! Promise: after the crash point nothing is written and nothing is answered, for ever. What was written before stays
//! in the inner store, on which the next engine starts. Only a write that was kept back ([`CrashPoint::Stalled`])
//! arrives later, when another process owns the run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::id::RunId;
use aether_core::store::AppendReply;
use aether_core::store::{Ack, Append, AppendError, DurableWatermark, NewRun, Store, StreamWrite};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use super::crash_point::{Boundary, CrashPoint, UnknownCrashPoint};
use super::gated::{Gate, GateDecision, Gated, StoreCall};
use super::stream_watch::StreamWatch;

/// A store that freezes at its crash point. Drop the engine on it then, and start the next one on the inner store.
///
/// ```
/// use std::sync::Arc;
/// use aether_core::store::memory::MemoryStore;
/// use aether_testing::crash::{CrashPoint, CrashStore};
///
/// let inner = Arc::new(MemoryStore::new());
/// let store = CrashStore::new(inner.clone(), Some(CrashPoint::Before(3)));
/// assert!(!store.is_frozen());
/// ```
pub type CrashStore = Gated<Fuse>;

/// Counts boundaries and decides when the end has come.
#[derive(Debug, Default)]
pub struct Fuse {
    point: Option<CrashPoint>,
    passed: Mutex<Passed>,
    /// Nothing is written or answered any more.
    frozen: AtomicBool,
    /// What was written last is with the inner store: the process is gone.
    dead: AtomicBool,
    blown: Notify,
    waits: Notify,
    /// What a former process wrote, and has not arrived yet.
    late: Mutex<Option<Append>>,
    /// What the store answered to it.
    answered: Mutex<Option<AppendReply>>,
    /// Who reads all streams that are written to.
    watch: Option<Arc<StreamWatch>>,
}

#[derive(Debug, Default)]
struct Passed {
    writes: u64,
    effects: u64,
    reserves: u64,
    streams: u64,
    bodies: u64,
    suspensions: Vec<Suspension>,
    /// Until when the run waits whose suspension is the crash point; the inner `None` where no timer wakes it.
    waits_until: Option<Option<Timestamp>>,
    boundaries: Vec<Boundary>,
}

/// A run that was suspended.
#[derive(Debug)]
struct Suspension {
    run: RunId,
    begun: Instant,
    /// How long, once the run was resumed.
    lasted: Option<Duration>,
}

impl Passed {
    /// Ends the suspension of a run that is about to append again; its number, if it was suspended.
    fn resumes(&mut self, run: &RunId) -> Option<u64> {
        let mut open = (1..).zip(&mut self.suspensions);
        let (number, suspension) = open.find(|(_, of)| of.run == *run && of.lasted.is_none())?;
        suspension.lasted = Some(suspension.begun.elapsed());
        Some(number)
    }

    fn note(&mut self, point: CrashPoint, what: &str) {
        self.boundaries.push(Boundary { point, what: what.to_owned(), unwinding: undoes(what) });
    }
}

impl Fuse {
    fn blow(&self) {
        self.freeze();
        self.dead.store(true, Ordering::Release);
        self.blown.notify_one();
    }

    fn freeze(&self) {
        self.frozen.store(true, Ordering::Release);
    }

    fn passed(&self) -> MutexGuard<'_, Passed> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about a write that has one or more boundaries.
    fn reach(&self, points: &[CrashPoint], what: &str) -> GateDecision {
        let mut passed = self.passed();
        points.iter().for_each(|point| passed.note(*point, what));
        drop(passed);
        let Some(reached) = self.point.filter(|point| points.contains(point)) else {
            return GateDecision::Pass;
        };
        if let CrashPoint::After(_)
        | CrashPoint::AfterEffect(_)
        | CrashPoint::AfterReserve(_)
        | CrashPoint::AfterStream(_) = reached
        {
            // A store may take a while over this last write; whoever drops it before it is done drops the write.
            self.freeze();
            return GateDecision::Unacknowledged;
        }
        self.blow();
        if let CrashPoint::Stalled(_) = reached { GateDecision::Stall } else { GateDecision::Freeze }
    }

    fn write(&self) -> u64 {
        let mut passed = self.passed();
        passed.writes += 1;
        passed.writes
    }

    fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Acquire)
    }

    /// Whether a write ends the suspension that is the crash point: the process dies before it.
    fn ends_suspension(&self, append: &Append) -> bool {
        let resumed = self.passed().resumes(&append.run);
        resumed.is_some_and(|number| self.point == Some(CrashPoint::Waiting(number)))
    }

    /// A write that suspends a run.
    fn suspends(&self, append: &Append) {
        let Some(change) = append.status.as_ref().filter(|change| change.status == Status::Waiting) else {
            return;
        };
        let mut passed = self.passed();
        let (run, begun) = (append.run.clone(), Instant::now());
        passed.suspensions.push(Suspension { run, begun, lasted: None });
        let point = CrashPoint::Waiting(u64::try_from(passed.suspensions.len()).unwrap_or(u64::MAX));
        passed.note(point, &format!("run `{}` waits", append.run));
        if self.point == Some(point) {
            passed.waits_until = Some(change.wake_at);
            self.waits.notify_one();
        }
    }
}

impl Gate for Fuse {
    fn decide(&self, call: StoreCall) -> GateDecision {
        if self.is_frozen() {
            return GateDecision::Freeze;
        }
        let (points, what) = {
            let mut passed = self.passed();
            match call {
                StoreCall::Effect => {
                    passed.effects += 1;
                    let number = passed.effects;
                    ([CrashPoint::BeforeEffect(number), CrashPoint::AfterEffect(number)], "effect store")
                }
                StoreCall::Reserve => {
                    passed.reserves += 1;
                    let number = passed.reserves;
                    ([CrashPoint::BeforeReserve(number), CrashPoint::AfterReserve(number)], "reservation")
                }
                _ => return GateDecision::Pass,
            }
        };
        self.reach(&points, what)
    }

    fn decide_create(&self, new: &NewRun) -> GateDecision {
        if self.is_frozen() {
            return GateDecision::Freeze;
        }
        let write = self.write();
        self.reach(&[CrashPoint::Before(write), CrashPoint::After(write)], &kinds(&new.frame.text))
    }

    fn decide_append(&self, append: &Append) -> GateDecision {
        if self.is_frozen() {
            return GateDecision::Freeze;
        }
        if self.ends_suspension(append) {
            self.blow();
            return GateDecision::Freeze;
        }
        let write = self.write();
        let what = kinds(&append.frame.text);
        let points = [CrashPoint::Before(write), CrashPoint::Stalled(write), CrashPoint::After(write)];
        let decision = self.reach(&points, &what);
        if matches!(decision, GateDecision::Pass) {
            self.suspends(append);
        }
        decision
    }

    fn decide_streams(&self, writes: &[StreamWrite]) -> GateDecision {
        if self.is_frozen() {
            return GateDecision::Freeze;
        }
        let number = {
            let mut passed = self.passed();
            passed.streams += 1;
            passed.streams
        };
        let of = writes.first().map_or("", |write| write.command.as_str());
        let points = [CrashPoint::BeforeStream(number), CrashPoint::AfterStream(number)];
        self.reach(&points, &format!("chunk of {of}"))
    }

    fn wrote_streams<'a>(
        &'a self,
        inner: &'a Arc<dyn Store>,
        streams: Vec<(RunId, String)>,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(watch) = &self.watch else { return };
            for stream in streams {
                // It looks once more at the end.
                let _unread = watch.look(&**inner, &stream).await;
            }
        })
    }

    fn took_effect(&self) {
        self.blow();
    }

    fn deliver(&self, inner: &Arc<dyn Store>, append: Append) {
        // The new owner holds the run and wrote nothing yet: the worst moment for a write of the last one.
        self.deliver_late(inner, &append.run);
        inner.append(append);
    }
}

impl Fuse {
    /// Lets the late write to `run` arrive, if there is one.
    fn deliver_late(&self, inner: &Arc<dyn Store>, run: &RunId) {
        let mut kept = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let late = kept.take_if(|late| late.run == *run);
        drop(kept);
        let Some(mut late) = late else { return };
        let next = late.expected + u64::from(late.frame.count);
        let (ack, answer) = Ack::awaited(late.run.clone(), next, Arc::new(DurableWatermark::default()));
        drop(std::mem::replace(&mut late.ack, ack));
        inner.append(late);
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }
}

/// Whether the command of a boundary undoes another one.
fn undoes(what: &str) -> bool {
    let command = what.rsplit_once(" of ").map_or("", |(_, command)| command);
    command.split_once(':').is_some_and(|(place, _)| place.split('.').any(|part| part == "undo"))
}

/// The kinds of the events in a frame, with the first command.
pub(crate) fn kinds(frame: &str) -> String {
    let events: Vec<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_str(frame).unwrap_or_default();
    let command = events.iter().flat_map(|event| event.values()).find_map(|event| event.get("command"));
    let kinds: Vec<&str> = events.iter().flat_map(|event| event.keys().map(String::as_str)).collect();
    match command.and_then(|command| command.as_str()) {
        Some(command) => format!("{} of {command}", kinds.join(", ")),
        None => kinds.join(", "),
    }
}

impl CrashStore {
    /// A store in front of `inner` that freezes at `point`; without a point it never does.
    pub fn new(inner: Arc<dyn Store>, point: Option<CrashPoint>) -> Self {
        Self::behind(inner, Fuse { point, ..Fuse::default() })
    }

    /// Lets `watch` read along what is written to streams.
    pub(crate) fn watched_by(mut self, watch: Arc<StreamWatch>) -> Self {
        self.gate.watch = Some(watch);
        self
    }

    /// Lets an append arrive that a former process made, just before the first append of this one to the same run.
    pub(crate) fn with_late(self, late: Option<Append>) -> Self {
        *self.gate.late.lock().unwrap_or_else(PoisonError::into_inner) = late;
        self
    }

    /// What the store answered to the late append, if it arrived.
    pub(crate) async fn late_answer(&self) -> Option<Result<(), AppendError>> {
        let answer = self.gate.answered.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(answer.await.ok()?.map(|_receipt| ()))
    }

    /// Number of writes that were asked for until the crash.
    pub fn writes(&self) -> u64 {
        self.gate.passed().writes
    }

    /// Number of reservations of store-wide keys that were asked for until the crash.
    pub fn reserves(&self) -> u64 {
        self.gate.passed().reserves
    }

    /// Number of writes to the effect store that were asked for until the crash.
    pub fn effects(&self) -> u64 {
        self.gate.passed().effects
    }

    /// The boundaries that were passed so far, in order.
    pub fn boundaries(&self) -> Vec<Boundary> {
        self.gate.passed().boundaries.clone()
    }

    /// How long each suspension lasted, in order; of one that has not ended, how long so far.
    pub(crate) fn suspensions(&self) -> Vec<Duration> {
        let passed = self.gate.passed();
        passed.suspensions.iter().map(|of| of.lasted.unwrap_or_else(|| of.begun.elapsed())).collect()
    }

    /// Whether the crash point was reached.
    pub fn is_frozen(&self) -> bool {
        self.gate.is_frozen()
    }

    /// Freezes the store now, whatever the crash point: for a process that dies inside of a body.
    pub fn crash(&self) {
        self.gate.blow();
    }

    /// A body call begins: its number. The process dies here if this is the crash point.
    pub(crate) fn body_begins(&self, command: &str) -> u64 {
        let mut passed = self.gate.passed();
        passed.bodies += 1;
        let call = passed.bodies;
        passed.note(CrashPoint::InBody(call), &format!("body of {command}"));
        drop(passed);
        self.die_at(CrashPoint::InBody(call));
        call
    }

    /// A body call came back. The process dies here if this is the crash point.
    pub(crate) fn body_returns(&self, call: u64, command: &str) {
        self.gate.passed().note(CrashPoint::AfterBody(call), &format!("body of {command}"));
        self.die_at(CrashPoint::AfterBody(call));
    }

    fn die_at(&self, point: CrashPoint) {
        if self.gate.point == Some(point) {
            self.gate.blow();
        }
    }

    /// Waits until the suspension is reached that is the crash point; until when that run waits.
    pub(crate) async fn suspended(&self) -> Option<Timestamp> {
        loop {
            let until = self.gate.passed().waits_until;
            if let Some(until) = until {
                return until;
            }
            self.gate.waits.notified().await;
        }
    }

    /// Waits until the crash point is reached, and what was written there is with the inner store; then drop the engine on
    /// this store.
    pub async fn crashed(&self) {
        while !self.gate.dead.load(Ordering::Acquire) {
            self.gate.blown.notified().await;
        }
        self.gate.blown.notify_one();
    }
}
