//! A journal in pages.
//!
//! Promise: two pages are in memory at most, and while one is worked on, the store reads the next.

use std::future::Future as _;
use std::pin::Pin;
use std::task::Poll;

use futures_util::future::{BoxFuture, MaybeDone, maybe_done};
use serde_json::value::RawValue;

use crate::journal::frame::StoredFrame;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::vocabulary::id::{Position, RunId};

/// Events that are read at once, by who reads a whole journal.
pub(crate) const PAGE: u64 = 2_000;

type Reading<'s> = MaybeDone<BoxFuture<'s, Result<Vec<StoredFrame>, StoreError>>>;

/// The pages of a journal, beginning with a position.
pub(crate) struct Pages<'s> {
    store: &'s dyn Store,
    run: &'s RunId,
    /// Events of a page.
    events: u64,
    ahead: Option<Reading<'s>>,
}

impl<'s> Pages<'s> {
    pub(crate) fn new(store: &'s dyn Store, run: &'s RunId, from: Position, events: u64) -> Self {
        let first = maybe_done(store.load_page(run, from, events));
        Self { store, run, events, ahead: Some(first) }
    }

    /// The next page; `None` behind the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<StoredFrame>>, StoreError> {
        let Some(mut reading) = self.ahead.take() else { return Ok(None) };
        (&mut reading).await;
        let frames = Pin::new(&mut reading).take_output().unwrap_or_else(|| Ok(Vec::new()))?;
        if let Some(end) = self.end_of_full(&frames) {
            let mut next = maybe_done(self.store.load_page(self.run, end, self.events));
            // Only a future that was polled has begun.
            std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut next).poll(cx).is_ready())).await;
            self.ahead = Some(next);
        }
        Ok(Some(frames).filter(|frames| !frames.is_empty()))
    }

    /// Where the next page begins. A page that is not full is the last one: the next frame would stand in it. So is one whose
    /// last frame is no list, which is for the reader of the page to say.
    fn end_of_full(&self, frames: &[StoredFrame]) -> Option<Position> {
        let (first, last) = (frames.first()?, frames.last()?);
        let full = first.position.saturating_add(self.events);
        // Saves counting: no event is shorter than a byte.
        if last.position.saturating_add(last.text.len() as u64) < full {
            return None;
        }
        let events: Vec<&RawValue> = serde_json::from_str(&last.text).ok()?;
        let end = last.position.saturating_add(events.len() as u64);
        (end >= full).then_some(end)
    }
}
