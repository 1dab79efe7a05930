//! Deleting ended runs: once, or again and again while an engine runs.
//!
//! Promise: nothing is deleted once the engine stops, and a run that was not asked about is not deleted for another one of its
//! id. One that cannot be deleted keeps no other one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::select;
use jiff::Timestamp;

use crate::engine::inner::{Engine, Inner};
use crate::engine::retention::{PurgeDecision, PurgeReport, Retention};
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::purge::Purged;
use crate::vocabulary::environment::Environment;
use crate::vocabulary::id::RunId;

impl Engine {
    /// Deletes the ended runs that are older than `retention` allows: journal, ledger rows, inbox and snapshot, one run
    /// in one write. A store-wide business key stays taken. A run that is damaged or cannot be deleted stays, with a warning.
    /// What was deleted before an error stays deleted.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, Retention};
    /// # use std::time::Duration;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    /// let report = engine.purge(&Retention::new().completed(30 * DAY)).await?;
    /// println!("{} runs deleted, {} kept", report.deleted, report.kept);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when ended runs cannot be listed, or several runs in a row cannot be deleted: the store fails.
    pub async fn purge(&self, retention: &Retention) -> Result<PurgeReport, StoreError> {
        purge(&self.inner, retention, Duration::MAX).await
    }

    /// The retention that this engine was built with; an engine that is a client does not act on it by itself.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # fn example(engine: &Engine) {
    /// let asks = engine.retention().is_some_and(|retention| retention.has_hook());
    /// # }
    /// ```
    pub fn retention(&self) -> Option<&Retention> {
        self.inner.retention.as_ref()
    }
}

/// So many runs in a row that cannot be deleted are no fault of theirs.
const FAILURES: u32 = 5;

/// Purges by a clock that has gone regularly for `steady_for`.
async fn purge(
    inner: &Inner,
    retention: &Retention,
    steady_for: Duration,
) -> Result<PurgeReport, StoreError> {
    let store = &inner.shared.store;
    let mut query = retention.ended(inner.shared.environment.now(), steady_for);
    let (mut report, mut failures) = (PurgeReport::default(), 0);
    while !inner.is_stopping() {
        let ended = store.ended(query.clone()).await?;
        let Some((last, _)) = ended.last() else { break };
        query.after = *last;
        for (_, record) in ended {
            let (id, created_at) = (record.id.clone(), record.created_at);
            let decision = retention.decide(record, store).await;
            // Behind the hook, which may take long: nothing is deleted once the engine stops, and a shutdown waits for what
            // is being deleted.
            let Some(_admission) = inner.admit().await else { return Ok(report) };
            if decision == PurgeDecision::Keep {
                report.kept += 1;
                continue;
            }
            // It comes before the others at every purge, and must not keep them.
            match delete(&**store, &id, created_at).await {
                Ok(what) => {
                    failures = 0;
                    what.count(&mut report);
                }
                Err(error) => {
                    tracing::warn!(target: "aether::engine", run = %id, %error, "a run is not purged");
                    report.failed += 1;
                    failures += u32::from(!matches!(error, StoreError::Corrupt { .. }));
                    let is_over = matches!(error, StoreError::Closed { .. } | StoreError::Lost { .. });
                    if is_over || failures >= FAILURES {
                        return Err(error);
                    }
                }
            }
        }
    }
    Ok(report)
}

/// What became of a run that was to be deleted.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Deleted,
    Held,
    /// It is not the one that was meant, or is open again.
    Other,
}

impl Fate {
    fn count(self, report: &mut PurgeReport) {
        report.deleted += u64::from(matches!(self, Self::Deleted));
        report.held += u64::from(matches!(self, Self::Held));
    }
}

async fn delete(store: &dyn Store, run: &RunId, created_at: Timestamp) -> Result<Fate, StoreError> {
    // Claims of another run of this id have the same numbers: what a paused process writes when it wakes would be taken for
    // that run's. Its loss is noted when the run is taken over, so this look comes late enough.
    if !store.unaware_owners(run).await?.is_empty() {
        return Ok(Fate::Held);
    }
    // Another worker may have deleted it meanwhile, and its id be used again: that run was not asked about.
    Ok(match store.purge(run, Some(created_at)).await? {
        Purged::Deleted => Fate::Deleted,
        Purged::ParentOpen(_) => Fate::Held,
        Purged::Unknown | Purged::Open(_) => Fate::Other,
    })
}

/// How often the clock is looked at that is not believed yet.
const LOOK: Duration = Duration::from_secs(5);

/// Purges again and again, until the engine stops, by each age from when its clock is believed to know it: what a clock deletes
/// that is ahead for a moment is gone, and its id can be used again.
pub(super) async fn keep_purging(
    inner: Weak<Inner>,
    environment: Arc<dyn Environment>,
    retention: Retention,
) {
    // By how many ages the newest purge has gone, and in what time the next one is due.
    let (mut ages, mut due) = (0, Duration::ZERO);
    loop {
        // Held for no longer than a purge, so that an engine without users goes, and its store with it.
        let (wake, pause) = {
            let Some(inner) = inner.upgrade().filter(|inner| !inner.is_stopping()) else { return };
            let steady_for = inner.steady.steady_for(&*environment);
            let (believed, others): (Vec<_>, Vec<_>) =
                retention.believed_after().partition(|after| *after <= steady_for);
            if due.is_zero() && !believed.is_empty() || believed.len() > ages {
                match purge(&inner, &retention, steady_for).await {
                    Ok(report) => {
                        tracing::debug!(target: "aether::engine", ?report, "ended runs were purged")
                    }
                    Err(error) => tracing::warn!(target: "aether::engine", %error, "cannot purge ended runs"),
                }
                due = retention.every;
            }
            ages = believed.len();
            let look = others.into_iter().min().map(|after| after.saturating_sub(steady_for).min(LOOK));
            let purge = Some(due).filter(|due| !due.is_zero());
            let pause = look.into_iter().chain(purge).min().unwrap_or(retention.every);
            (Arc::clone(&inner.wake_purging), pause)
        };
        select(Box::pin(wake.notified()), environment.sleep(pause)).await;
        due = due.saturating_sub(pause);
    }
}
