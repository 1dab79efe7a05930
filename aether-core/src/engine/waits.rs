//! What runs wait for, of one run and of all.
//!
//! Promise: the list of all runs reads no journal, but for the runs that an older build left open, once, and for waits
//! whose question or arguments are large.

use std::collections::BTreeSet;

use crate::engine::inner::Engine;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::open_waits::OpenWaits;
use crate::store::waits::{ListedWait, WaitFilter};
use crate::view::pending::{Pending, PendingPage, UnreadableWait, WaitStates};
use crate::vocabulary::id::RunId;

impl Engine {
    /// What `run` waits for, oldest first: people, operators, other systems, signals, timers, children and retries.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// for wait in engine.pending(run).await? {
    ///     println!("{} waits for {}", wait.name, wait.waiting);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run or its journal is unreadable.
    pub async fn pending(&self, run: &RunId) -> Result<Vec<Pending>, StoreError> {
        let store = &*self.inner.shared.store;
        let Some(record) = store.run(run).await? else {
            return Err(StoreError::UnknownRun { run: run.clone() });
        };
        if record.status.is_terminal() {
            return Ok(Vec::new());
        }
        Ok(WaitStates::load(store, run).await?.pending())
    }

    /// What the runs of the store wait for, in the order in which the waits were opened, a page at a time. Reads a list
    /// that the store keeps, and no journals; the first call after an update from a build without that list reads the
    /// journal of every open run, once. A damaged one is then left out, with a warning of that call alone.
    ///
    /// Waits that this engine cannot read, for want of a key of the payload codec, are in [`PendingPage::unreadable`]. A
    /// filter by name finds only those of them whose name stands in the open. Runs that an older build left open, and of
    /// which the journal alone says for what they wait, are there on the first page.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::store::WaitFilter;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut filter = WaitFilter { limit: 100, ..WaitFilter::for_reply() };
    /// loop {
    ///     let page = engine.all_pending(filter.clone()).await?;
    ///     for wait in page.waits {
    ///         println!("{} {} waits for {}", wait.run, wait.name, wait.waiting);
    ///     }
    ///     for wait in page.unreadable {
    ///         println!("{} waits for something else: {}", wait.run, wait.error);
    ///     }
    ///     match page.next {
    ///         Some(next) => filter.after = Some(next),
    ///         None => break,
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn all_pending(&self, filter: WaitFilter) -> Result<PendingPage, StoreError> {
        let store = &*self.inner.shared.store;
        let mut unreadable = list_unlisted(store).await?;
        unreadable.retain(|wait| {
            filter.after.is_none()
                && filter.run.as_ref().is_none_or(|run| wait.run == *run)
                && filter.workflow.as_ref().is_none_or(|workflow| wait.workflow == *workflow)
        });
        // One more than asked for says whether there is another page.
        let limit = filter.limit;
        let more = WaitFilter { limit: if limit == 0 { 0 } else { limit.saturating_add(1) }, ..filter };
        let mut rows = store.waits(more).await?;
        let next = if limit > 0 && rows.len() > limit {
            rows.truncate(limit);
            rows.last().map(|row| row.place)
        } else {
            None
        };
        let mut waits = Vec::with_capacity(rows.len());
        for row in rows {
            match whole(store, &row).await {
                Ok(found) => waits.extend(found),
                Err(error @ (StoreError::Corrupt { .. } | StoreError::Codec { .. })) => {
                    unreadable.push(UnreadableWait::listed(&row, error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(PendingPage { waits, unreadable, next })
    }
}

/// Lists the open waits of the runs that an older build left open. Answers those that cannot be read for want of a key:
/// they stay unlisted, for whoever has it.
async fn list_unlisted(store: &dyn Store) -> Result<Vec<UnreadableWait>, StoreError> {
    let (mut unreadable, mut left) = (Vec::new(), BTreeSet::new());
    loop {
        let limit = PAGE + left.len();
        let page = store.unlisted_waits(limit).await?;
        let is_last = page.len() < limit;
        for run in page {
            if left.contains(&run) {
                continue;
            }
            match list(store, &run).await {
                // The run was purged since it was found.
                Ok(()) | Err(StoreError::UnknownRun { .. }) => {}
                Err(error @ StoreError::Codec { .. }) => {
                    let record = store.run(&run).await?;
                    unreadable.extend(record.map(|record| UnreadableWait::unlisted(record, error)));
                    left.insert(run);
                }
                Err(error @ StoreError::Corrupt { .. }) => {
                    tracing::warn!(%run, %error, "what an unreadable run waits for cannot be listed");
                    list_none(store, &run).await?;
                }
                Err(error) => return Err(error),
            }
        }
        // A listed run is not found again.
        if is_last {
            return Ok(unreadable);
        }
    }
}

/// Runs that are read from the store at a time.
const PAGE: usize = 200;

/// Lists the open waits of a run that an older build left open.
async fn list(store: &dyn Store, run: &RunId) -> Result<(), StoreError> {
    loop {
        let (next, open) = OpenWaits::load(store, run).await?;
        if store.list_waits(run, next, open.rows()).await? {
            return Ok(());
        }
    }
}

/// Lists a damaged run as one without waits: its journal is not read again, and the warning not repeated.
async fn list_none(store: &dyn Store, run: &RunId) -> Result<(), StoreError> {
    let Some(record) = store.run(run).await? else { return Ok(()) };
    match store.list_waits(run, record.next, Vec::new()).await {
        Ok(_) | Err(StoreError::UnknownRun { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A row with what the list leaves to the journal; `None` where the wait has ended meanwhile.
async fn whole(store: &dyn Store, row: &ListedWait) -> Result<Option<Pending>, StoreError> {
    if let Some(pending) = Pending::listed(row) {
        return Ok(Some(pending));
    }
    Ok(WaitStates::load(store, &row.run).await?.open(&row.wait.command))
}
