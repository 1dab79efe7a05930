//! Appends of a run: what is written with them, large values, and backpressure.
//!
//! Promise: appends reach the store in the order in which their events happened.

use std::future::{Pending, pending};
use std::sync::Arc;

use jiff::Timestamp;

use crate::journal::event::Event;
use crate::journal::frame::Frame;
use crate::journal::large_values::{LargeValue, has_large, large};
use crate::policy::replay::Mode;
use crate::run::claim::Run;
use crate::run::log;
use crate::run::taken::Taken;
use crate::store::ack::{Ack, AppendReply, Receipt};
use crate::store::append::{Append, StatusChange, Work};
use crate::store::error::StoreError;
use crate::store::ledger::{Acquire, LedgerUpdate};
use crate::store::open_waits::OpenWaits;
use crate::store::records::CodeChange;
use crate::store::renewal::Renewal;
use crate::store::streams::StreamEnd;
use crate::store::waits::WaitChange;
use crate::vocabulary::id::{CommandId, Position};
use crate::vocabulary::payload::{Payload, PayloadError};

impl Run {
    /// Appends without waiting. An error becomes the run's fault, by way of its watermark.
    pub(crate) fn append(&self, events: Vec<Event>, extras: AppendExtras) {
        self.push(events, None, extras, false);
    }

    /// Appends and waits until it is durable.
    ///
    /// What it appends is in the store's queue when it returns, and not in the future, which would be large otherwise.
    pub(crate) fn append_durably(
        &self,
        events: Vec<Event>,
        acquire: Option<Acquire>,
        extras: AppendExtras,
    ) -> impl Future<Output = Receipt> + Send {
        let in_flight = self.in_flight_here();
        let lapses = self.shared.lapses();
        let reply = self.push(events, acquire, extras, true);
        async move {
            let _in_flight = in_flight;
            match reply {
                Some(reply) => {
                    let receipt = self.receipt(reply).await;
                    self.is_held_after(lapses);
                    receipt
                }
                None => self.halted().await,
            }
        }
    }

    /// Executes `work`, an attempt at `command`, in the transaction of an append of `head` and one event more, and waits
    /// until it is durable.
    pub(crate) async fn append_work(
        &self,
        work: Box<dyn Work>,
        command: &CommandId,
        head: &[Event],
    ) -> Receipt {
        let _in_flight = self.in_flight_here();
        if self.is_halted() {
            return self.halted().await;
        }
        self.lock().history.proceed();
        let count = u32::try_from(head.len() + 1).unwrap_or(u32::MAX);
        let frame = Frame { count, text: String::new() };
        let waits = |open: &mut OpenWaits, at| {
            let mut changes = open.append(at, head);
            changes.append(&mut open.attempted(command));
            changes
        };
        match self.queue(frame, waits, Some(work), None, AppendExtras::default(), true) {
            Some(reply) => self.receipt(reply).await,
            None => self.halted().await,
        }
    }

    async fn receipt(&self, reply: AppendReply) -> Receipt {
        match reply.await {
            Ok(Ok(receipt)) => receipt,
            Ok(Err(error)) => self.stop(error).await,
            Err(_dropped) => self.halted().await,
        }
    }

    /// Whether appends are dropped: in a replay that only verifies, and after the first fault.
    pub(super) fn is_halted(&self) -> bool {
        self.mode == Mode::Verify || self.fault().is_some()
    }

    /// Never returns: the run has a fault, or only verifies. Wakes the driver, which ends the run's task.
    fn halted<T>(&self) -> Pending<T> {
        self.root.wake();
        pending()
    }

    fn push(
        &self,
        events: Vec<Event>,
        acquire: Option<Acquire>,
        mut extras: AppendExtras,
        awaited: bool,
    ) -> Option<AppendReply> {
        if self.is_halted() {
            self.root.wake();
            return None;
        }
        let (events, acquire) = match self.led_by_marks(events, acquire, &mut extras) {
            Ok(led) => led,
            Err(error) => {
                self.fail(unencodable(self, error));
                return None;
            }
        };
        // Encoded before the lock is taken: encoding takes time, and needs no position.
        let encoded = match extras.frame.take() {
            Some(frame) => Ok(frame),
            None => Frame::referring(&events, &extras.stored),
        };
        let frame = match encoded {
            Ok(frame) => frame,
            Err(error) => {
                self.fail(unencodable(self, error));
                return None;
            }
        };
        self.note_appended(&events);
        let waits = |open: &mut OpenWaits, at| open.append(at, &events);
        let reply = self.queue(frame, waits, None, acquire, extras, awaited);
        log::appended(&self.id, &events);
        self.shared.observe(&self.id, || self.now(), events);
        reply
    }

    /// The events with the marks in front on which they rest, also where they are encoded already.
    fn led_by_marks(
        &self,
        events: Vec<Event>,
        mut acquire: Option<Acquire>,
        extras: &mut AppendExtras,
    ) -> Result<(Vec<Event>, Option<Acquire>), PayloadError> {
        // The next generation of a run has marks of its own, and its first event has its place.
        let mut led = match &extras.renews {
            None => self.marks_before(events.iter().map(Event::command)),
            Some(_) => Vec::new(),
        };
        if led.is_empty() {
            return Ok((events, acquire));
        }
        let encoded = extras.frame.iter_mut().chain(acquire.as_mut().map(|acquire| &mut acquire.otherwise));
        encoded.into_iter().try_for_each(|frame| frame.lead_with(&led))?;
        led.extend(events);
        Ok((led, acquire))
    }

    fn note_appended(&self, events: &[Event]) {
        self.note_spent(events);
        let mut state = self.lock();
        for event in events {
            state.obligations.apply(event);
            // A mark says nothing of the code behind it.
            if event.command().is_some() && !matches!(event, Event::VersionMarked(_)) {
                state.history.proceed();
            }
        }
    }

    /// Gives an append its position and puts it into the store's queue.
    fn queue(
        &self,
        frame: Frame,
        waits: impl FnOnce(&mut OpenWaits, Timestamp) -> Vec<WaitChange>,
        work: Option<Box<dyn Work>>,
        acquire: Option<Acquire>,
        extras: AppendExtras,
        awaited: bool,
    ) -> Option<AppendReply> {
        let at = self.now();
        let consumed = extras.consumed.into_iter().map(Taken::queued).collect();
        let count = frame.count;
        let mut state = self.lock();
        let expected = state.next;
        state.next += Position::from(count);
        // Under the lock, too: the list of waits changes in the order of the journal.
        let waits = waits(&mut state.open_waits, at);
        let (ack, reply) = if awaited {
            let (ack, reply) = Ack::awaited(self.id.clone(), state.next, Arc::clone(&self.watermark));
            (ack, Some(reply))
        } else {
            (Ack::silent(self.id.clone(), state.next, Arc::clone(&self.watermark)), None)
        };
        let says_of_streams = !extras.streams.is_empty();
        // Still under the lock: it makes the order of positions the order in the store's queue, from whichever task an
        // append comes. If it were released after taking a position, a higher one could reach the store first, and the
        // store would refuse it as `WrongPosition`, which ends the claim. `Store::append` only queues, so this is brief.
        self.shared.store.append(Append {
            run: self.id.clone(),
            epoch: self.epoch,
            expected,
            at,
            frame,
            work,
            acquire,
            ledger: extras.ledger,
            status: extras.status,
            consumed,
            waits,
            code: extras.code,
            unless_asked_to_end: extras.unless_asked_to_end,
            renews: extras.renews,
            streams: extras.streams,
            ack,
        });
        let next = state.next;
        drop(state);
        if says_of_streams {
            self.tell_readers(next);
        }
        tracing::trace!(target: log::STORE, run = %self.id, epoch = self.epoch, position = expected, events = count, "append");
        reply
    }

    /// Tells those who read streams of the run in this process, as soon as what is before `position` is durable.
    fn tell_readers(&self, position: Position) {
        let streams = &self.shared.streams;
        if streams.is_read(&self.id) {
            let (hub, run, watermark) = (Arc::clone(streams), self.id.clone(), Arc::clone(&self.watermark));
            streams.spawn(async move {
                if watermark.reached(position).await.is_ok() {
                    hub.tell_readers(&run);
                }
            });
        }
    }

    /// Waits while too many events are queued and not durable, and stops a run whose journal is over the limit.
    pub(crate) async fn apply_backpressure(&self) {
        self.check_history().await;
        let next = self.next();
        // Not suspended meanwhile: what waits here is not waiting for the world.
        let _in_flight = self.in_flight_here();
        let durable = self.watermark.durable();
        if next.saturating_sub(durable) > BACKPRESSURE {
            // Half of the backlog must be durable before the run continues: with one event at a time it would wait here
            // again at every step.
            let _failure_is_the_runs_fault = self.watermark.reached(next - BACKPRESSURE / 2).await;
        }
    }

    /// Waits until what was appended so far is durable.
    pub(crate) async fn durable_so_far(&self) {
        if let Err(error) = self.watermark.reached(self.next()).await {
            self.stop(error).await
        }
    }

    /// Appends; large values go to the effect store first.
    pub(crate) async fn append_large(&self, events: Vec<Event>, mut extras: AppendExtras) {
        // The values first: an event in the journal never refers to a value that a crash has lost.
        extras.stored = self.store_large(&events).await;
        if !extras.stored.is_empty() {
            extras.drop_stored_values();
        }
        self.append(events, extras);
    }

    /// As [`Run::append_large`], and waits until it is durable.
    pub(crate) async fn append_large_durably(&self, events: Vec<Event>) {
        let extras = AppendExtras { stored: self.store_large(&events).await, ..AppendExtras::default() };
        self.append_durably(events, None, extras).await;
    }

    /// Puts the large values of `events` into the effect store; durable when it returns.
    pub(crate) async fn store_large(&self, events: &[Event]) -> Vec<LargeValue> {
        if self.mode == Mode::Verify || !has_large(events, self.shared.limits.inline) {
            return Vec::new();
        }
        Box::pin(self.store_all(large(events, self.shared.limits.inline))).await
    }

    async fn store_all(&self, stored: Vec<LargeValue>) -> Vec<LargeValue> {
        for LargeValue { value, at } in &stored {
            let _in_flight = self.in_flight_here();
            self.insist(|| self.shared.store.put_blob(&self.id, &at.sha256, value.as_str().into())).await;
        }
        stored
    }
}

/// Events that may be queued and not durable before a run waits for the store.
const BACKPRESSURE: Position = 20_000;

/// What an append writes beside its events, in the same transaction.
#[derive(Debug, Default)]
pub(crate) struct AppendExtras {
    pub(crate) ledger: Vec<LedgerUpdate>,
    pub(crate) status: Option<StatusChange>,
    /// Inbox messages that it consumes.
    pub(crate) consumed: Vec<Taken>,
    /// What changes about the code of the run.
    pub(crate) code: Option<CodeChange>,
    /// See [`Append::unless_asked_to_end`].
    pub(crate) unless_asked_to_end: bool,
    /// See [`Append::renews`].
    pub(crate) renews: Option<Renewal>,
    /// See [`Append::streams`].
    pub(crate) streams: Vec<StreamEnd>,
    /// Values of the events that are already in the effect store; the events refer to them.
    pub(crate) stored: Vec<LargeValue>,
    /// The events as JSON, where that was made before.
    pub(crate) frame: Option<Frame>,
}

impl AppendExtras {
    /// As `self`, with the rows, messages, streams and values of `before` in front.
    pub(crate) fn behind(mut self, before: Self) -> Self {
        fn lead<T>(before: Vec<T>, list: &mut Vec<T>) {
            list.splice(..0, before);
        }
        lead(before.ledger, &mut self.ledger);
        lead(before.consumed, &mut self.consumed);
        lead(before.streams, &mut self.streams);
        lead(before.stored, &mut self.stored);
        self
    }

    /// Removes from the ledger rows the values that are in the effect store; there they are found under the row's key.
    pub(crate) fn drop_stored_values(&mut self) {
        let is_stored = |value: &Option<Payload>| {
            value.as_ref().is_some_and(|value| self.stored.iter().any(|known| known.value == *value))
        };
        let stored: Vec<_> =
            self.ledger.iter().map(|row| (is_stored(&row.result), is_stored(&row.error))).collect();
        for (row, (result, error)) in self.ledger.iter_mut().zip(stored) {
            row.result.take_if(|_| result);
            row.error.take_if(|_| error);
        }
    }
}

/// The error for an event of `run` that cannot be written as JSON.
pub(crate) fn unencodable(run: &Run, error: impl std::fmt::Display) -> StoreError {
    StoreError::Unencodable { what: format!("an event of run `{}`", run.id), reason: error.to_string() }
}
