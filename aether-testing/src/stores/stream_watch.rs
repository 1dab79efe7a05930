//! What a reader gets of every stream of a store who is there all along, through all processes.
//!
//! Promise: each item once and in order, as it was when it was written.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aether_core::id::RunId;
use aether_core::store::{Store, StoreError, StreamItem};

/// How many items are read at once.
const PAGE: usize = 256;

/// A stream by its run and its name.
pub(crate) type StreamId = (RunId, String);

/// What was read of each stream that was ever written to.
pub(crate) type ReadStreams = BTreeMap<StreamId, Vec<StreamItem>>;

/// Reads along.
#[derive(Debug, Default)]
pub(crate) struct StreamWatch {
    read: Mutex<ReadStreams>,
}

impl StreamWatch {
    /// Reads what is new in this stream.
    pub(crate) async fn look(&self, store: &dyn Store, stream: &StreamId) -> Result<(), StoreError> {
        let last = self.lock().entry(stream.clone()).or_default().last().map_or(0, |item| item.seq);
        let new = items_of(store, stream, last).await?;
        let mut read = self.lock();
        let items = read.entry(stream.clone()).or_default();
        let last = items.last().map_or(0, |item| item.seq);
        items.extend(new.into_iter().filter(|item| item.seq > last));
        Ok(())
    }

    /// Reads what is new in all streams that were ever written to, and gives all that was ever read.
    pub(crate) async fn look_at_all(&self, store: &dyn Store) -> Result<ReadStreams, StoreError> {
        let streams: Vec<StreamId> = self.lock().keys().cloned().collect();
        for stream in &streams {
            self.look(store, stream).await?;
        }
        Ok(self.lock().clone())
    }

    fn lock(&self) -> MutexGuard<'_, ReadStreams> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a reader gets of a stream that comes now and begins behind `after`.
pub(crate) async fn items_of(
    store: &dyn Store,
    (run, stream): &StreamId,
    after: u64,
) -> Result<Vec<StreamItem>, StoreError> {
    let mut items: Vec<StreamItem> = Vec::new();
    loop {
        let after = items.last().map_or(after, |item| item.seq);
        let page = store.stream(run, stream, after, PAGE).await?;
        let is_last = page.len() < PAGE;
        items.extend(page);
        if is_last {
            return Ok(items);
        }
    }
}
