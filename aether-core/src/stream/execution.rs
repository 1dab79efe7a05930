//! One physical execution of a body, as far as streams are concerned.
//!
//! Promise: once it is over or has lost something, that stays so.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::sched::{AtomicBool, Mutex};
use crate::vocabulary::id::{CommandId, Epoch, RunId};

/// One physical execution of a body, as far as streams are concerned.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) run: RunId,
    pub(crate) epoch: Epoch,
    pub(crate) command: CommandId,
    pub(crate) attempt: u32,
    /// What is sent from now on is dropped: it has ended, or another worker has the run.
    pub(crate) over: AtomicBool,
    /// Something that it sent was lost, so that the rest does not count.
    pub(crate) lost: AtomicBool,
    /// It has sent something.
    pub(crate) sent: AtomicBool,
    /// How many chunks it has written, by stream.
    parts: Mutex<BTreeMap<Arc<str>, u32>>,
}

impl Execution {
    pub(crate) fn new(run: RunId, epoch: Epoch, command: CommandId, attempt: u32) -> Arc<Self> {
        let (over, lost, sent) = (false.into(), false.into(), false.into());
        Arc::new(Self { run, epoch, command, attempt, over, lost, sent, parts: Mutex::default() })
    }

    /// The number of the next chunk in this stream.
    pub(crate) fn next_part(&self, stream: &Arc<str>) -> u32 {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let next = parts.entry(Arc::clone(stream)).or_default();
        std::mem::replace(next, next.saturating_add(1))
    }

    /// Whether it has written to a stream, or lost what it wanted to write.
    pub(crate) fn has_sent(&self) -> bool {
        self.sent.load(Ordering::Acquire)
    }

    /// The streams that it has written to; none where something was lost.
    pub(crate) fn streams(&self) -> Vec<String> {
        if self.lost.load(Ordering::Acquire) {
            return Vec::new();
        }
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.keys().map(|stream| stream.to_string()).collect()
    }
}
