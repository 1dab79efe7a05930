//! Streams as they cross the contract of a store: what is written to them, and what is read.
//!
//! Promise: plain values. A stream is a view: losing it changes no outcome.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::journal::frame::Frame;
use crate::vocabulary::id::{CommandId, Epoch, RunId};
use crate::vocabulary::payload::{Digest, Payload};

/// One item of a stream. Numbers rise by one from item to item of a stream, from 1; an item that gives way to others
/// takes its number along, and no number is used twice.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamItem {
    /// Name of the stream.
    pub stream: String,
    /// Its number.
    pub seq: u64,
    /// The first of the numbers that it stands for. See [`StreamKind`].
    pub since: u64,
    /// What it is.
    pub kind: StreamKind,
    /// The command whose body sent it.
    pub command: CommandId,
    /// The logical attempt at that command.
    pub attempt: u32,
    /// Epoch of the worker that wrote it.
    pub epoch: Epoch,
    /// When it was sent, by the worker's clock.
    pub at: Timestamp,
    /// A JSON array of what was sent, a digest, or `null`, as its kind says.
    pub data: Payload,
}

/// What an item of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamKind {
    /// What an execution of a body sent, as a JSON array; its outcome is not known yet.
    Chunk,
    /// All that the execution whose outcome counts has sent, as one JSON array. It stands for the items from `since` on.
    Folded,
    /// What its command sent from number `since` on does not count any more.
    Restarted,
    /// The outcome of the command is durable; the data is its digest.
    Committed,
}

impl StreamKind {
    /// How it stands in columns.
    pub fn number(self) -> i16 {
        match self {
            Self::Chunk => 0,
            Self::Folded => 1,
            Self::Restarted => 2,
            Self::Committed => 3,
        }
    }

    /// The kind of this number; `None` for one that a newer build has written.
    pub fn from_number(number: i16) -> Option<Self> {
        [Self::Chunk, Self::Folded, Self::Restarted, Self::Committed]
            .into_iter()
            .find(|kind| kind.number() == number)
    }
}

/// A chunk: what a body sent to one stream of its run.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamWrite {
    /// The run.
    pub run: RunId,
    /// Epoch of the worker's lease. The write is refused unless the run is open and still has it.
    pub epoch: Epoch,
    /// The command whose body sent it.
    pub command: CommandId,
    /// The logical attempt at it.
    pub attempt: u32,
    /// The time by the worker's clock.
    pub at: Timestamp,
    /// Name of the stream.
    pub stream: String,
    /// Number of the execution that sent it, among all of this epoch: what began later has a greater one.
    pub execution: u64,
    /// Number of this chunk in this stream and execution, from 0. With 0, the open items that the command has in the
    /// stream are deleted, and where there were any, one of kind [`StreamKind::Restarted`] is written first: its `since`
    /// is the least of theirs. But nothing is written where the stream has something of this or a later execution of the
    /// command in this epoch, also if it has ended: a write that was given up may come late. With a greater number,
    /// nothing is written unless the newest chunk among the command's open items is the one before: it was written
    /// already, or the command has ended meanwhile.
    pub part: u32,
    /// A JSON array.
    pub items: Payload,
}

impl StreamWrite {
    /// Execution and part as one number, which a store keeps beside the chunk: it rises by one from chunk to chunk of an
    /// execution, and that of a later execution is greater. An item that takes the place of others keeps the greatest of
    /// those of its epoch.
    pub fn place(&self) -> u64 {
        const PARTS: u32 = 28;
        let last = (1 << PARTS) - 1;
        (self.execution << PARTS).saturating_add(u64::from(self.part).min(last))
    }
}

/// What an append says of a command's streams: it has ended. *Open* items of a command are its [`StreamKind::Chunk`] and
/// [`StreamKind::Restarted`] of earlier epochs, and those of the append's epoch whose attempt is not above `attempt`.
///
/// In every stream in which the command has open items they are deleted. Where the stream is one of `keeps` and there were
/// chunks, an item of kind [`StreamKind::Folded`] takes their place: it has the number of the last of them, their arrays
/// joined in order, and as `since` the least of all deleted items; behind it comes one of kind [`StreamKind::Committed`].
/// Else one of kind [`StreamKind::Restarted`] is written, with that `since`.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamEnd {
    /// The command.
    pub command: CommandId,
    /// The logical attempt that ended it.
    pub attempt: u32,
    /// The streams whose chunks are part of the outcome; `None` for all.
    pub keeps: Option<Vec<String>>,
    /// Digest of the outcome; `None` where there is none, or a failure: then no stream is kept.
    pub digest: Option<Digest>,
}

impl StreamEnd {
    /// The digest of the outcome, where that keeps what the command sent to `stream`.
    pub fn kept(&self, stream: &str) -> Option<&Digest> {
        let kept = self.keeps.as_ref().is_none_or(|keeps| keeps.iter().any(|kept| kept == stream));
        self.digest.as_ref().filter(|_| kept)
    }
}

/// The field of an outcome that is stored before it is appended: the streams whose chunks are part of it.
const KEPT: &str = "kept_streams";

/// The frame of an outcome that is stored before it is appended, with what the append will say of its command's streams. It
/// stands beside the fields of the last event, where no user's value can be; the journal does not get it.
pub(crate) fn with_kept(frame: Frame, end: &StreamEnd) -> Frame {
    let kept = if end.digest.is_some() { end.keeps.clone() } else { Some(Vec::new()) };
    let Some(kept) = kept.and_then(|kept| Payload::encode(&kept).ok()) else { return frame };
    let before = frame.text.strip_suffix("}}]").filter(|before| !before.ends_with('{'));
    let Some(before) = before else { return frame };
    let text = format!("{before},\"{KEPT}\":{}}}}}]", kept.as_str());
    Frame { count: frame.count, text }
}

/// The streams whose chunks are part of a stored outcome; `None` where its frame does not say so.
pub(crate) fn kept_of(text: &str) -> Option<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Fields {
        kept_streams: Option<Vec<String>>,
    }
    if !text.contains(KEPT) {
        return None;
    }
    let events: Vec<BTreeMap<String, Fields>> = serde_json::from_str(text).ok()?;
    events.into_iter().next_back()?.into_values().find_map(|fields| fields.kept_streams)
}

/// One JSON array of the elements of several, in order.
pub fn joined<'a>(arrays: impl IntoIterator<Item = &'a str>) -> String {
    let inner = arrays.into_iter().map(|array| {
        let array = array.trim();
        array.strip_prefix('[').and_then(|array| array.strip_suffix(']')).unwrap_or(array).trim()
    });
    let inner: Vec<_> = inner.filter(|array| !array.is_empty()).collect();
    format!("[{}]", inner.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::event::{Event, NodeFinished};

    #[test]
    fn arrays_are_joined_in_order() {
        assert_eq!(joined([r#"["a","]"]"#, "[]", "[ 1 ]", "[[2]]"]), r#"["a","]",1,[2]]"#);
        assert_eq!(joined([]), "[]");
    }

    #[test]
    fn a_stored_outcome_says_which_streams_it_keeps() {
        let command = CommandId::new("0", "x");
        let event: Event = NodeFinished { command: command.clone() }.into();
        let frame = Frame::encode(&[event.clone(), event.clone()]).unwrap();
        let end = |keeps, digest| StreamEnd { command: command.clone(), attempt: 0, keeps, digest };
        let digest = Digest::of(&Payload::null()).ok();
        for (end, kept) in [
            (end(None, digest.clone()), None),
            (end(Some(vec!["\"é".to_owned()]), digest.clone()), Some(vec!["\"é".to_owned()])),
            (end(Some(Vec::new()), digest), Some(Vec::new())),
            (end(None, None), Some(Vec::new())),
        ] {
            let told = with_kept(frame.clone(), &end);
            assert_eq!(kept_of(&told.text), kept, "{}", told.text);
            let events: Vec<Event> = serde_json::from_str(&told.text).unwrap();
            assert_eq!((told.count, events), (2, vec![event.clone(), event.clone()]));
        }
        assert_eq!(kept_of(&frame.text), None);
    }

    #[test]
    fn kinds_are_read_back_from_their_numbers() {
        for number in 0..4 {
            assert_eq!(StreamKind::from_number(number).map(StreamKind::number), Some(number));
        }
        assert_eq!(StreamKind::from_number(4), None);
    }
}
