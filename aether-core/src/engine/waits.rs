//! What runs wait for, of one run and of all.
//!
//! Promise: the list of all runs reads no journal, but for the runs that an older build left open, once, and for waits
//! whose question or arguments are large.

use crate::engine::inner::Engine;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::open_waits::OpenWaits;
use crate::store::waits::{ListedWait, WaitFilter};
use crate::view::pending::{Pending, PendingPage, WaitStates};
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
        list_unlisted(store).await?;
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
            waits.extend(whole(store, row).await?);
        }
        Ok(PendingPage { waits, next })
    }
}

/// Lists the open waits of the runs that an older build left open.
async fn list_unlisted(store: &dyn Store) -> Result<(), StoreError> {
    loop {
        let page = store.unlisted_waits(PAGE).await?;
        for run in &page {
            match list(store, run).await {
                // The run was purged since it was found.
                Ok(()) | Err(StoreError::UnknownRun { .. }) => {}
                Err(error @ (StoreError::Corrupt { .. } | StoreError::Codec { .. })) => {
                    tracing::warn!(%run, %error, "what an unreadable run waits for cannot be listed");
                    list_none(store, run).await?;
                }
                Err(error) => return Err(error),
            }
        }
        // A listed run is not found again.
        if page.len() < PAGE {
            return Ok(());
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
async fn whole(store: &dyn Store, row: ListedWait) -> Result<Option<Pending>, StoreError> {
    if let Some(pending) = Pending::listed(&row) {
        return Ok(Some(pending));
    }
    match WaitStates::load(store, &row.run).await {
        Ok(states) => Ok(states.open(&row.wait.command)),
        Err(error @ (StoreError::Corrupt { .. } | StoreError::Codec { .. })) => {
            tracing::warn!(run = %row.run, %error, "a wait of an unreadable run cannot be listed");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
