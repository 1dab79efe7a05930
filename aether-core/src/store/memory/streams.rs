//! Streams in memory.
//!
//! Promise: a write takes effect whole.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::store::streams::{StreamEnd, StreamItem, StreamKind, StreamWrite, joined};
use crate::vocabulary::id::{CommandId, Epoch};
use crate::vocabulary::payload::Payload;

/// The streams of one run, by name.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: BTreeMap<String, Vec<Row>>,
}

#[derive(Debug)]
struct Row {
    /// See [`StreamWrite::place`].
    place: u64,
    item: StreamItem,
}

/// Who writes an item, and when.
struct Author<'a> {
    command: &'a CommandId,
    attempt: u32,
    epoch: Epoch,
    at: Timestamp,
}

impl Streams {
    /// Makes one write that is not refused; returns the items that it made.
    pub(super) fn write(&mut self, write: &StreamWrite) -> Vec<StreamItem> {
        let author =
            Author { command: &write.command, attempt: write.attempt, epoch: write.epoch, at: write.at };
        let rows = self.streams.entry(write.stream.clone()).or_default();
        let mut written = Vec::new();
        if write.part == 0 {
            if last_place(rows, &author).is_some_and(|last| last >= write.place()) {
                return written;
            }
            let open =
                rows.iter().filter(|row| is_open(row, author.command)).map(|row| row.item.seq).collect();
            written.extend(restart(rows, &write.stream, &author, &open));
        } else if newest_place(rows, author.command).is_none_or(|newest| newest + 1 != write.place()) {
            return written;
        }
        let (kind, items) = (StreamKind::Chunk, write.items.clone());
        written.push(push(rows, &write.stream, &author, kind, None, write.place(), items));
        written
    }

    /// A command has ended, by an append of `epoch`.
    pub(super) fn end(&mut self, end: &StreamEnd, epoch: Epoch, at: Timestamp) {
        let author = Author { command: &end.command, attempt: end.attempt, epoch, at };
        for (stream, rows) in &mut self.streams {
            let ended = |row: &&Row| {
                is_open(row, &end.command) && (row.item.epoch < epoch || row.item.attempt <= end.attempt)
            };
            let open: BTreeSet<_> = rows.iter().filter(ended).map(|row| row.item.seq).collect();
            let digest = end.kept(stream).and_then(|digest| Payload::encode(digest.as_str()).ok());
            match digest.filter(|_| fold(rows, &open)) {
                Some(digest) => drop(push(rows, stream, &author, StreamKind::Committed, None, 0, digest)),
                None => drop(restart(rows, stream, &author, &open)),
            }
        }
    }

    /// The commands that have open chunks.
    pub(super) fn open(&self) -> Vec<CommandId> {
        let open = |row: &&Row| row.item.kind == StreamKind::Chunk;
        let rows = self.streams.values().flatten().filter(open);
        rows.map(|row| row.item.command.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// At most `limit` items with numbers above `after`.
    pub(super) fn read(&self, stream: &str, after: u64, limit: usize) -> Vec<StreamItem> {
        let rows = self.streams.get(stream).into_iter().flatten();
        rows.filter(|row| row.item.seq > after).take(limit).map(|row| row.item.clone()).collect()
    }
}

fn is_open(row: &Row, command: &CommandId) -> bool {
    matches!(row.item.kind, StreamKind::Chunk | StreamKind::Restarted) && row.item.command == *command
}

/// The place of the command's newest open chunk.
fn newest_place(rows: &[Row], command: &CommandId) -> Option<u64> {
    let mut chunks = rows.iter().rev().filter(|row| row.item.kind == StreamKind::Chunk);
    chunks.find(|row| row.item.command == *command).map(|row| row.place)
}

/// The greatest place of what the command has written in this epoch, open or not.
fn last_place(rows: &[Row], author: &Author<'_>) -> Option<u64> {
    let own = rows.iter().filter(|row| row.item.command == *author.command && row.item.epoch == author.epoch);
    own.map(|row| row.place).max()
}

/// Puts an item of kind `Restarted` in the place of those with the numbers `open`, if there are any.
fn restart(
    rows: &mut Vec<Row>,
    stream: &str,
    author: &Author<'_>,
    open: &BTreeSet<u64>,
) -> Option<StreamItem> {
    let given_up = || rows.iter().filter(|row| open.contains(&row.item.seq));
    let since = given_up().map(|row| row.item.since).min()?;
    let own = given_up().filter(|row| row.item.epoch == author.epoch).map(|row| row.place);
    let place = own.max().unwrap_or_default();
    // Numbered before the others go: one of them may have the highest number.
    let restarted = push(rows, stream, author, StreamKind::Restarted, Some(since), place, Payload::null());
    rows.retain(|row| !open.contains(&row.item.seq));
    Some(restarted)
}

/// Puts one item in the place of those with the numbers `open`; says whether there were chunks among them.
fn fold(rows: &mut Vec<Row>, open: &BTreeSet<u64>) -> bool {
    let given_up = || rows.iter().filter(|row| open.contains(&row.item.seq));
    let chunks: Vec<_> = given_up().filter(|row| row.item.kind == StreamKind::Chunk).collect();
    let (Some(last), Some(since)) = (chunks.last(), given_up().map(|row| row.item.since).min()) else {
        return false;
    };
    let Ok(data) = Payload::from_text(joined(chunks.iter().map(|row| row.item.data.as_str()))) else {
        return false;
    };
    let (item, place) =
        (StreamItem { kind: StreamKind::Folded, since, data, ..last.item.clone() }, last.place);
    rows.retain(|row| !open.contains(&row.item.seq));
    rows.push(Row { place, item });
    rows.sort_by_key(|row| row.item.seq);
    true
}

fn next_of(rows: &[Row]) -> u64 {
    rows.last().map_or(0, |row| row.item.seq) + 1
}

fn push(
    rows: &mut Vec<Row>,
    stream: &str,
    author: &Author<'_>,
    kind: StreamKind,
    since: Option<u64>,
    place: u64,
    data: Payload,
) -> StreamItem {
    let seq = next_of(rows);
    let item = StreamItem {
        stream: stream.to_owned(),
        seq,
        since: since.unwrap_or(seq),
        kind,
        command: author.command.clone(),
        attempt: author.attempt,
        epoch: author.epoch,
        at: author.at,
        data,
    };
    rows.push(Row { place, item: item.clone() });
    item
}
