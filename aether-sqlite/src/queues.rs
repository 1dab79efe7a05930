//! Queues in the file: ready runs in lanes, limits, and what they count.
//!
//! Promise: runs and slots are taken in the writer's transaction, so no slot is given twice. A slot is a row of a run with
//! an owner and is counted, never stored apart, so none can leak. Each step of a claim is a search in an index.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use aether_core::id::RunId;
use aether_core::queue::{LimitPattern, QueuePlace, QueueScope, Serves};
use aether_core::store::queueing::{Lane, Picker, QueueCounts, QueueTable, TakenRun};
use aether_core::store::{ClaimRequest, Limit, LimitKind, NewRun, QueuePosition, StoreError};

use crate::batch::Batch;
use crate::error::OpError;
use crate::reader;
use crate::row::{self, DAMAGED, OPEN};

impl Batch<'_> {
    /// Sets a limit, and looks again at what the former one kept back.
    pub(crate) fn put_limit(&mut self, limit: &Limit) -> Result<(), OpError> {
        let Limit { pattern, kind } = limit;
        self.conn
            .prepare_cached(
                "INSERT INTO aether_limits(pattern, kind, n, per) VALUES(?1, ?2, ?3, ?4)
                 ON CONFLICT(pattern, kind) DO UPDATE SET n = excluded.n, per = excluded.per",
            )?
            .execute(params![pattern.as_str(), kind.name(), kind.number(), kind.per().map(row::micros)])?;
        self.look_again()
    }

    /// Removes a limit; says whether it was there.
    pub(crate) fn remove_limit(&mut self, pattern: &LimitPattern, kind: &str) -> Result<bool, OpError> {
        let removed = self
            .conn
            .prepare_cached("DELETE FROM aether_limits WHERE pattern = ?1 AND kind = ?2")?
            .execute(params![pattern.as_str(), kind])?;
        if kind == "starts" {
            // A line feed ends the pattern in the names of its counters.
            self.conn
                .prepare_cached(
                    "DELETE FROM aether_starts WHERE counter >= ?1 || char(10) AND counter < ?1 || char(11)",
                )?
                .execute([pattern.as_str()])?;
        }
        self.look_again()?;
        Ok(removed == 1)
    }

    fn look_again(&mut self) -> Result<(), OpError> {
        self.conn
            .prepare_cached("UPDATE aether_lanes SET state = 0, until = NULL WHERE state = 2")?
            .execute([])?;
        Ok(())
    }

    /// The limit that a new run would be over, and how many runs are open.
    pub(crate) fn over_open(&self, new: &NewRun) -> Result<Option<(Limit, u64)>, OpError> {
        let Some(place) = &new.terms.queue else { return Ok(None) };
        for limit in limits(self.conn)? {
            let LimitKind::Open(n) = limit.kind else { continue };
            let Some(scope) = limit.pattern.scope(place) else { continue };
            let open = count(self.conn, "aether_runs_queue_open", OPEN, &scope, u64::from(n))?;
            if open >= u64::from(n) {
                return Ok(Some((limit, open)));
            }
        }
        Ok(None)
    }

    /// Makes a run that was just created ready.
    pub(crate) fn make_ready(&mut self, no: i64, place: &QueuePlace, since: i64) -> Result<(), OpError> {
        Lanes::new(self.conn, []).make_ready(no, &place.queue, &place.key, false, since)
    }

    /// Takes runs of queues within their limits.
    pub(crate) fn take_queued(
        &mut self,
        request: &ClaimRequest,
        most: usize,
    ) -> Result<Vec<TakenRun<i64>>, OpError> {
        let limits = limits(self.conn)?;
        let codes = request.codes.iter().map(|code| code.as_str());
        let picker = Picker::new(&limits, request.now);
        let mut picker = picker.serving(&request.serves).lapsed_first(request.lapsed_first);
        picker.take(&mut Lanes::new(self.conn, codes), most)
    }

    /// Whether a run that was chosen may be claimed: one outside of queues always, and else if there is a slot for it. A run
    /// of a silent worker has its slot. Either way the worker must take such runs.
    pub(crate) fn may_take(&mut self, no: i64, request: &ClaimRequest) -> Result<bool, OpError> {
        let mut statement = self
            .conn
            .prepare_cached("SELECT queue, queue_key, begun, owner IS NULL FROM aether_runs WHERE no = ?1")?;
        let found = statement
            .query_row([no], |row| Ok((row::place(row, 0)?, row.get(2)?, row.get(3)?)))
            .optional()?;
        let Some((place, begun, is_free)): Option<(_, bool, bool)> = found else { return Ok(false) };
        match place {
            Some(place) if is_free => {
                let limits = limits(self.conn)?;
                let mut picker = Picker::new(&limits, request.now).serving(&request.serves);
                picker.take_chosen(&mut Lanes::new(self.conn, []), &no, &place, !begun)
            }
            place => Ok(request.serves.takes(place.as_ref())),
        }
    }
}

/// All limits, by pattern and kind. One of a kind that this build does not know is left out, and so is one that cannot be
/// read.
pub(crate) fn limits(conn: &Connection) -> Result<Vec<Limit>, OpError> {
    let mut statement =
        conn.prepare_cached("SELECT pattern, kind, n, per FROM aether_limits ORDER BY pattern, kind")?;
    row::readable(statement.query([])?, usize::MAX, "a limit", |row| {
        let (pattern, kind): (String, String) = (row.get(0)?, row.get(1)?);
        let per: Option<i64> = row.get(3)?;
        let per: Option<u64> = per.map(|per| row::nat::<StoreError>(per, "span of a limit")).transpose()?;
        let pattern = LimitPattern::new(pattern).map_err(|error| OpError::Row(error.to_string()))?;
        let known = LimitKind::parse(&kind, row.get(2)?, per.map(Duration::from_micros));
        if known.is_none() {
            tracing::warn!(%pattern, kind, "a limit of a newer build is left out");
        }
        Ok(known.map(|kind| Limit { pattern, kind }))
    })
}

/// Why a run has no turn.
pub(crate) fn position(
    conn: &Connection,
    run: &RunId,
    now: Timestamp,
) -> Result<Option<QueuePosition>, OpError> {
    let _snapshot = conn.unchecked_transaction()?;
    let mut statement = conn
        .prepare_cached("SELECT queue, queue_key, begun, rank, no, ready FROM aether_runs WHERE id = ?1")?;
    let mut rows = statement.query([run.as_str()])?;
    let Some(row) = rows.next()? else {
        return Err(OpError::Refused(StoreError::UnknownRun { run: run.clone() }));
    };
    let (Some(queue), Some(since)): (Option<String>, Option<i64>) = (row.get(0)?, row.get(5)?) else {
        return Ok(None);
    };
    let place = QueuePlace { queue, key: row.get(1)?, priority: 0 };
    let (begun, rank, no): (bool, i64, i64) = (row.get(2)?, row.get(3)?, row.get(4)?);
    let ahead: i64 = conn
        .prepare_cached(
            "SELECT count(*) FROM (SELECT 1 FROM aether_runs INDEXED BY aether_runs_ready
             WHERE queue = ?1 AND queue_key = ?2 AND ready IS NOT NULL AND (rank, no) < (?3, ?4) LIMIT ?5)",
        )?
        .query_row(params![place.queue, place.key, rank, no, row::int(QueuePosition::MOST)], |row| {
            row.get(0)
        })?;
    let limits = limits(conn)?;
    let limit = Picker::new(&limits, now).limit_of(&mut Lanes::new(conn, []), &place, !begun)?;
    Ok(Some(QueuePosition { since: row::time(since)?, ahead: row::nat(ahead, "runs ahead")?, limit }))
}

/// How many rows of an index belong to a scope, counted up to `most`.
fn count(
    conn: &Connection,
    index: &str,
    condition: &str,
    scope: &QueueScope,
    most: u64,
) -> Result<u64, OpError> {
    let from = format!("SELECT 1 FROM aether_runs INDEXED BY {index} WHERE {condition} AND queue = ?1");
    let QueueScope { queue, prefix } = scope;
    let most = row::int(most);
    let counted: i64 = if prefix.is_empty() {
        let sql = format!("SELECT count(*) FROM ({from} LIMIT ?2)");
        conn.prepare_cached(&sql)?.query_row(params![queue, most], |row| row.get(0))?
    } else {
        // `0` follows `/`.
        let sql = format!(
            "SELECT count(*) FROM (SELECT * FROM ({from} AND queue_key = ?3) UNION ALL
             SELECT * FROM ({from} AND queue_key > ?3 || '/' AND queue_key < ?3 || '0') LIMIT ?2)"
        );
        conn.prepare_cached(&sql)?.query_row(params![queue, most, prefix], |row| row.get(0))?
    };
    row::nat(counted, "number of runs")
}

/// Queues as one claim sees them.
struct Lanes<'c> {
    conn: &'c Connection,
    codes: BTreeSet<&'c str>,
    /// Numbers of runs that cannot be read. They stay where they are, and are no part of what can be taken.
    damaged: BTreeSet<i64>,
    /// Numbers of runs that were taken. Their rows say so only when they are leased.
    taken: BTreeSet<i64>,
}

impl<'c> Lanes<'c> {
    fn new(conn: &'c Connection, codes: impl IntoIterator<Item = &'c str>) -> Self {
        Self { conn, codes: codes.into_iter().collect(), damaged: BTreeSet::new(), taken: BTreeSet::new() }
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize, OpError> {
        Ok(self.conn.prepare_cached(sql)?.execute(params)?)
    }

    fn make_ready(&self, no: i64, queue: &str, key: &str, begun: bool, since: i64) -> Result<(), OpError> {
        self.execute("UPDATE aether_runs SET ready = ?2 WHERE no = ?1", params![no, since])?;
        self.execute(
            "INSERT INTO aether_queues(queue, time, served) VALUES(?1, 0, 0) ON CONFLICT DO NOTHING",
            [queue],
        )?;
        // A key that was idle begins at the present time of its queue.
        self.execute(
            "INSERT INTO aether_lanes(queue, key, time, state, begun)
             VALUES(?1, ?2, (SELECT time FROM aether_queues WHERE queue = ?1), 0, ?3)
             ON CONFLICT(queue, key) DO UPDATE SET
                 time = CASE state WHEN 1 THEN max(time, excluded.time) ELSE time END,
                 state = CASE WHEN state = 2 AND NOT excluded.begun THEN 2 ELSE 0 END,
                 begun = max(begun, excluded.begun)
             WHERE state <> 0 OR begun < excluded.begun",
            params![queue, key, begun],
        )?;
        Ok(())
    }

    /// The code behind `after` of the ready runs of a lane.
    fn code(&self, queue: &str, key: &str, begun: bool, after: &str) -> Result<Option<String>, OpError> {
        let code = self
            .conn
            .prepare_cached(
                "SELECT code FROM aether_runs INDEXED BY aether_runs_ready
                 WHERE queue = ?1 AND queue_key = ?2 AND begun = ?3 AND code > ?4 AND ready IS NOT NULL
                 ORDER BY code LIMIT 1",
            )?
            .query_row(params![queue, key, begun, after], |row| row.get(0))
            .optional()?;
        Ok(code)
    }

    /// The first run of a code in a lane that can be read: its rank and number.
    fn first(
        &mut self,
        queue: &str,
        key: &str,
        begun: bool,
        code: &str,
    ) -> Result<Option<(i64, i64)>, OpError> {
        let mut statement = self.conn.prepare_cached(
            "SELECT rank, no FROM aether_runs INDEXED BY aether_runs_ready
             WHERE queue = ?1 AND queue_key = ?2 AND begun = ?3 AND code = ?4 AND ready IS NOT NULL
             ORDER BY rank, no LIMIT ?5",
        )?;
        let rows = statement.query(params![queue, key, begun, code, row::int(DAMAGED as u64 + 1)])?;
        let first = row::readable(rows, 1, "a ready run", |row| {
            let first = (row.get(0)?, row.get(1)?);
            Ok(self.is_readable(first.1)?.then_some(first))
        });
        Ok(first?.pop())
    }

    /// Whether the row of a run can be read: before it is taken, since a slot or a start that it had would be lost.
    fn is_readable(&mut self, no: i64) -> Result<bool, OpError> {
        if self.damaged.contains(&no) {
            return Ok(false);
        }
        match reader::holder(self.conn, no) {
            Ok(_) => Ok(true),
            Err(OpError::Row(reason)) => {
                tracing::warn!(number = no, %reason, "a damaged run of a queue is left alone");
                self.damaged.insert(no);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

impl QueueCounts for Lanes<'_> {
    type Error = OpError;

    fn held(&mut self, scope: &QueueScope, most: u64) -> Result<u64, OpError> {
        count(self.conn, "aether_runs_slots", "slot = 1 AND owner IS NOT NULL", scope, most)
    }

    fn start_before(&mut self, counter: &str, n: u32) -> Result<Option<Timestamp>, OpError> {
        let at: Option<i64> = self
            .conn
            .prepare_cached(
                "SELECT at FROM aether_starts WHERE counter = ?1
                     AND seq = (SELECT max(seq) FROM aether_starts WHERE counter = ?1) - ?2 + 1",
            )?
            .query_row(params![counter, n], |row| row.get(0))
            .optional()?;
        // One that is no time is none that could hold others back.
        Ok(at.and_then(|at| row::time::<StoreError>(at).ok()))
    }
}

impl QueueTable for Lanes<'_> {
    type Run = i64;

    fn promote(&mut self, now: Timestamp, latest: Timestamp, most: usize) -> Result<(), OpError> {
        let now = now.as_microsecond();
        let mut statement = self.conn.prepare_cached(
            "SELECT no, queue, queue_key, begun, wake_at FROM aether_runs INDEXED BY aether_runs_queue_due
             WHERE queue IS NOT NULL AND owner IS NULL AND wake_at IS NOT NULL AND wake_at <= ?1
                 AND parked = 0 AND ready IS NULL
             ORDER BY wake_at LIMIT ?2",
        )?;
        let limit = row::int(most as u64);
        let due = row::readable(statement.query([now, limit])?, most, "a due run of a queue", |row| {
            let place: (String, String) = (row.get(1)?, row.get(2)?);
            Ok(Some((row.get(0)?, place, row.get(3)?, row.get(4)?)))
        });
        for (no, (queue, key), begun, since) in due? {
            self.make_ready(no, &queue, &key, begun, since)?;
        }
        self.execute(
            "UPDATE aether_lanes SET state = 0, until = NULL WHERE (queue, key) IN (
                 SELECT queue, key FROM aether_lanes INDEXED BY aether_lanes_aside
                 WHERE state = 2 AND until <= ?1 ORDER BY until LIMIT ?2)",
            [now, limit],
        )?;
        self.execute(
            "UPDATE aether_lanes SET state = 0, until = NULL WHERE (queue, key) IN (
                 SELECT queue, key FROM aether_lanes INDEXED BY aether_lanes_aside
                 WHERE state = 2 AND until > ?1 AND until < ?2 ORDER BY until LIMIT ?3)",
            [latest.as_microsecond(), Timestamp::MAX.as_microsecond(), limit],
        )?;
        Ok(())
    }

    fn lapsed(&mut self, now: Timestamp, most: usize, serves: &Serves) -> Result<Vec<i64>, OpError> {
        let codes = row::json_list(self.codes.iter().copied());
        let mut statement = self.conn.prepare_cached(
            "SELECT no, queue, queue_key FROM aether_runs INDEXED BY aether_runs_lapses
             WHERE lapses_at IS NOT NULL AND owner IS NULL AND parked = 0 AND lapses_at <= ?1
                 AND code IN (SELECT value FROM json_each(?2))
             ORDER BY lapses_at, no",
        )?;
        let rows = statement.query(params![now.as_microsecond(), codes])?;
        let lapsed = row::readable(rows, most, "a run that has expired", |row| {
            let (no, queue, key) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let place = QueuePlace { queue, key, priority: 0 };
            let is_wanted = serves.takes(Some(&place)) && !self.taken.contains(&no);
            let is_wanted = is_wanted && self.is_readable(no)?;
            Ok(is_wanted.then_some((no, place)))
        })?;
        lapsed.iter().try_for_each(|(no, place)| self.take(no, place))?;
        Ok(lapsed.into_iter().map(|(no, _)| no).collect())
    }

    fn queues(&mut self) -> Result<Vec<String>, OpError> {
        let mut statement = self.conn.prepare_cached(
            "SELECT queue FROM aether_queues AS queues
             WHERE EXISTS(SELECT 1 FROM aether_lanes WHERE queue = queues.queue AND state = 0)
             ORDER BY served",
        )?;
        row::readable(statement.query([])?, usize::MAX, "a queue", |row| Ok(Some(row.get(0)?)))
    }

    fn lane(&mut self, queue: &str, after: Option<&Lane>, begun: bool) -> Result<Option<Lane>, OpError> {
        let sql = if begun {
            "SELECT time, key FROM aether_lanes INDEXED BY aether_lanes_begun
             WHERE queue = ?1 AND state = 0 AND begun = 1 AND (time, key) > (?2, ?3) ORDER BY time, key"
        } else {
            "SELECT time, key FROM aether_lanes INDEXED BY aether_lanes_active
             WHERE queue = ?1 AND state = 0 AND (time, key) > (?2, ?3) ORDER BY time, key"
        };
        let (time, key) = after.map_or((i64::MIN, ""), |after| (after.time, &*after.key));
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query(params![queue, time, key])?;
        let lane = |row: &Row<'_>| Ok(Some(Lane { time: row.get(0)?, key: row.get(1)? }));
        Ok(row::readable(rows, 1, "a lane", lane)?.pop())
    }

    fn best(&mut self, queue: &str, key: &str, begun: bool) -> Result<Option<(i64, bool)>, OpError> {
        let mut best: Option<((i64, i64), bool)> = None;
        // One search for each code that the lane holds, and not for each that the worker knows.
        for begun in if begun { &[true][..] } else { &[true, false] } {
            let mut after = String::new();
            while let Some(code) = self.code(queue, key, *begun, &after)? {
                if self.codes.contains(&*code)
                    && let Some(first) = self.first(queue, key, *begun, &code)?
                    && best.is_none_or(|(known, _)| first < known)
                {
                    best = Some((first, !begun));
                }
                after = code;
            }
        }
        Ok(best.map(|((_, no), is_new)| (no, is_new)))
    }

    fn has_begun(&mut self, queue: &str, key: &str) -> Result<bool, OpError> {
        Ok(self.code(queue, key, true, "")?.is_some())
    }

    fn has_lapsed(&mut self, run: &i64, now: Timestamp) -> Result<bool, OpError> {
        let mut lapsed =
            self.conn.prepare_cached("SELECT 1 FROM aether_runs WHERE no = ?1 AND lapses_at <= ?2")?;
        Ok(lapsed.exists(params![run, now.as_microsecond()])?)
    }

    fn take(&mut self, run: &i64, place: &QueuePlace) -> Result<(), OpError> {
        self.taken.insert(*run);
        self.execute("UPDATE aether_runs SET ready = NULL WHERE no = ?1", [run])?;
        self.settle(&place.queue, &place.key)
    }

    fn settle(&mut self, queue: &str, key: &str) -> Result<(), OpError> {
        let ready = |begun: u8| {
            format!(
                "EXISTS(SELECT 1 FROM aether_runs INDEXED BY aether_runs_ready
                 WHERE queue = ?1 AND queue_key = ?2 AND begun = {begun} AND ready IS NOT NULL)"
            )
        };
        let (new, begun) = (ready(0), ready(1));
        self.execute(
            &format!(
                "UPDATE aether_lanes SET begun = {begun},
                     state = CASE WHEN {begun} OR {new} THEN state ELSE 1 END
                 WHERE queue = ?1 AND key = ?2"
            ),
            [queue, key],
        )?;
        Ok(())
    }

    fn set_aside(&mut self, queue: &str, key: &str, until: Timestamp) -> Result<(), OpError> {
        self.execute(
            "UPDATE aether_lanes SET state = 2, until = ?3 WHERE queue = ?1 AND key = ?2",
            params![queue, key, until.as_microsecond()],
        )?;
        Ok(())
    }

    fn charge(&mut self, queue: &str, key: &str, began: i64, ends: i64) -> Result<(), OpError> {
        self.execute(
            "INSERT INTO aether_lanes(queue, key, time, state, begun) VALUES(?1, ?2, ?3, 1, 0)
             ON CONFLICT(queue, key) DO UPDATE SET time = excluded.time",
            params![queue, key, ends],
        )?;
        self.execute(
            "INSERT INTO aether_queues(queue, time, served)
             VALUES(?1, ?2, coalesce((SELECT max(served) FROM aether_queues), 0) + 1)
             ON CONFLICT(queue) DO UPDATE SET time = max(time, excluded.time), served = excluded.served",
            params![queue, began],
        )?;
        // An idle lane that is not ahead of its queue would begin at the present time anyway.
        self.execute(
            "DELETE FROM aether_lanes WHERE queue = ?1 AND state = 1
                 AND time <= (SELECT time FROM aether_queues WHERE queue = ?1)",
            [queue],
        )?;
        Ok(())
    }

    fn time(&mut self, queue: &str, key: &str) -> Result<i64, OpError> {
        // An active lane may be behind the time of its queue for a while, because it had no room.
        let time = self
            .conn
            .prepare_cached(
                "SELECT coalesce(
                     (SELECT CASE state WHEN 1 THEN max(time, coalesce(
                          (SELECT time FROM aether_queues WHERE queue = ?1), 0)) ELSE time END
                      FROM aether_lanes WHERE queue = ?1 AND key = ?2),
                     (SELECT time FROM aether_queues WHERE queue = ?1), 0)",
            )?
            .query_row([queue, key], |row| row.get(0))?;
        Ok(time)
    }

    fn count_start(&mut self, counter: &str, keep: u32, at: Timestamp) -> Result<(), OpError> {
        let at = at.as_microsecond();
        self.execute(
            "INSERT INTO aether_starts(counter, seq, at)
             SELECT ?1, coalesce(max(seq), 0) + 1, ?2 FROM aether_starts WHERE counter = ?1",
            params![counter, at],
        )?;
        self.execute(
            "DELETE FROM aether_starts WHERE counter = ?1
                 AND seq <= (SELECT max(seq) FROM aether_starts WHERE counter = ?1) - ?2",
            params![counter, keep],
        )?;
        // What no limit looks at any more, of keys that start nothing: two go for one that comes.
        self.execute(
            "DELETE FROM aether_starts WHERE (counter, seq) IN (
                 SELECT counter, seq FROM aether_starts WHERE at < ?1
                     - (SELECT coalesce(max(per), 0) FROM aether_limits WHERE kind = 'starts')
                 ORDER BY at LIMIT 2)",
            [at],
        )?;
        Ok(())
    }
}
