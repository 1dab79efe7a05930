//! Starting runs in queues, at a later time, and under keys.
//!
//! Promise: an option that makes no sense is an error of the start, and nothing is recorded.

use std::time::Duration;

use jiff::Timestamp;

use crate::engine::keyed::key::Singleton;
use crate::engine::keyed::start::Keyed;
use crate::engine::start::StartRun;
use crate::workflow::definition::Workflow;

impl<W: Workflow> StartRun<'_, W> {
    /// Lets the run wait for its turns in a queue. A turn begins within the [`limits`](crate::engine::Engine::limits) of the
    /// queue, and ends when the run has ended or only waits.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::failure::Failure;
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<greet>(engine: &Engine) -> Result<(), Box<dyn std::error::Error>>
    /// # where greet: Workflow<Input = String, Output = String, Error = Failure> {
    /// engine.start::<greet>("Ada".to_owned()).queue("letters").key("acme/ann").priority(2).await?;
    /// # Ok(()) }
    /// ```
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.options.queue = Some(name.into());
        self
    }

    /// Whom the run is for: segments with `/` in between. The keys of a queue take turns, so that none waits for all that
    /// another one has queued.
    ///
    /// ```
    /// # use aether_core::engine::StartRun;
    /// # use aether_core::workflow::Workflow;
    /// fn of_ann<W: Workflow>(start: StartRun<'_, W>) -> StartRun<'_, W> {
    ///     start.queue("letters").key("acme/ann")
    /// }
    /// ```
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.options.key = Some(key.into());
        self
    }

    /// Among the runs of its key, a higher priority comes first. Default 0. Each step is worth a minute: a run that has
    /// waited that much longer comes before newer ones of the higher priority.
    ///
    /// ```
    /// # use aether_core::engine::StartRun;
    /// # use aether_core::workflow::Workflow;
    /// fn urgent<W: Workflow>(start: StartRun<'_, W>) -> StartRun<'_, W> {
    ///     start.queue("letters").priority(10)
    /// }
    /// ```
    pub fn priority(mut self, priority: i32) -> Self {
        self.options.priority = Some(priority);
        self
    }

    /// The run does not begin before `time`, by the clock of the worker that claims it. Needs no queue. What is sent to it
    /// before is kept for it. A request to end it ends it at once, and
    /// [`RunHandle::advance`](crate::engine::RunHandle::advance) begins it at once. One limit: where a former build woke the
    /// run for another message, a request that comes in the moment in which a worker gives it back is obeyed at `time`.
    ///
    /// ```
    /// # use aether_core::engine::StartRun;
    /// # use aether_core::workflow::Workflow;
    /// fn next_year<W: Workflow>(start: StartRun<'_, W>, time: jiff::Timestamp) -> StartRun<'_, W> {
    ///     start.at(time)
    /// }
    /// ```
    pub fn at(mut self, time: Timestamp) -> Self {
        self.options.at = Some(time);
        self
    }

    /// If the run has not begun `within` this time of its start, or of its [`StartRun::at`], it ends as
    /// [`RunEnd::Expired`](crate::run::RunEnd::Expired) and is not executed. One that other code has
    /// [parked](crate::engine::Engine::parked) instead of beginning it has not begun.
    ///
    /// ```
    /// # use aether_core::engine::StartRun;
    /// # use aether_core::workflow::Workflow;
    /// fn soon_or_never<W: Workflow>(start: StartRun<'_, W>) -> StartRun<'_, W> {
    ///     start.queue("letters").expires(std::time::Duration::from_secs(60))
    /// }
    /// ```
    pub fn expires(mut self, within: Duration) -> Self {
        self.options.expires = Some(within);
        self
    }

    /// Of the workflow's runs with this key, one is open at a time; `otherwise` says what becomes of a start while
    /// another is. A key is free again as soon as its run has ended.
    ///
    /// ```
    /// # use aether_core::engine::{Singleton, StartRun};
    /// # use aether_core::workflow::Workflow;
    /// fn one_import<W: Workflow>(start: StartRun<'_, W>) -> StartRun<'_, W> {
    ///     start.once_per("acme", Singleton::Join)
    /// }
    /// ```
    pub fn once_per(mut self, key: impl Into<String>, otherwise: Singleton) -> Self {
        self.keyed = Some(Keyed::once_per(key.into(), otherwise));
        self
    }

    /// Within `window` of the creation of a run with this key, starts of the workflow return that run, also when it has ended.
    /// The window counts by the clocks of the workers; while one is ahead, a start there may find it over.
    ///
    /// ```
    /// # use aether_core::engine::StartRun;
    /// # use aether_core::workflow::Workflow;
    /// fn once_a_day<W: Workflow>(start: StartRun<'_, W>) -> StartRun<'_, W> {
    ///     start.dedup("webhook-81", std::time::Duration::from_secs(86_400))
    /// }
    /// ```
    pub fn dedup(mut self, key: impl Into<String>, window: Duration) -> Self {
        self.keyed = Some(Keyed::dedup(key.into(), window));
        self
    }

    /// Begins one run for several starts with this key: when none has come for `quiet`, and at the latest `max` after the
    /// first. The last input wins; the id, the labels and the queue are those of the first start, and all of them return
    /// a handle to that run. [`StartTerms::inputs`](crate::queue::StartTerms::inputs) says how many starts it stands for.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use aether_core::engine::StartRun;
    /// # use aether_core::workflow::Workflow;
    /// fn reindex<W: Workflow>(start: StartRun<'_, W>) -> StartRun<'_, W> {
    ///     start.debounce("doc-7", Duration::from_secs(5), Duration::from_secs(60))
    /// }
    /// ```
    pub fn debounce(mut self, key: impl Into<String>, quiet: Duration, max: Duration) -> Self {
        self.keyed = Some(Keyed::debounce(key.into(), quiet, max));
        self
    }
}

impl<T: Send + 'static, W: Workflow<Input = Vec<T>>> StartRun<'_, W> {
    /// Gathers the elements of several starts with this key into the input of one run: it begins when there are `max`, and
    /// at the latest `wait` after the first. Id, labels and queue are those of the first start. A start of several
    /// elements is not divided, so the last one may bring a few more than `max`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use aether_core::engine::StartRun;
    /// # use aether_core::workflow::Workflow;
    /// fn index<W: Workflow<Input = Vec<u64>>>(start: StartRun<'_, W>) -> StartRun<'_, W> {
    ///     start.collect("acme", 100, Duration::from_secs(10))
    /// }
    /// ```
    pub fn collect(mut self, key: impl Into<String>, max: usize, wait: Duration) -> Self {
        self.keyed = Some(Keyed::collect(key.into(), max, wait));
        self
    }
}
