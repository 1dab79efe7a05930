//! Which engines of this process use which stores, so that an engine that ends closes its store only for itself.
//!
//! Promise: a store that an engine has opened is closed by it, whoever else can look into it, unless another engine was
//! started on it; one that it was given is closed by the last who holds it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use crate::store::api::Store;

/// How many engines were started on each store, by where it is in memory. The lock is the process's and not a
/// schedule's: schedules are explored by several threads at once, and one would see the other's hold of it.
#[allow(clippy::disallowed_types, reason = "no other meeting happens while it is held")]
static ENGINES: std::sync::Mutex<BTreeMap<usize, usize>> = std::sync::Mutex::new(BTreeMap::new());

/// Who holds the store for an engine: what all its runs share, and the writer of their streams.
const OWN_HOLDERS: usize = 2;

/// That an engine uses a store. Made before the engine has wrapped it, and held as long as the engine.
#[derive(Debug)]
pub(super) struct InUse {
    place: usize,
    is_alone: bool,
}

impl InUse {
    /// `is_alone` says that the engine has opened the store, and that nobody else holds it.
    pub(super) fn new(store: &Arc<dyn Store>, is_alone: bool) -> Self {
        let place = place_of(store);
        *engines().entry(place).or_default() += 1;
        Self { place, is_alone }
    }

    /// Whether somebody else works with the store behind `wrapped`, the engine's own name for it.
    pub(super) fn is_held(&self, wrapped: &Arc<dyn Store>) -> bool {
        let by_engines = {
            let engines = engines();
            engines.contains_key(&place_of(wrapped))
                || engines.get(&self.place).is_some_and(|count| *count > 1)
        };
        by_engines || !self.is_alone && (Arc::strong_count(wrapped) > OWN_HOLDERS || wrapped.is_shared())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut engines = engines();
        if let Some(count) = engines.get_mut(&self.place) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                engines.remove(&self.place);
            }
        }
    }
}

fn place_of(store: &Arc<dyn Store>) -> usize {
    Arc::as_ptr(store).cast::<()>().addr()
}

fn engines() -> std::sync::MutexGuard<'static, BTreeMap<usize, usize>> {
    ENGINES.lock().unwrap_or_else(PoisonError::into_inner)
}
