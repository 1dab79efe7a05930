//! What a reader of a stream gets, and the text that it makes.
//!
//! Promise: plain values; [`StreamText`] never holds a character of an execution that was started over.

use crate::store::error::StoreError;
use crate::store::streams::{StreamItem, StreamKind};
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::payload::PayloadError;

/// What a reader of a stream gets. The engine writes all of these but the items of chunks.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamEvent<T> {
    /// Items that a body sent, in order.
    Chunk {
        /// Number of the chunk. A reader that continues behind it reads from `seq + 1`.
        seq: u64,
        /// The first of the numbers that it stands for: less than `seq` where chunks were joined.
        first: u64,
        /// The command whose body sent them.
        command: CommandId,
        /// The items.
        items: Vec<T>,
    },
    /// The command started over, or failed: what it sent from number `from` on does not count any more.
    Restarted {
        /// Number of this event.
        seq: u64,
        /// The command.
        command: CommandId,
        /// The first number that does not count.
        from: u64,
    },
    /// The outcome of the command is durable, and what it has sent stays.
    Committed {
        /// Number of this event.
        seq: u64,
        /// The command.
        command: CommandId,
        /// Digest of the outcome: the text of a [`Digest`](crate::payload::Digest).
        digest: String,
    },
    /// The run has ended: nothing follows.
    Closed {
        /// The status that it ended with.
        status: Status,
    },
}

impl<T: serde::de::DeserializeOwned> StreamEvent<T> {
    /// What an item of a store is to a reader.
    ///
    /// # Errors
    /// [`PayloadError`] when what was sent is not of type `T`.
    pub fn of(item: &StreamItem) -> Result<Self, PayloadError> {
        let (seq, command) = (item.seq, item.command.clone());
        Ok(match item.kind {
            StreamKind::Chunk | StreamKind::Folded => {
                Self::Chunk { seq, first: item.since, command, items: item.data.decode()? }
            }
            StreamKind::Restarted => Self::Restarted { seq, command, from: item.since },
            StreamKind::Committed => Self::Committed { seq, command, digest: item.data.decode()? },
        })
    }

    /// What comes before an item of a store, to a reader that has read up to number `after`: it has seen some of what the
    /// item stands for, or what gave way to it.
    pub fn restarted_by(item: &StreamItem, after: u64) -> Option<Self> {
        let is_chunk = matches!(item.kind, StreamKind::Chunk | StreamKind::Folded);
        (is_chunk && item.since <= after).then(|| Self::Restarted {
            // Numbered before the item: who is cut off between the two gets both again.
            seq: item.seq.saturating_sub(1),
            command: item.command.clone(),
            from: item.since,
        })
    }
}

/// Why a stream cannot be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The store failed. Reading can be tried again.
    #[error("the stream cannot be read: {0}")]
    Store(#[from] StoreError),
    /// No stream can have this name.
    #[error("there is no stream of this name of {bytes} bytes: {reason}")]
    Name {
        /// Length of the name.
        bytes: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// What was sent is not of the reader's type.
    #[error("item {seq} of stream `{stream}` of run `{run}` is not of the type that is read: {error}")]
    Unreadable {
        /// The run.
        run: RunId,
        /// The stream.
        stream: String,
        /// Number of the item.
        seq: u64,
        /// Why it does not decode.
        error: PayloadError,
    },
}

/// The text of a stream of texts, from its events: what counts, each character once. Each command's text is in one piece, and
/// they stand in the order of the first numbers of the commands.
///
/// ```
/// use aether_core::id::CommandId;
/// use aether_core::stream::{StreamEvent, StreamText};
/// let command = CommandId::new("0", "answer");
/// let chunk = |seq, text: &str| StreamEvent::Chunk {
///     seq, first: seq, command: command.clone(), items: vec![text.to_owned()],
/// };
/// let mut text = StreamText::default();
/// text.apply(&chunk(1, "Hel"));
/// text.apply::<String>(&StreamEvent::Restarted { seq: 2, command: command.clone(), from: 1 });
/// text.apply(&chunk(3, "Hello"));
/// assert_eq!(text.to_string(), "Hello");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamText {
    /// By their first numbers, which are the same for whoever reads while they are written and for whoever comes late.
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq)]
struct Piece {
    first: u64,
    command: CommandId,
    open: bool,
    text: String,
}

impl StreamText {
    /// Takes in an event. The events of one reader are taken in order; those of a reader that continues where another one
    /// was cut off may follow.
    pub fn apply<T: AsRef<str>>(&mut self, event: &StreamEvent<T>) {
        match event {
            StreamEvent::Chunk { first, command, items, .. } => {
                let is_open = |piece: &Piece| piece.open && piece.command == *command;
                let at = self.pieces.iter().rposition(is_open).unwrap_or_else(|| self.begin(*first, command));
                if let Some(piece) = self.pieces.get_mut(at) {
                    items.iter().for_each(|item| piece.text.push_str(item.as_ref()));
                }
            }
            StreamEvent::Restarted { command, from, .. } => {
                self.pieces.retain(|piece| piece.command != *command || piece.first < *from);
                // What comes in its place stands where it stood.
                self.begin(*from, command);
            }
            StreamEvent::Committed { command, .. } => {
                let own = self.pieces.iter_mut().filter(|piece| piece.command == *command);
                own.for_each(|piece| piece.open = false);
            }
            StreamEvent::Closed { .. } => {}
        }
    }

    /// Begins an empty piece; says where it is.
    fn begin(&mut self, first: u64, command: &CommandId) -> usize {
        let at = self.pieces.partition_point(|piece| piece.first <= first);
        self.pieces.insert(at, Piece { first, command: command.clone(), open: true, text: String::new() });
        at
    }
}

impl std::fmt::Display for StreamText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pieces.iter().try_for_each(|piece| f.write_str(&piece.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(name: &str, seq: u64, first: u64, text: &str) -> StreamEvent<String> {
        StreamEvent::Chunk { seq, first, command: CommandId::new("0", name), items: vec![text.to_owned()] }
    }

    fn restarted(name: &str, seq: u64, from: u64) -> StreamEvent<String> {
        StreamEvent::Restarted { seq, command: CommandId::new("0", name), from }
    }

    fn committed(name: &str, seq: u64) -> StreamEvent<String> {
        StreamEvent::Committed { seq, command: CommandId::new("0", name), digest: String::new() }
    }

    fn text(events: &[StreamEvent<String>]) -> String {
        let mut text = StreamText::default();
        events.iter().for_each(|event| text.apply(event));
        text.to_string()
    }

    #[test]
    fn live_and_late_readers_of_mixed_commands_have_the_same_text() {
        let live = [chunk("a", 1, 1, "a"), chunk("b", 2, 2, "b"), chunk("a", 3, 3, "A")];
        assert_eq!(text(&live), "aAb");
        let late = [chunk("b", 2, 2, "b"), chunk("a", 3, 1, "aA"), committed("a", 4), committed("b", 5)];
        assert_eq!(text(&late), "aAb");
        // Cut off in the middle, it gets what was joined.
        let cut = [&live[..2], &[restarted("a", 2, 1)], &late[1..]].concat();
        assert_eq!(text(&cut), "aAb");
    }

    #[test]
    fn what_a_command_says_anew_stands_where_it_stood() {
        let live =
            [chunk("a", 1, 1, "x"), chunk("b", 2, 2, "b"), restarted("a", 3, 1), chunk("a", 4, 4, "a")];
        assert_eq!(text(&live), "ab");
        assert_eq!(text(&live[1..]), "ab", "whoever came after it was given up");
        assert_eq!(text(&[chunk("b", 2, 2, "b"), chunk("a", 4, 1, "a")]), "ab", "and when all was over");
    }

    #[test]
    fn a_command_that_is_called_again_after_its_end_has_another_piece() {
        let first = [chunk("a", 1, 1, "a"), committed("a", 2), chunk("b", 3, 3, "b"), chunk("a", 4, 4, "A")];
        assert_eq!(text(&first), "abA");
        assert_eq!(text(&[&first[..], &[restarted("a", 5, 4)]].concat()), "ab");
    }
}
