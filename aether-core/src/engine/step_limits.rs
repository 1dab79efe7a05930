//! Limits on steps, changed while everything runs.
//!
//! Promise: a limit counts from the next call on, in every process that works on the store.

use crate::engine::inner::{Engine, now};
use crate::store::error::StoreError;
use crate::store::step_limit_rows as rows;
use crate::store::step_limits::{StepLimit, StepLimitUse};

/// The limits on steps of a store. Comes from [`Engine::step_limits`].
#[derive(Debug)]
pub struct StepLimits<'e> {
    engine: &'e Engine,
}

impl Engine {
    /// The limits on steps in this engine's store: how many calls and tokens per time all runs of all processes take
    /// together, of the steps and model calls that name the limit.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use aether_core::engine::Engine;
    /// use aether_core::store::StepLimit;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// let minute = Duration::from_secs(60);
    /// engine.step_limits().set(StepLimit::new("openai")?.calls(500, minute)?.tokens(90_000, minute)?).await?;
    /// for used in engine.step_limits().list().await? {
    ///     println!("{}: {} % of it, a call waits {} ms", used.limit, used.percent, used.wait_ms);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn step_limits(&self) -> StepLimits<'_> {
        StepLimits { engine: self }
    }
}

impl StepLimits<'_> {
    /// Sets a limit, in place of the one of that name. What was booked of that one is forgotten; who waits already does so
    /// until the time that it was told.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn set(&self, limit: StepLimit) -> Result<(), StoreError> {
        let inner = &self.engine.inner;
        rows::set(&*inner.shared.store, &limit, now(inner)).await
    }

    /// All limits, by name, and how far they are used.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn list(&self) -> Result<Vec<StepLimitUse>, StoreError> {
        let inner = &self.engine.inner;
        let all = rows::list(&*inner.shared.store).await?;
        Ok(all.into_iter().map(|bookings| bookings.used(now(inner))).collect())
    }

    /// Removes the limit of this name; says whether there was one. Calls that name it are made without a wait then.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn remove(&self, name: &str) -> Result<bool, StoreError> {
        rows::remove(&*self.engine.inner.shared.store, name).await
    }
}
