//! The statements of claims from queues.
//!
//! Promise: each is a search in an index for each queue, lane, code or scope that it names, and its cost does not depend on
//! how many runs wait. All but the first run in one transaction that has locked the rows of its queues.

use std::sync::LazyLock;

use crate::claims::claim_sql;
use crate::queues::serves::served;

/// Whether a claim would find anything: in queues ($1 now, $3 their names), and among runs that have lapsed ($2 codes).
pub(crate) const WORK: &str = "
SELECT EXISTS (SELECT 1 FROM queues q WHERE ($3::text[] IS NULL OR q.queue = ANY($3))
        AND (EXISTS (SELECT 1 FROM due d WHERE d.queue = q.queue AND d.ready IS NULL AND d.wake_at <= $1::int8)
        OR EXISTS (SELECT 1 FROM due d WHERE d.queue = q.queue AND d.ready IS NOT NULL))),
    EXISTS (SELECT 1 FROM unnest($2::text[]) AS k(code) CROSS JOIN LATERAL (SELECT r.id FROM runs r
        WHERE r.code = k.code AND r.lapses_at IS NOT NULL AND r.owner IS NULL AND r.lapses_at <= $1 LIMIT 1) l)";

/// Locks queues with something to do, the one that was served the longest ago first: $1 now, $2 how many, $3 which, $4 but
/// none of these.
pub(crate) fn lock(skips: bool) -> String {
    let skip = if skips { " SKIP LOCKED" } else { "" };
    format!(
        "SELECT q.queue, q.time FROM queues q WHERE ($3::text[] IS NULL OR q.queue = ANY($3)) AND q.queue <> ALL($4::text[])
            AND (EXISTS (SELECT 1 FROM due d WHERE d.queue = q.queue AND d.ready IS NULL AND d.wake_at <= $1::int8)
            OR EXISTS (SELECT 1 FROM due d WHERE d.queue = q.queue AND d.ready IS NOT NULL))
        ORDER BY q.served LIMIT $2::int8 FOR UPDATE{skip}"
    )
}

/// Locks queues by their names.
pub(crate) const LOCK_NAMED: &str =
    "SELECT q.queue, q.time FROM queues q WHERE q.queue = ANY($1::text[]) ORDER BY q.queue FOR UPDATE";

/// Makes runs ready that have become due, and their lanes active: $1 queues, $2 now, $3 how many of each queue.
pub(crate) const PROMOTE: &str = "
WITH c AS MATERIALIZED (SELECT d.* FROM unnest($1::text[]) AS k(queue)
    CROSS JOIN LATERAL (SELECT u.shard, u.run, u.wake_at, o.queue_key, o.begun, o.rank, o.place, o.code
        FROM due u JOIN runs o ON o.shard = u.shard AND o.id = u.run
        WHERE u.queue = k.queue AND u.ready IS NULL AND u.wake_at <= $2::int8
            AND o.owner IS NULL AND o.status < 3 AND NOT o.parked
        ORDER BY u.wake_at LIMIT $3::int8) d),
p AS (UPDATE due d SET ready = c.wake_at, queue_key = c.queue_key, begun = c.begun, rank = c.rank, place = c.place,
        code = c.code
    FROM c WHERE d.shard = c.shard AND d.run = c.run AND d.ready IS NULL RETURNING d.queue, d.queue_key, d.begun)
INSERT INTO lanes(queue, key, time, state, begun)
SELECT p.queue, p.queue_key, q.time, 0, bool_or(p.begun) FROM p JOIN queues q ON q.queue = p.queue
GROUP BY p.queue, p.queue_key, q.time
ON CONFLICT (queue, key) DO UPDATE SET
    time = CASE WHEN lanes.state = 1 THEN greatest(lanes.time, excluded.time) ELSE lanes.time END,
    state = CASE WHEN lanes.state = 2 AND NOT excluded.begun THEN 2 ELSE 0 END,
    begun = lanes.begun OR excluded.begun
WHERE lanes.state <> 0 OR lanes.begun < excluded.begun";

/// Makes lanes active that new runs have come to: $1 queues, $2 how many keys are looked at, $3 how many of the newest runs.
/// Creating a run touches no lane, so that creations wait for no claim. Where a queue has more keys than are looked at, the
/// next claim looks at the next; a key that is new is found by its run, which is among the newest. These are found in the
/// index of queues alone: the planner would rather read the newest runs of all queues, and of none. What waits of them is
/// looked up run by run (`OFFSET 0`): it would rather hold all that waits against them.
pub(crate) const DISCOVER: &str = "
WITH RECURSIVE k(queue, time, key, n) AS (
    SELECT q.queue, q.time, (SELECT d.queue_key FROM due d WHERE d.queue = q.queue AND d.ready IS NOT NULL
        AND d.queue_key >= q.looked ORDER BY d.queue_key LIMIT 1), 1::int8
    FROM queues q WHERE q.queue = ANY($1::text[])
    UNION ALL
    SELECT k.queue, k.time, (SELECT d.queue_key FROM due d WHERE d.queue = k.queue AND d.ready IS NOT NULL
        AND d.queue_key > k.key ORDER BY d.queue_key LIMIT 1), k.n + 1
    FROM k WHERE k.key IS NOT NULL AND k.n <= $2::int8),
looked AS (UPDATE queues q SET looked = coalesce(e.key, '') FROM (SELECT k.queue, max(k.key) AS key FROM k
        WHERE k.n > $2 OR k.key IS NULL GROUP BY k.queue) e
    WHERE q.queue = e.queue AND q.looked <> coalesce(e.key, '')),
f(queue, time, key) AS (SELECT k.queue, k.time, k.key FROM k WHERE k.key IS NOT NULL
    UNION SELECT q.queue, q.time, n.queue_key FROM queues q
        CROSS JOIN LATERAL (SELECT d.queue_key FROM (SELECT r.shard, r.id FROM runs r WHERE r.queue IS NOT NULL
                    AND (r.queue, r.place) <= (q.queue, 9223372036854775807)
                ORDER BY r.queue DESC, r.place DESC LIMIT $3::int8) r
            CROSS JOIN LATERAL (SELECT u.queue_key FROM due u WHERE u.shard = r.shard AND u.run = r.id
                AND u.queue = q.queue AND u.ready IS NOT NULL OFFSET 0) d) n
    WHERE q.queue = ANY($1))
INSERT INTO lanes(queue, key, time, state, begun)
SELECT f.queue, f.key, f.time, 0, false FROM f WHERE NOT EXISTS
    (SELECT 1 FROM lanes l WHERE l.queue = f.queue AND l.key = f.key AND l.state <> 1)
ON CONFLICT (queue, key) DO UPDATE SET time = greatest(lanes.time, excluded.time), state = 0";

/// Lanes that were set aside until now, or by a clock that was set back since: $2 now, $3 the latest time that lanes are set
/// aside to, $4 that of those which nothing takes until the limits change.
pub(crate) const AGAIN: &str = "
UPDATE lanes l SET state = 0, until = NULL FROM unnest($1::text[]) AS k(queue)
WHERE l.queue = k.queue AND l.state = 2 AND (l.until <= $2::int8 OR (l.until > $3::int8 AND l.until < $4::int8))";

/// The first active lanes that hold a run of one of the codes: $1 queues, $2 codes, $3 how many, $4 patterns that one of
/// them fits, $5 whether only runs that have begun are looked for in that queue, $6 and $7 the lane behind which they are.
/// The second column says whether only runs that have begun were looked for, the last one whether one is ready
/// that has begun, of whatever code.
pub(crate) static LANES: LazyLock<String> = LazyLock::new(|| {
    let served = served("a.queue", "a.key", "true", "$4");
    let arm = |begun: bool, lane: &str, run: &str| {
        format!(
            "SELECT k.queue, {begun} AS begun, l.key, l.time, l.has_begun
            FROM unnest($1::text[], $5::bool[], $6::int8[], $7::text[]) AS k(queue, begun, time, key)
            CROSS JOIN LATERAL (SELECT a.key, a.time, a.begun AND EXISTS (SELECT 1 FROM due b WHERE b.queue = a.queue
                    AND b.queue_key = a.key AND b.begun = true AND b.ready IS NOT NULL) AS has_begun
                FROM lanes a WHERE a.queue = k.queue AND a.state = 0{lane} AND (a.time, a.key) > (k.time, k.key)
                AND EXISTS (SELECT 1 FROM unnest($2::text[]) AS m(code) CROSS JOIN LATERAL (SELECT d.run FROM due d
                    WHERE d.queue = a.queue AND d.queue_key = a.key AND d.begun = {run} AND d.code = m.code
                        AND d.ready IS NOT NULL LIMIT 1) x) AND {served}
                ORDER BY a.time, a.key LIMIT $3::int8) l
            WHERE k.begun = {begun}"
        )
    };
    let any = arm(false, "", "ANY(ARRAY[true, false])");
    format!("{any} UNION ALL {} ORDER BY 1, 2, 4, 3", arm(true, " AND a.begun", "true"))
});

/// The first runs of lanes: $1 queues, $2 keys, $3 codes, $4 how many of each. Where one key has most of what waits, the
/// planner would rather read all open runs of a code and sort them: what is looked up of a run is kept behind `OFFSET 0`, so
/// that the index that has them in order comes first. Of those that are found, the ones that have lapsed until $5 are left out
/// behind the search: they are to be ended, and however many they are, they make it no longer.
pub(crate) const HEADS: &str = "
SELECT n.queue, n.key, b.begun, h.rank, h.place, h.shard, h.run
FROM unnest($1::text[], $2::text[]) AS n(queue, key)
    CROSS JOIN unnest(ARRAY[true, false]) AS b(begun) CROSS JOIN unnest($3::text[]) AS k(code)
    CROSS JOIN LATERAL (SELECT d.rank, d.place, d.shard, d.run, r.lapses_at FROM due d
        CROSS JOIN LATERAL (SELECT o.code, o.owner, o.status, o.parked, o.lapses_at FROM runs o
            WHERE o.shard = d.shard AND o.id = d.run OFFSET 0) r
        WHERE d.queue = n.queue AND d.queue_key = n.key AND d.begun = b.begun AND d.code = k.code
            AND d.ready IS NOT NULL AND r.owner IS NULL AND r.status < 3 AND NOT r.parked AND r.code = d.code
        ORDER BY d.rank, d.place LIMIT $4::int8) h
WHERE b.begun OR h.lapses_at IS NULL OR h.lapses_at > $5::int8";

/// How many runs of each scope there are that a condition holds for, counted up to a number.
pub(crate) fn counts(condition: &str) -> String {
    let some = |key: &str| {
        format!(
            "(SELECT count(*) FROM (SELECT 1 FROM runs r WHERE {condition} AND r.queue = s.queue{key} LIMIT s.most) c)"
        )
    };
    // `0` follows `/`.
    format!(
        "SELECT s.queue, s.prefix, CASE WHEN s.prefix = '' THEN {} ELSE {} + {} END
        FROM unnest($1::text[], $2::text[], $3::int8[]) AS s(queue, prefix, most)",
        some(""),
        some(" AND r.queue_key = s.prefix"),
        some(" AND r.queue_key > s.prefix || '/' AND r.queue_key < s.prefix || '0'")
    )
}

/// Runs with a slot.
pub(crate) static HELD: LazyLock<String> = LazyLock::new(|| counts("r.slot AND r.owner IS NOT NULL"));
/// Runs that have not ended.
pub(crate) static OPEN: LazyLock<String> = LazyLock::new(|| counts("r.queue IS NOT NULL AND r.status < 3"));

/// The starts that decide for how long a limit is reached, and the newest: $1 counters, $2 how many count, $3 how many more
/// may be added.
pub(crate) const STARTS: &str = "
SELECT s.counter, m.newest, t.seq, t.at FROM unnest($1::text[], $2::int8[]) AS s(counter, n)
    CROSS JOIN LATERAL (SELECT x.seq AS newest FROM starts x WHERE x.counter = s.counter
        ORDER BY x.seq DESC LIMIT 1) m
    LEFT JOIN starts t ON t.counter = s.counter AND t.seq BETWEEN m.newest - s.n + 1 AND m.newest - s.n + 1 + $3::int8";

/// Claims ready runs that were picked: $3 shards, $4 ids, $5 when their turns begin.
pub(crate) static CLAIM_PICKED: LazyLock<String> = LazyLock::new(|| {
    claim_sql(&["
c AS MATERIALIZED (SELECT o.shard, o.id AS run, coalesce(q.wake_at, o.created_at) AS wake_at, o.owner, $5::int8 AS began
    FROM unnest($3::int2[], $4::text[]) AS n(shard, id) JOIN runs o ON o.shard = n.shard AND o.id = n.id
    LEFT JOIN due q ON q.shard = o.shard AND q.run = o.id WHERE o.owner IS NULL AND o.status < 3)"])
});

/// Claims runs that only may be ended: $3 codes, $4 now, $5 how many, $6 patterns that one of them fits.
pub(crate) fn claim_lapsed(skips: bool) -> String {
    let lock = if skips { "FOR UPDATE SKIP LOCKED" } else { "" };
    let served = served("r.queue", "r.queue_key", "true", "$6");
    claim_sql(&[&format!(
        "
c AS MATERIALIZED (SELECT l.shard, l.id AS run, l.lapses_at AS wake_at, NULL::text AS owner, NULL::int8 AS began
    FROM unnest($3::text[]) AS k(code) CROSS JOIN LATERAL (SELECT r.shard, r.id, r.lapses_at FROM runs r
        WHERE r.code = k.code AND r.lapses_at IS NOT NULL AND r.owner IS NULL AND r.lapses_at <= $4::int8
            AND r.status < 3 AND NOT r.parked AND {served} ORDER BY r.lapses_at LIMIT $5::int8 {lock}) l LIMIT $5)"
    )])
}

/// What becomes of the lanes that a claim has looked at: $1 queues, $2 keys, $3 times, $4 until when they are set aside.
pub(crate) static SETTLE: LazyLock<String> = LazyLock::new(|| {
    let ready = |begun: &str| {
        format!(
            "EXISTS (SELECT 1 FROM due d WHERE d.queue = n.queue AND d.queue_key = n.key AND d.begun = {begun}
                AND d.ready IS NOT NULL)"
        )
    };
    format!(
        "INSERT INTO lanes(queue, key, time, state, begun, until)
        SELECT n.queue, n.key, n.time, CASE WHEN n.old OR n.new THEN CASE WHEN n.until IS NULL THEN 0 ELSE 2 END ELSE 1 END,
            n.old, CASE WHEN n.old OR n.new THEN n.until END
        FROM (SELECT n.queue, n.key, n.time, n.until, {} AS old, {} AS new
            FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[]) AS n(queue, key, time, until)) n
        ORDER BY n.queue, n.key
        ON CONFLICT (queue, key) DO UPDATE SET time = excluded.time, state = excluded.state, begun = excluded.begun,
            until = excluded.until",
        ready("true"),
        ready("false")
    )
});

/// Lanes that hold no ready run any more are idle: $1 queues, $2 keys.
pub(crate) const IDLE: &str = "
UPDATE lanes l SET state = 1, begun = false, until = NULL FROM unnest($1::text[], $2::text[]) AS n(queue, key)
WHERE l.queue = n.queue AND l.key = n.key AND l.state <> 1 AND NOT EXISTS (SELECT 1 FROM due d
    WHERE d.queue = n.queue AND d.queue_key = n.key AND d.ready IS NOT NULL)";

/// What becomes of the queues: $1 queues, $2 times, $3 now.
pub(crate) const SERVED: &str = "
UPDATE queues q SET time = greatest(q.time, n.time), served = greatest(q.served + 1, $3::int8)
FROM unnest($1::text[], $2::int8[]) AS n(queue, time) WHERE q.queue = n.queue";

/// An idle lane that is not ahead of its queue would begin at the present time anyway.
pub(crate) const FORGET_IDLE: &str = "
DELETE FROM lanes l USING queues q WHERE q.queue = ANY($1::text[]) AND l.queue = q.queue AND l.state = 1
    AND l.time <= q.time";

/// Counts starts: $1 counters, $2 how many, $3 when.
pub(crate) const COUNT_STARTS: &str = "
INSERT INTO starts(counter, seq, at)
SELECT s.counter, coalesce((SELECT x.seq FROM starts x WHERE x.counter = s.counter ORDER BY x.seq DESC LIMIT 1), 0) + g.n,
    $3::int8
FROM unnest($1::text[], $2::int8[]) AS s(counter, added) CROSS JOIN LATERAL generate_series(1, s.added) AS g(n)";

/// Forgets starts that no limit looks at: $1 counters, $2 how many matter.
pub(crate) const FORGET_STARTS: &str = "
DELETE FROM starts t USING unnest($1::text[], $2::int8[]) AS s(counter, keep) WHERE t.counter = s.counter
    AND t.seq <= (SELECT x.seq FROM starts x WHERE x.counter = s.counter ORDER BY x.seq DESC LIMIT 1) - s.keep";

/// Forgets starts of keys that start nothing any more: $1 now, $2 how many.
pub(crate) const FORGET_OLD_STARTS: &str = "
DELETE FROM starts t USING (SELECT x.counter, x.seq FROM starts x
    WHERE x.at < $1::int8 - (SELECT coalesce(max(l.per), 0) FROM limits l WHERE l.kind = 'starts')
    ORDER BY x.at LIMIT $2::int8) o
WHERE t.counter = o.counter AND t.seq = o.seq";

/// Runs of queues among those that are named and free: $1 shards, $2 ids, $3 codes, $4 whether any code will do.
pub(crate) const CHOSEN: &str = "
SELECT o.shard, o.id, o.queue, o.queue_key, o.begun
FROM unnest($1::int2[], $2::text[]) AS n(shard, id) JOIN runs o ON o.shard = n.shard AND o.id = n.id
WHERE o.queue IS NOT NULL AND o.owner IS NULL AND o.status < 3
    AND ($4::bool OR (NOT o.parked AND o.code = ANY($3::text[])))";

/// The times of lanes: $1 queues, $2 keys. One that is idle is no earlier than its queue.
pub(crate) const TIMES: &str = "
SELECT q.queue, n.key, CASE WHEN l.state <> 1 THEN l.time ELSE greatest(l.time, q.time) END
FROM unnest($1::text[], $2::text[]) AS n(queue, key) JOIN queues q ON q.queue = n.queue
    LEFT JOIN lanes l ON l.queue = n.queue AND l.key = n.key";
