//! The reading end of a stream, in any process.
//!
//! Promise: a reader gets every item in order, and each once; it waits for the engine of its own process without delay, and
//! looks ten times a second for what other processes wrote. Dropping a read that waits loses nothing.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};

use crate::store::error::StoreError;
use crate::store::streams::{StreamItem, StreamKind};
use crate::stream::event::{StreamError, StreamEvent, StreamText};
use crate::stream::hub::StreamHub;
use crate::stream::listener::Listener;
use crate::stream::sender::check_name;
use crate::vocabulary::environment::Environment;
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::payload::PayloadError;

/// How many items are read at once.
const PAGE: usize = 256;

/// Reads a stream of a run, from [`RunHandle::stream`](crate::engine::RunHandle::stream).
pub struct StreamReader<T> {
    /// Not the store itself: who holds that keeps a shutdown from closing it.
    hub: Arc<StreamHub>,
    environment: Arc<dyn Environment>,
    run: RunId,
    stream: String,
    /// None where no stream can have this name.
    written: Option<Listener>,
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
            written: check_name(stream).ok().map(|()| Listener::new(hub, run, stream)),
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

    /// Begins with about the last `n` items, and so far before them that no command is begun in its middle. It looks through
    /// the whole stream for that.
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
            let Some(listener) = &mut self.written else {
                self.is_caught_up = false;
                continue;
            };
            let limit = self.environment.sleep(self.hub.look);
            let written = match select(pin!(listener.next()), limit).await {
                Either::Left((written, _)) => written,
                Either::Right(_) => None,
            };
            match written {
                Some(items) if !items.is_empty() => self.take_written(&items),
                _ => self.is_caught_up = false,
            }
        }
    }

    /// The next event that is there already; `None` where there is none yet, and behind [`StreamEvent::Closed`]. It waits for
    /// nothing but the store.
    ///
    /// # Errors
    /// As [`StreamReader::next`].
    pub async fn next_present(&mut self) -> Result<Option<StreamEvent<T>>, StreamError> {
        if self.events.is_empty() && !self.is_closed {
            self.look().await?;
        }
        self.events.pop_front().transpose()
    }

    /// Reads what the store has behind the last number.
    async fn look(&mut self) -> Result<(), StreamError> {
        self.check()?;
        // The run first: nothing is written to a stream after the end of its run.
        let record = self.hub.store().run(&self.run).await?;
        let record = record.ok_or_else(|| StoreError::UnknownRun { run: self.run.clone() })?;
        if let Some(n) = self.tail {
            self.after = self.before_tail(n).await?.max(self.after);
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

    /// The number before the first item of a tail of `n` items.
    async fn before_tail(&self, n: usize) -> Result<u64, StoreError> {
        let (mut pieces, mut after) = (Pieces::default(), self.after);
        loop {
            let page = self.hub.store().stream(&self.run, &self.stream, after, PAGE).await?;
            page.iter().for_each(|item| pieces.take(item));
            match page.last() {
                Some(last) if page.len() == PAGE => after = last.seq,
                _ => return Ok(pieces.before_tail(n)),
            }
        }
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
        let after = std::mem::replace(&mut self.after, item.seq);
        self.events.extend(StreamEvent::restarted_by(&item, after).map(Ok));
        let event = StreamEvent::of(&item).map_err(|error| self.unreadable(item.seq, error));
        self.events.push_back(event);
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

/// Where what a command sent begins, of each item of a stream.
#[derive(Default)]
struct Pieces {
    items: Vec<Place>,
    /// Number of the item that began what a command has open.
    open: BTreeMap<CommandId, u64>,
}

struct Place {
    seq: u64,
    since: u64,
    /// Number of the item that its piece begins with.
    begin: u64,
}

impl Pieces {
    fn take(&mut self, item: &StreamItem) {
        let seq = item.seq;
        let begin = match item.kind {
            StreamKind::Chunk | StreamKind::Restarted => {
                *self.open.entry(item.command.clone()).or_insert(seq)
            }
            StreamKind::Folded => {
                self.open.insert(item.command.clone(), seq);
                seq
            }
            StreamKind::Committed => self.open.remove(&item.command).unwrap_or(seq),
        };
        self.items.push(Place { seq, since: item.since, begin });
    }

    /// The number behind which the last `n` items and all of their pieces are.
    fn before_tail(&self, n: usize) -> u64 {
        let mut first = self.items.len().saturating_sub(n);
        let Some(mut begin) = self.items.get(first).map(|item| item.seq) else {
            return self.items.last().map_or(0, |last| last.seq);
        };
        // What lies between the beginning of a piece and its end may be of pieces that begin earlier.
        let mut looked = self.items.len();
        while looked > first {
            looked -= 1;
            begin = self.items.get(looked).map_or(begin, |item| item.begin.min(begin));
            first = self.items.partition_point(|item| item.seq < begin);
        }
        let before = first.checked_sub(1).and_then(|at| self.items.get(at)).map_or(0, |item| item.seq);
        self.items.get(first).map_or(0, |item| item.since.saturating_sub(1)).max(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::payload::Payload;

    fn item(name: &str, seq: u64, since: u64, kind: StreamKind) -> StreamItem {
        let (stream, command) = ("reply".to_owned(), CommandId::new("0", name));
        let at = jiff::Timestamp::UNIX_EPOCH;
        StreamItem { stream, seq, since, kind, command, attempt: 0, epoch: 1, at, data: Payload::null() }
    }

    fn before(items: &[StreamItem], n: usize) -> u64 {
        let mut pieces = Pieces::default();
        items.iter().for_each(|item| pieces.take(item));
        pieces.before_tail(n)
    }

    #[test]
    fn a_tail_begins_no_command_in_its_middle() {
        use StreamKind::{Chunk, Committed, Folded, Restarted};
        let mixed = ["a", "c", "b", "a", "b", "d"].map(|name| (name, Chunk));
        let mixed: Vec<_> = (1..).zip(mixed).map(|(seq, (name, kind))| item(name, seq, seq, kind)).collect();
        assert_eq!([0, 1, 2, 3, 4, 9].map(|n| before(&mixed, n)), [6, 5, 0, 0, 0, 0]);
        let joined = [
            item("a", 3, 1, Folded),
            item("a", 4, 4, Committed),
            item("b", 7, 5, Folded),
            item("b", 8, 8, Committed),
            item("a", 9, 9, Restarted),
            item("a", 10, 10, Chunk),
        ];
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|n| before(&joined, n)), [10, 8, 8, 4, 4, 0, 0]);
        assert_eq!(before(&[], 3), 0);
    }
}
