//! An engine that only looks and decides.
//!
//! Promise: it claims and advances no run, starts no tick and deletes nothing.

use crate::engine::builder::EngineBuilder;

impl EngineBuilder {
    /// Makes an engine that advances nothing: for a program beside the service, which lists runs, answers what waits,
    /// cancels, or starts runs that the service then advances. It needs the store, and nothing that steps take.
    ///
    /// Everything but advancing works, also waiting for a result. A run that it starts is pending until a worker claims
    /// it.
    ///
    /// ```
    /// # use aether_core::engine::{BuildError, EngineBuilder};
    /// # use aether_core::store::WaitFilter;
    /// # async fn review(builder: EngineBuilder) -> Result<(), Box<dyn std::error::Error>> {
    /// // `builder` is an `Engine::builder()` with the store of the service.
    /// let engine = builder.client().start().await?;
    /// for wait in engine.all_pending(WaitFilter::for_reply().limit(50)).await?.waits {
    ///     println!("{} waits for {}", wait.run, wait.name);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn client(mut self) -> Self {
        self.settings.advances = false;
        self.needs.off = true;
        self
    }
}
