//! Runs of queues: claims within limits.
//!
//! Promise: a claim locks the rows of its queues, counts, picks and writes in one transaction, so that two claims never
//! take the same slot. A slot is a row of a run with an owner and is counted, never stored apart, so none can leak. All
//! runs of a queue are in one database.

mod lanes;
pub(crate) mod limits;
pub(crate) mod serves;
mod sql;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use aether_core::id::{CodeId, RunId};
use aether_core::queue::{QueuePlace, Serves};
use aether_core::store::queueing::{Picker, aside_at_most, counter, places_of_lapsed};
use aether_core::store::{ClaimRequest, Lease, Limit, LimitKind, StoreError};
use jiff::Timestamp;

use crate::claimed::Given;
use crate::claims::{distinct, number};
use crate::connection::{Connection, Param, Transaction};
use crate::database::{Database, ask};
use crate::error::{Failure, OpError, failure};
use crate::queues::lanes::{LaneState, Lanes, Run};
use crate::row::{self, get};
use crate::shard::shard;

/// How many queues a claim looks into at a time.
const QUEUES: usize = 16;
/// How often a claim looks into the next ones, where those before them did not give it enough. What is behind them has its
/// turn in a later claim.
const ROUNDS: usize = 4;
/// How long a claim waits for a queue that others serve.
const BUSY: Duration = Duration::from_millis(500);
/// How many runs of a queue become ready in one claim.
const PROMOTED: i64 = 4_096;
/// How many keys of a queue are looked at for new runs in one claim.
const LOOKED_AT: i64 = 256;
/// How many of the newest runs of a queue are looked at for their keys in one claim.
const NEWEST: i64 = 64;
/// How many lanes a claim reads beyond those that it can serve: more than it passes over before it sets lanes aside.
const SPARE: usize = 80;
/// How many lanes of a queue a claim reads at a time behind those, where it cannot serve them.
const FURTHER: usize = 1_024;
/// How many lanes one claim reads at most.
const MOST_LANES: usize = 4_096;
/// For so long a claim asks nothing while it has the locks of its queues, or loses them: its process is paused.
pub(crate) const PAUSED: Duration = Duration::from_secs(2);

static LOCK: LazyLock<String> = LazyLock::new(|| sql::lock(true));
static LOCK_WAITING: LazyLock<String> = LazyLock::new(|| sql::lock(false));
static CLAIM_LAPSED: LazyLock<String> = LazyLock::new(|| sql::claim_lapsed(true));
static CLAIM_LAPSED_UNLOCKED: LazyLock<String> = LazyLock::new(|| sql::claim_lapsed(false));

impl Database {
    /// Claims runs of queues, and runs of queues that have lapsed: of these no more than half while queues have something.
    pub(crate) async fn claim_queued<'d>(
        &'d self,
        request: &ClaimRequest,
        limit: usize,
        given: &mut Given<'d>,
    ) -> Result<Vec<Lease>, StoreError> {
        let (codes, now) = (distinct(&request.codes), row::micros(request.now));
        if codes.is_empty() || limit == 0 || !request.serves.takes_queues() {
            return Ok(Vec::new());
        }
        let names = serves::names(&request.serves);
        let (queued, lapsed) = ask!(self, |conn| {
            let found = conn.query_opt(sql::WORK, &[&now, &codes, &names]).await?;
            found.map_or(Ok((false, false)), |row| Ok((get(&row, 0)?, get(&row, 1)?)))
        })?;
        let mut leases = Vec::new();
        let share = if queued { places_of_lapsed(limit, request.lapsed_first) } else { limit };
        if lapsed && share > 0 {
            leases.extend(self.claim_lapsed(request, &codes, share, given).await?);
        }
        let has_more_lapsed = lapsed && leases.len() >= share;
        let room = limit.saturating_sub(leases.len());
        if queued && room > 0 {
            leases.extend(self.claim_ready(request, &codes, room, given).await?);
        }
        let room = limit.saturating_sub(leases.len());
        if has_more_lapsed && room > 0 {
            leases.extend(self.claim_lapsed(request, &codes, room, given).await?);
        }
        Ok(leases)
    }

    /// Claims runs of queues that have lapsed, to be ended.
    async fn claim_lapsed<'d>(
        &'d self,
        request: &ClaimRequest,
        codes: &[&str],
        limit: usize,
        given: &mut Given<'d>,
    ) -> Result<Vec<Lease>, StoreError> {
        let sql = if self.options.portable { &CLAIM_LAPSED_UNLOCKED } else { &CLAIM_LAPSED };
        let (now, patterns) = (row::micros(request.now), serves::patterns(&request.serves));
        let params: [Param<'_>; 4] = [&codes, &now, &number(limit), &patterns];
        let (leases, _) = self.claim_with(sql, &request.worker, &params, given).await?;
        if let Err(error) = self.leave_lanes(&leases).await {
            tracing::warn!(%error, "keys whose runs have lapsed could not be noted as idle");
        }
        Ok(leases)
    }

    async fn claim_ready<'d>(
        &'d self,
        request: &ClaimRequest,
        codes: &[&str],
        limit: usize,
        given: &mut Given<'d>,
    ) -> Result<Vec<Lease>, StoreError> {
        let mut tries = self.claims.tries(&request.worker);
        let leases = ask!(self, |conn| {
            let found = self.of_lost(conn, &request.worker, &mut tries).await?;
            if !found.is_empty() {
                return Ok(found);
            }
            let token = tries.token();
            tries.noting(self.pick(conn, request, codes, limit, &token).await)
        })?;
        given.part(tries);
        Ok(leases)
    }

    /// One claim from queues, as one transaction. Queues that nothing can be taken from, because of limits, of code, or
    /// because all their runs are held, keep no other one back: the next ones are looked into, and at the end of a claim that
    /// could not look into all of them, those count as served.
    async fn pick(
        &self,
        conn: &Connection,
        request: &ClaimRequest,
        codes: &[&str],
        limit: usize,
        token: &str,
    ) -> Result<Vec<Lease>, OpError> {
        if self.options.portable {
            return self.pick_one_by_one(conn, request, codes, limit, token).await;
        }
        let (now, names) = (row::micros(request.now), serves::names(&request.serves));
        let transaction = conn.begin_for(PAUSED).await?;
        let (mut rows, mut seen, mut idle) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=ROUNDS {
            let mut lanes = Lanes { now, ..Lanes::default() };
            lanes.lock(transaction.query(&LOCK, &[&now, &number(QUEUES), &names, &seen]).await?)?;
            if lanes.order.is_empty() && round == 1 {
                // Others serve them all: the next one that is free.
                lanes.lock(self.next_free(&transaction, now, &names).await?)?;
            }
            let is_last = lanes.order.len() < QUEUES;
            if !lanes.order.is_empty() {
                let room = limit.saturating_sub(rows.len());
                rows.extend(self.pick_from(&transaction, &mut lanes, request, codes, room, token).await?);
            }
            idle.extend(lanes.idle());
            seen.extend(lanes.order);
            if is_last || rows.len() >= limit {
                break;
            }
            if round == ROUNDS {
                transaction.execute(sql::SERVED, &[&idle, &vec![0_i64; idle.len()], &now]).await?;
            }
        }
        transaction.commit().await?;
        self.leases(&rows)
    }

    /// As [`Database::pick`], without skipping what others have locked: a claim waits for a queue while it has the lock of no
    /// other one. The first queue that gives something is the only one, so that all that is claimed under a token is claimed
    /// in one transaction.
    async fn pick_one_by_one(
        &self,
        conn: &Connection,
        request: &ClaimRequest,
        codes: &[&str],
        limit: usize,
        token: &str,
    ) -> Result<Vec<Lease>, OpError> {
        let (now, names) = (row::micros(request.now), serves::names(&request.serves));
        let mut seen: Vec<String> = Vec::new();
        for _ in 0..QUEUES {
            let transaction = conn.begin_for(PAUSED).await?;
            let mut lanes = Lanes { now, ..Lanes::default() };
            lanes.lock(transaction.query(&LOCK_WAITING, &[&now, &1_i64, &names, &seen]).await?)?;
            if lanes.order.is_empty() {
                transaction.rollback().await?;
                break;
            }
            let rows = self.pick_from(&transaction, &mut lanes, request, codes, limit, token).await?;
            let idle = lanes.idle();
            if !idle.is_empty() {
                transaction.execute(sql::SERVED, &[&idle, &vec![0_i64; idle.len()], &now]).await?;
            }
            transaction.commit().await?;
            if !rows.is_empty() {
                return self.leases(&rows);
            }
            seen.extend(lanes.order);
        }
        Ok(Vec::new())
    }

    /// What a claim takes from queues that it has locked.
    async fn pick_from(
        &self,
        transaction: &Transaction<'_>,
        lanes: &mut Lanes,
        request: &ClaimRequest,
        codes: &[&str],
        limit: usize,
        token: &str,
    ) -> Result<Vec<tokio_postgres::Row>, OpError> {
        let (now, queues) = (lanes.now, lanes.order.clone());
        transaction.execute(sql::PROMOTE, &[&queues, &now, &PROMOTED]).await?;
        transaction.execute(sql::DISCOVER, &[&queues, &LOOKED_AT, &NEWEST]).await?;
        let limits = limits::of(transaction, &queues).await?;
        let latest = row::micros(aside_at_most(&limits, request.now));
        let never = row::micros(Timestamp::MAX);
        transaction.execute(sql::AGAIN, &[&queues, &now, &latest, &never]).await?;
        let mut picker = Picker::new(&limits, request.now).serving(&request.serves);
        let (mut runs, mut most): (Vec<Run>, _) = (Vec::new(), limit.saturating_add(SPARE));
        while runs.len() < limit && lanes.read(transaction, codes, limit, &request.serves, most).await? {
            lanes.count(transaction, &limits, limit).await?;
            let taken = picker.take(lanes, limit.saturating_sub(runs.len()))?;
            runs.extend(taken.into_iter().map(|taken| taken.run));
            most = FURTHER;
        }
        lanes.write(transaction, request, token, &runs).await
    }

    /// Locks a queue that others serve. One of them may be paused in the middle: runs of no queue do not wait for it.
    async fn next_free(
        &self,
        transaction: &Transaction<'_>,
        now: i64,
        names: &Option<Vec<&str>>,
    ) -> Result<Vec<tokio_postgres::Row>, OpError> {
        let none: [&str; 0] = [];
        let params: [Param<'_>; 4] = [&now, &1_i64, names, &none.as_slice()];
        let (wait, brief) = (self.options.lock_timeout, self.briefly());
        transaction.batch(&format!("SAVEPOINT free; SET LOCAL lock_timeout = {}", brief.as_millis())).await?;
        match transaction.query(&LOCK_WAITING, &params).await {
            Ok(rows) => {
                transaction.batch(&format!("SET LOCAL lock_timeout = {}", wait.as_millis())).await?;
                Ok(rows)
            }
            Err(OpError::Driver(error)) if failure(&error) == Failure::Slow => {
                transaction.batch("ROLLBACK TO SAVEPOINT free").await?;
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    /// For how long a claim waits for the lock of a queue.
    fn briefly(&self) -> Duration {
        let wait = self.options.lock_timeout;
        if wait.is_zero() { BUSY } else { wait.min(BUSY) }
    }

    /// Runs were taken out of their lanes without a turn. A lane that holds none any more is idle: it saves no turns up.
    async fn leave_lanes(&self, leases: &[Lease]) -> Result<(), StoreError> {
        let places = leases.iter().filter_map(|lease| lease.run.terms.queue.as_ref());
        let places: BTreeSet<_> = places.map(|place| (place.queue.as_str(), place.key.as_str())).collect();
        if places.is_empty() {
            return Ok(());
        }
        let (queues, keys): (Vec<&str>, Vec<&str>) = places.into_iter().unzip();
        ask!(self, |conn| {
            let transaction = conn.begin_for(PAUSED).await?;
            if !self.options.portable {
                let brief = self.briefly().as_millis();
                transaction.batch(&format!("SET LOCAL lock_timeout = {brief}")).await?;
            }
            transaction.query(sql::LOCK_NAMED, &[&queues]).await?;
            transaction.execute(sql::IDLE, &[&queues, &keys]).await?;
            transaction.commit().await
        })
    }

    /// Claims those of the named runs that are runs of queues and free, within the limits.
    pub(crate) async fn claim_chosen<'d>(
        &'d self,
        request: &ClaimRequest,
        runs: &[RunId],
        any: bool,
        given: &mut Given<'d>,
    ) -> Result<Vec<Lease>, StoreError> {
        let shards: Vec<i16> = runs.iter().map(|run| shard(run.as_str())).collect();
        let ids: Vec<_> = runs.iter().map(RunId::as_str).collect();
        let codes: Vec<_> = request.codes.iter().map(CodeId::as_str).collect();
        let params: [Param<'_>; 4] = [&shards, &ids, &codes, &any];
        if !ask!(self, |conn| Ok(conn.query_opt(sql::CHOSEN, &params).await?.is_some()))? {
            return Ok(Vec::new());
        }
        let mut tries = self.claims.tries(&request.worker);
        let leases = ask!(self, |conn| {
            let found = self.of_lost(conn, &request.worker, &mut tries).await?;
            if !found.is_empty() {
                return Ok(found);
            }
            let token = tries.token();
            tries.noting(self.pick_chosen(conn, request, &params, &token).await)
        })?;
        given.part(tries);
        Ok(leases)
    }

    async fn pick_chosen(
        &self,
        conn: &Connection,
        request: &ClaimRequest,
        params: &[Param<'_>],
        token: &str,
    ) -> Result<Vec<Lease>, OpError> {
        let transaction = conn.begin_for(PAUSED).await?;
        let mut queues = BTreeSet::new();
        for found in transaction.query(sql::CHOSEN, params).await? {
            queues.insert(get::<String>(&found, 2)?);
        }
        let queues: Vec<_> = queues.into_iter().collect();
        let mut lanes = Lanes { now: row::micros(request.now), ..Lanes::default() };
        lanes.lock(transaction.query(sql::LOCK_NAMED, &[&queues]).await?)?;
        // Looked at again, now that no other claim takes them.
        let mut chosen = Vec::new();
        for found in transaction.query(sql::CHOSEN, params).await? {
            let place = QueuePlace { queue: get(&found, 2)?, key: get(&found, 3)?, priority: 0 };
            if let Some(of) = lanes.queues.get_mut(&place.queue) {
                of.lanes.entry(place.key.clone()).or_default();
                chosen.push(((get(&found, 0)?, get(&found, 1)?), place, !get::<bool>(&found, 4)?));
            }
        }
        lanes.uncounted = lanes.places();
        lanes.read_times(&transaction).await?;
        let limits = limits::of(&transaction, &queues).await?;
        lanes.count(&transaction, &limits, chosen.len()).await?;
        let mut picker = Picker::new(&limits, request.now).serving(&request.serves);
        let mut runs: Vec<Run> = Vec::new();
        for (run, place, is_new) in chosen {
            if picker.take_chosen(&mut lanes, &run, &place, is_new)? {
                runs.push(run);
            }
        }
        let rows = lanes.write(&transaction, request, token, &runs).await?;
        transaction.commit().await?;
        self.leases(&rows)
    }
}

impl Lanes {
    /// Notes queues that were locked.
    fn lock(&mut self, rows: Vec<tokio_postgres::Row>) -> Result<(), OpError> {
        for found in &rows {
            let queue: String = get(found, 0)?;
            self.queues.entry(queue.clone()).or_default().time = get(found, 1)?;
            self.order.push(queue);
        }
        Ok(())
    }

    /// The queues that gave nothing.
    fn idle(&self) -> Vec<String> {
        let idle = self.queues.iter().filter(|(_, of)| !of.is_served);
        idle.map(|(queue, _)| queue.clone()).collect()
    }

    /// Reads lanes of each queue that the picker has come to the end of, at most so many, and their first runs: at first of
    /// every queue the first lanes, then those behind them. Says whether there are some.
    async fn read(
        &mut self,
        transaction: &Transaction<'_>,
        codes: &[&str],
        limit: usize,
        serves: &Serves,
        most: usize,
    ) -> Result<bool, OpError> {
        let known = self.queues.values().map(|of| of.lanes.len()).sum::<usize>();
        let most = most.min(MOST_LANES.saturating_sub(known));
        let asked = if most == 0 { Vec::new() } else { self.take_asked() };
        if asked.is_empty() {
            return Ok(false);
        }
        let (mut queues, mut arms, mut times, mut keys) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (queue, begun, after) in &asked {
            queues.push(queue.as_str());
            arms.push(*begun);
            times.push(after.as_ref().map_or(i64::MIN, |(time, _)| *time));
            keys.push(after.as_ref().map_or("", |(_, key)| key.as_str()));
        }
        let patterns = serves::patterns(serves);
        let params: [Param<'_>; 7] = [&queues, &codes, &number(most), &patterns, &arms, &times, &keys];
        let rows = transaction.query(&sql::LANES, &params).await?;
        self.note_lanes(&rows, most)?;
        self.read_heads(transaction, codes, limit).await?;
        Ok(!rows.is_empty())
    }

    /// Notes lanes that were read, and where each queue goes on behind them.
    fn note_lanes(&mut self, rows: &[tokio_postgres::Row], most: usize) -> Result<(), OpError> {
        let mut read: BTreeMap<(String, bool), usize> = BTreeMap::new();
        for found in rows {
            let (queue, begun, key): (String, bool, String) =
                (get(found, 0)?, get(found, 1)?, get(found, 2)?);
            let time: i64 = get(found, 3)?;
            let Some(of) = self.queues.get_mut(&queue) else { continue };
            if !of.lanes.contains_key(&key) {
                let lane = LaneState { time, has_begun: get(found, 4)?, ..LaneState::default() };
                of.lanes.insert(key.clone(), lane);
                of.order.insert((time, key.clone()));
                self.uncounted.insert((queue.clone(), key.clone()));
            }
            let read = read.entry((queue, begun)).or_default();
            *read += 1;
            if *read == most
                && let Some(end) = of.ends.get_mut(usize::from(begun))
            {
                *end = Some((time, key));
            }
        }
        Ok(())
    }

    /// Reads the first runs of lanes that are new here.
    async fn read_heads(
        &mut self,
        transaction: &Transaction<'_>,
        codes: &[&str],
        limit: usize,
    ) -> Result<(), OpError> {
        let (queues, keys): (Vec<String>, Vec<String>) = self.uncounted.iter().cloned().unzip();
        let rows =
            transaction.query(sql::HEADS, &[&queues, &keys, &codes, &number(limit), &self.now]).await?;
        for found in &rows {
            let (queue, key): (String, String) = (get(found, 0)?, get(found, 1)?);
            let Some(lane) = self.lane_mut(&queue, &key) else { continue };
            let ready = if get(found, 2)? { &mut lane.ready.begun } else { &mut lane.ready.new };
            ready.insert((get(found, 3)?, get(found, 4)?), (get(found, 5)?, get(found, 6)?));
        }
        Ok(())
    }

    async fn read_times(&mut self, transaction: &Transaction<'_>) -> Result<(), OpError> {
        let (queues, keys): (Vec<String>, Vec<String>) = self.places().into_iter().unzip();
        for found in &transaction.query(sql::TIMES, &[&queues, &keys]).await? {
            let (queue, key): (String, String) = (get(found, 0)?, get(found, 1)?);
            let time = get(found, 2)?;
            if let Some(lane) = self.lane_mut(&queue, &key) {
                lane.time = time;
            }
        }
        Ok(())
    }

    /// Reads what the limits count for the lanes for which that was not read yet.
    async fn count(
        &mut self,
        transaction: &Transaction<'_>,
        limits: &[Limit],
        turns: usize,
    ) -> Result<(), OpError> {
        let (mut scopes, mut counters) = (BTreeMap::new(), BTreeMap::new());
        for (queue, key) in std::mem::take(&mut self.uncounted) {
            let place = QueuePlace { queue, key, priority: 0 };
            for limit in limits {
                let Some(scope) = limit.pattern.scope(&place) else { continue };
                match limit.kind {
                    LimitKind::Running(n) if !self.held.contains_key(&scope) => {
                        let most = scopes.entry(scope).or_insert(0);
                        *most = u64::from(n).max(*most);
                    }
                    LimitKind::Starts { n, .. } => {
                        counters.insert(counter(limit, &scope), i64::from(n));
                    }
                    _ => {}
                }
            }
        }
        counters.retain(|counter, _| !self.starts.contains_key(counter));
        self.held.extend(limits::counted(transaction, &sql::HELD, &scopes).await?);
        if counters.is_empty() {
            return Ok(());
        }
        let (names, numbers): (Vec<&str>, Vec<i64>) =
            counters.iter().map(|(name, n)| (name.as_str(), *n)).unzip();
        let rows = transaction.query(sql::STARTS, &[&names, &numbers, &number(turns)]).await?;
        for found in &rows {
            let starts = self.starts.entry(get(found, 0)?).or_default();
            starts.newest = get(found, 1)?;
            if let (Some(seq), Some(at)) = (get(found, 2)?, get(found, 3)?) {
                starts.at.insert(seq, at);
            }
        }
        Ok(())
    }

    /// Claims the runs, and writes what became of lanes, queues and starts.
    async fn write(
        &self,
        transaction: &Transaction<'_>,
        request: &ClaimRequest,
        token: &str,
        runs: &[Run],
    ) -> Result<Vec<tokio_postgres::Row>, OpError> {
        let mut rows = Vec::new();
        if !runs.is_empty() {
            let (shards, ids): (Vec<i16>, Vec<&str>) =
                runs.iter().map(|(shard, id)| (*shard, id.as_str())).unzip();
            let params: [Param<'_>; 5] = [&request.worker.as_str(), &token, &shards, &ids, &self.now];
            rows = transaction.query(&sql::CLAIM_PICKED, &params).await?;
        }
        self.write_lanes(transaction).await?;
        self.write_starts(transaction).await?;
        Ok(rows)
    }

    async fn write_lanes(&self, transaction: &Transaction<'_>) -> Result<(), OpError> {
        let (mut queues, mut keys, mut times, mut untils) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut served, mut served_times) = (Vec::new(), Vec::new());
        for (queue, of) in &self.queues {
            if of.is_served {
                served.push(queue.as_str());
                served_times.push(of.time);
            }
            for (key, LaneState { time, until, .. }) in of.lanes.iter().filter(|(_, lane)| lane.is_changed) {
                queues.push(queue.as_str());
                keys.push(key.as_str());
                times.push(*time);
                untils.push(*until);
            }
        }
        if !queues.is_empty() {
            transaction.execute(&sql::SETTLE, &[&queues, &keys, &times, &untils]).await?;
        }
        if !served.is_empty() {
            transaction.execute(sql::SERVED, &[&served, &served_times, &self.now]).await?;
            transaction.execute(sql::FORGET_IDLE, &[&served]).await?;
        }
        Ok(())
    }

    async fn write_starts(&self, transaction: &Transaction<'_>) -> Result<(), OpError> {
        let added: Vec<_> = self.starts.iter().filter(|(_, starts)| starts.added > 0).collect();
        if added.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = added.iter().map(|(name, _)| name.as_str()).collect();
        let numbers: Vec<i64> = added.iter().map(|(_, starts)| starts.added).collect();
        let keeps: Vec<i64> = added.iter().map(|(_, starts)| starts.keep).collect();
        transaction.execute(sql::COUNT_STARTS, &[&names, &numbers, &self.now]).await?;
        transaction.execute(sql::FORGET_STARTS, &[&names, &keeps]).await?;
        // Two go for one that comes.
        let old = numbers.iter().sum::<i64>().saturating_mul(2);
        transaction.execute(sql::FORGET_OLD_STARTS, &[&self.now, &old]).await?;
        Ok(())
    }
}
