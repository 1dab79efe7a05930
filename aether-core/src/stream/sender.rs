//! The sending end of a stream: what a body has of it.
//!
//! Promise: sending never waits and never fails; what cannot be sent is logged.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::stream::execution::Execution;
use crate::stream::hub::StreamHub;
use crate::vocabulary::payload::Payload;

/// Bytes in the name of a stream.
const LONGEST_NAME: usize = 200;

/// Sends items to a stream of the run, from [`StepCx::stream`](crate::step::StepCx::stream). Clones send to the same
/// stream; what is sent after the body has ended is dropped.
#[derive(Clone)]
pub struct StreamSender {
    to: Option<(Arc<StreamHub>, Arc<Execution>)>,
    stream: Arc<str>,
}

impl StreamSender {
    pub(crate) fn new(to: Option<(Arc<StreamHub>, Arc<Execution>)>, stream: &str) -> Self {
        let is_name = !stream.is_empty() && stream.len() <= LONGEST_NAME && !stream.contains('\0');
        if let Some((_, execution)) = to.as_ref().filter(|_| !is_name) {
            let (run, command, bytes) = (&execution.run, &execution.command, stream.len());
            tracing::warn!(
                target: "aether::step", %run, %command, bytes,
                "nothing is sent to a stream of this name: it must have 1 to {LONGEST_NAME} bytes, and no NUL"
            );
        }
        Self { to: to.filter(|_| is_name), stream: stream.into() }
    }

    /// Sends one item. It never waits: what is sent is written in the background, several items at a time, at most 20 times
    /// a second in an engine. An item that cannot be written as JSON is dropped with a warning.
    pub fn send<T: serde::Serialize + ?Sized>(&self, item: &T) {
        let Some((hub, execution)) = &self.to else { return };
        if execution.over.load(Ordering::Acquire) {
            return;
        }
        match Payload::encode(item) {
            Ok(item) => {
                execution.sent.store(true, Ordering::Release);
                hub.send(execution, &self.stream, item.as_str());
            }
            Err(error) => {
                let (run, command, stream) = (&execution.run, &execution.command, &self.stream);
                tracing::warn!(target: "aether::step", %run, %command, %stream, %error, "an item of a stream was not sent");
            }
        }
    }
}

impl fmt::Debug for StreamSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamSender({})", self.stream)
    }
}
