//! Deleting ended runs: once, or again and again while an engine runs.
//!
//! Promise: nothing is deleted once the engine stops, and a run that was not asked about is not deleted for another one of its
//! id.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::select;

use crate::engine::inner::{Engine, Inner};
use crate::engine::retention::{PurgeDecision, PurgeReport, Retention};
use crate::engine::steady_clock::STEADY;
use crate::store::error::StoreError;
use crate::store::purge::Purged;
use crate::vocabulary::environment::Environment;

impl Engine {
    /// Deletes the ended runs that are older than `retention` allows: journal, ledger rows, inbox and snapshot, one run
    /// in one write. A store-wide business key stays taken. A run that is damaged stays, with a warning. What was deleted
    /// before an error stays deleted.
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
    /// [`StoreError`] when the store fails.
    pub async fn purge(&self, retention: &Retention) -> Result<PurgeReport, StoreError> {
        purge(&self.inner, retention).await
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

async fn purge(inner: &Inner, retention: &Retention) -> Result<PurgeReport, StoreError> {
    let store = &inner.shared.store;
    let mut query = retention.ended(inner.shared.environment.now());
    let mut report = PurgeReport::default();
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
            // Claims of another run of this id have the same numbers: what a paused process writes when it wakes would be
            // taken for that run's. Its loss is noted when the run is taken over, so this look comes late enough.
            if !store.unaware_owners(&id).await?.is_empty() {
                report.held += 1;
                continue;
            }
            // Another worker may have deleted it meanwhile, and its id be used again: that run was not asked about.
            match store.purge(&id, Some(created_at)).await {
                Ok(Purged::Deleted) => report.deleted += 1,
                Ok(Purged::ParentOpen(_)) => report.held += 1,
                Ok(Purged::Unknown | Purged::Open(_)) => {}
                // It comes before the others at every purge, and must not keep them.
                Err(error @ StoreError::Corrupt { .. }) => {
                    tracing::warn!(target: "aether::engine", run = %id, %error, "a damaged run is not purged");
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(report)
}

/// How often the clock is looked at that is not believed yet.
const LOOK: Duration = Duration::from_secs(5);

/// Purges again and again, until the engine stops, from when its clock is believed: what a clock deletes that is ahead for a
/// moment is gone, and its id can be used again.
pub(super) async fn keep_purging(
    inner: Weak<Inner>,
    environment: Arc<dyn Environment>,
    retention: Retention,
) {
    loop {
        // Held for no longer than a purge, so that an engine without users goes, and its store with it.
        let (wake, pause) = {
            let Some(inner) = inner.upgrade().filter(|inner| !inner.is_stopping()) else { return };
            let missing = believed_after(&retention).saturating_sub(inner.steady.steady_for(&*environment));
            let pause = if missing.is_zero() {
                match purge(&inner, &retention).await {
                    Ok(report) => {
                        tracing::debug!(target: "aether::engine", ?report, "ended runs were purged")
                    }
                    Err(error) => tracing::warn!(target: "aether::engine", %error, "cannot purge ended runs"),
                }
                retention.every
            } else {
                missing.min(LOOK)
            };
            (Arc::clone(&inner.wake_purging), pause)
        };
        select(Box::pin(wake.notified()), environment.sleep(pause)).await;
    }
}

/// For how long the clock must have gone regularly: what is kept for less is deleted after that.
fn believed_after(retention: &Retention) -> Duration {
    retention.shortest().min(STEADY)
}
