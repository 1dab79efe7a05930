//! Retention: how long ended runs are kept, and the hook that is called before one is deleted.
//!
//! Promise: an open run is never deleted, nor one whose parent is open; what the hook keeps stays; a store-wide business
//! key stays taken when its run is gone.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::engine::steady_clock::STEADY;
use crate::journal::frame::StoredFrame;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::purge::EndedRuns;
use crate::store::records::RunRecord;
use crate::view::run::RunView;
use crate::vocabulary::contract::Status;

/// How long ended runs are kept, by how they ended. Runs that ended in a way that is not named are kept for ever.
///
/// ```
/// use std::time::Duration;
/// use aether_core::engine::{PurgeDecision, Retention};
/// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// let retention = Retention::new().completed(30 * DAY).failed(90 * DAY).before_purge(|run| async move {
///     // Here a program exports what it must keep: `run.journal().await`, `run.view().await`.
///     if run.record().workflow == "payroll" { PurgeDecision::Keep } else { PurgeDecision::Delete }
/// });
/// ```
#[derive(Clone)]
pub struct Retention {
    ages: Vec<(Status, Duration)>,
    batch: usize,
    pub(super) every: Duration,
    hook: Option<Hook>,
}

type Hook = Arc<dyn Fn(PurgeCandidate) -> BoxFuture<'static, PurgeDecision> + Send + Sync>;

/// What a hook decides about a run that is about to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeDecision {
    /// Delete the run.
    Delete,
    /// Keep the run. The hook is called for it again at the next purge.
    Keep,
}

/// A run that is about to be deleted, as the hook of [`Retention::before_purge`] gets it.
#[derive(Clone, Debug)]
pub struct PurgeCandidate {
    record: RunRecord,
    store: Arc<dyn Store>,
}

/// Result of [`Engine::purge`](crate::engine::Engine::purge).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeReport {
    /// Runs that were deleted.
    pub deleted: u64,
    /// Runs that the hook kept.
    pub kept: u64,
    /// Runs that were kept because their parents are open, or because a paused process of which they were taken may wake and
    /// write.
    pub held: u64,
    /// Runs that could not be deleted; a warning says why. They are tried again at the next purge.
    pub failed: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self::new()
    }
}

impl Retention {
    /// Keeps everything for ever, until an age is set.
    ///
    /// ```
    /// # use aether_core::engine::Retention;
    /// # use std::time::Duration;
    /// # const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    /// let retention = Retention::new().completed(30 * DAY);
    /// ```
    pub fn new() -> Self {
        Self { ages: Vec::new(), batch: 200, every: Duration::from_secs(60 * 60), hook: None }
    }

    /// Deletes completed runs that ended longer ago than `age`.
    ///
    /// ```
    /// # use aether_core::engine::Retention;
    /// # use std::time::Duration;
    /// # const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    /// let retention = Retention::new().completed(30 * DAY);
    /// ```
    #[must_use]
    pub fn completed(self, age: Duration) -> Self {
        self.aged(Status::Completed, age)
    }

    /// Deletes failed runs that ended longer ago than `age`.
    ///
    /// ```
    /// # use aether_core::engine::Retention;
    /// # use std::time::Duration;
    /// # const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    /// let retention = Retention::new().failed(30 * DAY);
    /// ```
    #[must_use]
    pub fn failed(self, age: Duration) -> Self {
        self.aged(Status::Failed, age)
    }

    /// Deletes rejected runs that ended longer ago than `age`.
    ///
    /// ```
    /// # use aether_core::engine::Retention;
    /// # use std::time::Duration;
    /// # const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    /// let retention = Retention::new().rejected(30 * DAY);
    /// ```
    #[must_use]
    pub fn rejected(self, age: Duration) -> Self {
        self.aged(Status::Rejected, age)
    }

    /// Deletes cancelled runs that ended longer ago than `age`.
    ///
    /// ```
    /// # use aether_core::engine::Retention;
    /// # use std::time::Duration;
    /// # const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    /// let retention = Retention::new().cancelled(30 * DAY);
    /// ```
    #[must_use]
    pub fn cancelled(self, age: Duration) -> Self {
        self.aged(Status::Cancelled, age)
    }

    fn aged(mut self, status: Status, age: Duration) -> Self {
        self.ages.retain(|(known, _)| *known != status);
        self.ages.push((status, age));
        self
    }

    /// Reads so many ended runs from the store at a time. Default 200.
    ///
    /// ```
    /// # use aether_core::engine::Retention;
    /// # use std::time::Duration;
    /// # const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    /// let retention = Retention::new().completed(30 * DAY).batch(1_000);
    /// ```
    #[must_use]
    pub fn batch(mut self, runs: usize) -> Self {
        self.batch = runs.max(1);
        self
    }

    /// Sets how often an engine with this retention purges by itself. Default one hour, at least 10 ms.
    ///
    /// ```
    /// # use aether_core::engine::Retention;
    /// # use std::time::Duration;
    /// # const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    /// let retention = Retention::new().completed(30 * DAY).every(DAY);
    /// ```
    #[must_use]
    pub fn every(mut self, period: Duration) -> Self {
        self.every = period.max(Duration::from_millis(10));
        self
    }

    /// Calls `hook` before each deletion; it may export the run, and it may keep it. A run whose hook panics is kept.
    ///
    /// ```
    /// # use aether_core::engine::PurgeDecision;
    /// # use aether_core::engine::Retention;
    /// # use std::time::Duration;
    /// # const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    /// let retention = Retention::new().failed(30 * DAY).before_purge(|run| async move {
    ///     match run.view().await {
    ///         Ok(view) if view.in_doubt().is_empty() => PurgeDecision::Delete,
    ///         _ => PurgeDecision::Keep,
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn before_purge<F>(mut self, hook: impl Fn(PurgeCandidate) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = PurgeDecision> + Send + 'static,
    {
        self.hook = Some(Arc::new(move |run| Box::pin(hook(run))));
        self
    }

    /// Calls the hook of `other` before each deletion, where that has one: for a purge by hand with other ages than the
    /// program's own, see [`Engine::retention`](crate::engine::Engine::retention).
    ///
    /// ```
    /// # use aether_core::engine::{Engine, Retention};
    /// # use std::time::Duration;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut retention = Retention::new().completed(Duration::from_secs(24 * 60 * 60));
    /// if let Some(own) = engine.retention() {
    ///     retention = retention.with_hook_of(own);
    /// }
    /// engine.purge(&retention).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_hook_of(mut self, other: &Self) -> Self {
        self.hook.clone_from(&other.hook);
        self
    }

    /// Whether a hook is asked before each deletion.
    pub fn has_hook(&self) -> bool {
        self.hook.is_some()
    }

    /// For how long the clock must have gone regularly, to be believed when it says that an age is over: ten minutes, or for
    /// that age where it is less. One for each age.
    pub(super) fn believed_after(&self) -> impl Iterator<Item = Duration> {
        self.ages.iter().map(|(_, age)| believed_after(*age))
    }

    /// The ended runs that are older than their ages, by a clock that has gone regularly for `steady_for`: without those whose
    /// ages it is not believed to know.
    pub(super) fn ended(&self, now: Timestamp, steady_for: Duration) -> EndedRuns {
        let before = |age: Duration| now.saturating_sub(age).unwrap_or(Timestamp::MIN);
        let believed = self.ages.iter().filter(|(_, age)| believed_after(*age) <= steady_for);
        let before = believed.map(|(status, age)| (*status, before(*age))).collect();
        EndedRuns { before, after: 0, limit: self.batch }
    }

    pub(super) async fn decide(&self, record: RunRecord, store: &Arc<dyn Store>) -> PurgeDecision {
        match &self.hook {
            Some(hook) => {
                let run = record.id.clone();
                let decision = async { hook(PurgeCandidate { record, store: Arc::clone(store) }).await };
                AssertUnwindSafe(decision).catch_unwind().await.unwrap_or_else(|_| {
                    tracing::error!(target: "aether::engine", %run, "the hook before a purge panicked: the run is kept");
                    PurgeDecision::Keep
                })
            }
            None => PurgeDecision::Delete,
        }
    }
}

fn believed_after(age: Duration) -> Duration {
    age.min(STEADY)
}

impl fmt::Debug for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hooked = self.hook.is_some();
        f.debug_struct("Retention").field("ages", &self.ages).field("hooked", &hooked).finish_non_exhaustive()
    }
}

impl PurgeCandidate {
    /// What the store lists of the run: id, workflow, status, times.
    ///
    /// ```
    /// # use aether_core::engine::PurgeCandidate;
    /// fn is_payroll(run: &PurgeCandidate) -> bool {
    ///     run.record().workflow == "payroll"
    /// }
    /// ```
    pub fn record(&self) -> &RunRecord {
        &self.record
    }

    /// The run's journal, byte for byte: to archive it.
    ///
    /// ```
    /// # use aether_core::engine::PurgeCandidate;
    /// # async fn example(run: PurgeCandidate) -> Result<(), Box<dyn std::error::Error>> {
    /// for frame in run.journal().await? {
    ///     println!("event {}: {:?}", frame.position, frame.events()?);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn journal(&self) -> Result<Vec<StoredFrame>, StoreError> {
        self.store.load(&self.record.id, 0).await
    }

    /// The run's view: to keep a summary of it.
    ///
    /// ```
    /// # use aether_core::engine::PurgeCandidate;
    /// # async fn example(run: PurgeCandidate) -> Result<(), Box<dyn std::error::Error>> {
    /// println!("{}", run.view().await?.trace());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails or the journal is unreadable.
    pub async fn view(&self) -> Result<RunView, StoreError> {
        RunView::load(&*self.store, &self.record.id).await
    }
}
