//! Claiming runs: due ones, those of silent workers, and those that are named.
//!
//! Promise: a claim is one statement. It writes a fence into each run's journal: a frame of no events, of the next epoch,
//! where the next frame would be. The journal's key lets only one frame be there, so that of two workers one gets the run,
//! and an append of the former owner either stands before the fence or is refused. A claim whose answer was lost is found
//! by the token in its fences: its runs are in the answer to the same call or to the worker's next one. A run whose row
//! cannot be read keeps no other one from being claimed: it is released, to be looked at again later.

use std::sync::LazyLock;
use std::time::Instant;

use tokio::time::timeout;
use tokio_postgres::Row;

use aether_core::id::{CodeId, RunId, WorkerId};
use aether_core::store::queueing::places_of_queues;
use aether_core::store::{ClaimRequest, Lease, StoreError};

use crate::claimed::{Attempts, Given, Unreadable};
use crate::connection::{Connection, Param};
use crate::database::{Database, ask};
use crate::error::OpError;
use crate::placement::search::at;
use crate::queues::serves::{patterns, served};
use crate::row::{self, get};
use crate::runs::{COLUMNS, EPOCH, OWN, OWNER, record};
use crate::shard::shard;
use crate::writer::Head;

/// For longer than this no commit of a server waits for its disk.
const COMMIT_STALLS: std::time::Duration = std::time::Duration::from_secs(15 * 60);

/// For so long another database is asked for lost claims: less than the others are given for a whole claim.
const ELSEWHERE: std::time::Duration = std::time::Duration::from_millis(500);

/// For so long a run whose row cannot be read is not claimed again, in microseconds.
const UNREADABLE: i64 = 60_000_000;

/// One statement claims no more runs than this: it stays short, and others find the rest.
const MOST: usize = 64;

/// Who can be taken over: workers that are locked here until the claim is written, so that a renewal comes either before it
/// or after it. One that is not known has never renewed.
const QUIET: &str = "
known AS MATERIALIZED (SELECT w.id FROM unnest($3::text[], $4::int8[]) AS s(id, renewals)
    JOIN workers w ON w.id = s.id WHERE w.renewals = s.renewals FOR SHARE OF w),
quiet AS MATERIALIZED (SELECT id FROM known UNION ALL SELECT s.id FROM unnest($3, $4) AS s(id, renewals)
    WHERE s.renewals = 0 AND NOT EXISTS (SELECT FROM workers w WHERE w.id = s.id))";

/// Due runs without an owner, the longest due first: $3 codes, $4 now, $5 low-water mark, $6 limit. A look without locks says
/// how many runs of each code are wanted; only so many are locked. It leaves out runs that are held: their rows, of messages
/// and notices, would take the places of free runs of other code for as long as they are held. `o.code || ''` is in no
/// index: where most open runs are of one code, the planner would rather read all of them and sort.
static DUE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "
peek AS MATERIALIZED (SELECT k.code FROM unnest($3::text[]) AS k(code)
    CROSS JOIN LATERAL (SELECT q.wake_at FROM due q {OF_DUE}
            AND q.wake_at <= $4::int8 AND q.wake_at > $5::int8 AND q.queue IS NULL
        ORDER BY q.wake_at LIMIT $6::int8) p
    ORDER BY p.wake_at LIMIT $6),
c AS MATERIALIZED (SELECT d.shard, d.run, d.wake_at, NULL::text AS owner, NULL::int8 AS began
    FROM (SELECT code, count(*) AS share FROM peek GROUP BY code) AS k
    CROSS JOIN LATERAL (SELECT q.shard, q.run, q.wake_at FROM due q
        JOIN runs o ON o.shard = q.shard AND o.id = q.run
        WHERE q.code = k.code AND q.wake_at <= $4 AND q.wake_at > $5 AND q.queue IS NULL
            AND o.owner IS NULL AND o.status < 3 AND NOT o.parked AND o.code || '' = k.code
        ORDER BY q.wake_at LIMIT k.share FOR NO KEY UPDATE OF q, o SKIP LOCKED) d)"
    )
});

/// As [`DUE`], without a lock: of claims that find the same runs, one gets them, and the others look again.
const DUE_UNLOCKED: &str = "
c AS MATERIALIZED (SELECT d.shard, d.run, d.wake_at, NULL::text AS owner, NULL::int8 AS began
    FROM unnest($3::text[]) AS k(code)
    CROSS JOIN LATERAL (SELECT q.shard, q.run, q.wake_at FROM due q
        JOIN runs o ON o.shard = q.shard AND o.id = q.run
        WHERE q.code = k.code AND q.wake_at <= $4::int8 AND q.wake_at > $5::int8 AND q.queue IS NULL
            AND o.owner IS NULL AND o.status < 3 AND NOT o.parked AND o.code || '' = k.code
        ORDER BY q.wake_at LIMIT $6::int8) d
    ORDER BY d.wake_at LIMIT $6)";

/// Runs of silent workers: $5 codes, $6 now, $7 limit, $8 whether runs outside of queues, $9 patterns of queues. One without
/// a row in `due` is due, and so is one that was being advanced, whatever the time of a message to it.
const TAKEN_OVER: &str = "
c AS MATERIALIZED (SELECT o.shard, o.id AS run, coalesce(q.wake_at, o.created_at) AS wake_at, o.owner, NULL::int8 AS began
    FROM quiet JOIN runs o ON o.owner = quiet.id LEFT JOIN due q ON q.shard = o.shard AND q.run = o.id
    WHERE o.status < 3 AND NOT o.parked AND o.code = ANY($5::text[])
        AND (q.wake_at IS NULL OR q.wake_at <= $6::int8 OR o.status = 1) AND {served}
    LIMIT $7::int8 FOR UPDATE OF o SKIP LOCKED)";

/// As [`TAKEN_OVER`], without a lock: a run that another claim gets is left alone.
static TAKEN_OVER_UNLOCKED: LazyLock<String> =
    LazyLock::new(|| TAKEN_OVER.replace(" FOR UPDATE OF o SKIP LOCKED", ""));

/// Runs by their ids: $5 shards, $6 ids, $7 codes, $8 whether any code will do, and parked ones, $9 whether runs outside of
/// queues, $10 patterns of queues.
const NAMED: &str = "
c AS MATERIALIZED (SELECT o.shard, o.id AS run, coalesce(q.wake_at, o.created_at) AS wake_at, o.owner, NULL::int8 AS began
    FROM unnest($5::int2[], $6::text[]) AS n(shard, id) JOIN runs o ON o.shard = n.shard AND o.id = n.id
    LEFT JOIN due q ON q.shard = o.shard AND q.run = o.id
    WHERE o.status < 3 AND ((o.owner IS NULL AND o.queue IS NULL) OR o.owner IN (SELECT id FROM quiet))
        AND ($8::bool OR (NOT o.parked AND o.code = ANY($7::text[]))) AND {served})";

/// Claims the runs of `c`: $1 worker, $2 token. A run whose journal got another frame meanwhile is left alone. Who lost a run
/// learns it at its next renewal.
pub(crate) fn claim_sql(candidates: &[&str]) -> String {
    let candidates = candidates.join(",");
    format!(
        "WITH {candidates},
        last AS MATERIALIZED (SELECT c.wake_at, c.owner, c.began, j.* FROM c CROSS JOIN LATERAL (SELECT l.* FROM journal l
            WHERE l.shard = c.shard AND l.run = c.run ORDER BY l.frame DESC LIMIT 1) j WHERE NOT j.final),
        fenced AS (INSERT INTO journal(shard, run, frame, position, count, at, epoch, final, events, chain)
            SELECT shard, run, frame + 1, position + count, 0, at, epoch + 1, false, $2::text, chain FROM last
            ORDER BY shard, run ON CONFLICT DO NOTHING RETURNING shard, run, epoch),
        gone AS (DELETE FROM due d USING fenced f WHERE d.shard = f.shard AND d.run = f.run),
        told AS (INSERT INTO lost(worker, shard, run, epoch) SELECT w.id, f.shard, f.run, l.epoch FROM fenced f
            JOIN last l ON l.shard = f.shard AND l.run = f.run JOIN workers w ON w.id = l.owner
            ON CONFLICT DO NOTHING),
        owned AS (UPDATE runs r SET owner = $1::text, epoch = f.epoch,
                slot = CASE WHEN r.queue IS NULL OR l.owner IS NOT NULL THEN r.slot ELSE l.began IS NOT NULL END,
                begun = r.begun OR l.began IS NOT NULL, started_at = coalesce(r.started_at, l.began),
                lapses_at = CASE WHEN l.began IS NULL THEN r.lapses_at END FROM fenced f
            JOIN last l ON l.shard = f.shard AND l.run = f.run WHERE r.shard = f.shard AND r.id = f.run
            RETURNING {OWN}, l.at, l.position + l.count AS next, f.epoch, r.created_at AS wake, NULL::int8 AS ready, l.owner AS former,
                l.wake_at AS due, l.frame + 1 AS frame, l.chain)
        SELECT * FROM owned ORDER BY due, place"
    )
}

pub(crate) static CLAIM_DUE: LazyLock<String> = LazyLock::new(|| claim_sql(&[&DUE]));
static CLAIM_DUE_UNLOCKED: LazyLock<String> = LazyLock::new(|| claim_sql(&[DUE_UNLOCKED]));
pub(crate) static CLAIM_TAKEN_OVER: LazyLock<String> = LazyLock::new(|| claim_taken_over(TAKEN_OVER));
static CLAIM_TAKEN_OVER_UNLOCKED: LazyLock<String> = LazyLock::new(|| claim_taken_over(&TAKEN_OVER_UNLOCKED));

fn claim_taken_over(candidates: &str) -> String {
    claim_sql(&[QUIET, &candidates.replace("{served}", &served("o.queue", "o.queue_key", "$8", "$9"))])
}

static CLAIM_NAMED: LazyLock<String> = LazyLock::new(|| {
    claim_sql(&[QUIET, &NAMED.replace("{served}", &served("o.queue", "o.queue_key", "$9", "$10"))])
});

/// Runs of a worker whose newest frame is a fence with one of these tokens: what claims got whose answers were lost.
static OF_TOKENS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {OWN}, l.at, l.position + l.count, l.epoch, r.created_at, NULL::int8, former.worker, l.events, l.frame, l.chain
        FROM runs r CROSS JOIN LATERAL (SELECT j.* FROM journal j WHERE j.shard = r.shard AND j.run = r.id
            ORDER BY j.frame DESC LIMIT 1) l
        LEFT JOIN LATERAL (SELECT t.worker FROM lost t WHERE t.shard = r.shard AND t.run = r.id
            AND t.epoch = l.epoch - 1 LIMIT 1) former ON true
        WHERE r.owner = $1::text AND l.count = 0 AND l.events = ANY($2::text[]) ORDER BY r.place"
    )
});

/// What is looked up of a run whose row in `due` was found: whether a claim could take it. The planner must not turn it
/// round: see [`DUE`].
const OF_DUE: &str = "CROSS JOIN LATERAL (SELECT o.code, o.owner, o.status, o.parked FROM runs o
        WHERE o.shard = q.shard AND o.id = q.run OFFSET 0) r
    WHERE q.code = k.code AND r.owner IS NULL AND r.status < 3 AND NOT r.parked AND r.code = k.code";

/// Whether a claim of due runs would find any: $1 codes, $2 now.
static ANY_DUE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT 1 FROM unnest($1::text[]) AS k(code) CROSS JOIN LATERAL (SELECT q.run FROM due q {OF_DUE}
            AND q.wake_at <= $2::int8 AND q.queue IS NULL ORDER BY q.wake_at LIMIT 1) d LIMIT 1"
    )
});

/// When the first runs are due that a claim would get: $1 codes, $2 now, $3 limit. Runs of queues are in an index of their own.
static FIRST_DUE: LazyLock<String> = LazyLock::new(|| {
    let first = |of: &str| {
        format!(
            "(SELECT q.wake_at FROM due q {OF_DUE} AND q.wake_at <= $2::int8 AND q.queue {of}
                ORDER BY q.wake_at LIMIT $3::int8)"
        )
    };
    format!(
        "SELECT d.wake_at FROM unnest($1::text[]) AS k(code) CROSS JOIN LATERAL ({} UNION ALL {}) d
        ORDER BY d.wake_at LIMIT $3",
        first("IS NULL"),
        first("IS NOT NULL")
    )
});

impl Database {
    /// When the runs are due, in order, that a claim would get now.
    pub(crate) async fn first_due(&self, request: &ClaimRequest) -> Result<Vec<i64>, StoreError> {
        let (codes, now) = (distinct(&request.codes), row::micros(request.now));
        let limit = number(request.limit.min(MOST));
        ask!(self, |conn| {
            let rows = conn.query(&FIRST_DUE, &[&codes, &now, &limit]).await?;
            rows.iter().map(|row| get(row, 0)).collect()
        })
    }

    /// Claims runs for a worker. Runs of an earlier claim of the worker whose answer was lost come first.
    pub(crate) async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Lease>, StoreError> {
        let (leases, given) = self.claim_parts(request).await?;
        self.delivered(given);
        Ok(leases)
    }

    /// The caller has what a claim got.
    pub(crate) fn delivered(&self, given: Given<'_>) {
        given.delivered(self.late());
    }

    /// As [`Database::claim`], for a caller that does more before it has its answer: what it drops is found by the worker's
    /// next claim.
    pub(crate) async fn claim_parts(
        &self,
        request: &ClaimRequest,
    ) -> Result<(Vec<Lease>, Given<'_>), StoreError> {
        let mut given = Given::default();
        let leases = self.claim_all(request, &mut given).await?;
        let refused = self.release_unreadable(request).await;
        match refused.filter(|_| leases.is_empty()) {
            Some(run) => {
                self.delivered(given);
                Err(self.corrupt(run.reason))
            }
            None => Ok((leases, given)),
        }
    }

    /// As [`Database::claim_parts`], of what silent workers hold alone. What of it nobody can read is released by a claim that
    /// follows.
    pub(crate) async fn take_over_parts(
        &self,
        request: &ClaimRequest,
    ) -> Result<(Vec<Lease>, Given<'_>), StoreError> {
        let mut given = Given::default();
        let leases = self.claim_silent(request, &mut given).await?;
        Ok((leases, given))
    }

    /// Releases what claims got and nobody can read; what cannot be released now is released by a later claim. Gives one that
    /// the request has named.
    async fn release_unreadable(&self, request: &ClaimRequest) -> Option<Unreadable> {
        let mut named = None;
        let wake_at = row::micros(request.now).saturating_add(UNREADABLE);
        for run in self.claims.unreadable() {
            match self.release_where_it_is(&run, wake_at).await {
                Ok(_) => self.claims.is_released(&run),
                Err(error) => tracing::warn!(run = run.id, %error, "a damaged run could not be released"),
            }
            let is_named = |id: &RunId| id.as_str() == run.id;
            if request.only.iter().chain(&request.adopt).any(is_named) {
                named = Some(run);
            }
        }
        named
    }

    async fn release_where_it_is(&self, run: &Unreadable, wake_at: i64) -> Result<bool, StoreError> {
        match self.peers.get().and_then(|peers| peers.shared.upgrade()) {
            Some(shared) => {
                at!(shared, &run.id, |db| db.release_row(&run.owner, &run.id, run.epoch, wake_at))
            }
            None => self.release_row(&run.owner, &run.id, run.epoch, wake_at).await,
        }
    }

    async fn claim_all<'d>(
        &'d self,
        request: &ClaimRequest,
        given: &mut Given<'d>,
    ) -> Result<Vec<Lease>, StoreError> {
        let mut leases = self.claim_silent(request, given).await?;
        if !request.adopt.is_empty() {
            for runs in request.adopt.chunks(MOST) {
                leases.extend(self.claim_chosen(request, runs, true, given).await?);
                leases.extend(self.claim_named(request, runs, true, given).await?);
            }
            return Ok(leases);
        }
        if let Some(only) = &request.only {
            let only = std::slice::from_ref(only);
            leases.extend(self.claim_chosen(request, only, false, given).await?);
            leases.extend(self.claim_named(request, only, false, given).await?);
            return Ok(leases);
        }
        let room = |leases: &[Lease]| room(request, leases);
        if room(&leases) == 0 {
            return Ok(leases);
        }
        // Half of what is left is for runs of queues, and what the others leave.
        let share = places_of_queues(room(&leases), room(&leases), request.others_first);
        let queued = self.claim_queued(request, share, given).await?;
        let may_have_more = queued.len() >= share;
        leases.extend(queued);
        if room(&leases) > 0 {
            leases.extend(self.claim_due(request, room(&leases), given).await?);
        }
        if may_have_more && room(&leases) > 0 {
            leases.extend(self.claim_queued(request, room(&leases), given).await?);
        }
        Ok(leases)
    }

    /// What earlier claims got whose answers were lost; then, unless runs are named, what silent workers hold.
    async fn claim_silent<'d>(
        &'d self,
        request: &ClaimRequest,
        given: &mut Given<'d>,
    ) -> Result<Vec<Lease>, StoreError> {
        self.say_present(&request.worker).await;
        let mut leases = self.recover_claims(&request.worker, given).await?;
        let is_named = !request.adopt.is_empty() || request.only.is_some();
        let room = room(request, &leases);
        if !is_named && !request.silent.is_empty() && room > 0 {
            leases.extend(self.take_over(request, room, given).await?);
        }
        Ok(leases)
    }

    async fn claim_due<'d>(
        &'d self,
        request: &ClaimRequest,
        limit: usize,
        given: &mut Given<'d>,
    ) -> Result<Vec<Lease>, StoreError> {
        let codes = distinct(&request.codes);
        if codes.is_empty() || !request.serves.others {
            return Ok(Vec::new());
        }
        if self.options.portable {
            return self.claim_due_unlocked(request, &codes, limit, given).await;
        }
        let now = row::micros(request.now);
        let (low, is_full) = self.claims.low_water(&codes, Instant::now());
        let since = Instant::now();
        let params: [Param<'_>; 4] = [&codes, &now, &low, &number(limit)];
        let (leases, due) = self.claim_with(&CLAIM_DUE, &request.worker, &params, given).await?;
        if is_full {
            self.claims.looked(since.elapsed());
        }
        if let Some(due) = due {
            self.claims.claimed(due);
        }
        if leases.is_empty() && is_full && self.claims.may_tidy(Instant::now()) {
            self.tidy(&codes, now).await?;
        }
        Ok(leases)
    }

    /// Without locks: claims that were made at the same time found the same runs. Who got none looks again.
    async fn claim_due_unlocked<'d>(
        &'d self,
        request: &ClaimRequest,
        codes: &[&str],
        limit: usize,
        given: &mut Given<'d>,
    ) -> Result<Vec<Lease>, StoreError> {
        let now = row::micros(request.now);
        let mut got = Vec::new();
        for _ in 0..64 {
            let wanted = number(limit.saturating_sub(got.len()));
            let params: [Param<'_>; 4] = [&codes, &now, &i64::MIN, &wanted];
            got.extend(self.claim_with(&CLAIM_DUE_UNLOCKED, &request.worker, &params, given).await?.0);
            if got.len() >= limit {
                break;
            }
            let more = ask!(self, |conn| Ok(conn.query_opt(&ANY_DUE, &[&codes, &now]).await?.is_some()))?;
            if !more {
                break;
            }
        }
        Ok(got)
    }

    async fn take_over<'d>(
        &'d self,
        request: &ClaimRequest,
        limit: usize,
        given: &mut Given<'d>,
    ) -> Result<Vec<Lease>, StoreError> {
        let (workers, renewals) = self.silent_here(&request.silent);
        let (codes, now) = (distinct(&request.codes), row::micros(request.now));
        let (others, patterns) = (request.serves.others, patterns(&request.serves));
        let params: [Param<'_>; 7] = [&workers, &renewals, &codes, &now, &number(limit), &others, &patterns];
        let sql = if self.options.portable { &CLAIM_TAKEN_OVER_UNLOCKED } else { &CLAIM_TAKEN_OVER };
        Ok(self.claim_with(sql, &request.worker, &params, given).await?.0)
    }

    async fn claim_named<'d>(
        &'d self,
        request: &ClaimRequest,
        runs: &[RunId],
        any: bool,
        given: &mut Given<'d>,
    ) -> Result<Vec<Lease>, StoreError> {
        let (workers, renewals) = self.silent_here(&request.silent);
        let shards: Vec<i16> = runs.iter().map(|run| shard(run.as_str())).collect();
        let ids: Vec<_> = runs.iter().map(RunId::as_str).collect();
        let codes = distinct(&request.codes);
        let (others, patterns) = (request.serves.others, patterns(&request.serves));
        let params: [Param<'_>; 8] = [&workers, &renewals, &shards, &ids, &codes, &any, &others, &patterns];
        Ok(self.claim_with(&CLAIM_NAMED, &request.worker, &params, given).await?.0)
    }

    /// One claim, made again after an error; what a try got whose answer was lost is found, now or by the worker's next claim.
    /// Also gives when the last of its runs was due.
    pub(crate) async fn claim_with<'d>(
        &'d self,
        sql: &str,
        worker: &WorkerId,
        params: &[Param<'_>],
        given: &mut Given<'d>,
    ) -> Result<(Vec<Lease>, Option<i64>), StoreError> {
        // Kept as lost until the answer is here: the caller may stop waiting for it at any moment.
        let mut tries = self.claims.tries(worker);
        let answer = ask!(self, |conn| {
            let found = self.of_lost(conn, worker, &mut tries).await?;
            if !found.is_empty() {
                return Ok((found, None));
            }
            let (name, token) = (worker.as_str(), tries.token());
            let params: Vec<Param<'_>> =
                [&name as Param<'_>, &token].into_iter().chain(params.iter().copied()).collect();
            let rows = tries.noting(conn.query(sql, &params).await)?;
            let due = rows.last().map(|row| get(row, COLUMNS + 1)).transpose()?;
            Ok((self.leases(&rows)?, due))
        })?;
        given.part(tries);
        Ok(answer)
    }

    /// What earlier tries of a claim got whose answers were lost.
    pub(crate) async fn of_lost(
        &self,
        conn: &Connection,
        worker: &WorkerId,
        tries: &mut Attempts<'_>,
    ) -> Result<Vec<Lease>, OpError> {
        let tokens = tries.lost();
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        let (leases, found) = self.of_tokens(conn, worker, &tokens).await?;
        tries.found(&found);
        Ok(leases)
    }

    /// The runs that claims of `worker` got and that it was not told of.
    async fn recover_claims<'d>(
        &'d self,
        worker: &WorkerId,
        given: &mut Given<'d>,
    ) -> Result<Vec<Lease>, StoreError> {
        let look = self.claims.look(worker, Instant::now());
        let tokens = look.tokens();
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        let (mut leases, mut found) = ask!(self, |conn| self.of_tokens(conn, worker, tokens).await)?;
        // Their buckets may have moved meanwhile.
        let shared = self.peers.get().and_then(|peers| peers.shared.upgrade());
        let others = shared.iter().flat_map(|shared| shared.reachable());
        let mut asked = 1;
        for (_, other) in others.filter(|(_, other)| !std::ptr::eq(other.as_ref(), self)) {
            let there = async { ask!(other, |conn| other.of_tokens(conn, worker, tokens).await) };
            // One that is away must not keep back what was found here.
            let answer: Result<Result<_, StoreError>, _> = timeout(ELSEWHERE, there).await;
            if let Ok(Ok((more, tokens))) = answer {
                asked += 1;
                leases.extend(more);
                found.extend(tokens);
            }
        }
        // What was not looked for everywhere may be where it was not looked for.
        let is_everywhere = shared.is_none_or(|shared| asked == shared.all().len());
        given.looked_for(look.found(found, is_everywhere));
        Ok(leases)
    }

    /// What claims of `worker` with one of these tokens got, and their tokens.
    pub(crate) async fn of_tokens(
        &self,
        conn: &Connection,
        worker: &WorkerId,
        tokens: &[String],
    ) -> Result<(Vec<Lease>, Vec<String>), OpError> {
        let rows = conn.query(OF_TOKENS.as_str(), &[&worker.as_str(), &tokens]).await?;
        let found = rows.iter().map(|row| get(row, COLUMNS + 1)).collect::<Result<_, _>>()?;
        Ok((self.leases(&rows)?, found))
    }

    /// Reads what a claim gave; what of it cannot be read is noted, to be released. The writer learns where the journals end.
    pub(crate) fn leases(&self, rows: &[Row]) -> Result<Vec<Lease>, OpError> {
        let mut leases = Vec::with_capacity(rows.len());
        for row in rows {
            match lease(row) {
                Ok((lease, head)) => {
                    self.heads.set(&lease.run.id, head);
                    leases.push(lease);
                }
                Err(OpError::Row(reason)) => {
                    let (id, owner, epoch) = (get(row, 0)?, get(row, OWNER)?, get(row, EPOCH)?);
                    tracing::warn!(run = id, %reason, "a damaged run is left alone");
                    self.claims.note_unreadable(Unreadable { id, owner, epoch, reason });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(leases)
    }

    /// How long after its connection broke a statement may still be carried out. No timeout ends a commit that waits for
    /// the server's disk or for a standby, and there may be none.
    fn late(&self) -> std::time::Duration {
        COMMIT_STALLS + self.options.statement_timeout + self.options.lock_timeout
    }
}

/// A claimed run, and where its journal ends.
fn lease(row: &Row) -> Result<(Lease, Head), OpError> {
    let former: Option<String> = get(row, COLUMNS)?;
    let run = record(row)?;
    let head = Head { frame: get(row, COLUMNS + 2)?, chain: row::chain(get(row, COLUMNS + 3)?)? };
    Ok((Lease { run, taken_from: former.map(WorkerId::from) }, head))
}

/// For how many runs a claim that has some has room.
fn room(request: &ClaimRequest, leases: &[Lease]) -> usize {
    request.limit.min(MOST).saturating_sub(leases.len())
}

/// Each code once.
pub(crate) fn distinct(codes: &[CodeId]) -> Vec<&str> {
    let mut codes: Vec<_> = codes.iter().map(CodeId::as_str).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

pub(crate) fn number(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers that are only compatible may not know it.
    #[test]
    fn claims_without_locks_skip_none() {
        for sql in [&CLAIM_DUE_UNLOCKED, &CLAIM_TAKEN_OVER_UNLOCKED, &CLAIM_NAMED] {
            assert!(!sql.contains("SKIP LOCKED"), "{}", sql.as_str());
        }
        assert!(!CLAIM_TAKEN_OVER_UNLOCKED.contains("FOR UPDATE OF"));
        assert!(CLAIM_TAKEN_OVER.contains("FOR UPDATE OF o SKIP LOCKED"));
    }
}
