//! Streams in memory.
//!
//! Promise: a write takes effect whole.

use std::collections::BTreeMap;

use crate::store::streams::{StreamChange, StreamItem, StreamKind, StreamWrite, joined};
use crate::vocabulary::id::CommandId;
use crate::vocabulary::payload::Payload;

/// The streams of one run, by name.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: BTreeMap<String, Vec<Row>>,
}

#[derive(Debug)]
struct Row {
    part: u32,
    item: StreamItem,
}

impl Streams {
    /// Makes one write that is not refused; returns the items that it made.
    pub(super) fn write(&mut self, write: &StreamWrite) -> Vec<StreamItem> {
        match &write.change {
            StreamChange::Chunk { stream, part, items } => {
                let rows = self.streams.entry(stream.clone()).or_default();
                let mut written = Vec::new();
                if *part == 0 {
                    written.extend(restart(rows, stream, write));
                } else if newest_part(rows, &write.command).is_some_and(|newest| newest >= *part) {
                    return written;
                }
                written.push(push(rows, stream, write, StreamKind::Chunk, None, *part, items.clone()));
                written
            }
            StreamChange::End { keeps, digest } => {
                let mut written = Vec::new();
                for (stream, rows) in &mut self.streams {
                    let kept = keeps.as_ref().is_none_or(|keeps| keeps.contains(stream));
                    if !(kept && fold(rows, &write.command)) {
                        written.extend(restart(rows, stream, write));
                    } else if let Ok(digest) = Payload::encode(digest.as_str()) {
                        written.push(push(rows, stream, write, StreamKind::Committed, None, 0, digest));
                    }
                }
                written
            }
        }
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

fn newest_part(rows: &[Row], command: &CommandId) -> Option<u32> {
    let mut chunks = rows.iter().rev().filter(|row| row.item.kind == StreamKind::Chunk);
    chunks.find(|row| row.item.command == *command).map(|row| row.part)
}

/// Puts an item of kind `Restarted` in the place of the open ones, if there are any.
fn restart(rows: &mut Vec<Row>, stream: &str, write: &StreamWrite) -> Option<StreamItem> {
    let since = rows.iter().filter(|row| is_open(row, &write.command)).map(|row| row.item.since).min()?;
    // Numbered before the others go: one of them may have the highest number.
    let restarted = push(rows, stream, write, StreamKind::Restarted, Some(since), 0, Payload::null());
    rows.retain(|row| row.item.seq == restarted.seq || !is_open(row, &write.command));
    Some(restarted)
}

/// Puts one item in the place of the command's chunks; says whether there were any.
fn fold(rows: &mut Vec<Row>, command: &CommandId) -> bool {
    let open = || rows.iter().filter(|row| is_open(row, command));
    let chunks: Vec<_> = open().filter(|row| row.item.kind == StreamKind::Chunk).collect();
    let (Some(last), Some(since)) = (chunks.last(), open().map(|row| row.item.since).min()) else {
        return false;
    };
    let Ok(data) = Payload::from_text(joined(chunks.iter().map(|row| row.item.data.as_str()))) else {
        return false;
    };
    let item = StreamItem { kind: StreamKind::Folded, since, data, ..last.item.clone() };
    rows.retain(|row| !is_open(row, command));
    rows.push(Row { part: 0, item });
    rows.sort_by_key(|row| row.item.seq);
    true
}

fn next_of(rows: &[Row]) -> u64 {
    rows.last().map_or(0, |row| row.item.seq) + 1
}

fn push(
    rows: &mut Vec<Row>,
    stream: &str,
    write: &StreamWrite,
    kind: StreamKind,
    since: Option<u64>,
    part: u32,
    data: Payload,
) -> StreamItem {
    let seq = next_of(rows);
    let item = StreamItem {
        stream: stream.to_owned(),
        seq,
        since: since.unwrap_or(seq),
        kind,
        command: write.command.clone(),
        attempt: write.attempt,
        epoch: write.epoch,
        at: write.at,
        data,
    };
    rows.push(Row { part, item: item.clone() });
    item
}
