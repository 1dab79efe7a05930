//! Streams: how late a reader is, and what streams cost a store.
//!
//! `cargo bench --bench streams -- [--store sqlite|postgres] [--streams N] [--rate R] [--seconds S] [--dir DIR] [--json]`
//!
//! N runs (default 1,000) send R items a second each (default 50) for S seconds (default 10), and a reader of each in the
//! same process takes them. Measured are the time from the send of an item to its arrival, how often the engine wrote to
//! the store, and the largest memory of the process. Each write is one transaction with all that was sent meanwhile, and so
//! at most one fsync; it gives each stream one chunk, so the stream with the most chunks tells how many there were.

#[path = "kit/mod.rs"]
mod kit;

use std::sync::Arc;
use std::time::{Duration, Instant};

use aether::postgres::PostgresStore;
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::Store;
use aether::stream::{StreamEvent, StreamReader};
use aether_pg_tests::Cluster;
use serde_json::json;

/// When all of them began, to tell times by.
#[derive(Clone, Debug)]
struct Began(Instant);

impl Began {
    fn micros(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Send the time, again and again.
#[step(effect = "read", needs(Began))]
async fn tell_time(cx: &mut StepCx, rate: u64, seconds: u64) -> Result<u64> {
    let (began, stream) = (cx.dep::<Began>()?, cx.stream("time"));
    let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 / rate.max(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    for _ in 0..rate * seconds {
        ticks.tick().await;
        stream.send(&began.micros());
    }
    Ok(rate * seconds)
}

/// Tells the time.
#[workflow]
async fn tell(cx: &mut Cx, input: (u64, u64)) -> Result<u64> {
    let (rate, seconds) = input;
    Ok(tell_time(cx, rate, seconds).await?)
}

/// What one reader saw: how late each item was, in microseconds, and in how many chunks they came.
struct Seen {
    late: Vec<u64>,
    chunks: usize,
}

async fn read(mut reader: StreamReader<u64>, began: Began) -> kit::Result<Seen> {
    let mut seen = Seen { late: Vec::new(), chunks: 0 };
    while let Some(event) = reader.next().await? {
        match event {
            StreamEvent::Chunk { items, .. } => {
                let now = began.micros();
                seen.late.extend(items.into_iter().map(|sent| now.saturating_sub(sent)));
                seen.chunks += 1;
            }
            // The chunks that are joined then were read before.
            StreamEvent::Committed { .. } => break,
            _ => {}
        }
    }
    Ok(seen)
}

#[tokio::main]
async fn main() -> kit::Result<()> {
    let mut options = kit::options::Options::read();
    let kind = options.value("--store", "sqlite".to_owned())?;
    let (streams, rate) = (options.value("--streams", 1_000_usize)?, options.value("--rate", 50_u64)?);
    let seconds = options.value("--seconds", 10_u64)?;
    let (json, folder) = (options.flag("--json"), kit::place::folder(&mut options)?);
    options.end()?;
    let dir = tempfile::tempdir_in(folder)?;
    let cluster = (kind == "postgres").then(|| Cluster::begin(Cluster::options().durable()));
    let (_database, store): (_, Arc<dyn Store>) = match &cluster {
        Some(cluster) => {
            let database = cluster.database().await;
            let store = PostgresStore::connect(&database.url()).await?;
            (Some(database), Arc::new(store))
        }
        None => (None, Arc::new(SqliteStore::open(dir.path().join("streams.db"))?)),
    };
    let began = Began(Instant::now());
    let engine =
        Engine::builder().store(store).provide(began.clone()).max_active(streams + 1).start().await?;
    let mut readers = Vec::new();
    for number in 0..streams {
        let run = engine.start::<tell>((rate, seconds)).id(format!("run-{number}")).await?;
        let reader = run.stream::<u64>("time");
        readers.push((run, tokio::spawn(read(reader, began.clone()))));
    }
    let (mut late, mut chunks) = (Vec::new(), 0);
    for (run, reader) in readers {
        let seen = reader.await??;
        let sent = run.result().await?;
        if u64::try_from(seen.late.len())? != sent {
            return Err(format!("{} items of {sent} arrived", seen.late.len()).into());
        }
        late.extend(seen.late);
        chunks = chunks.max(seen.chunks);
    }
    engine.shutdown().await?;
    late.sort_unstable();
    let at = |part: f64| late.get((late.len() as f64 * part) as usize).map_or(0.0, |us| *us as f64 / 1000.0);
    let (median, p99, peak_mb) = (at(0.5), at(0.99), kit::memory::peak_mb());
    let writes = chunks as f64 / seconds as f64;
    let figures = json!({
        "store": kind, "streams": streams, "rate": rate, "seconds": seconds, "median_ms": median, "p99_ms": p99,
        "writes_per_s": writes, "peak_mb": peak_mb,
    });
    let text = format!(
        "{streams} streams of {rate} items/s on {kind}: median {median:.1} ms, p99 {p99:.1} ms, {writes:.1} writes/s, {} MB",
        peak_mb.unwrap_or_default()
    );
    kit::figures::tell(json, "streams", figures, &text);
    Ok(())
}
