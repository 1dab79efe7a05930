//! The statements of the writer.
//!
//! Promise: an append only inserts, but for rows that belong to its run alone and for a change of status. A group is
//! admitted whole or not at all, by a condition inside the statement: the frame before is of its epoch, ends where it
//! begins, and is not the last of a run that has ended. That it has no successor is seen to by the journal's key: where
//! there is one, the statement fails as a whole, and so it does where a ledger row that is to change is not there (it
//! divides by zero then). Neither happens as long as nobody else appends, so nothing is looked up for them.
//!
//! `(no IN (SELECT no FROM ok)) IS TRUE` is not made a join but a hashed subplan: it costs the same per row however wrong
//! the planner's guess of the arrays' length is. Of one group it is asked once per table whether it passed, and its rows,
//! which are single values, stand where they are used: most of what a small statement costs is to set up the parts of its
//! plan. All parts see the rows as they were before the statement: a row inserted here cannot be changed here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::pieces::Rows;
use crate::writer::columns::{
    Acquires, Changes, Closes, Consumes, Creates, Frames, Given, Groups, Labels, Opens, Settles,
};

/// What the appends of a batch ask for beside their frames. Most batches ask for little, and their statement is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Parts {
    /// How all rows but the frames are given: one of each kind, where all is about one run.
    pub(crate) given: Given,
    /// How the frames are given.
    pub(crate) frames: Given,
    /// Ledger rows are acquired.
    pub(crate) acquires: bool,
    /// Some of them with a business key of their run.
    pub(crate) business: bool,
    /// Ledger rows are changed.
    pub(crate) settles: bool,
    /// Status or code changes.
    pub(crate) changes: Option<Changed>,
    /// Messages are consumed.
    pub(crate) consumes: bool,
    /// Waits are opened.
    pub(crate) opens: bool,
    /// Waits are closed.
    pub(crate) closes: bool,
}

/// What changes of status and code bring with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Changed {
    /// A run ends that has no parent, which is what happens to each: the other parts would find nothing.
    End,
    Any,
}

/// What the creations of a batch ask for beside their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Created {
    /// How the runs are given.
    pub(crate) given: Given,
    /// Some have labels.
    pub(crate) labelled: bool,
    /// The creator advances the run, which is in no queue and rests on nothing: neither on a parent that must still be held,
    /// nor on what was decided.
    pub(crate) plain: bool,
}

/// Gives the places of the runs that are new. A parent that a creator must hold, and what a creation rests on, are looked at
/// in the same statement; the latter cannot change before it is written. Each text is made once.
pub(crate) fn create(created: Created) -> Arc<str> {
    static KNOWN: Known<Created> = Known::new(BTreeMap::new());
    known(&KNOWN, created, create_text)
}

fn create_text(created: Created) -> String {
    let (given, mut next) = (created.given, 1);
    let runs = table(given, "c", Creates::COLUMNS, &mut next);
    let new = match given {
        Given::Arrays => "(place IN (SELECT place FROM made)) IS TRUE",
        Given::Rows(_) => "EXISTS (SELECT 1 FROM made)",
    };
    let (mut conditions, mut writes) = (String::new(), String::new());
    if !created.plain {
        conditions += "
                AND (parent_epoch IS NULL OR (SELECT p.epoch = c.parent_epoch AND NOT p.final FROM journal p
                    WHERE p.shard = c.parent_shard AND p.run = c.parent ORDER BY p.frame DESC LIMIT 1))
                AND (c.decided_key IS NULL OR EXISTS (SELECT 1 FROM keyed_starts k
                    WHERE k.name = c.decided_key AND k.revision = c.decided FOR SHARE))
                AND (c.decided_schedule IS NULL OR EXISTS (SELECT 1 FROM schedules s
                    WHERE s.name = c.decided_schedule AND s.revision = c.decided FOR SHARE))";
        writes += &format!(
            ",
        known AS (INSERT INTO queues(queue, time, served, looked)
            SELECT DISTINCT c.queue, 0, 0, '' FROM c WHERE c.queue IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.queue = c.queue)
            ORDER BY c.queue ON CONFLICT DO NOTHING),
        waiting AS (INSERT INTO due(shard, run, wake_at, code, seq, notified, queue, ready, queue_key, begun, rank, place)
            SELECT shard, run, wake_at, code, 0, false, queue,
                CASE WHEN queue IS NOT NULL AND wake_at <= created_at THEN wake_at END, queue_key, false, rank, place FROM c
            WHERE owner IS NULL AND {new})"
        );
    }
    if created.labelled {
        writes += &format!(
            ",
        labelled AS (INSERT INTO labels(key, value, place, shard, run)
                SELECT key, value, place, shard, run FROM {}
                WHERE {new})",
            Given::Arrays.rows("l", Labels::COLUMNS, &mut next)
        );
    }
    format!(
        "WITH {runs},
        made AS (INSERT INTO runs(shard, id, place, workflow, version, code, parked, status, digest, parent, created_at,
                labels, traceparent, epoch, owner, terms, queue, queue_key, rank, begun, slot, started_at, lapses_at)
            SELECT shard, run, place, workflow, version, code, false, status, digest, parent, created_at, labels,
                traceparent, epoch, owner, terms, queue, queue_key, rank, queue IS NOT NULL AND owner IS NOT NULL,
                queue IS NOT NULL AND owner IS NOT NULL,
                CASE WHEN queue IS NOT NULL AND owner IS NOT NULL THEN created_at END, lapses_at FROM c
            WHERE NOT EXISTS (SELECT 1 FROM buckets b WHERE b.shard = c.shard AND b.away){conditions}
            ON CONFLICT (shard, id) DO NOTHING RETURNING place),
        framed AS (INSERT INTO journal(shard, run, frame, position, count, at, epoch, final, events, chain)
            SELECT shard, run, 0, 0, count, created_at, epoch, false, events, chain FROM c
            WHERE {new}){writes}
        SELECT place FROM made"
    )
}

/// Gives the numbers of the groups that passed. Each text is made once.
pub(crate) fn append(parts: Parts) -> Arc<str> {
    static KNOWN: Known<Parts> = Known::new(BTreeMap::new());
    known(&KNOWN, parts, append_text)
}

/// Texts by what they are made of.
type Known<Key> = Mutex<BTreeMap<Key, Arc<str>>>;

fn known<Key: Copy + Ord>(texts: &Known<Key>, key: Key, text: impl FnOnce(Key) -> String) -> Arc<str> {
    let mut texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
    texts.entry(key).or_insert_with(|| text(key).into()).clone()
}

fn append_text(parts: Parts) -> String {
    let (given, mut next) = (parts.given, 1);
    let ok = passed(given);
    let groups = table(given, "g", Groups::COLUMNS, &mut next);
    let frames = parts.frames.rows("f", Frames::COLUMNS, &mut next);
    let (mut looks, mut conditions, mut writes) = (String::new(), String::new(), String::new());
    if parts.acquires {
        acquire(parts, &mut next, &mut looks, &mut conditions, &mut writes);
    }
    if parts.settles {
        settle(given, &mut next, &mut looks, &mut writes);
    }
    if parts.consumes {
        looks += &format!(", {}", table(given, "c", Consumes::COLUMNS, &mut next));
        writes += &format!(
            ", consumed AS (UPDATE inbox i SET consumed = c.position, payload = '' FROM c
                WHERE i.shard = c.shard AND i.run = c.run AND i.seq = c.seq AND i.consumed IS NULL AND {ok})"
        );
    }
    if let Some(changed) = parts.changes {
        change(parts, changed, &mut next, &mut looks, &mut conditions, &mut writes);
    }
    if parts.opens {
        writes += &format!(
            ", opened AS (INSERT INTO waits(shard, run, command, place, kind, name, since, until, site, detail)
                SELECT shard, run, command, place, kind, name, since, until, site, detail FROM {} WHERE {ok}
                ON CONFLICT (shard, run, command) DO UPDATE SET kind = EXCLUDED.kind, name = EXCLUDED.name,
                    since = EXCLUDED.since, until = EXCLUDED.until, site = EXCLUDED.site, detail = EXCLUDED.detail)",
            given.rows("o", Opens::COLUMNS, &mut next)
        );
    }
    if parts.closes {
        writes += &format!(
            ", closed AS (DELETE FROM waits w USING {}
                WHERE w.shard = x.shard AND w.run = x.run AND w.command = x.command AND {ok})",
            given.rows("x", Closes::COLUMNS, &mut next)
        );
    }
    let whole = match parts.settles {
        true => format!(
            " WHERE 1 / (CASE WHEN (SELECT count(*) FROM settled) =
                (SELECT count(*) FROM s WHERE {ok}) THEN 1 ELSE 0 END) = 1"
        ),
        false => String::new(),
    };
    format!(
        "WITH {groups}{looks},
        ok AS MATERIALIZED (SELECT g.no FROM g
            JOIN journal p ON p.shard = g.shard AND p.run = g.run AND p.frame = g.before
            WHERE p.epoch = g.epoch AND p.position + p.count = g.expected AND NOT p.final{conditions}),
        framed AS (INSERT INTO journal(shard, run, frame, position, count, at, epoch, final, events, chain)
            SELECT shard, run, frame, position, count, at, epoch, final, events, chain FROM {frames} WHERE {ok}){writes}
        SELECT no FROM ok{whole}"
    )
}

/// A table of rows that are given. Single values stand where the rows are used.
fn table(given: Given, name: &str, columns: &[(&str, &str)], next: &mut usize) -> String {
    let kept = match given {
        Given::Arrays => "MATERIALIZED",
        Given::Rows(_) => "NOT MATERIALIZED",
    };
    format!("{name} AS {kept} (SELECT * FROM {})", given.rows(name, columns, next))
}

/// The group of a row was admitted.
fn passed(given: Given) -> &'static str {
    match given {
        Given::Arrays => "(no IN (SELECT no FROM ok)) IS TRUE",
        Given::Rows(_) => "EXISTS (SELECT 1 FROM ok)",
    }
}

/// The group is none of those that `table` names.
fn absent(given: Given, table: &str) -> String {
    match given {
        Given::Arrays => format!(" AND g.no NOT IN (SELECT no FROM {table})"),
        Given::Rows(_) => format!(" AND NOT EXISTS (SELECT 1 FROM {table})"),
    }
}

fn acquire(parts: Parts, next: &mut usize, looks: &mut String, conditions: &mut String, writes: &mut String) {
    let (given, ok) = (parts.given, passed(parts.given));
    let business = match parts.business {
        true => {
            " UNION ALL SELECT k.no FROM k JOIN ledger l ON l.shard = k.shard AND l.run = k.run
                AND l.business_key = k.business_key WHERE NOT l.store_wide AND NOT k.store_wide"
        }
        false => "",
    };
    *looks += &format!(
        ", {},
        taken AS (SELECT k.no FROM k JOIN ledger l ON l.shard = k.shard AND l.run = k.run AND l.key = k.key{business})",
        table(given, "k", Acquires::COLUMNS, next)
    );
    *conditions += &absent(given, "taken");
    *writes += &format!(
        ", acquired AS (INSERT INTO ledger(shard, run, key, seq, command, invocation, tool, digest, business_key,
                store_wide, status, result, error, committed, epoch, started_at, finished_at)
            SELECT shard, run, key, seq, command, invocation, tool, digest, business_key, store_wide, status, result,
                error, committed, epoch, started_at, finished_at FROM k WHERE {ok})"
    );
}

fn settle(given: Given, next: &mut usize, looks: &mut String, writes: &mut String) {
    let ok = passed(given);
    *looks += &format!(", {}", table(given, "s", Settles::COLUMNS, next));
    *writes += &format!(
        ", settled AS (UPDATE ledger l SET status = s.status, result = s.result, error = s.error,
                committed = s.committed, finished_at = s.finished_at,
                business_key = CASE WHEN s.freed THEN NULL ELSE l.business_key END
            FROM s WHERE l.shard = s.shard AND l.run = s.run AND l.key = s.key AND {ok} RETURNING 1)"
    );
}

/// Changes of status and code, and what follows from them: when the run is due, and who is told of its end.
///
/// A request to end the run also changes its row, which is locked here: of a request that is being committed, the new row
/// names a message that the statement does not see yet. A message that is being committed has locked the row in `due`, or
/// is about to insert it: a suspension waits for the one, finds a number there that it does not know, and leaves the row;
/// it does not touch the other.
///
/// A notice counts until the run is claimed, which deletes its row in `due`: a worker that writes that it executes the run
/// may have looked at the children before the notice came.
fn change(
    parts: Parts,
    changed: Changed,
    next: &mut usize,
    looks: &mut String,
    conditions: &mut String,
    writes: &mut String,
) {
    let (given, ok) = (parts.given, passed(parts.given));
    *looks += &format!(
        ", {},
        locked AS MATERIALIZED (SELECT h.no, h.shard, h.run, r.ending FROM h
            JOIN runs r ON r.shard = h.shard AND r.id = h.run WHERE h.guarded FOR UPDATE OF r),
        asked AS (SELECT l.no FROM locked l WHERE
            (l.ending IS NOT NULL AND NOT EXISTS (SELECT 1 FROM inbox i
                WHERE i.shard = l.shard AND i.run = l.run AND i.seq = l.ending))
            OR EXISTS (SELECT 1 FROM inbox i WHERE i.shard = l.shard AND i.run = l.run AND i.consumed IS NULL
                AND i.topic IN ('cancel', 'terminate')))",
        table(given, "h", Changes::COLUMNS, next)
    );
    *conditions += &absent(given, "asked");
    *writes += &format!(
        ", changed AS (UPDATE runs r SET status = coalesce(h.status, r.status),
                lapses_at = CASE WHEN h.ended_at IS NULL THEN r.lapses_at END, ended_at = coalesce(h.ended_at, r.ended_at),
                owner = CASE WHEN h.release THEN NULL ELSE r.owner END, code = coalesce(h.code, r.code),
                parked = coalesce(h.parked, r.parked)
            FROM h WHERE r.shard = h.shard AND r.id = h.run AND {ok}),
        forgotten AS (DELETE FROM progress q USING h WHERE q.shard = h.shard AND q.run = h.run
            AND h.due = {ENDS} AND {ok})"
    );
    match changed {
        Changed::End => {
            *writes += &format!(
                ", undue AS (DELETE FROM due d USING h WHERE d.shard = h.shard AND d.run = h.run AND {ok})"
            )
        }
        Changed::Any => *writes += &any_change(parts),
    }
}

/// What follows from a change that need not be the end of a run without a parent.
fn any_change(parts: Parts) -> String {
    let ok = passed(parts.given);
    // Of the messages, those count that neither this statement nor an earlier one consumes.
    let unread = match parts.consumes {
        true => {
            "i.shard = h.shard AND i.run = h.run AND i.consumed IS NULL AND i.seq > h.seen
                AND ((h.no, i.seq) IN (SELECT no, seq FROM c)) IS NOT TRUE"
        }
        false => "i.shard = h.shard AND i.run = h.run AND i.consumed IS NULL AND i.seq > h.seen",
    };
    format!(
        ", sleeps AS MATERIALIZED (SELECT h.shard, h.run, h.due, h.wake_at, h.at, h.code,
                CASE WHEN h.due = {WAITS} THEN (SELECT min(i.at) FROM inbox i WHERE {unread}) END AS unread,
                CASE WHEN h.due = {WAITS} THEN greatest(h.seen, (SELECT max(i.seq) FROM inbox i
                    WHERE i.shard = h.shard AND i.run = h.run)) ELSE 0 END AS known
            FROM h WHERE h.due > 0 AND {ok}),
        undue AS (DELETE FROM due d USING sleeps z WHERE d.shard = z.shard AND d.run = z.run
            AND (z.due = {ENDS} OR (z.due = {WAITS} AND z.wake_at IS NULL AND z.unread IS NULL
                AND d.seq <= z.known AND NOT d.notified))),
        wakes AS (INSERT INTO due(shard, run, wake_at, code, seq, notified, queue)
            SELECT z.shard, z.run, CASE WHEN z.unread IS NOT NULL THEN least(z.wake_at, z.at, z.unread)
                ELSE coalesce(z.wake_at, r.created_at) END, coalesce(z.code, r.code), z.known, false, r.queue
            FROM sleeps z JOIN runs r ON r.shard = z.shard AND r.id = z.run
            WHERE z.due = {RUNS} OR (z.due = {WAITS} AND (z.wake_at IS NOT NULL OR z.unread IS NOT NULL))
            ON CONFLICT (shard, run) DO UPDATE SET wake_at = CASE WHEN due.notified OR due.seq > EXCLUDED.seq
                    THEN least(due.wake_at, EXCLUDED.wake_at) ELSE EXCLUDED.wake_at END,
                seq = greatest(due.seq, EXCLUDED.seq), code = EXCLUDED.code),
        recoded AS (UPDATE due d SET code = h.code FROM h WHERE d.shard = h.shard AND d.run = h.run
            AND h.code IS NOT NULL AND h.due = 0 AND {ok}),
        recoded_asleep AS (UPDATE due d SET code = z.code FROM sleeps z WHERE d.shard = z.shard AND d.run = z.run
            AND z.code IS NOT NULL AND z.due = {WAITS} AND z.wake_at IS NULL AND z.unread IS NULL
            AND (d.seq > z.known OR d.notified)),
        told AS (INSERT INTO notices(shard, child, parent, at) SELECT shard, run, parent, at FROM h
            WHERE parent IS NOT NULL AND {ok} ON CONFLICT (shard, child) DO UPDATE SET at = EXCLUDED.at)"
    )
}

/// The run has ended: it is not due any more.
pub(crate) const ENDS: i16 = 1;
/// The run waits: it is due at a time or with a message.
pub(crate) const WAITS: i16 = 2;
/// The run is to be claimed at a time, or at once.
pub(crate) const RUNS: i16 = 3;

/// Where journals end, and what else decides why an append was refused.
pub(crate) const LOOK: &str = "
SELECT q.no, r.status, j.frame, j.position + j.count, j.epoch, j.chain,
    EXISTS (SELECT 1 FROM inbox i WHERE i.shard = q.shard AND i.run = q.run AND i.consumed IS NULL
        AND i.topic IN ('cancel', 'terminate'))
FROM unnest($1::int8[], $2::int2[], $3::text[]) AS q(no, shard, run)
    JOIN runs r ON r.shard = q.shard AND r.id = q.run
    CROSS JOIN LATERAL (SELECT l.frame, l.position, l.count, l.epoch, l.chain FROM journal l
        WHERE l.shard = q.shard AND l.run = q.run ORDER BY l.frame DESC LIMIT 1) j";

/// Frames that may have been written although the answer was lost.
pub(crate) const FIND: &str = "
SELECT q.no, j.frame, j.epoch, j.position, j.at, j.events, j.chain
FROM unnest($1::int8[], $2::int2[], $3::text[], $4::int8[]) AS q(no, shard, run, frame)
    JOIN journal j ON j.shard = q.shard AND j.run = q.run AND j.frame = q.frame";

/// Runs that may have been created although the answer was lost.
pub(crate) const FIND_RUNS: &str = "
SELECT q.no FROM unnest($1::int8[], $2::int2[], $3::text[], $4::int8[]) AS q(no, shard, run, place)
    JOIN runs r ON r.shard = q.shard AND r.id = q.run AND r.place = q.place";

/// Which of the keys have no row.
pub(crate) const MISSING: &str = "
SELECT k.key FROM unnest($3::text[]) AS k(key) WHERE NOT EXISTS (SELECT 1 FROM ledger l
    WHERE l.shard = $1::int2 AND l.run = $2::text AND l.key = k.key) LIMIT 1";

/// The row that has the key, or else the business key.
pub(crate) const TAKEN: &str = "
SELECT key, run, command, invocation, tool, digest, business_key, status, result, error, committed, epoch, started_at,
    finished_at FROM ledger
WHERE shard = $1::int2 AND run = $2::text AND (key = $3::text OR (business_key = $4::text AND NOT store_wide))
ORDER BY key <> $3 LIMIT 1";

/// The inbox of a run whose new generation begins: the message with the highest number stays, under an id that no message has,
/// so that numbers go on rising. Where it was consumed before position $3 it is forgotten, as the others are then.
pub(crate) const RENEW_NEWEST: &str = "
UPDATE inbox SET id = chr(1) || 'forgotten ' || seq, topic = '' WHERE shard = $1::int2 AND run = $2::text
    AND consumed < $3::int8 AND seq = (SELECT max(seq) FROM inbox WHERE shard = $1 AND run = $2)";

/// What stood in the journal before frame $5.
pub(crate) const RENEW_JOURNAL: Rows = rows("journal", None, Some("frame"), Some("x.frame < $5"));

/// What else belongs to the generation that ends. Ledger rows that are started (0) or in doubt (3) stay, and so do messages
/// that were not consumed before position $5.
pub(crate) const RENEW_REST: [Rows; 5] = [
    rows("ledger", Some("key"), None, Some("x.business_key IS NULL AND x.status NOT IN (0, 3)")),
    rows(
        "effects",
        Some("key"),
        None,
        Some(
            "NOT EXISTS (SELECT 1 FROM ledger l WHERE l.shard = x.shard AND l.run = x.run AND l.key = x.key)",
        ),
    ),
    rows("snapshots", None, Some("position"), None),
    rows("progress", Some("command"), None, None),
    rows(
        "inbox",
        None,
        Some("seq"),
        Some(
            "x.consumed < $5 AND x.seq < (SELECT max(i.seq) FROM inbox i WHERE i.shard = x.shard AND i.run = x.run)",
        ),
    ),
];

const fn rows(
    table: &'static str,
    text: Option<&'static str>,
    number: Option<&'static str>,
    only: Option<&'static str>,
) -> Rows {
    Rows { table, text, number, only, piece: 500 }
}

/// The run is listed under the workflow of its new generation. A request to end it that was consumed is forgotten.
pub(crate) const RENEW_RUN: &str = "
UPDATE runs r SET workflow = $3::text, version = $4::int8, ending = (SELECT i.seq FROM inbox i
    WHERE i.shard = r.shard AND i.run = r.id AND i.seq = r.ending AND i.consumed IS NULL)
WHERE shard = $1::int2 AND id = $2::text";

/// Ledger rows of a fork. One whose key or business key is taken is left out.
pub(crate) fn copy_ledger() -> String {
    let columns = Acquires::COLUMNS;
    let names: Vec<_> = columns.iter().map(|(name, _)| *name).filter(|name| *name != "no").collect();
    let names = names.join(", ");
    let rows = Given::Arrays.rows("k", columns, &mut 1);
    format!("INSERT INTO ledger({names}) SELECT {names} FROM {rows} WHERE no >= 0 ON CONFLICT DO NOTHING")
}
