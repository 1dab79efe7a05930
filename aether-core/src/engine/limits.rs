//! Limits of queues, changed while everything runs.
//!
//! Promise: a limit counts from the next claim and the next start on, in every process that works on the store.

use crate::engine::inner::Engine;
use crate::store::error::StoreError;
use crate::store::queues::{Limit, LimitKind, QueuePosition};
use crate::vocabulary::id::RunId;
use crate::vocabulary::queue::{LimitPattern, QueueError};

/// The limits of the queues of a store. Comes from [`Engine::limits`].
#[derive(Debug)]
pub struct QueueLimits<'e> {
    engine: &'e Engine,
}

impl Engine {
    /// The limits of the queues in this engine's store.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use aether_core::engine::Engine;
    /// use aether_core::store::{Limit, LimitKind};
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.limits().set(Limit::new("tickets", LimitKind::Running(50))?).await?;
    /// engine.limits().set(Limit::new("tickets/*", LimitKind::Running(5))?).await?;
    /// let starts = LimitKind::Starts { n: 100, per: Duration::from_secs(60) };
    /// engine.limits().set(Limit::new("tickets/acme", starts)?).await?;
    /// # Ok(()) }
    /// ```
    pub fn limits(&self) -> QueueLimits<'_> {
        QueueLimits { engine: self }
    }

    /// Why a run of a queue has no turn: since when it waits, what is before it, and the limit that keeps it back. `None`
    /// where it does not wait for a turn.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(position) = engine.queue_position(run).await? {
    ///     println!("{} before it, since {}", position.ahead, position.since);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::UnknownRun`] when there is no such run; others when the store fails.
    pub async fn queue_position(&self, run: &RunId) -> Result<Option<QueuePosition>, StoreError> {
        let now = self.inner.shared.environment.now();
        self.inner.shared.store.queue_position(run, now).await
    }
}

impl QueueLimits<'_> {
    /// Sets a limit, in place of the one with the same pattern and kind. Of several limits that are for a run, the
    /// strictest counts. A lower one lets running turns finish.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn set(&self, limit: Limit) -> Result<(), StoreError> {
        let inner = &self.engine.inner;
        inner.shared.store.put_limit(limit).await?;
        inner.wake_scheduler.notify_one();
        Ok(())
    }

    /// All limits, by pattern.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn list(&self) -> Result<Vec<Limit>, StoreError> {
        self.engine.inner.shared.store.limits().await
    }

    /// Removes the limit of this pattern and kind, whatever its number; says whether there was one.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// use aether_core::store::LimitKind;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.limits().remove("tickets/*", LimitKind::Running(0)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails. A text that is no pattern has no limit.
    pub async fn remove(&self, pattern: &str, kind: LimitKind) -> Result<bool, StoreError> {
        let pattern: Result<LimitPattern, QueueError> = LimitPattern::new(pattern);
        let Ok(pattern) = pattern else { return Ok(false) };
        let inner = &self.engine.inner;
        let removed = inner.shared.store.remove_limit(&pattern, kind.name()).await?;
        inner.wake_scheduler.notify_one();
        Ok(removed)
    }
}
