//! The steps of a move, each a transaction in one database.
//!
//! Promise: each step may be made any number of times, by any number of processes at the same time, and takes effect once.
//!
//! 1. `begin`: the first database notes where the bucket is to go.
//! 2. `pack`: the source, under a lock that no writer holds meanwhile, moves the bucket's rows into `parcels` and notes that
//!    it does not have the bucket any more. From here on nobody has it, until
//! 3. `unpack`: the target takes the rows and notes that it has the bucket, unless it had it since a later move.
//! 4. `clear`: the source forgets the parcel.
//! 5. `finish`: the first database notes where the bucket is.
//!
//! A writer waits for the lock before its statement takes its snapshot, so that it sees the bucket as a whole or not at all.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aether_core::store::StoreError;
use tokio_postgres::Row;

use crate::connection::{Connection, Transaction};
use crate::database::{Database, ask};
use crate::error::OpError;
use crate::placement::map::Spot;
use crate::placement::shared::Shared;
use crate::row::get;

/// The tables whose rows belong to a bucket. Every one of them begins with `shard`, or has an index that does.
const PARTS: [&str; 15] = [
    "journal",
    "runs",
    "ledger",
    "due",
    "inbox",
    "waits",
    "effects",
    "blobs",
    "snapshots",
    "progress",
    "streams",
    "labels",
    "lost",
    "notices",
    "reservations",
];

/// How long a lock is waited for at first: writers wait behind it. Longer than a second makes the server end a vacuum
/// that is in the way.
const LOCK_WAITS: [u64; 5] = [100, 200, 200, 400, 1500];
/// How long a bucket is tried to be locked.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many rows are carried at once, if they are not too large.
const PAGE: usize = 500;
/// As many large values.
const LARGE_PAGE: usize = 8;
/// About how many bytes are carried at once: a message to the server may have a gigabyte, and a statement its time.
const PAGE_BYTES: i64 = 8 << 20;

const BEGIN: &str = "INSERT INTO placement AS p (shard, database, version, target)
    SELECT $1::int2, $2::text, 0, $3::text
    WHERE $2 <> $3 OR EXISTS (SELECT 1 FROM placement o WHERE o.shard = $1)
    ON CONFLICT (shard) DO UPDATE SET target = excluded.target, touched_at = clock_timestamp()
    WHERE p.target IS NULL AND p.database <> excluded.target";

const CURRENT: &str =
    "SELECT shard, database, target, version FROM placement WHERE shard = $1::int2 AND target IS NOT NULL";

const TOUCH: &str =
    "UPDATE placement SET touched_at = clock_timestamp() WHERE shard = $1::int2 AND version = $2::int8";

const LEAVE: &str =
    "INSERT INTO buckets AS b (shard, version, away, elsewhere) VALUES ($1::int2, $2::int8, true, $3::text)
    ON CONFLICT (shard) DO UPDATE SET version = excluded.version, away = true, elsewhere = excluded.elsewhere
    WHERE b.version < excluded.version";

const HAS_LEFT: &str = "SELECT 1 FROM buckets WHERE shard = $1::int2 AND version >= $2::int8";

const ARRIVE: &str =
    "INSERT INTO buckets AS b (shard, version, away, elsewhere) VALUES ($1::int2, $2::int8, false, NULL)
    ON CONFLICT (shard) DO UPDATE SET version = excluded.version, away = false, elsewhere = NULL
    WHERE b.version < excluded.version";

/// The next lines: as many as have so many bytes, and at least one.
const LINES: &str = "SELECT n, line FROM (SELECT n, line, sum(octet_length(line)) OVER (ORDER BY n) - octet_length(line) AS before
        FROM (SELECT n, line FROM parcels WHERE shard = $1::int2 AND version = $2::int8 AND part = $3::text AND n > $4::int8
            ORDER BY n LIMIT $5::int8) page) lines
    WHERE before < $6::int8 ORDER BY n";

const CLEAR: &str = "DELETE FROM parcels WHERE shard = $1::int2 AND version = $2::int8";

const FINISH: &str = "UPDATE placement SET database = target, version = $2::int8, target = NULL
    WHERE shard = $1::int2 AND version = $2 - 1 AND target = $3::text";

/// Workers that hold runs of the bucket, with the numbers of their renewals.
const HOLDERS: &str = "SELECT w.id, w.renewals FROM (SELECT DISTINCT r.owner FROM runs r
        WHERE r.shard = $1::int2 AND r.owner IS NOT NULL) o JOIN workers w ON w.id = o.owner";

/// Those of them that do not renew there as well.
const ABSENT: &str = "SELECT h.id FROM unnest($1::text[], $2::int8[]) AS h(id, renewals)
    LEFT JOIN workers w ON w.id = h.id WHERE w.id IS NULL OR w.renewals < h.renewals - 1 LIMIT 1";

/// An open run of a queue, and its queue. Queues are those of one database: elsewhere nothing would take it.
const QUEUED: &str =
    "SELECT id, queue FROM runs WHERE shard = $1::int2 AND queue IS NOT NULL AND status < 3 LIMIT 1";

/// A move that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) shard: i16,
    pub(crate) from: String,
    pub(crate) to: String,
    /// Its number among the moves of the bucket.
    pub(crate) version: i64,
}

impl Move {
    /// Reads shard, source, target, and the number of the move before.
    pub(crate) fn read(row: &Row) -> Result<Self, OpError> {
        let before: i64 = get(row, 3)?;
        Ok(Self {
            shard: get(row, 0)?,
            from: get(row, 1)?,
            to: get(row, 2)?,
            version: before.saturating_add(1),
        })
    }
}

/// Moves one bucket; `false` where it is there already.
pub(crate) async fn move_one(shared: &Shared, shard: i16, to: &str) -> Result<bool, StoreError> {
    loop {
        // Nothing is packed for a database that cannot be reached.
        let target = shared.database(shared.number(to)?);
        ask!(target, |conn| conn.query_opt("SELECT 1", &[]).await)?;
        let source = shared.database(shared.map.spot(shard).database);
        if !std::ptr::eq(source, target) {
            refuse_queued(source, shard, to).await?;
        }
        let Some(one) = begin(shared, shard, to).await? else { return Ok(false) };
        complete(shared, &one).await?;
        if one.to == to {
            return Ok(true);
        }
    }
}

/// Refuses to move a bucket with open runs of queues before anything is noted of it.
async fn refuse_queued(source: &Database, shard: i16, to: &str) -> Result<(), StoreError> {
    match ask!(source, |conn| queued(conn.query(QUEUED, &[&shard]).await?))? {
        Some(reason) => Err(cannot_be_moved(source, shard, to, &reason)),
        None => Ok(()),
    }
}

/// Why a bucket with these rows of [`QUEUED`] cannot be moved.
fn queued(rows: Vec<Row>) -> Result<Option<String>, OpError> {
    let Some(found) = rows.first() else { return Ok(None) };
    let (run, queue): (String, String) = (get(found, 0)?, get(found, 1)?);
    Ok(Some(format!(
        "run `{run}` of queue `{queue}` is open there, and a store of several databases has no queues: let such runs end \
         where they are, or cancel them, and move the bucket then"
    )))
}

fn cannot_be_moved(source: &Database, shard: i16, to: &str, reason: &str) -> StoreError {
    let reason = format!("bucket {shard} cannot be moved to `{to}` now: {reason}");
    StoreError::Unavailable { store: source.name.to_string(), reason }
}

/// Notes a move, unless another one of the bucket has begun: that one is given. `None` where the bucket is there.
async fn begin(shared: &Shared, shard: i16, to: &str) -> Result<Option<Move>, StoreError> {
    let home = shared.name(0);
    ask!(shared.home(), |conn| {
        conn.execute(BEGIN, &[&shard, &home, &to]).await?;
        conn.query_opt(CURRENT, &[&shard]).await?.as_ref().map(Move::read).transpose()
    })
}

/// Makes all steps of a move that are not made yet.
pub(crate) async fn complete(shared: &Shared, one: &Move) -> Result<(), StoreError> {
    let (source, target) = (shared.database(shared.number(&one.from)?), shared.number(&one.to)?);
    let before = one.version.saturating_sub(1);
    ask!(shared.home(), |conn| conn.execute(TOUCH, &[&one.shard, &before]).await)?;
    pack(source, shared.database(target), one).await?;
    unpack(source, shared.database(target), one).await?;
    ask!(source, |conn| conn.execute(CLEAR, &[&one.shard, &one.version]).await)?;
    ask!(shared.home(), |conn| conn.execute(FINISH, &[&one.shard, &one.version, &one.to]).await)?;
    shared.follow(one.shard, Spot { database: target, version: one.version, settled: true }).await
}

async fn pack(source: &Database, target: &Database, one: &Move) -> Result<(), StoreError> {
    let since = Instant::now();
    let mut waits = LOCK_WAITS.iter().chain(std::iter::repeat(&LOCK_WAITS[4]));
    loop {
        let wait = waits.next().copied().unwrap_or(1500);
        let told: Holders = ask!(source, |conn| holders(conn.query(HOLDERS, &[&one.shard]).await?))?;
        let reason = match absent(target, &told).await? {
            Some(worker) => format!(
                "worker `{worker}` holds runs of it and does not renew its leases in the new database"
            ),
            None => {
                let packed = ask!(source, |conn| match try_pack(conn, one, wait, &told).await {
                    // Another transaction is in the way: the writers that wait behind this one go first.
                    Err(OpError::Driver(error)) if is_in_the_way(&error) => Ok(Packed::InTheWay),
                    packed => packed,
                })?;
                match packed {
                    Packed::Done => return Ok(()),
                    Packed::InTheWay => "a transaction has held a lock on its tables for long".into(),
                    Packed::Queued(reason) => reason,
                    Packed::Untold => "other workers take its runs again and again".into(),
                }
            }
        };
        if since.elapsed() >= PATIENCE {
            return Err(cannot_be_moved(source, one.shard, &one.to, &reason));
        }
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
}

fn is_in_the_way(error: &tokio_postgres::Error) -> bool {
    matches!(error.code().map(|code| code.code()), Some("55P03" | "40P01"))
}

/// Workers with the numbers of their renewals.
type Holders = BTreeMap<String, i64>;

/// Reads rows of [`HOLDERS`].
fn holders(rows: Vec<Row>) -> Result<Holders, OpError> {
    rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect()
}

/// A worker that holds runs of the bucket and does not renew in the target: it would lose them there.
async fn absent(target: &Database, holders: &Holders) -> Result<Option<String>, StoreError> {
    if holders.is_empty() {
        return Ok(None);
    }
    let (ids, renewals): (Vec<&str>, Vec<i64>) =
        holders.iter().map(|(id, renewals)| (id.as_str(), *renewals)).unzip();
    ask!(target, |conn| {
        conn.query_opt(ABSENT, &[&ids, &renewals]).await?.map(|row| get(&row, 0)).transpose()
    })
}

/// What became of a try to pack.
enum Packed {
    Done,
    /// Others hold a lock.
    InTheWay,
    /// A worker has taken a run meanwhile, and may not know the target.
    Untold,
    /// A run of a queue is open: why that is in the way.
    Queued(String),
}

async fn try_pack(conn: &Connection, one: &Move, wait: u64, told: &Holders) -> Result<Packed, OpError> {
    // Several complete one move: writers wait for none of those that come too late. Not in the transaction, whose first
    // statement locks: where isolation is stricter, its snapshot must not be older than the lock.
    if conn.query_opt(HAS_LEFT, &[&one.shard, &one.version]).await?.is_some() {
        return Ok(Packed::Done);
    }
    let transaction = conn.begin().await?;
    let packed = pack_in(&transaction, one, wait, told).await;
    match packed {
        Ok(Packed::Done) => transaction.commit().await.map(|()| Packed::Done),
        packed => {
            transaction.rollback().await?;
            packed
        }
    }
}

async fn pack_in(
    transaction: &Transaction<'_>,
    one: &Move,
    wait: u64,
    told: &Holders,
) -> Result<Packed, OpError> {
    transaction.batch(&format!("SET LOCAL lock_timeout = {wait}")).await?;
    // Whoever writes a bucket's rows waits here, or is waited for.
    transaction.batch(&format!("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", PARTS.join(", "))).await?;
    // Who came while this waited was not asked for in the target.
    let held = holders(transaction.query(HOLDERS, &[&one.shard]).await?)?;
    if held.keys().any(|worker| !told.contains_key(worker)) {
        return Ok(Packed::Untold);
    }
    if let Some(reason) = queued(transaction.query(QUEUED, &[&one.shard]).await?)? {
        return Ok(Packed::Queued(reason));
    }
    if transaction.execute(LEAVE, &[&one.shard, &one.version, &one.to]).await? == 0 {
        return Ok(Packed::Done);
    }
    for part in PARTS {
        pack_part(transaction, one, part).await?;
    }
    Ok(Packed::Done)
}

/// In pieces, each of which has the time of a statement: what is too much for one would be so at every try.
async fn pack_part(transaction: &Transaction<'_>, one: &Move, part: &str) -> Result<(), OpError> {
    let all = format!("SELECT ctid::text FROM {part} WHERE shard = $1::int2");
    let rows = transaction.query(&all, &[&one.shard]).await?;
    let rows: Vec<String> = rows.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
    let sql = format!(
        "WITH gone AS (DELETE FROM {part} WHERE ctid = ANY(($4::text[])::tid[]) RETURNING *)
        INSERT INTO parcels(shard, version, part, n, line)
        SELECT $1::int2, $2::int8, '{part}', $3::int8 + row_number() OVER (), row_to_json(gone)::text FROM gone"
    );
    let mut packed = 0_i64;
    for piece in rows.chunks(if part == "blobs" { LARGE_PAGE } else { PAGE }) {
        transaction.execute(&sql, &[&one.shard, &one.version, &packed, &piece]).await?;
        packed = packed.saturating_add(i64::try_from(piece.len()).unwrap_or(i64::MAX));
    }
    Ok(())
}

async fn unpack(source: &Database, target: &Database, one: &Move) -> Result<(), StoreError> {
    ask!(target, |conn| {
        let transaction = conn.begin().await?;
        // Of two that unpack, one waits here until the other is done, and then finds it done. The parcel is there until
        // this is committed.
        if transaction.execute(ARRIVE, &[&one.shard, &one.version]).await? > 0 {
            for part in PARTS {
                unpack_part(source, &transaction, one, part).await?;
            }
        }
        transaction.commit().await
    })
}

async fn unpack_part(
    source: &Database,
    transaction: &Transaction<'_>,
    one: &Move,
    part: &str,
) -> Result<(), OpError> {
    let sql = format!(
        "INSERT INTO {part} SELECT r.* FROM unnest($1::text[]) AS p(line)
        CROSS JOIN LATERAL json_populate_record(NULL::{part}, p.line::json) AS r"
    );
    let page = i64::try_from(PAGE).unwrap_or(i64::MAX);
    let mut last = 0_i64;
    loop {
        let rows: Vec<(i64, String)> = ask!(source, |conn| {
            let rows =
                conn.query(LINES, &[&one.shard, &one.version, &part, &last, &page, &PAGE_BYTES]).await?;
            rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect::<Result<_, _>>()
        })?;
        let (numbers, lines): (Vec<i64>, Vec<String>) = rows.into_iter().unzip();
        let Some(highest) = numbers.last() else { return Ok(()) };
        last = *highest;
        transaction.execute(&sql, &[&lines]).await?;
    }
}
