//! Appends of a run: what travels with them, large values, and backpressure.
//!
//! Promise: appends leave in the order in which their events happened.

use crate::run::fault::Fault;
use crate::run::taken::Taken;
use crate::store::error::StoreError;
use std::sync::Arc;

use crate::journal::event::Event;
use crate::journal::frame::Frame;
use crate::journal::large_values::{LargeValue, has_large, large};
use crate::policy::replay::Mode;
use crate::run::claim::Run;
use crate::store::ack::{Ack, AppendReply};
use crate::store::api::{Append, StatusChange, Work};
use crate::store::ledger::{Acquire, LedgerUpdate};
use crate::vocabulary::id::Position;
use crate::vocabulary::payload::Payload;

impl Run {
    /// Appends without waiting. Errors surface as the run's fault, through its tail.
    pub(crate) fn append(&self, events: Vec<Event>, riders: AppendExtras) {
        self.push(events, None, riders, false);
    }

    /// Appends and waits until it is durable.
    pub(crate) async fn append_durably(
        &self,
        events: Vec<Event>,
        acquire: Option<Acquire>,
        riders: AppendExtras,
    ) -> crate::store::ack::Receipt {
        let _in_flight = self.in_flight_here();
        match self.push(events, acquire, riders, true) {
            Some(reply) => self.receipt(reply).await,
            None => self.halted().await,
        }
    }

    /// Has `work` done in the transaction of an append of `count` events, and waits until that is durable.
    pub(crate) async fn append_work(&self, work: Box<dyn Work>, count: u32) -> crate::store::ack::Receipt {
        let _in_flight = self.in_flight_here();
        if self.is_halted() {
            return self.halted().await;
        }
        let frame = Frame { count, text: String::new() };
        match self.queue(frame, Some(work), None, AppendExtras::default(), true) {
            Some(reply) => self.receipt(reply).await,
            None => self.halted().await,
        }
    }

    async fn receipt(&self, reply: AppendReply) -> crate::store::ack::Receipt {
        match reply.await {
            Ok(Ok(receipt)) => receipt,
            Ok(Err(error)) => self.stop(error).await,
            Err(_dropped) => self.halted().await,
        }
    }

    /// Whether nothing is appended any more, or at all.
    pub(super) fn is_halted(&self) -> bool {
        self.mode == Mode::Verify || self.fault().is_some()
    }

    /// The run has a fault already: nothing goes on.
    async fn halted<T>(&self) -> T {
        self.root.wake();
        std::future::pending().await
    }

    fn push(
        &self,
        events: Vec<Event>,
        acquire: Option<Acquire>,
        riders: AppendExtras,
        awaited: bool,
    ) -> Option<AppendReply> {
        if self.is_halted() {
            self.root.wake();
            return None;
        }
        let frame = match Frame::referring(&events, &riders.kept) {
            Ok(frame) => frame,
            Err(error) => {
                let reason = error.to_string();
                self.fail(unencodable(self, reason));
                return None;
            }
        };
        self.with_obligations(|obligations| events.iter().for_each(|event| obligations.apply(event)));
        let reply = self.queue(frame, None, acquire, riders, awaited);
        self.shared.observe(&self.id, self.now(), events);
        reply
    }

    /// Gives an append its place.
    fn queue(
        &self,
        frame: Frame,
        work: Option<Box<dyn Work>>,
        acquire: Option<Acquire>,
        riders: AppendExtras,
        awaited: bool,
    ) -> Option<AppendReply> {
        let at = self.now();
        let consumed = riders.consumed.into_iter().map(Taken::queued).collect();
        let mut state = self.lock();
        let expected = state.next;
        state.next += Position::from(frame.count);
        let (ack, reply) = if awaited {
            let (ack, reply) = Ack::awaited(self.id.clone(), state.next, Arc::clone(&self.watermark));
            (ack, Some(reply))
        } else {
            (Ack::silent(self.id.clone(), state.next, Arc::clone(&self.watermark)), None)
        };
        // Under the lock: the order of positions is the order in the store's queue.
        self.shared.store.append(Append {
            run: self.id.clone(),
            epoch: self.epoch,
            expected,
            at,
            frame,
            work,
            acquire,
            ledger: riders.ledger,
            status: riders.status,
            consumed,
            ack,
        });
        drop(state);
        reply
    }

    /// Waits while too much is on its way to the disk, and stops a run whose journal is over the limit.
    pub(crate) async fn apply_backpressure(&self) {
        let (next, limits) = (self.next(), &self.shared.limits);
        let events = usize::try_from(next).unwrap_or(usize::MAX);
        let limit = usize::try_from(limits.history).unwrap_or(usize::MAX);
        // The next event is one more.
        if let Err(over) = limits.check("events in the journal", events.saturating_add(1), limit, "history") {
            let (run, advice) = (self.id.clone(), "split the work into child runs");
            return self.stop(Fault::OverLimit { run, over, advice }).await;
        }
        let durable = self.watermark.durable();
        if next.saturating_sub(durable) > BACKPRESSURE {
            let _failure_is_the_runs_fault = self.watermark.reached(next - BACKPRESSURE / 2).await;
        }
    }

    /// Appends; large values go to the effect store first.
    pub(crate) async fn append_large(&self, events: Vec<Event>, mut riders: AppendExtras) {
        riders.kept = self.keep(&events).await;
        if !riders.kept.is_empty() {
            riders.drop_stored_values();
        }
        self.append(events, riders);
    }

    /// As [`Run::append_large`], and waits until it is durable.
    pub(crate) async fn append_large_durably(&self, events: Vec<Event>) {
        let riders = AppendExtras { kept: self.keep(&events).await, ..AppendExtras::default() };
        self.append_durably(events, None, riders).await;
    }

    /// Puts the large values of `events` into the effect store.
    pub(crate) async fn keep(&self, events: &[Event]) -> Vec<LargeValue> {
        if self.mode == Mode::Verify || !has_large(events, self.shared.limits.inline) {
            return Vec::new();
        }
        let kept = large(events, self.shared.limits.inline);
        for LargeValue { value, at } in &kept {
            let _in_flight = self.in_flight_here();
            if let Err(error) = self.shared.store.put_blob(&at.sha256, value.as_str().into()).await {
                return self.stop(error).await;
            }
        }
        kept
    }
}

/// Un-acknowledged events after which a run waits for the disk.
const BACKPRESSURE: Position = 20_000;

/// What rides with an append.
#[derive(Debug, Default)]
pub(crate) struct AppendExtras {
    pub(crate) ledger: Vec<LedgerUpdate>,
    pub(crate) status: Option<StatusChange>,
    /// Messages that it takes in.
    pub(crate) consumed: Vec<Taken>,
    /// Values of the events that are in the effect store.
    pub(crate) kept: Vec<LargeValue>,
}

impl AppendExtras {
    /// A value that is in the effect store is not repeated in the ledger: it is found there under the row's key.
    pub(crate) fn drop_stored_values(&mut self) {
        let kept = |value: &Option<Payload>| {
            value.as_ref().is_some_and(|value| self.kept.iter().any(|known| known.value == *value))
        };
        let light: Vec<_> = self.ledger.iter().map(|row| (kept(&row.result), kept(&row.error))).collect();
        for (row, (result, error)) in self.ledger.iter_mut().zip(light) {
            row.result.take_if(|_| result);
            row.error.take_if(|_| error);
        }
    }
}

/// An event of `run` that cannot be written.
pub(crate) fn unencodable(run: &Run, error: impl std::fmt::Display) -> StoreError {
    StoreError::Unencodable { what: format!("an event of run `{}`", run.id), reason: error.to_string() }
}
