//! The reading end of a stream, in any process.
//!
//! Promise: a reader gets every item in order, and each once; it waits for the engine of its own process without delay, and
//! looks ten times a second for what other processes wrote. Dropping a read that waits loses nothing.

use std::collections::VecDeque;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::broadcast;

use crate::store::error::StoreError;
use crate::store::streams::{StreamItem, StreamKind};
use crate::stream::event::{StreamError, StreamEvent, StreamText};
use crate::stream::hub::{StreamHub, Written};
use crate::stream::sender::check_name;
use crate::vocabulary::environment::Environment;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::PayloadError;

/// How long a reader waits before it looks into the store again.
const LOOK: Duration = Duration::from_millis(100);
/// How many items are read at once.
const PAGE: usize = 256;

/// Reads a stream of a run, from [`RunHandle::stream`](crate::engine::RunHandle::stream).
pub struct StreamReader<T> {
    /// Not the store itself: who holds that keeps a shutdown from closing it.
    hub: Arc<StreamHub>,
    environment: Arc<dyn Environment>,
    run: RunId,
    stream: String,
    written: broadcast::Receiver<Written>,
    after: u64,
    tail: Option<usize>,
    events: VecDeque<Result<StreamEvent<T>, StreamError>>,
    is_caught_up: bool,
    is_closed: bool,
}

impl<T: serde::de::DeserializeOwned> StreamReader<T> {
    pub(crate) fn new(
        hub: &Arc<StreamHub>,
        environment: &Arc<dyn Environment>,
        run: &RunId,
        stream: &str,
    ) -> Self {
        Self {
            hub: Arc::clone(hub),
            environment: Arc::clone(environment),
            run: run.clone(),
            stream: stream.to_owned(),
            // Before the first look, so that nothing is missed in between.
            written: hub.listen(run, stream),
            after: 0,
            tail: None,
            events: VecDeque::new(),
            is_caught_up: false,
            is_closed: false,
        }
    }

    /// Begins with number `seq`: one more than the last number that was read. Where that stands inside of something that
    /// does not count any more, or that was joined meanwhile, the first event is [`StreamEvent::Restarted`].
    #[must_use]
    pub fn from(mut self, seq: u64) -> Self {
        self.after = seq.saturating_sub(1);
        self
    }

    /// Begins with about the last `n` items: with the first one of the command that sent the first of them.
    #[must_use]
    pub fn tail(mut self, n: usize) -> Self {
        self.tail = Some(n);
        self
    }

    /// Whether a stream can have this name. What reads from a name that none can have fails at its first event.
    ///
    /// # Errors
    /// [`StreamError::Name`] where none can.
    pub fn check(&self) -> Result<(), StreamError> {
        check_name(&self.stream).map_err(|reason| StreamError::Name { bytes: self.stream.len(), reason })
    }

    /// The next event; `None` behind [`StreamEvent::Closed`]. Waits for it.
    ///
    /// # Errors
    /// [`StreamError`] when the store fails, there is no such run, no stream can have this name, or an item is not a `T`.
    /// Calling it again continues behind the item.
    pub async fn next(&mut self) -> Result<Option<StreamEvent<T>>, StreamError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event.map(Some);
            }
            if self.is_closed {
                return Ok(None);
            }
            if !self.is_caught_up {
                self.look().await?;
                continue;
            }
            let limit = self.environment.sleep(LOOK);
            let written = match select(pin!(self.written.recv()), limit).await {
                Either::Left((written, _)) => written.ok(),
                Either::Right(_) => None,
            };
            match written {
                Some(items) if !items.is_empty() => self.take_written(&items),
                _ => self.is_caught_up = false,
            }
        }
    }

    /// Reads what the store has behind the last number.
    async fn look(&mut self) -> Result<(), StreamError> {
        self.check()?;
        // The run first: nothing is written to a stream after the end of its run.
        let record = self.hub.store().run(&self.run).await?;
        let record = record.ok_or_else(|| StoreError::UnknownRun { run: self.run.clone() })?;
        if let Some(n) = self.tail {
            let all = self.hub.store().stream(&self.run, &self.stream, self.after, usize::MAX >> 1).await?;
            self.after = before_tail(&all, n).max(self.after);
            self.tail = None;
        }
        let items = self.hub.store().stream(&self.run, &self.stream, self.after, PAGE).await?;
        self.is_caught_up = items.len() < PAGE;
        if items.is_empty() && record.status.is_terminal() {
            self.is_closed = true;
            self.events.push_back(Ok(StreamEvent::Closed { status: record.status }));
        }
        items.into_iter().for_each(|item| self.take(item));
        Ok(())
    }

    /// Takes what the engine of this process wrote, unless something is missing before it.
    fn take_written(&mut self, items: &[StreamItem]) {
        for item in items {
            if item.seq == self.after + 1 {
                self.take(item.clone());
            } else if item.seq > self.after {
                self.is_caught_up = false;
                return;
            }
        }
    }

    fn take(&mut self, item: StreamItem) {
        let (began_at, seq, command) = (self.after, item.seq, item.command);
        self.after = seq;
        let event = match item.kind {
            StreamKind::Chunk | StreamKind::Folded => {
                // The reader has seen some of what it stands for, or what gave way to it.
                if item.since <= began_at {
                    let command = command.clone();
                    // Numbered before the item: who is cut off between the two gets both again.
                    let seq = seq.saturating_sub(1);
                    self.events.push_back(Ok(StreamEvent::Restarted { seq, command, from: item.since }));
                }
                let items = item.data.decode::<Vec<T>>();
                items.map(|items| StreamEvent::Chunk { seq, first: item.since, command, items })
            }
            StreamKind::Restarted => Ok(StreamEvent::Restarted { seq, command, from: item.since }),
            StreamKind::Committed => {
                item.data.decode().map(|digest| StreamEvent::Committed { seq, command, digest })
            }
        };
        self.events.push_back(event.map_err(|error| self.unreadable(seq, error)));
    }

    fn unreadable(&self, seq: u64, error: PayloadError) -> StreamError {
        StreamError::Unreadable { run: self.run.clone(), stream: self.stream.clone(), seq, error }
    }
}

impl StreamReader<String> {
    /// Reads the stream as one text.
    pub fn text(self) -> StreamTextReader {
        StreamTextReader { reader: self, text: StreamText::default() }
    }
}

impl<T> fmt::Debug for StreamReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamReader({} of {}, behind {})", self.stream, self.run, self.after)
    }
}

/// Reads a stream of texts as one text, from [`StreamReader::text`].
#[derive(Debug)]
pub struct StreamTextReader {
    reader: StreamReader<String>,
    text: StreamText,
}

impl StreamTextReader {
    /// The whole text after the next event; `None` when the run has ended.
    ///
    /// # Errors
    /// As [`StreamReader::next`].
    pub async fn next(&mut self) -> Result<Option<String>, StreamError> {
        let event = self.reader.next().await?;
        Ok(event.map(|event| {
            self.text.apply(&event);
            self.text.to_string()
        }))
    }

    /// The text when the run has ended. Waits for that.
    ///
    /// # Errors
    /// As [`StreamReader::next`].
    pub async fn whole(mut self) -> Result<String, StreamError> {
        while self.next().await?.is_some() {}
        Ok(self.text.to_string())
    }
}

/// The number before the first item of the command that sent the `n`th item from the end.
fn before_tail(items: &[StreamItem], n: usize) -> u64 {
    let mut first = items.len().saturating_sub(n);
    while let Some([before, item]) = first.checked_sub(1).and_then(|at| items.get(at..=first)) {
        if before.command != item.command {
            break;
        }
        first -= 1;
    }
    match items.get(first) {
        Some(item) => item.since.saturating_sub(1),
        None => items.last().map_or(0, |last| last.seq),
    }
}
