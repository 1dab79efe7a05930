//! Who listens to a stream in the process of the engine that writes it.
//!
//! Promise: nothing is held for a stream that nobody listens to any more.

use std::sync::Arc;

use tokio::sync::broadcast::Receiver;

use crate::stream::hub::{StreamHub, Written};
use crate::vocabulary::id::RunId;

/// Hears of what is written to one stream, for as long as it is held.
pub(super) struct Listener {
    hub: Arc<StreamHub>,
    run: RunId,
    stream: String,
    written: Option<Receiver<Written>>,
}

impl Listener {
    pub(super) fn new(hub: &Arc<StreamHub>, run: &RunId, stream: &str) -> Self {
        let written = Some(hub.listen(run, stream));
        Self { hub: Arc::clone(hub), run: run.clone(), stream: stream.to_owned(), written }
    }

    /// What was written next; `None` where the store has more than was heard.
    pub(super) async fn next(&mut self) -> Option<Written> {
        self.written.as_mut()?.recv().await.ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.written = None;
        self.hub.unlisten(&self.run, &self.stream);
    }
}
