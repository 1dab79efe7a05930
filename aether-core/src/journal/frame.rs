//! The journal's stored form: frames, each one atomic append of events, chained by SHA-256.
//!
//! Promise: a frame is written whole or not at all; its text is stored byte for byte as it was hashed; reading keeps event
//! kinds that this build does not know as [`Event::Unknown`] and never changes what is stored.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::journal::encoded::key_of;
use crate::journal::event::Event;
use crate::vocabulary::id::{Epoch, Position};
use crate::vocabulary::payload::PayloadError;
use crate::vocabulary::without_values::without_values;

/// Hash that chains a frame to everything before it.
pub type ChainHash = [u8; 32];

/// The chain hash before the first frame of a run.
pub const CHAIN_START: ChainHash = [0; 32];

/// The chain hash after a frame at `position` with `text`, following `previous`. Stores compute it for each frame.
///
/// ```
/// use aether_core::journal::{CHAIN_START, chain};
/// # use jiff::Timestamp;
/// # let at = Timestamp::UNIX_EPOCH;
/// let first = chain(&CHAIN_START, 0, at, "[]");
/// assert_ne!(chain(&first, 1, at, "[]"), first);
/// ```
pub fn chain(previous: &ChainHash, position: Position, at: Timestamp, text: &str) -> ChainHash {
    let mut hash = Sha256::new();
    hash.update(previous);
    hash.update(position.to_be_bytes());
    hash.update(at.as_microsecond().to_be_bytes());
    hash.update(text.as_bytes());
    hash.finalize().into()
}

/// Encoded events that are appended together: they become durable together or not at all.
///
/// ```
/// use aether_core::id::CommandId;
/// use aether_core::journal::Frame;
/// use aether_core::journal::event::NodeFinished;
/// let frame = Frame::encode(&[NodeFinished { command: CommandId::new("0", "send") }.into()])?;
/// assert_eq!((frame.count, frame.text.as_str()), (1, r#"[{"node_finished":{"command":"0:send"}}]"#));
/// # Ok::<(), aether_core::payload::PayloadError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Number of events in it.
    pub count: u32,
    /// JSON array of the events.
    pub text: String,
}

impl Frame {
    /// Encodes `events`.
    ///
    /// # Errors
    /// [`PayloadError::Encode`] when an event does not serialize.
    pub fn encode(events: &[Event]) -> Result<Self, PayloadError> {
        let mut text = Vec::with_capacity(events.iter().map(room).sum());
        put(&mut text, events)?;
        Self::of(events.len(), text)
    }

    /// Encodes `events`, and the same events with `otherwise` in place of the last one.
    pub(crate) fn either(events: &[Event], otherwise: &Event) -> Result<(Self, Self), PayloadError> {
        let (last, before) = events.split_last().map_or((otherwise, events), |(last, before)| (last, before));
        // What they have in common is encoded once: `[a,b]` is made `[a,b,`.
        let mut text = Vec::with_capacity(events.iter().map(room).sum());
        put(&mut text, before)?;
        text.pop();
        if !before.is_empty() {
            text.push(b',');
        }
        let mut other = Vec::with_capacity(text.len() + room(otherwise));
        other.extend_from_slice(&text);
        for (text, end) in [(&mut text, last), (&mut other, otherwise)] {
            put(text, end)?;
            text.push(b']');
        }
        let count = before.len() + 1;
        Ok((Self::of(count, text)?, Self::of(count, other)?))
    }

    /// Puts events in front of those in it.
    pub(crate) fn lead_with(&mut self, events: &[Event]) -> Result<(), PayloadError> {
        let mut led = Self::encode(events)?;
        let rest = self.text.strip_prefix('[').unwrap_or_default();
        if !matches!(rest, "" | "]") {
            led.text.pop();
            led.text.push(',');
            led.text.push_str(rest);
        }
        *self = Self { count: led.count.saturating_add(self.count), text: led.text };
        Ok(())
    }

    fn of(events: usize, text: Vec<u8>) -> Result<Self, PayloadError> {
        let text = String::from_utf8(text).map_err(|e| unencodable(&e))?;
        Ok(Self { count: u32::try_from(events).unwrap_or(u32::MAX), text })
    }
}

fn put<T: Serialize + ?Sized>(text: &mut Vec<u8>, events: &T) -> Result<(), PayloadError> {
    serde_json::to_writer(text, events).map_err(|e| unencodable(&e))
}

fn unencodable(error: &dyn std::fmt::Display) -> PayloadError {
    PayloadError::Encode { ty: "journal events", reason: error.to_string() }
}

/// About as many bytes as the text of an event has: most have few beside their values.
fn room(event: &Event) -> usize {
    let mut room = if matches!(event, Event::NodeStarted(_)) { 320 } else { 160 };
    event.for_each_large(&mut |_, value| room += value.as_str().len());
    room
}

/// A frame as a store holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredFrame {
    /// Position of its first event.
    pub position: Position,
    /// When it was appended, by the clock of the worker.
    pub at: Timestamp,
    /// Epoch of the worker that appended it.
    pub epoch: Epoch,
    /// JSON array of the events, byte for byte as appended.
    pub text: String,
    /// Chain hash after this frame. It covers `text`.
    pub chain: ChainHash,
    /// The events as they were before a payload codec encoded them; `None` where none is encoded, or nobody has decoded
    /// them yet. A store leaves it empty.
    pub decoded: Option<String>,
}

/// A stored frame that cannot be read or does not fit its neighbours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The text is not a JSON array of events.
    #[error("journal frame at position {position} is not readable: {reason}")]
    Unreadable {
        /// Position of the frame's first event.
        position: Position,
        /// The decoder's error.
        reason: String,
    },
    /// Frames do not follow each other.
    #[error("journal has a gap: expected position {expected}, found {found}")]
    Gap {
        /// The position at which the next frame should begin.
        expected: Position,
        /// The position at which it begins.
        found: Position,
    },
    /// The text was changed after it was written.
    #[error(
        "journal frame at position {position} was altered: its hash does not follow from what precedes it"
    )]
    Altered {
        /// Position of the frame's first event.
        position: Position,
    },
    /// The values of its events went through a payload codec, and it was read without that.
    #[error(
        "journal frame at position {position} is encoded under key `{key}`: read it through the payload codec that has the key; nothing was lost"
    )]
    Encoded {
        /// Position of the frame's first event.
        position: Position,
        /// Id of the key.
        key: String,
    },
}

impl StoredFrame {
    /// The JSON array of the events, as it was before a payload codec encoded it.
    ///
    /// # Errors
    /// [`JournalError::Encoded`] when it was not decoded.
    pub fn readable(&self) -> Result<&str, JournalError> {
        if let Some(decoded) = &self.decoded {
            return Ok(decoded);
        }
        match key_of(&self.text) {
            None => Ok(&self.text),
            Some(key) => Err(JournalError::Encoded { position: self.position, key }),
        }
    }

    /// Decodes the events.
    ///
    /// # Errors
    /// [`JournalError::Unreadable`] when the text is not a JSON array of events, and [`JournalError::Encoded`].
    pub fn events(&self) -> Result<Vec<Event>, JournalError> {
        let text = self.readable()?;
        serde_json::from_str(text).or_else(|_| self.tolerant(text))
    }

    /// The slow way, for frames that hold kinds a newer build wrote.
    fn tolerant(&self, text: &str) -> Result<Vec<Event>, JournalError> {
        let unreadable = |reason: String| {
            let reason = without_values(&reason);
            JournalError::Unreadable { position: self.position, reason }
        };
        let items: Vec<BTreeMap<String, &RawValue>> =
            serde_json::from_str(text).map_err(|e| unreadable(e.to_string()))?;
        items
            .into_iter()
            .map(|item| {
                let Some((kind, value)) = item.iter().next() else {
                    return Err(unreadable("an event without a kind".into()));
                };
                if !known(kind) {
                    return Ok(Event::Unknown { kind: kind.clone() });
                }
                serde_json::from_str(&format!("{{\"{kind}\":{value}}}"))
                    .map_err(|e| unreadable(format!("{kind}: {e}")))
            })
            .collect()
    }
}

fn known(kind: &str) -> bool {
    let camel: String = kind
        .split('_')
        .map(|part| {
            let mut chars = part.chars();
            chars.next().map_or_else(String::new, |c| c.to_ascii_uppercase().to_string() + chars.as_str())
        })
        .collect();
    Event::KINDS.iter().any(|(_, name)| *name == camel)
}

/// Decodes a run's frames and checks order and hash chain. The first frame has position 0, or begins a later generation of
/// the run.
///
/// # Errors
/// [`JournalError`] naming the first position that is unreadable, out of order or altered.
pub fn read_verified(frames: &[StoredFrame]) -> Result<Vec<Event>, JournalError> {
    let (mut chained, mut events) = (Chained::default(), Vec::new());
    for frame in frames {
        events.extend(chained.follow(frame)?);
    }
    Ok(events)
}

/// Checks order and hash chain of a journal whose frames come one by one, so that it need not be in memory as a whole.
///
/// ```
/// use aether_core::journal::Chained;
/// # use aether_core::journal::StoredFrame;
/// # fn example(frames: impl Iterator<Item = StoredFrame>) -> Result<(), aether_core::journal::JournalError> {
/// let mut chained = Chained::default();
/// for frame in frames {
///     chained.follow(&frame)?;
/// }
/// println!("{} events", chained.next());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Chained {
    /// Where the next frame begins, and the chain hash before it; `None` before the first frame.
    end: Option<(Position, ChainHash)>,
}

impl Chained {
    /// Checks that `frame` follows the ones before it, and returns its events. The first one has position 0, or begins a
    /// later generation of the run.
    ///
    /// # Errors
    /// [`JournalError`] when it is unreadable, out of order or altered.
    pub fn follow(&mut self, frame: &StoredFrame) -> Result<Vec<Event>, JournalError> {
        let hash = self.hash_after(frame)?;
        let events = frame.events()?;
        self.end = Some((end_of(frame, events.len())?, hash));
        Ok(events)
    }

    /// As [`Chained::follow`], without reading the events: of a frame that went through a payload codec, too. Returns how
    /// many they are.
    ///
    /// # Errors
    /// [`JournalError`] when it is no list of events, out of order or altered.
    pub fn link(&mut self, frame: &StoredFrame) -> Result<u64, JournalError> {
        let hash = self.hash_after(frame)?;
        let events: Vec<&RawValue> = serde_json::from_str(&frame.text)
            .map_err(|e| JournalError::Unreadable { position: frame.position, reason: e.to_string() })?;
        self.end = Some((end_of(frame, events.len())?, hash));
        Ok(events.len() as u64)
    }

    /// Position of the event that comes next.
    pub fn next(&self) -> Position {
        self.end.map_or(0, |(next, _)| next)
    }

    /// Chain hash after the last frame: it stands for all of the journal. [`CHAIN_START`] before the first one.
    pub fn tip(&self) -> ChainHash {
        self.end.map_or(CHAIN_START, |(_, tip)| tip)
    }

    fn hash_after(&self, frame: &StoredFrame) -> Result<ChainHash, JournalError> {
        let (expected, before) = match self.end {
            Some(end) => end,
            None if frame.position > 0 => (frame.position, chain_before(frame)?),
            None => (0, CHAIN_START),
        };
        if frame.position != expected {
            return Err(JournalError::Gap { expected, found: frame.position });
        }
        let hash = chain(&before, frame.position, frame.at, &frame.text);
        if hash == frame.chain { Ok(hash) } else { Err(JournalError::Altered { position: frame.position }) }
    }
}

/// Where the frame after this one begins. There is none behind the last position: what claims it stands in no journal.
fn end_of(frame: &StoredFrame, events: usize) -> Result<Position, JournalError> {
    let end = Position::try_from(events).ok().and_then(|events| frame.position.checked_add(events));
    end.ok_or(JournalError::Gap { expected: 0, found: frame.position })
}

/// The chain hash before the first frame of a later generation, which that frame names. The frame's own hash covers it.
fn chain_before(frame: &StoredFrame) -> Result<ChainHash, JournalError> {
    #[derive(Deserialize)]
    struct Continued {
        run_continued: Option<Named>,
    }
    // In the open, also where a payload codec has encoded the rest.
    #[derive(Deserialize)]
    struct Named {
        previous: String,
    }
    let events: Vec<Continued> = serde_json::from_str(&frame.text)
        .map_err(|e| JournalError::Unreadable { position: frame.position, reason: e.to_string() })?;
    let named = events.into_iter().find_map(|event| event.run_continued);
    let named = named.ok_or(JournalError::Gap { expected: 0, found: frame.position })?;
    unhex(&named.previous).ok_or(JournalError::Altered { position: frame.position })
}

/// 32 bytes from 64 hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Option<ChainHash> {
    let mut hash = CHAIN_START;
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    (text.len() == 64).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::event::NodeFinished;
    use crate::vocabulary::id::CommandId;

    #[test]
    fn events_are_put_in_front_of_encoded_ones() {
        let event = |at: &str| Event::from(NodeFinished { command: CommandId::new(at, "send") });
        let mut led = Frame::encode(&[event("2"), event("3")]).unwrap();
        led.lead_with(&[event("0"), event("1")]).unwrap();
        assert_eq!(led, Frame::encode(&["0", "1", "2", "3"].map(event)).unwrap());
        let mut empty = Frame::encode(&[]).unwrap();
        empty.lead_with(&[event("0")]).unwrap();
        assert_eq!(empty, Frame::encode(&[event("0")]).unwrap());
    }

    #[test]
    fn a_later_generation_is_chained_to_the_hash_that_it_names() {
        let frame = |previous: &str| {
            let text = format!(
                r#"[{{"run_continued":{{"generation":1,"previous":"{previous}","started_as":"w","started_at":"2026-01-01T00:00:00Z"}}}}]"#
            );
            let (at, previous) = (Timestamp::UNIX_EPOCH, unhex(previous).unwrap_or(CHAIN_START));
            let chain = chain(&previous, 7, at, &text);
            StoredFrame { position: 7, at, epoch: 1, text, chain, decoded: None }
        };
        let good = frame(&"ab".repeat(32));
        assert_eq!(read_verified(std::slice::from_ref(&good)).map(|events| events.len()), Ok(1));
        let altered = StoredFrame { text: good.text.replace("abab", "abac"), ..good };
        assert_eq!(read_verified(&[altered]), Err(JournalError::Altered { position: 7 }));
        assert_eq!(read_verified(&[frame("ab")]), Err(JournalError::Altered { position: 7 }));
        let cut = StoredFrame { position: 7, ..stored("[]") };
        assert_eq!(read_verified(&[cut]), Err(JournalError::Gap { expected: 0, found: 7 }));
    }

    #[test]
    fn a_frame_behind_the_last_position_is_a_gap() {
        let text = format!(r#"[{{"run_continued":{{"previous":"{}"}}}}]"#, "ab".repeat(32));
        let (at, position) = (Timestamp::UNIX_EPOCH, Position::MAX);
        let chain = chain(&unhex(&"ab".repeat(32)).unwrap(), position, at, &text);
        let frame = StoredFrame { position, at, epoch: 1, text, chain, decoded: None };
        let gap = Err(JournalError::Gap { expected: 0, found: position });
        assert_eq!(Chained::default().link(&frame), gap);
        let plain = StoredFrame { decoded: Some(r#"[{"moon_landed":{}}]"#.into()), ..frame };
        assert_eq!(read_verified(&[plain]).map(|_| 0), gap);
    }

    fn stored(text: &str) -> StoredFrame {
        let at = Timestamp::UNIX_EPOCH;
        let chain = chain(&CHAIN_START, 0, at, text);
        StoredFrame { position: 0, at, epoch: 1, text: text.into(), chain, decoded: None }
    }

    #[test]
    fn frames_that_differ_in_their_last_event_are_encoded_as_each_alone() {
        let event = |name: &str| Event::from(NodeFinished { command: CommandId::new("0", name) });
        for before in [vec![], vec![event("a")], vec![event("a"), event("\"b")]] {
            let with = |last: Event| before.iter().cloned().chain([last]).collect::<Vec<_>>();
            let (events, others) = (with(event("last")), with(event("other")));
            let (one, other) = Frame::either(&events, &event("other")).unwrap();
            assert_eq!((one, other), (Frame::encode(&events).unwrap(), Frame::encode(&others).unwrap()));
        }
    }

    #[test]
    fn unknown_kinds_and_fields_are_skipped_in_place() {
        let frame = stored(r#"[{"moon_landed":{"a":1}},{"node_finished":{"command":"0:x","mood":"good"}}]"#);
        let events = frame.events().unwrap();
        assert_eq!(events[0], Event::Unknown { kind: "moon_landed".into() });
        assert_eq!(events[1].kind(), "node_finished");
    }

    #[test]
    fn an_altered_frame_is_named() {
        let mut frame = stored(r#"[{"node_finished":{"command":"0:x"}}]"#);
        frame.text = frame.text.replace("0:x", "1:x");
        assert_eq!(read_verified(&[frame]), Err(JournalError::Altered { position: 0 }));
    }

    #[test]
    fn text_that_is_no_event_list_is_an_error() {
        for text in ["", "{}", "[1]", "[{}]", r#"[{"node_finished":{}}]"#] {
            assert!(
                matches!(stored(text).events(), Err(JournalError::Unreadable { position: 0, .. })),
                "{text}"
            );
        }
    }
}
