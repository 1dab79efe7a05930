//! How a store answers an append, and how far a claim's journal is durable.
//!
//! Promise: no append error is lost; an answer that is never given counts as a failure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::{Notify, oneshot};

use crate::store::error::{AppendError, StoreError};
use crate::store::ledger::Acquired;
use crate::vocabulary::id::{Position, RunId};

/// A durable append, seen from the run.
#[derive(Debug)]
pub struct Receipt {
    /// Next position of the run.
    pub next: Position,
    /// The ledger's answer.
    pub acquired: Acquired,
}

/// How far a run's journal is durable, and whether it broke. Shared by all appends of one claim of one run.
#[derive(Debug, Default)]
pub struct DurableWatermark {
    durable: AtomicU64,
    failure: OnceLock<AppendError>,
    changed: Notify,
    broken: Notify,
}

impl DurableWatermark {
    /// The tail of a claim whose journal already holds every event below `position`.
    pub fn from(position: Position) -> Self {
        Self { durable: position.into(), ..Self::default() }
    }

    /// Every event below this position is durable.
    pub fn durable(&self) -> Position {
        self.durable.load(Ordering::Acquire)
    }

    /// The first append error, if there was one. After it nothing of this claim becomes durable.
    pub fn failure(&self) -> Option<&AppendError> {
        self.failure.get()
    }

    /// Waits until everything below `position` is durable.
    ///
    /// # Errors
    /// The append error that makes this impossible.
    pub async fn reached(&self, position: Position) -> Result<(), AppendError> {
        loop {
            let changed = self.changed.notified();
            if let Some(error) = self.failure() {
                return Err(error.clone());
            }
            if self.durable() >= position {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Waits until an append fails.
    pub async fn failed(&self) -> AppendError {
        loop {
            let broken = self.broken.notified();
            if let Some(error) = self.failure() {
                return error.clone();
            }
            broken.await;
        }
    }
}

/// The duty to answer an append. Dropping it unanswered counts as a failure: no append error is ever lost.
#[derive(Debug)]
pub struct Ack {
    run: RunId,
    next: Position,
    tail: Arc<DurableWatermark>,
    reply: Option<oneshot::Sender<Result<Receipt, AppendError>>>,
    answered: bool,
}

/// The other end of an [`Ack`] that somebody waits for.
pub type AppendReply = oneshot::Receiver<Result<Receipt, AppendError>>;

impl Ack {
    /// An answer that only moves `tail`. `next` is the position after the append.
    pub fn silent(run: RunId, next: Position, tail: Arc<DurableWatermark>) -> Self {
        Self { run, next, tail, reply: None, answered: false }
    }

    /// An answer that somebody waits for.
    pub fn awaited(run: RunId, next: Position, tail: Arc<DurableWatermark>) -> (Self, AppendReply) {
        let (reply, receiver) = oneshot::channel();
        (Self { run, next, tail, reply: Some(reply), answered: false }, receiver)
    }

    /// Whether somebody waits for this append, so that it should not linger in a batch.
    pub fn is_awaited(&self) -> bool {
        self.reply.is_some()
    }

    /// The append is durable.
    pub fn durable(mut self, acquired: Acquired) {
        self.answered = true;
        self.tail.durable.fetch_max(self.next, Ordering::AcqRel);
        if let Some(reply) = self.reply.take() {
            let _gone = reply.send(Ok(Receipt { next: self.next, acquired }));
        }
        self.tail.changed.notify_waiters();
    }

    /// The append was refused or lost.
    pub fn failed(mut self, error: AppendError) {
        self.fail(error);
    }

    fn fail(&mut self, error: AppendError) {
        self.answered = true;
        let _first_error_wins = self.tail.failure.set(error.clone());
        if let Some(reply) = self.reply.take() {
            let _gone = reply.send(Err(error));
        }
        self.tail.broken.notify_waiters();
        self.tail.changed.notify_waiters();
    }
}

impl Drop for Ack {
    fn drop(&mut self) {
        if !self.answered {
            let error = StoreError::Unavailable {
                store: "journal".into(),
                reason: format!("an append of run `{}` was dropped unanswered", self.run),
            };
            self.fail(error.into());
        }
    }
}
