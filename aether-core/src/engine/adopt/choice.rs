//! The choice of what an engine does about open runs that do not fit its code.
//!
//! Promise: without a choice they are parked.

use crate::engine::adopt::unfit::OnUnfit;
use crate::engine::builder::EngineBuilder;

impl EngineBuilder {
    /// Says what the engine does at its start where open runs do not fit this program's code. By default they are parked.
    ///
    /// ```no_run
    /// use aether_core::engine::{BuildError, Engine, OnUnfit};
    /// # async fn start() {
    /// match Engine::builder().memory().on_unfit(OnUnfit::Refuse).start().await {
    ///     Err(error @ BuildError::OpenRunsNeedOtherCode { .. }) => eprintln!("not deployed: {error}"),
    ///     started => drop(started),
    /// }
    /// # }
    /// ```
    pub fn on_unfit(mut self, on_unfit: OnUnfit) -> Self {
        self.on_unfit = on_unfit;
        self
    }
}
