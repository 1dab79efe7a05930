//! A simulated run as the test sees it from beside while it runs.
//!
//! Promise: it acts through the engine's own interface, and waits in virtual time.

use std::time::Duration;

use aether_core::engine::{Engine, StartError};
use aether_core::environment::Environment as _;
use aether_core::id::RunId;
use aether_core::inbox::SendError;
use aether_core::stream::StreamReader;
use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::world::SimEnvironment;

/// A simulated run while it is running, for [`Sim::meanwhile`](crate::Sim::meanwhile).
#[derive(Clone, Debug)]
pub struct Live {
    engine: Engine,
    run: RunId,
    world: SimEnvironment,
    /// When the simulation began.
    begun: Timestamp,
}

impl Live {
    pub(crate) fn new(engine: Engine, run: RunId, world: SimEnvironment, begun: Timestamp) -> Self {
        Self { engine, run, world, begun }
    }

    /// The engine of the current process. After a crash there is a new one, and [`Sim::meanwhile`](crate::Sim::meanwhile)
    /// is called again with it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The id of the simulated run, for the engine's own methods.
    pub fn run_id(&self) -> &RunId {
        &self.run
    }

    /// Reads the stream `name` of the run while it is written, in virtual time. After a crash there is another reader, which
    /// begins anew unless it is told where: see [`StreamReader::from`].
    ///
    /// # Errors
    /// [`StartError`] when the store fails.
    pub async fn stream<T: DeserializeOwned>(&self, name: &str) -> Result<StreamReader<T>, StartError> {
        Ok(self.engine.find(self.run.as_str()).await?.stream(name))
    }

    /// Waits this long in virtual time.
    pub async fn sleep(&self, wait: Duration) {
        let until = self.world.now().saturating_add(wait).unwrap_or(Timestamp::MAX);
        self.world.sleep_until(until).await;
    }

    /// Waits until this much virtual time has passed since the simulation began, crashes included.
    pub async fn sleep_until(&self, after: Duration) {
        let until = self.begun.saturating_add(after).unwrap_or(Timestamp::MAX);
        self.world.sleep_until(until).await;
    }

    /// How much virtual time is left until `due`.
    pub(crate) fn left_until(&self, due: Timestamp) -> Duration {
        Duration::try_from(due.duration_since(self.world.now())).unwrap_or_default()
    }

    /// How much is left of this much virtual time since the simulation began.
    pub(crate) fn until(&self, after: Duration) -> Duration {
        self.left_until(self.begun.saturating_add(after).unwrap_or(Timestamp::MAX))
    }

    /// Asks the run to cancel itself, for `reason` and on behalf of `actor`.
    ///
    /// # Errors
    /// [`SendError`] when the request cannot be sent, or the store fails.
    pub async fn cancel(&self, reason: &str, actor: &str) -> Result<(), SendError> {
        self.engine.cancel(&self.run, reason, actor).await.map(|_sent| ())
    }
}
