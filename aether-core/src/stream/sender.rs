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
/// Bytes of an item, in JSON.
const LONGEST_ITEM: usize = 1 << 20;

/// Whether a stream can have this name.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    match name.len() {
        0 => Err("a name is not empty".into()),
        1..=LONGEST_NAME if !name.contains('\0') => Ok(()),
        1..=LONGEST_NAME => Err("a name holds no NUL".into()),
        _ => Err(format!("a name has at most {LONGEST_NAME} bytes")),
    }
}

/// Sends items to a stream of the run, from [`StepCx::stream`](crate::step::StepCx::stream). Clones send to the same
/// stream; what is sent after the body has ended is dropped.
#[derive(Clone)]
pub struct StreamSender {
    to: Option<(Arc<StreamHub>, Arc<Execution>)>,
    stream: Arc<str>,
}

impl StreamSender {
    pub(crate) fn new(to: Option<(Arc<StreamHub>, Arc<Execution>)>, stream: &str) -> Self {
        let wrong = check_name(stream).err();
        if let (Some((_, execution)), Some(reason)) = (&to, &wrong) {
            let (run, command, bytes) = (&execution.run, &execution.command, stream.len());
            tracing::warn!(target: "aether::step", %run, %command, bytes, reason, "nothing is sent to a stream of this name");
        }
        Self { to: to.filter(|_| wrong.is_none()), stream: stream.into() }
    }

    /// Sends one item. It never waits: what is sent is written in the background, several items at a time, at most 20 times
    /// a second in an engine. An item that cannot be written as JSON is dropped with a warning. One of more than a mebibyte
    /// of JSON, or one nested 127 deep, gives the streams of this execution up, with a warning: what follows would make no
    /// sense without it.
    pub fn send<T: serde::Serialize + ?Sized>(&self, item: &T) {
        let Some((hub, execution)) = &self.to else { return };
        if execution.over.load(Ordering::Acquire) {
            return;
        }
        match Payload::encode(item) {
            Ok(item) if item.as_str().len() > LONGEST_ITEM => {
                let bytes = item.as_str().len();
                hub.lose(
                    execution,
                    &self.stream,
                    &format!("an item has {bytes} bytes, over the limit of {LONGEST_ITEM}"),
                );
            }
            Ok(item) => {
                hub.send(execution, &self.stream, hub.redaction.value(item).as_str());
            }
            Err(error) => {
                let (run, command, stream) = (&execution.run, &execution.command, &self.stream);
                tracing::warn!(target: "aether::step", %run, %command, %stream, %error, "an item of a stream was not sent");
            }
        }
    }
}

impl StreamSender {
    /// Takes back what this execution of the body has sent to the stream so far: a text that turned out to be none, or one
    /// that is told anew. Readers hear of it with the next item, or when the body has ended.
    pub fn restart(&self) {
        if let Some((hub, execution)) = &self.to
            && !execution.over.load(Ordering::Acquire)
        {
            hub.take_back(execution, &self.stream);
        }
    }
}

impl fmt::Debug for StreamSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamSender({})", self.stream)
    }
}
