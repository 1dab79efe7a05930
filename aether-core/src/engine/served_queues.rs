//! Which runs an engine takes: of which queues, and whether any outside of queues.
//!
//! Promise: a pattern that is not usable is refused when the engine starts.

use crate::engine::builder::EngineBuilder;
use crate::vocabulary::queue::{LimitPattern, QueueError, Serves};

impl EngineBuilder {
    /// Of the runs that are in queues, takes only those that one of the patterns is for; they are written as in
    /// [`Limit::new`](crate::store::Limit::new). Without this it takes runs of all queues. Runs that are in no queue are not
    /// concerned: see [`EngineBuilder::only_queues`].
    ///
    /// A run of a queue that no worker serves waits, and [`Hold::NotServed`](crate::engine::Hold::NotServed) says so.
    ///
    /// ```
    /// # use aether_core::engine::EngineBuilder;
    /// # fn example(builder: EngineBuilder) -> EngineBuilder {
    /// builder.queues(["tickets", "mail/*"])
    /// # }
    /// ```
    pub fn queues(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let patterns: Result<Vec<_>, QueueError> = patterns.into_iter().map(LimitPattern::new).collect();
        self.serves = self.serves.and_then(|serves| Ok(Serves { queues: Some(patterns?), ..serves }));
        self
    }

    /// Takes no runs that are in queues.
    ///
    /// ```
    /// # use aether_core::engine::EngineBuilder;
    /// # fn example(builder: EngineBuilder) -> EngineBuilder {
    /// builder.without_queues()
    /// # }
    /// ```
    pub fn without_queues(mut self) -> Self {
        self.serves = self.serves.map(|serves| Serves { queues: Some(Vec::new()), ..serves });
        self
    }

    /// Takes no runs that are in no queue. Those that it starts are advanced by other workers.
    ///
    /// ```
    /// # use aether_core::engine::EngineBuilder;
    /// # fn example(builder: EngineBuilder) -> EngineBuilder {
    /// builder.queues(["reports"]).only_queues()
    /// # }
    /// ```
    pub fn only_queues(mut self) -> Self {
        self.serves = self.serves.map(|serves| Serves { others: false, ..serves });
        self
    }
}
