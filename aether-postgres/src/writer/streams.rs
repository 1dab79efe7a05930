//! What the appends of a batch say of streams: commands that have ended.
//!
//! Promise: it takes effect in the transaction of the appends, and only where they were admitted: a frame of this number,
//! epoch and position is in the journal. The rows of the runs are held, as by whoever writes chunks.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use aether_core::store::StreamEnd;

use crate::connection::Param;
use crate::row;
use crate::writer::Head;
use crate::writer::batch::{Group, Write};
use crate::writer::columns::{Ends, Given};

/// What the groups of a batch say of streams.
#[derive(Debug, Default)]
pub(crate) struct StreamEnds<'a> {
    ends: Ends<'a>,
}

impl<'a> StreamEnds<'a> {
    /// `heads` says where the journal of each group ends now.
    pub(crate) fn of(groups: impl Iterator<Item = (&'a Group, Head)>) -> Self {
        let mut all = Self::default();
        for (group, head) in groups {
            all.group(group, head);
        }
        all
    }

    fn group(&mut self, group: &'a Group, head: Head) {
        // A statement sees the rows as they were before it, so the last word about a command is the only one.
        let mut last: BTreeMap<&str, (i64, &'a Write, &'a StreamEnd)> = BTreeMap::new();
        for (frame, item) in (head.frame + 1..).zip(&group.items) {
            for end in &item.append.streams {
                last.insert(end.command.as_str(), (frame, &item.append, end));
            }
        }
        for (command, (frame, append, end)) in last {
            self.ends.push(
                i64::try_from(self.ends.no.len()).unwrap_or(i64::MAX),
                group.shard,
                group.run.as_str(),
                frame,
                row::int(append.epoch),
                row::int(append.expected),
                command,
                i64::from(end.attempt),
                row::micros(append.at),
                end.digest.as_ref().map(|digest| serde_json::Value::from(digest.as_str()).to_string()),
                end.keeps.as_ref().map(|keeps| serde_json::to_string(keeps).unwrap_or_default()),
            );
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.no.is_empty()
    }

    /// The parameters of [`HOLD`](crate::streams::HOLD).
    pub(crate) fn held(&self) -> [Param<'_>; 2] {
        [&self.ends.shard, &self.ends.run]
    }

    /// The parameters of [`end`].
    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        let mut params = Vec::new();
        self.ends.params(Given::Arrays, &mut params);
        params
    }
}

/// Folds, gives up and marks what the commands have sent. The text is made once.
pub(crate) fn end() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        format!(
            "WITH e AS MATERIALIZED (SELECT e.* FROM {}
        JOIN journal j ON j.shard = e.shard AND j.run = e.run AND j.frame = e.frame
        WHERE j.epoch = e.epoch AND j.position = e.position),
    open AS MATERIALIZED (SELECT e.no, s.shard, s.run, s.stream, s.seq, s.since, s.kind, s.data,
            CASE WHEN s.epoch = e.epoch THEN s.part ELSE 0 END AS part,
            e.digest IS NOT NULL AND (e.keeps IS NULL OR e.keeps::jsonb ? s.stream) AS kept
        FROM e JOIN streams s ON s.shard = e.shard AND s.run = e.run AND s.command = e.command AND s.kind IN (0, 2)
            AND (s.epoch < e.epoch OR s.attempt <= e.attempt)),
    ended AS MATERIALIZED (SELECT no, shard, run, stream, min(since) AS since, max(part) AS part,
            max(seq) FILTER (WHERE kind = 0 AND kept) AS last,
            '[' || string_agg(substr(data, 2, length(data) - 2), ',' ORDER BY seq)
                FILTER (WHERE kind = 0 AND kept) || ']' AS data
        FROM open GROUP BY no, shard, run, stream),
    gone AS (DELETE FROM streams s USING open o JOIN ended x ON x.no = o.no AND x.stream = o.stream
        WHERE s.shard = o.shard AND s.run = o.run AND s.stream = o.stream AND s.seq = o.seq
            AND o.seq IS DISTINCT FROM x.last),
    folded AS (UPDATE streams s SET kind = 1, since = x.since, data = x.data FROM ended x
        WHERE s.shard = x.shard AND s.run = x.run AND s.stream = x.stream AND s.seq = x.last),
    marks AS (SELECT e.shard, e.run, x.stream, x.since, x.part, x.last, e.command, e.attempt, e.epoch, e.at, e.digest,
            (SELECT max(s.seq) FROM streams s WHERE s.shard = x.shard AND s.run = x.run AND s.stream = x.stream)
            + row_number() OVER (PARTITION BY x.shard, x.run, x.stream ORDER BY x.no) AS seq
        FROM ended x JOIN e ON e.no = x.no)
    INSERT INTO streams(shard, run, stream, seq, since, kind, command, attempt, epoch, at, part, data)
    SELECT shard, run, stream, seq, CASE WHEN last IS NULL THEN since ELSE seq END,
        CASE WHEN last IS NULL THEN 2 ELSE 3 END, command, attempt, epoch, at,
        CASE WHEN last IS NULL THEN part ELSE 0 END, CASE WHEN last IS NULL THEN 'null' ELSE digest END FROM marks",
            Given::Arrays.rows("e", Ends::COLUMNS, &mut 1)
        )
    })
}
