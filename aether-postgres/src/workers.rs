//! Workers: registered, renewed, retired, and what was taken from them.
//!
//! Promise: a lease is a count, and no time of day: a clock that leaps takes no run from a live worker. The one time that
//! is kept says when a worker was last there at all, by the server's clock; it decides only whose codes still count, and
//! when a worker that never came back is forgotten. One that comes back after that is registered again with the first word
//! of it.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aether_core::id::{CodeId, RunId, WorkerId};
use aether_core::store::{KnownWorker, LostRun, StoreError, WorkerRecord};
use tokio_postgres::Row;

use crate::connection::{Connection, Param};
use crate::database::{Database, ask};
use crate::error::OpError;
use crate::queues::serves;
use crate::row::{self, get};
use crate::shard::shard;

/// The longest time between two words of a worker that it is there; see [`presence`].
const PRESENCE: Duration = Duration::from_secs(15);

/// A worker that was not seen for its lease, and a little longer, counts as gone: others may take its runs, and what it can
/// advance does not count any more. A lease may be for ever, which no interval can hold.
pub(crate) const GONE: &str =
    "(least(coalesce(w.lease, 0), 86400000000) * interval '1 microsecond' + interval '5 seconds')";

/// So long a worker that was not seen, and whose session is open, may be a process that is paused: it may outlive one whose
/// machine is gone.
const PAUSED: &str =
    "(interval '60 seconds' + least(coalesce(w.lease, 0), 86400000000) * interval '4 microseconds')";

/// The session of this statement. It is open as long as the process of its worker is there, whether or not that is paused:
/// the kernel closes it with the process.
const SESSION: &str =
    "pg_backend_pid(), (SELECT a.backend_start FROM pg_stat_get_activity(pg_backend_pid()) a)";
/// Behind a pooler a session outlives the process, and other servers have no such function.
const NO_SESSION: &str = "NULL::int4, NULL::timestamptz";

/// The statement with each of them: not known, known.
fn with_session(sql: impl Fn(&str) -> String) -> [String; 2] {
    [sql(NO_SESSION), sql(SESSION)]
}

static REGISTER: LazyLock<[String; 2]> = LazyLock::new(|| {
    with_session(|session| {
        format!(
            "WITH new AS (INSERT INTO workers(id, renewals, lease, backend, backend_start)
                VALUES ($1::text, 0, $2::int8, {session}) ON CONFLICT DO NOTHING RETURNING id),
            can AS (INSERT INTO worker_codes(worker, code)
                SELECT new.id, c.code FROM new CROSS JOIN (SELECT DISTINCT code FROM unnest($3::text[]) AS k(code)) c
                ON CONFLICT DO NOTHING)
            SELECT id FROM new"
        )
    })
});

/// Workers that never came back and hold nothing.
const FORGET: &str = "
WITH gone AS (DELETE FROM workers w WHERE w.seen_at < clock_timestamp() - interval '1 day'
        AND NOT EXISTS (SELECT FROM runs r WHERE r.owner = w.id) RETURNING w.id),
    codes AS (DELETE FROM worker_codes c USING gone WHERE c.worker = gone.id)
DELETE FROM lost l USING gone WHERE l.worker = gone.id";

static RENEW: LazyLock<[String; 2]> = LazyLock::new(|| {
    with_session(|session| {
        format!(
            "WITH renewed AS (INSERT INTO workers AS w (id, renewals, lease, backend, backend_start)
                VALUES ($1::text, greatest(1, $3::int8), $2::int8, {session})
                ON CONFLICT (id) DO UPDATE SET renewals = greatest(w.renewals + 1, $3), lease = excluded.lease,
                    seen_at = clock_timestamp(), backend = excluded.backend, backend_start = excluded.backend_start
                RETURNING renewals)
            SELECT renewals, EXISTS (SELECT FROM worker_codes c WHERE c.worker = $1) FROM renewed"
        )
    })
});

/// What a worker registered with, after it was forgotten. Its row may be there again: $2 lease, $3 codes, $4 what it serves.
static REGISTER_AGAIN: LazyLock<[String; 2]> = LazyLock::new(|| {
    with_session(|session| {
        format!(
            "WITH again AS (INSERT INTO workers AS w (id, renewals, lease, serves, backend, backend_start)
                VALUES ($1::text, 1, $2::int8, $4::text, {session})
                ON CONFLICT (id) DO UPDATE SET serves = excluded.serves, seen_at = clock_timestamp() RETURNING id),
            can AS (INSERT INTO worker_codes(worker, code)
                SELECT again.id, c.code FROM again CROSS JOIN (SELECT DISTINCT code FROM unnest($3::text[]) AS k(code)) c
                ON CONFLICT DO NOTHING)
            SELECT id FROM again"
        )
    })
});

/// Workers that a run was taken from, that did not notice it, and whose session is open, for as long as that says that the
/// process is there. Of a session of another role an account may see no more
/// than that there is one with this number. A server that was started again has closed all sessions: for two leases, in
/// which a process that is there comes back, they count as open.
static UNAWARE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT DISTINCT l.worker FROM lost l JOIN workers w ON w.id = l.worker
        WHERE l.shard = $1::int2 AND l.run = $2::text AND w.backend IS NOT NULL
            AND w.seen_at > clock_timestamp() - {PAUSED}
            AND (EXISTS (SELECT FROM pg_stat_get_activity(w.backend) a
                    WHERE a.backend_start IS NULL OR a.backend_start = w.backend_start)
                OR (w.backend_start < pg_postmaster_start_time() AND pg_postmaster_start_time()
                    > clock_timestamp() - least(coalesce(w.lease, 0), 86400000000) * interval '2 microseconds'))"
    )
});

const NOTICED: &str = "
DELETE FROM lost l USING unnest($2::int2[], $3::text[], $4::int8[]) AS n(shard, run, epoch)
WHERE l.worker = $1::text AND l.shard = n.shard AND l.run = n.run AND l.epoch = n.epoch";

const LOST: &str = "SELECT run, epoch FROM lost WHERE worker = $1::text ORDER BY run, epoch";

/// Frees some of the runs that a worker holds. They are due at once: whoever claims them reads what there is to do. The
/// second comparison of the owner is written so that the key, and not the index of owners, finds the run.
const FREE: &str = "
WITH held AS MATERIALIZED (SELECT r.shard, r.id FROM runs r WHERE r.owner = $1::text LIMIT 500),
    freed AS (UPDATE runs r SET owner = NULL FROM held h
        WHERE r.shard = h.shard AND r.id = h.id AND r.owner IS NOT DISTINCT FROM $1
        RETURNING r.shard, r.id, r.created_at, r.code, r.status, r.queue),
    woken AS (INSERT INTO due(shard, run, wake_at, code, seq, notified, queue)
        SELECT f.shard, f.id, f.created_at, f.code, 0, false, f.queue FROM freed f WHERE f.status < 3
        ORDER BY f.shard, f.id ON CONFLICT DO NOTHING)
SELECT count(*) FROM held";

const RETIRE: &str = "
WITH gone AS (DELETE FROM workers WHERE id = $1::text),
    codes AS (DELETE FROM worker_codes WHERE worker = $1)
DELETE FROM lost WHERE worker = $1";

/// One step through the index for each worker, and not for each run.
const WORKERS: &str = "
WITH RECURSIVE holders(id) AS ((SELECT r.owner FROM runs r WHERE r.owner IS NOT NULL ORDER BY r.owner LIMIT 1)
    UNION ALL SELECT (SELECT r.owner FROM runs r WHERE r.owner > h.id ORDER BY r.owner LIMIT 1)
    FROM holders h WHERE h.id IS NOT NULL)
SELECT h.id, w.renewals, w.lease FROM holders h LEFT JOIN workers w ON w.id = h.id WHERE h.id IS NOT NULL";

const KNOWN: &str = "
SELECT w.id, w.renewals, w.lease, (SELECT count(*) FROM runs r WHERE r.owner = w.id),
    ARRAY(SELECT c.code FROM worker_codes c WHERE c.worker = w.id ORDER BY c.code), w.serves FROM workers w";

/// So often a worker that asks for anything is said to be there: as often as it renews its leases where it holds any.
fn presence(lease: Duration) -> Duration {
    (lease / 4).min(PRESENCE)
}

/// What a worker of this process registered with.
#[derive(Clone, Debug)]
struct Registration {
    lease: Duration,
    codes: Vec<CodeId>,
    /// As its row has it.
    serves: Option<String>,
}

/// A worker of this process.
#[derive(Debug)]
struct Known {
    /// How often the database is to hear of it, and when it last did.
    pause: Duration,
    said: Instant,
    registration: Option<Registration>,
}

/// The workers of this process.
#[derive(Debug, Default)]
pub(crate) struct Present(Mutex<HashMap<WorkerId, Known>>);

impl Present {
    /// Whether it is time to say that a worker is there.
    fn is_due(&self, worker: &WorkerId) -> bool {
        let mut known = self.known();
        let now = Instant::now();
        let new = || Known { pause: PRESENCE, said: now, registration: None };
        let known = known.entry(worker.clone()).or_insert_with(new);
        let is_due = now.duration_since(known.said) >= known.pause || known.said == now;
        if is_due {
            known.said = now;
        }
        is_due
    }

    /// The database has just heard of a worker.
    fn heard(&self, worker: &WorkerId, lease: Duration) {
        let (pause, said) = (presence(lease), Instant::now());
        let mut known = self.known();
        let new = || Known { pause, said, registration: None };
        let known = known.entry(worker.clone()).or_insert_with(new);
        (known.pause, known.said) = (pause, said);
    }

    fn registered(&self, worker: &WorkerId, lease: Duration, codes: &[CodeId]) {
        self.heard(worker, lease);
        if let Some(known) = self.known().get_mut(worker) {
            known.registration = Some(Registration { lease, codes: codes.to_vec(), serves: None });
        }
    }

    /// What a worker serves from now on.
    pub(crate) fn serves(&self, worker: &WorkerId, serves: String) {
        if let Some(registration) = self.known().get_mut(worker).and_then(|known| known.registration.as_mut())
        {
            registration.serves = Some(serves);
        }
    }

    fn registration(&self, worker: &WorkerId) -> Option<Registration> {
        self.known().get(worker)?.registration.clone()
    }

    fn forget(&self, worker: &WorkerId) {
        self.known().remove(worker);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<WorkerId, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lease_micros(lease: Duration) -> i64 {
    i64::try_from(lease.as_micros()).unwrap_or(i64::MAX)
}

/// A worker from its name, its renewals and its lease.
fn worker(found: &Row) -> Result<WorkerRecord, OpError> {
    let lease: Option<i64> = get(found, 2)?;
    Ok(WorkerRecord {
        id: row::worker_id(get(found, 0)?),
        renewals: row::nat(get::<Option<i64>>(found, 1)?.unwrap_or(0), "renewals")?,
        lease: lease.map(|lease| row::nat(lease, "lease").map(Duration::from_micros)).transpose()?,
    })
}

impl Database {
    /// See [`Store::register`](aether_core::store::Store::register). A try whose answer was lost counts as another
    /// worker's: the name is not used twice in any case.
    pub(crate) async fn register(
        &self,
        worker: &WorkerId,
        lease: Duration,
        codes: &[CodeId],
    ) -> Result<bool, StoreError> {
        let named: Vec<_> = codes.iter().map(CodeId::as_str).collect();
        let is_new = ask!(self, |conn| {
            conn.execute(FORGET, &[]).await?;
            let new = conn
                .query_opt(self.sessioned(&REGISTER), &[&worker.as_str(), &lease_micros(lease), &named])
                .await?;
            Ok(new.is_some())
        })?;
        if is_new {
            self.present.registered(worker, lease, codes);
        }
        Ok(is_new)
    }

    /// Registers a worker of this process that was forgotten because it was away for long, such as on a machine that was
    /// suspended: without its codes nobody would leave it its runs.
    async fn register_again(&self, conn: &Connection, worker: &WorkerId) -> Result<(), OpError> {
        let Some(Registration { lease, codes, serves }) = self.present.registration(worker) else {
            return Ok(());
        };
        let codes: Vec<_> = codes.iter().map(CodeId::as_str).collect();
        let params: [Param<'_>; 4] = [&worker.as_str(), &lease_micros(lease), &codes, &serves];
        conn.execute(self.sessioned(&REGISTER_AGAIN), &params).await.map(drop)
    }

    /// A session tells of a process only where the process has it for itself.
    fn can_see_processes(&self) -> bool {
        !self.has_pooler() && !self.options.portable
    }

    fn sessioned<'s>(&self, sql: &'s [String; 2]) -> &'s str {
        let [without, with] = sql;
        if self.can_see_processes() { with } else { without }
    }

    /// See [`Store::unaware_owners`](aether_core::store::Store::unaware_owners). The process of a worker is known to be
    /// there while the session is open on which it renewed last. Nobody knows of one that is paused for longer than a
    /// restart of the server and two leases.
    pub(crate) async fn unaware_owners(&self, run: &RunId) -> Result<Vec<WorkerId>, StoreError> {
        if !self.can_see_processes() {
            return Ok(Vec::new());
        }
        ask!(self, |conn| {
            let rows = conn.query(&UNAWARE, &[&shard(run.as_str()), &run.as_str()]).await?;
            rows.iter().map(|row| Ok(row::worker_id(get(row, 0)?))).collect()
        })
    }

    /// Says now and then that a worker is there. What it asks for does not depend on it.
    pub(crate) async fn say_present(&self, worker: &WorkerId) {
        if !self.present.is_due(worker) {
            return;
        }
        let sql = "UPDATE workers SET seen_at = clock_timestamp() WHERE id = $1::text";
        let said: Result<(), StoreError> = ask!(self, |conn| {
            if conn.execute(sql, &[&worker.as_str()]).await? == 0 {
                self.register_again(conn, worker).await?;
            }
            Ok(())
        });
        if let Err(error) = said {
            tracing::debug!(%worker, %error, "the database could not be told that a worker is there");
        }
    }

    /// See [`Store::workers`](aether_core::store::Store::workers). A worker that holds nothing asks for this, too, and does
    /// not renew: it follows the server's clock by it.
    pub(crate) async fn workers(&self) -> Result<Vec<WorkerRecord>, StoreError> {
        ask!(self, |conn| {
            let workers = conn.query(WORKERS, &[]).await?.iter().map(worker).collect();
            self.follow_clock(conn).await?;
            workers
        })
    }

    /// See [`Store::known_workers`](aether_core::store::Store::known_workers). Of none of them the process is known to have
    /// died.
    pub(crate) async fn known_workers(&self) -> Result<Vec<KnownWorker>, StoreError> {
        let mut known: Vec<KnownWorker> = ask!(self, |conn| {
            let known = |row: &Row| {
                let codes: Vec<String> = get(row, 4)?;
                let runs = row::nat(get(row, 3)?, "number of runs")?;
                let codes = codes.into_iter().map(CodeId::from).collect();
                let serves = serves::read(get(row, 5)?)?;
                Ok(KnownWorker { runs, codes, serves, ..KnownWorker::of(worker(row)?) })
            };
            conn.query(KNOWN, &[]).await?.iter().map(known).collect()
        })?;
        // One that holds runs and never registered.
        let holders = self.workers().await?.into_iter().map(KnownWorker::of);
        let missing: Vec<_> =
            holders.filter(|holder| known.iter().all(|known| known.id != holder.id)).collect();
        known.extend(missing);
        Ok(known)
    }

    /// See [`Store::retire`](aether_core::store::Store::retire).
    pub(crate) async fn retire(&self, worker: &WorkerId) -> Result<(), StoreError> {
        self.present.forget(worker);
        ask!(self, |conn| {
            loop {
                let freed = conn.query_opt(FREE, &[&worker.as_str()]).await?;
                if freed.map_or(Ok(0), |row| get::<i64>(&row, 0))? == 0 {
                    break;
                }
            }
            conn.execute(RETIRE, &[&worker.as_str()]).await.map(drop)
        })
    }

    /// See [`Store::renew`](aether_core::store::Store::renew). A renewal that is made twice because its answer was lost
    /// counts twice, which no one who watches minds.
    pub(crate) async fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        noticed: &[LostRun],
    ) -> Result<Vec<LostRun>, StoreError> {
        Ok(self.renew_to(worker, lease, noticed, 0).await?.1)
    }

    /// As [`Database::renew`]. The number of renewals becomes at least `number`; it is given with the runs that were lost.
    pub(crate) async fn renew_to(
        &self,
        worker: &WorkerId,
        lease: Duration,
        noticed: &[LostRun],
        number: i64,
    ) -> Result<(i64, Vec<LostRun>), StoreError> {
        // What follows may fail and be asked for again: the renewal counts once.
        let mut counted = None;
        let renewed = ask!(at self.asking_at_once(lease), |conn| {
            let count = match counted {
                Some(count) => count,
                None => {
                    let params: [Param<'_>; 3] = [&worker.as_str(), &lease_micros(lease), &number];
                    let renewed = conn.query_opt(self.sessioned(&RENEW), &params).await?;
                    if let Some(row) = &renewed
                        && !get::<bool>(row, 1)?
                    {
                        self.register_again(conn, worker).await?;
                    }
                    *counted.insert(renewed.map_or(Ok(number), |row| get(&row, 0))?)
                }
            };
            self.follow_clock(conn).await?;
            if !noticed.is_empty() {
                forget_lost(conn, worker, noticed).await?;
            }
            // A statement of its own: it sees what a claim wrote that the renewal had to wait for.
            let lost =
                conn.query(LOST, &[&worker.as_str()]).await?.iter().map(lost).collect::<Result<_, _>>()?;
            Ok((count, lost))
        })?;
        self.present.heard(worker, lease);
        Ok(renewed)
    }
}

async fn forget_lost(conn: &Connection, worker: &WorkerId, noticed: &[LostRun]) -> Result<(), OpError> {
    let shards: Vec<_> = noticed.iter().map(|lost| shard(lost.run.as_str())).collect();
    let runs: Vec<_> = noticed.iter().map(|lost| lost.run.as_str()).collect();
    let epochs: Vec<_> = noticed.iter().map(|lost| row::int(lost.epoch)).collect();
    conn.execute(NOTICED, &[&worker.as_str(), &shards, &runs, &epochs]).await.map(drop)
}

fn lost(row: &tokio_postgres::Row) -> Result<LostRun, OpError> {
    Ok(LostRun { run: row::run_id(get(row, 0)?)?, epoch: row::nat(get(row, 1)?, "epoch")? })
}
