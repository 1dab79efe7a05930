//! A store in memory that compares its list of open waits with the journal after every append.
//!
//! Promise: it changes nothing; the first disagreement is kept until it is asked for.

use std::sync::{Arc, Mutex, PoisonError};

use aether_core::id::RunId;
use aether_core::store::memory::MemoryStore;
use aether_core::store::{Append, OpenWait, Store, WaitFilter, waits_in_journal};
use futures_util::FutureExt as _;

use super::gated::{Gate, GateDecision, Gated, StoreCall};

/// A [`MemoryStore`] whose list of open waits is compared with the journal after every append.
///
/// ```
/// use aether_core::store::memory::MemoryStore;
/// use aether_testing::AgreeingStore;
/// let store = AgreeingStore::new(MemoryStore::new());
/// assert_eq!(store.disagreement(), None);
/// ```
pub type AgreeingStore = Gated<Agreement>;

/// The gate of an [`AgreeingStore`].
#[derive(Debug, Default)]
pub struct Agreement(Mutex<Option<String>>);

impl Gate for Agreement {
    fn decide(&self, _: StoreCall) -> GateDecision {
        GateDecision::Pass
    }

    fn deliver(&self, inner: &Arc<dyn Store>, append: Append) {
        let (run, what) = (append.run.clone(), append.frame.text.clone());
        inner.append(append);
        if let Err(differs) = lists_what_its_journal_says(&**inner, &run) {
            let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(format!("after the append of {what}: {differs}"));
        }
    }
}

impl AgreeingStore {
    /// A store with the content of `memory`.
    pub fn new(memory: MemoryStore) -> Self {
        Self::behind(Arc::new(memory), Agreement::default())
    }

    /// The first append after which list and journal differed.
    pub fn disagreement(&self) -> Option<String> {
        self.gate.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Compares what a store that answers at once lists of a run with the fold of the run's journal.
///
/// # Errors
/// What is listed, and what should be.
pub fn lists_what_its_journal_says(store: &dyn Store, run: &RunId) -> Result<(), String> {
    let answers =
        (waits_in_journal(store, run).now_or_never(), store.waits(WaitFilter::default()).now_or_never());
    let (Some(Ok(journal)), Some(Ok(listed))) = answers else { return Ok(()) };
    let listed = listed.into_iter().filter(|row| row.run == *run).map(|row| row.wait);
    same(listed.collect(), journal)
}

fn same(mut listed: Vec<OpenWait>, mut journal: Vec<OpenWait>) -> Result<(), String> {
    listed.sort_by(|a, b| a.command.cmp(&b.command));
    journal.sort_by(|a, b| a.command.cmp(&b.command));
    if listed == journal {
        return Ok(());
    }
    Err(format!("the list has {listed:?}, the journal says {journal:?}"))
}
