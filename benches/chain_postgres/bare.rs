//! A bare writer: what the Postgres store has to be measured against. It queues appends, writes each batch as one
//! statement that only inserts, and answers. It has no engine, reads nothing, and never retries.
//!
//! Promise: it writes frames of the sizes that the engine writes for the same chain, awaits those that the engine awaits,
//! and counts at the end that every frame is there.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use aether::store::journal::StoredFrame;
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

const SCHEMA: &str = "
DROP SCHEMA IF EXISTS bare CASCADE;
CREATE SCHEMA bare;
CREATE TABLE bare.runs(shard int2 NOT NULL, id text COLLATE \"C\" NOT NULL, digest text NOT NULL, created_at int8 NOT NULL,
    status int2 NOT NULL, PRIMARY KEY(shard, id)) WITH (fillfactor = 70);
CREATE TABLE bare.journal(shard int2 NOT NULL, run text COLLATE \"C\" NOT NULL, frame int8 NOT NULL, position int8 NOT NULL,
    count int8 NOT NULL, at int8 NOT NULL, epoch int8 NOT NULL, final bool NOT NULL, events text NOT NULL,
    chain bytea NOT NULL, PRIMARY KEY(shard, run, frame));
CREATE TABLE bare.ledger(shard int2 NOT NULL, run text COLLATE \"C\" NOT NULL, key text COLLATE \"C\" NOT NULL,
    tool text NOT NULL, digest text NOT NULL, status int2 NOT NULL, started_at int8 NOT NULL, finished int8,
    PRIMARY KEY(shard, run, key)) WITH (fillfactor = 50);";

/// It plans for arrays of ten elements and tables that are empty: only the indexes are left to it.
const SETTINGS: &str = "SET search_path = bare; SET enable_seqscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET enable_material = off; SET plan_cache_mode = force_generic_plan; SET jit = off";

const CREATE: &str = "
WITH c AS MATERIALIZED (SELECT * FROM unnest($1::int2[], $2::text[], $3::int8[], $4::text[], $5::bytea[])
        AS c(shard, id, at, events, chain)),
    made AS (INSERT INTO runs SELECT shard, id, repeat('d', 64), at, 1 FROM c ON CONFLICT DO NOTHING RETURNING shard, id)
INSERT INTO journal SELECT shard, id, 0, 0, 1, at, 1, false, events, chain FROM c
WHERE ((shard, id) IN (SELECT shard, id FROM made)) IS TRUE RETURNING run";

/// $1 to $5: a row for each run. $6 to $13: frames. $14 to $18: keys to acquire. $19 to $23: keys to settle. The first of
/// each is the number of its run in the batch.
const APPEND: &str = "
WITH g AS MATERIALIZED (SELECT * FROM unnest($1::int2[], $2::text[], $3::int8[], $4::int8[], $5::bool[])
        WITH ORDINALITY AS g(shard, run, before, expected, ends, no)),
    acquire AS (SELECT * FROM unnest($14::int8[], $15::int2[], $16::text[], $17::text[], $18::int8[])
        AS k(no, shard, run, key, at)),
    taken AS (SELECT k.no FROM acquire k JOIN ledger l ON l.shard = k.shard AND l.run = k.run AND l.key = k.key),
    ok AS (SELECT g.* FROM g JOIN journal p ON p.shard = g.shard AND p.run = g.run AND p.frame = g.before
        WHERE p.epoch = 1 AND p.position + p.count = g.expected AND NOT p.final
        AND NOT EXISTS (SELECT FROM journal n WHERE n.shard = g.shard AND n.run = g.run AND n.frame = g.before + 1)
        AND g.no NOT IN (SELECT no FROM taken)),
    frames AS (INSERT INTO journal SELECT shard, run, frame, position, count, 0, 1, final, events, chain
        FROM unnest($6::int8[], $7::int2[], $8::text[], $9::int8[], $10::int8[], $11::int8[], $12::bool[], $13::text[],
            $24::bytea[]) AS f(no, shard, run, frame, position, count, final, events, chain)
        WHERE (no IN (SELECT no FROM ok)) IS TRUE),
    acquired AS (INSERT INTO ledger SELECT shard, run, key, 'chain::send', repeat('d', 64), 1, at, NULL
        FROM acquire WHERE (no IN (SELECT no FROM ok)) IS TRUE),
    settled AS (UPDATE ledger l SET status = 2, finished = s.at
        FROM unnest($19::int8[], $20::int2[], $21::text[], $22::text[], $23::int8[]) AS s(no, shard, run, key, at)
        WHERE l.shard = s.shard AND l.run = s.run AND l.key = s.key AND (s.no IN (SELECT no FROM ok)) IS TRUE),
    ended AS (UPDATE runs r SET status = 2 FROM ok AS g WHERE g.ends AND r.shard = g.shard AND r.id = g.run)
SELECT no FROM ok";

/// How long a batch stays open that nobody waits for.
const LINGER: Duration = Duration::from_millis(2);

/// What one frame of a chain is like.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    bytes: usize,
    count: i64,
    acquires: bool,
    settles: bool,
}

/// The shapes of a journal that the engine wrote.
pub(crate) fn shapes(journal: &[StoredFrame]) -> Result<Vec<Shape>, String> {
    let of = |stored: &StoredFrame| {
        let count = stored.events().map_err(text)?.len();
        Ok(Shape {
            bytes: stored.text.len(),
            count: i64::try_from(count).map_err(text)?,
            acquires: crate::recorded::starts(stored),
            settles: stored.text.contains("{\"tool_invocation_finished\":"),
        })
    };
    journal.iter().map(of).collect()
}

struct Append {
    run: Arc<str>,
    position: i64,
    shape: Shape,
    /// Number of the invocation that it acquires or settles.
    key: u32,
    ends: bool,
    reply: Option<oneshot::Sender<()>>,
}

impl Append {
    fn key(&self, settled: bool) -> String {
        format!("aether:{}:{}:send:0", self.run, self.key - u32::from(settled && self.shape.acquires))
    }

    fn text(&self) -> String {
        format!("[\"{}\"]", "x".repeat(self.shape.bytes.saturating_sub(4)))
    }
}

/// The bucket of a run, first in every key.
fn shard(run: &str) -> i16 {
    let hash = run
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    ((hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 52) as i16
}

fn chain(before: &[u8], position: i64, text: &str) -> Vec<u8> {
    let hash = Sha256::new().chain_update(before).chain_update(position.to_be_bytes());
    hash.chain_update(text).finalize().to_vec()
}

/// One column each.
#[allow(clippy::type_complexity, reason = "the columns of a statement, as they are bound")]
#[derive(Default)]
struct Arrays {
    groups: (Vec<i16>, Vec<String>, Vec<i64>, Vec<i64>, Vec<bool>),
    frames: (Vec<i64>, Vec<i16>, Vec<String>, Vec<i64>, Vec<i64>, Vec<i64>, Vec<bool>, Vec<String>),
    chains: Vec<Vec<u8>>,
    acquire: Keys,
    settle: Keys,
}

type Keys = (Vec<i64>, Vec<i16>, Vec<String>, Vec<String>, Vec<i64>);

impl Arrays {
    fn params(&self) -> [&(dyn ToSql + Sync); 24] {
        let (g, f, a, s) = (&self.groups, &self.frames, &self.acquire, &self.settle);
        [
            &g.0,
            &g.1,
            &g.2,
            &g.3,
            &g.4,
            &f.0,
            &f.1,
            &f.2,
            &f.3,
            &f.4,
            &f.5,
            &f.6,
            &f.7,
            &a.0,
            &a.1,
            &a.2,
            &a.3,
            &a.4,
            &s.0,
            &s.1,
            &s.2,
            &s.3,
            &s.4,
            &self.chains,
        ]
    }
}

struct Writer {
    client: Client,
    create: Statement,
    append: Statement,
    /// Number and chain of each run's last frame.
    heads: HashMap<Arc<str>, (i64, Vec<u8>)>,
}

impl Writer {
    async fn serve(mut self, mut queue: mpsc::UnboundedReceiver<Append>) -> Result<(), String> {
        while let Some(first) = queue.recv().await {
            let mut awaited = first.reply.is_some();
            let mut batch = vec![first];
            while batch.len() < 2048 {
                let next = match queue.try_recv() {
                    Err(_) if !awaited => tokio::time::timeout(LINGER, queue.recv()).await.ok().flatten(),
                    other => other.ok(),
                };
                let Some(next) = next else { break };
                awaited |= next.reply.is_some();
                batch.push(next);
            }
            self.write(&batch).await?;
            for reply in batch.into_iter().filter_map(|append| append.reply) {
                let _asker_gone = reply.send(());
            }
            // Who was just answered queues the next append now.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// One transaction of at most two statements, in one round trip.
    async fn write(&mut self, batch: &[Append]) -> Result<(), String> {
        let (mut new, mut groups) = (BTreeMap::new(), BTreeMap::<_, Vec<&Append>>::new());
        for append in batch {
            let place = (shard(&append.run), &*append.run);
            match append.position {
                0 => drop(new.insert(place, append)),
                _ => groups.entry(place).or_default().push(append),
            }
        }
        let created = self.created(&new);
        let (arrays, number) = (self.arrays(&groups), groups.len());
        let both = !new.is_empty() && !groups.is_empty();
        let around = async |sql| if both { self.client.batch_execute(sql).await } else { Ok(()) };
        let create = async {
            let params: [&(dyn ToSql + Sync); 5] =
                [&created.0, &created.1, &created.2, &created.3, &created.4];
            if new.is_empty() { Ok(Vec::new()) } else { self.client.query(&self.create, &params).await }
        };
        let append = async {
            if groups.is_empty() {
                Ok(Vec::new())
            } else {
                self.client.query(&self.append, &arrays.params()).await
            }
        };
        let (begun, made, appended, ended) = tokio::join!(around("BEGIN"), create, append, around("COMMIT"));
        let passed = (made.map_err(text)?.len(), appended.map_err(text)?.len());
        begun.and(ended).map_err(text)?;
        if passed != (new.len(), number) {
            return Err(format!("{passed:?} passed of {} new runs and {number} groups", new.len()));
        }
        batch.iter().filter(|append| append.ends).for_each(|append| drop(self.heads.remove(&append.run)));
        Ok(())
    }

    #[allow(clippy::type_complexity)]
    fn created(
        &mut self,
        new: &BTreeMap<(i16, &str), &Append>,
    ) -> (Vec<i16>, Vec<String>, Vec<i64>, Vec<String>, Vec<Vec<u8>>) {
        let mut columns = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (&(shard, run), append) in new {
            let text = append.text();
            let hash = chain(&[], 0, &text);
            self.heads.insert(append.run.clone(), (0, hash.clone()));
            columns.extend([(shard, run.to_owned(), 0, text, hash)]);
        }
        columns
    }

    fn arrays(&mut self, groups: &BTreeMap<(i16, &str), Vec<&Append>>) -> Arrays {
        let mut all = Arrays::default();
        for (no, (&(shard, run), appends)) in (1..).zip(groups) {
            let Some((frame, hash)) = self.heads.get_mut(run) else { continue };
            let ends = appends.iter().any(|append| append.ends);
            all.groups.extend([(shard, run.to_owned(), *frame, appends[0].position, ends)]);
            for append in appends {
                let (text, at, acquired) = (append.text(), append.position, all.acquire.3.len());
                (*frame, *hash) = (*frame + 1, chain(hash, at, &text));
                let row = (no, shard, run.to_owned(), *frame, at, append.shape.count, append.ends, text);
                all.frames.extend([row]);
                all.chains.push(hash.clone());
                if append.shape.settles {
                    // No row of these chains is settled in the batch that acquires it: the acquire is awaited.
                    all.settle.extend([(no, shard, run.to_owned(), append.key(true), at)]);
                }
                if append.shape.acquires {
                    all.acquire.extend([(no, shard, run.to_owned(), append.key(false), at)]);
                }
                debug_assert!(all.acquire.3.len() - acquired <= 1);
            }
        }
        all
    }
}

fn text(error: impl Display) -> String {
    format!("{error:#}")
}

pub(crate) async fn connect(url: &str) -> Result<Client, String> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(text)?;
    tokio::spawn(connection);
    Ok(client)
}

/// One run of these frames; awaits what the engine awaits.
async fn drive(queue: &mpsc::UnboundedSender<Append>, run: Arc<str>, shapes: &[Shape]) -> Result<(), String> {
    let (mut position, mut key) = (0, 0);
    for (number, shape) in shapes.iter().enumerate() {
        let ends = number + 1 == shapes.len();
        let (reply, answer) = oneshot::channel();
        key += u32::from(shape.acquires);
        let awaited = number == 0 || ends || shape.acquires;
        let reply = awaited.then_some(reply);
        let append = Append { run: run.clone(), position, shape: shape.clone(), key, ends, reply };
        position += shape.count;
        queue.send(append).map_err(|_| "the writer is gone")?;
        if awaited {
            answer.await.map_err(|_| "the writer failed")?;
        }
    }
    Ok(())
}

/// `runs` runs of these frames, `inflight` at a time, by one writer on an empty schema: how long they took.
pub(crate) async fn measure(
    url: &str,
    shapes: &Arc<Vec<Shape>>,
    (runs, inflight): (u32, u32),
) -> Result<Duration, String> {
    let client = connect(url).await?;
    client.batch_execute(SCHEMA).await.map_err(text)?;
    client.batch_execute(SETTINGS).await.map_err(text)?;
    let (create, append) =
        (client.prepare(CREATE).await.map_err(text)?, client.prepare(APPEND).await.map_err(text)?);
    let (send, receive) = mpsc::unbounded_channel();
    let writer = tokio::spawn(Writer { client, create, append, heads: HashMap::new() }.serve(receive));
    let (begun, next) = (Instant::now(), Arc::new(AtomicU32::new(0)));
    let lanes = (0..inflight).map(|_| {
        let (next, send, shapes) = (next.clone(), send.clone(), shapes.clone());
        tokio::spawn(async move {
            while next.fetch_add(1, Relaxed) < runs {
                drive(&send, uuid::Uuid::now_v7().to_string().into(), &shapes).await?;
            }
            Ok::<_, String>(())
        })
    });
    let (lanes, mut driven) = (lanes.collect::<Vec<_>>(), Ok(()));
    for lane in lanes {
        driven = driven.and(lane.await.map_err(text)?);
    }
    let took = begun.elapsed();
    drop(send);
    writer.await.map_err(text)?.and(driven)?;
    let row = connect(url).await?.query_one("SELECT count(*) FROM bare.journal", &[]).await.map_err(text)?;
    let (found, wanted) = (row.get::<_, i64>(0), i64::from(runs) * shapes.len() as i64);
    if found != wanted {
        return Err(format!("the bare writer left {found} frames of {wanted}"));
    }
    Ok(took)
}
