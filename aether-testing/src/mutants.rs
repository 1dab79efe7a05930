//! Stores that break a rule on purpose, for the proof that the sweeps notice.
//!
//! Promise: each breaks exactly the rule it is named for. Nothing here is for programs.

use std::sync::{Arc, Mutex, PoisonError};

use aether_core::journal::Frame;
use aether_core::ledger::Acquired;
use aether_core::store::{Ack, Append, Store, Tail};
use futures_util::FutureExt as _;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::gated::{Ask, Decision, Gate, Gated};

/// How often others get their turn before an append that was acknowledged is handed on.
const TURNS: usize = 200;

/// Acknowledges appends before they are durable: a body runs on an intent that a crash takes along.
pub type EagerStore = Gated<Eager>;

/// Writes the events of an outcome in two appends.
pub type TornStore = Gated<Torn>;

/// Accepts appends of owners whose epoch is over.
pub type UnfencedStore = Gated<Unfenced>;

/// See [`EagerStore`].
#[derive(Debug, Default)]
pub struct Eager(Mutex<Option<UnboundedSender<Append>>>);

/// See [`TornStore`].
#[derive(Debug)]
pub struct Torn;

/// See [`UnfencedStore`].
#[derive(Debug)]
pub struct Unfenced;

impl Gate for Eager {
    fn decide(&self, _: Ask) -> Decision {
        Decision::Pass
    }

    fn deliver(&self, inner: &Arc<dyn Store>, mut append: Append) {
        let (next, tail) = (append.expected + u64::from(append.frame.count), Arc::new(Tail::default()));
        let silent = Ack::silent(append.run.clone(), next, tail);
        let acquired = if append.acquire.is_some() { Acquired::Granted } else { Acquired::NotAsked };
        std::mem::replace(&mut append.ack, silent).durable(acquired);
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _dropped = line.get_or_insert_with(|| later(Arc::clone(inner))).send(append);
    }
}

/// Hands appends on when everybody else had many turns.
fn later(inner: Arc<dyn Store>) -> UnboundedSender<Append> {
    let (line, mut waiting) = unbounded_channel::<Append>();
    tokio::spawn(async move {
        while let Some(append) = waiting.recv().await {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            inner.append(append);
        }
    });
    line
}

impl Gate for Torn {
    fn decide(&self, _: Ask) -> Decision {
        Decision::Pass
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
            ack: Ack::silent(append.run.clone(), middle, Arc::new(Tail::default())),
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
    fn decide(&self, _: Ask) -> Decision {
        Decision::Pass
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
