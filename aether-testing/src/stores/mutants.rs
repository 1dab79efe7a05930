//! Stores that break a rule on purpose, for the proof that the sweeps notice.
//!
//! Promise: each breaks exactly the rule it is named for. Nothing here is for programs.

use std::sync::{Arc, Mutex, PoisonError};

use aether_core::journal::Frame;
use aether_core::store::ledger::Acquired;
use aether_core::store::{Ack, Append, DurableWatermark, Store};
use futures_util::FutureExt as _;

use super::gated::{Gate, GateDecision, Gated, StoreCall};

/// Acknowledges an intent before it is durable, and writes it with the append after it: a body runs on an intent that a
/// crash takes along.
pub type EagerStore = Gated<Eager>;

/// Writes the events of an outcome in two appends.
pub type TornStore = Gated<Torn>;

/// Accepts appends of owners whose epoch is over.
pub type UnfencedStore = Gated<Unfenced>;

/// The gate of an [`EagerStore`]: the append that is held back.
#[derive(Debug, Default)]
pub struct Eager(Mutex<Option<Append>>);

/// The gate of a [`TornStore`].
#[derive(Debug)]
pub struct Torn;

/// The gate of an [`UnfencedStore`].
#[derive(Debug)]
pub struct Unfenced;

impl Gate for Eager {
    fn decide(&self, _: StoreCall) -> GateDecision {
        GateDecision::Pass
    }

    fn deliver(&self, inner: &Arc<dyn Store>, mut append: Append) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(intent) = held.take() {
            inner.append(intent);
        }
        if append.acquire.is_none() {
            return inner.append(append);
        }
        let (next, tail) =
            (append.expected + u64::from(append.frame.count), Arc::new(DurableWatermark::default()));
        let silent = Ack::silent(append.run.clone(), next, tail);
        std::mem::replace(&mut append.ack, silent).durable(Acquired::Granted);
        *held = Some(append);
    }
}

impl Gate for Torn {
    fn decide(&self, _: StoreCall) -> GateDecision {
        GateDecision::Pass
    }

    fn deliver(&self, inner: &Arc<dyn Store>, mut append: Append) {
        let outcome = append.frame.text.contains("tool_invocation_finished");
        let Some((head, tail)) = outcome.then(|| halves(&append.frame)).flatten() else {
            return inner.append(append);
        };
        let middle = append.expected + u64::from(head.count);
        let first = Append {
            run: append.run.clone(),
            epoch: append.epoch,
            expected: append.expected,
            at: append.at,
            frame: head,
            work: None,
            acquire: None,
            ledger: std::mem::take(&mut append.ledger),
            status: None,
            consumed: Vec::new(),
            waits: Vec::new(),
            code: None,
            unless_asked_to_end: false,
            renews: None,
            streams: Vec::new(),
            ack: Ack::silent(append.run.clone(), middle, Arc::new(DurableWatermark::default())),
        };
        append.expected = middle;
        append.frame = tail;
        inner.append(first);
        inner.append(append);
    }
}

/// The first events up to the one after the body's end, and the rest.
fn halves(frame: &Frame) -> Option<(Frame, Frame)> {
    let events: Vec<serde_json::Value> = serde_json::from_str(&frame.text).ok()?;
    let end = events.iter().position(|event| event.get("tool_invocation_finished").is_some())? + 1;
    let (head, tail) = events.split_at_checked(end)?;
    let part = |events: &[serde_json::Value]| -> Option<Frame> {
        Some(Frame { count: u32::try_from(events.len()).ok()?, text: serde_json::to_string(events).ok()? })
    };
    if tail.is_empty() { None } else { Some((part(head)?, part(tail)?)) }
}

impl Gate for Unfenced {
    fn decide(&self, _: StoreCall) -> GateDecision {
        GateDecision::Pass
    }

    fn deliver(&self, inner: &Arc<dyn Store>, mut append: Append) {
        if let Some(Ok(Some(record))) = inner.run(&append.run).now_or_never() {
            append.epoch = record.epoch;
        }
        inner.append(append);
    }
}

/// [`EagerStore`] in front of `inner`.
pub fn eager(inner: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(Gated::behind(inner, Eager::default()))
}

/// [`TornStore`] in front of `inner`.
pub fn torn(inner: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(Gated::behind(inner, Torn))
}

/// [`UnfencedStore`] in front of `inner`.
pub fn unfenced(inner: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(Gated::behind(inner, Unfenced))
}
