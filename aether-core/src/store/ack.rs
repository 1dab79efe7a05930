//! How a store answers an append, and how much of a claim's journal is durable.
//!
//! Promise: no append error is lost; an append that is dropped without an answer counts as failed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::sched::{AtomicU64, Notify, OnceLock, OneshotSender, oneshot};
use crate::store::birth::Birth;
use crate::store::error::{AppendError, StoreError};
use crate::store::ledger::Acquired;
use crate::vocabulary::id::{Position, RunId};
use crate::vocabulary::measures::Gauge;

/// Proof that an append is durable.
#[derive(Debug)]
pub struct Receipt {
    /// The run's next position after the append.
    pub next: Position,
    /// The ledger's answer to the append's [`Acquire`](crate::store::ledger::Acquire), if it had one.
    pub acquired: Acquired,
}

/// The position below which a run's journal is durable, and the first append error. Shared by all appends of one claim
/// of one run.
///
/// ```
/// # use std::sync::Arc;
/// use aether_core::id::RunId;
/// use aether_core::store::ledger::Acquired;
/// use aether_core::store::{Ack, DurableWatermark};
/// let watermark = Arc::new(DurableWatermark::from(5));
/// let ack = Ack::silent("ticket-42".parse::<RunId>()?, 7, Arc::clone(&watermark));
/// assert_eq!(watermark.durable(), 5);
/// ack.durable(Acquired::NotAsked);
/// assert_eq!(watermark.durable(), 7);
/// # Ok::<(), aether_core::id::RunIdError>(())
/// ```
#[derive(Debug, Default)]
pub struct DurableWatermark {
    durable: AtomicU64,
    /// Appends that are not answered yet.
    open: AtomicU64,
    failure: OnceLock<AppendError>,
    changed: Notify,
    broken: Notify,
    /// Who measures how long appends take.
    gauge: Option<Arc<Gauge>>,
    /// Of a run that was begun before its creation was durable.
    birth: Option<Birth>,
}

impl DurableWatermark {
    /// The watermark of a claim whose journal already holds every event below `position`.
    pub fn from(position: Position) -> Self {
        Self { durable: position.into(), ..Self::default() }
    }

    /// As [`DurableWatermark::from`], of a claim whose appends are measured.
    pub(crate) fn measured(position: Position, gauge: Arc<Gauge>) -> Self {
        Self { gauge: Some(gauge), ..Self::from(position) }
    }

    /// Of a run that was begun on early word of its creation.
    #[must_use]
    pub fn born(mut self, birth: Option<Birth>) -> Self {
        self.birth = birth;
        self
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
            // Created before the checks: `notify_waiters` reaches only futures that exist, so a change between check
            // and wait would otherwise be missed.
            let changed = self.changed.notified();
            // The failure first: after it the claim is over, even if `position` is durable.
            if let Some(error) = self.failure() {
                return Err(error.clone());
            }
            if self.durable() >= position {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Waits until every append is answered, whatever the answers are: an error of one says nothing about those before it,
    /// which the store may still write.
    pub async fn settled(&self) {
        loop {
            // Before the check, as in `reached`.
            let changed = self.changed.notified();
            if self.open.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Waits until an append fails.
    pub async fn failed(&self) -> AppendError {
        loop {
            // Before the check, as in `reached`.
            let broken = self.broken.notified();
            if let Some(error) = self.failure() {
                return error.clone();
            }
            broken.await;
        }
    }
}

/// The store's obligation to answer an append: exactly one of [`Ack::durable`] and [`Ack::failed`]. Dropping it without
/// an answer counts as a failure, so that no append error is lost.
#[derive(Debug)]
pub struct Ack {
    run: RunId,
    next: Position,
    watermark: Arc<DurableWatermark>,
    reply: Option<OneshotSender<Result<Receipt, AppendError>>>,
    reading: Option<Reading>,
    answered: bool,
    /// When it was handed over; only where that is measured.
    since: Option<Duration>,
}

/// What the ledger's answer goes through before its receiver sees it.
struct Reading(Box<dyn FnOnce(Acquired) -> Result<Acquired, StoreError> + Send + Sync>);

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reading")
    }
}

/// The receiving end of an [`Ack`] made by [`Ack::awaited`].
pub type AppendReply = oneshot::Receiver<Result<Receipt, AppendError>>;

impl Ack {
    /// An answer that only advances `watermark`. `next` is the run's next position after the append.
    pub fn silent(run: RunId, next: Position, watermark: Arc<DurableWatermark>) -> Self {
        watermark.open.fetch_add(1, Ordering::AcqRel);
        let since = watermark.gauge.as_ref().map(|gauge| gauge.now());
        Self { run, next, watermark, reply: None, reading: None, answered: false, since }
    }

    /// As [`Ack::silent`], for an append whose caller waits for the answer.
    pub fn awaited(run: RunId, next: Position, watermark: Arc<DurableWatermark>) -> (Self, AppendReply) {
        let (reply, receiver) = oneshot();
        let mut ack = Self::silent(run, next, watermark);
        ack.reply = Some(reply);
        (ack, receiver)
    }

    /// Has the ledger's answer go through `read` first: for a store that stands in front of another and keeps rows in a form
    /// of its own. Where `read` fails, the append counts as failed for its run, although it is durable.
    #[must_use]
    pub fn reading(
        mut self,
        read: impl FnOnce(Acquired) -> Result<Acquired, StoreError> + Send + Sync + 'static,
    ) -> Self {
        self.reading = Some(Reading(Box::new(read)));
        self
    }

    /// Whether a caller waits for this append, so that the store should not keep it in a batch for long.
    pub fn is_awaited(&self) -> bool {
        self.reply.is_some()
    }

    /// Whether the creation of its run came to nothing, on whose early word the run was begun.
    pub(crate) fn is_void(&self) -> bool {
        self.watermark.birth.as_ref().is_some_and(Birth::is_void)
    }

    /// Reports that the append is durable, with the ledger's answer.
    pub fn durable(mut self, acquired: Acquired) {
        let acquired = match self.reading.take() {
            None => acquired,
            Some(Reading(read)) => match read(acquired) {
                Ok(acquired) => acquired,
                Err(error) => return self.fail(error.into()),
            },
        };
        self.answered = true;
        // Before the reply: its receiver may look at the watermark next. The maximum, so that the watermark never falls
        // if a store acknowledges appends out of order.
        self.watermark.durable.fetch_max(self.next, Ordering::AcqRel);
        if let (Some(gauge), Some(since)) = (&self.watermark.gauge, self.since) {
            gauge.appended(since);
        }
        if let Some(reply) = self.reply.take() {
            let _gone = reply.send(Ok(Receipt { next: self.next, acquired }));
        }
        self.watermark.changed.notify_waiters();
    }

    /// Reports that the append was refused or lost, and why.
    pub fn failed(mut self, error: AppendError) {
        self.fail(error);
    }

    fn fail(&mut self, error: AppendError) {
        self.answered = true;
        if let (Some(gauge), AppendError::Store(error)) = (&self.watermark.gauge, &error) {
            gauge.store_failed(error.kind());
        }
        // Before the notifications: the tasks that they wake look for the failure. The first error is kept, because the
        // later appends of the claim fail only as its consequence.
        let _first_error_wins = self.watermark.failure.set(error.clone());
        if let Some(reply) = self.reply.take() {
            let _gone = reply.send(Err(error));
        }
        self.watermark.broken.notify_waiters();
        self.watermark.changed.notify_waiters();
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
        if self.watermark.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.watermark.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn append(watermark: &Arc<DurableWatermark>, next: Position) -> Ack {
        Ack::silent("run".parse().unwrap(), next, Arc::clone(watermark))
    }

    #[tokio::test]
    async fn an_error_settles_nothing_that_was_appended_before_it() {
        let watermark = Arc::new(DurableWatermark::default());
        watermark.settled().await;
        let (first, second) = (append(&watermark, 1), append(&watermark, 2));
        let full = StoreError::Full { store: "disk".into(), reason: "no space left".into() };
        second.failed(full.into());
        assert!(watermark.reached(2).await.is_err());
        let mut settled = std::pin::pin!(watermark.settled());
        assert!(settled.as_mut().now_or_never().is_none());
        first.durable(Acquired::NotAsked);
        settled.await;
        assert_eq!(watermark.durable(), 1);
        drop(append(&watermark, 3));
        watermark.settled().await;
    }
}
