//! Chains of trivial steps through the whole engine on Postgres, each beside a bare writer in the same database.
//!
//! `cargo bench --bench chain_postgres -- --class tool,read --inflight 1,64,512 --runs R --steps S --rounds N [--json]`
//!
//! Each round measures the bare writer and then the engine; the figures are medians of the rounds. Without `--url` a
//! cluster of the bench's own is started with the configuration that `initdb` writes: commits wait for the disk.
//! `--writers N` gives the engine's store so many writers; `--databases N` places the engine's runs over so many clusters
//! of the bench's own (the bare writer keeps to the first, and WAL is counted there); `--reader` measures both again while another connection holds
//! a REPEATABLE READ snapshot. A run counts from its start to its durable result.
//!
//! Trust ratios of one line, not steps per second of two lines: a machine is not equally fast all the time.

#![allow(clippy::expect_used, reason = "a bench fails with what it saw")]

mod bare;
#[path = "../chain/flows.rs"]
mod flows;
#[path = "../kit/mod.rs"]
mod kit;
#[path = "../chain/recorded.rs"]
mod recorded;

use std::sync::Arc;
use std::time::{Duration, Instant};

use aether::prelude::*;
use aether_pg_tests::Cluster;
use aether_postgres::{PostgresOptions, PostgresStore};
use bare::Shape;
use flows::Class;
use kit::figures::{median, tell};
use serde_json::json;
use tokio_postgres::Client;

struct Options {
    classes: Vec<Class>,
    inflight: Vec<u32>,
    /// Runs of each measurement; chosen by `inflight` where it is 0.
    runs: u32,
    steps: u32,
    rounds: usize,
    reader: bool,
    /// Writers of the engine's store; the bare writer is always one.
    writers: usize,
    databases: usize,
    url: Option<String>,
    json: bool,
}

impl Options {
    fn parse() -> kit::Result<Self> {
        let mut given = kit::options::Options::read();
        let options = Self {
            classes: given.list("--class", vec![Class::Tool, Class::Read])?,
            inflight: given.list("--inflight", vec![1, 64, 512])?,
            runs: given.value("--runs", 0)?,
            steps: given.value("--steps", 10)?.max(1),
            rounds: given.value("--rounds", 3)?.max(1),
            reader: given.flag("--reader"),
            writers: given.value("--writers", 1)?,
            databases: given.value("--databases", 1)?.max(1),
            url: given.text("--url")?,
            json: given.flag("--json"),
        };
        given.end()?;
        Ok(options)
    }

    fn runs(&self, inflight: u32) -> u32 {
        match (self.runs, inflight) {
            (0, 1) => 100,
            (0, ..=16) => 50 * inflight,
            (0, ..=100) => 3_000,
            (0, _) => 6_000,
            (runs, _) => runs,
        }
    }
}

/// What one measurement gives.
struct Measured {
    steps_per_s: f64,
    wal_per_step: f64,
    /// Median of the time of a run, divided by its steps.
    step_ms: f64,
    /// Median time from the beginning of one tool step to that of the next one of its run.
    tool_p50_ms: Option<f64>,
}

/// A tool step begins with a frame of its own, which is on disk before the tool is called.
const TOOL_P50: &str = "
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY took)::float8 / 1000 FROM (
    SELECT at - lag(at) OVER (PARTITION BY shard, run ORDER BY frame) AS took
    FROM aether.journal WHERE events LIKE '%{\"tool_invocation_started\":%') AS steps";

struct Bench {
    options: Options,
    /// The databases of the engine's store. The first is the bare writer's as well.
    urls: Vec<String>,
    /// A connection to the first.
    admin: Client,
}

impl Bench {
    /// Bytes of write-ahead log so far.
    async fn wal(&self) -> std::result::Result<f64, String> {
        let sql = "SELECT (pg_current_wal_lsn() - '0/0')::float8";
        let row = self.admin.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
        Ok(row.get(0))
    }

    async fn measured(
        &self,
        steps: f64,
        measure: impl Future<Output = std::result::Result<(Duration, Duration), String>>,
    ) -> std::result::Result<Measured, String> {
        let before = self.wal().await?;
        let (took, run) = measure.await?;
        let wal = self.wal().await? - before;
        Ok(Measured {
            steps_per_s: steps / took.as_secs_f64(),
            wal_per_step: wal / steps,
            step_ms: run.as_secs_f64() * 1e3 / f64::from(self.options.steps),
            tool_p50_ms: None,
        })
    }

    async fn bare(&self, shapes: &Arc<Vec<Shape>>, inflight: u32) -> std::result::Result<Measured, String> {
        let runs = self.options.runs(inflight);
        let measure = async {
            let took = bare::measure(&self.urls[0], shapes, (runs, inflight)).await?;
            Ok((took, took * inflight / runs))
        };
        self.measured(f64::from(runs) * f64::from(self.options.steps), measure).await
    }

    /// A new store in all databases.
    async fn store(&self) -> std::result::Result<PostgresStore, String> {
        for url in &self.urls {
            let client = bare::connect(url).await?;
            client.batch_execute("DROP SCHEMA IF EXISTS aether CASCADE").await.map_err(|e| e.to_string())?;
        }
        let options = PostgresOptions::new().writers(self.options.writers);
        let [one] = self.urls.as_slice() else {
            let urls = self.urls.iter().enumerate().map(|(at, url)| (at.to_string(), url));
            let store = PostgresStore::connect_all_with(urls, options).await.map_err(|e| e.to_string())?;
            store.rebalance().await.map_err(|e| e.to_string())?;
            return Ok(store);
        };
        PostgresStore::connect_with(one, options).await.map_err(|e| e.to_string())
    }

    async fn engine(&self, class: Class, inflight: u32) -> std::result::Result<Measured, String> {
        let store = self.store().await?;
        let engine = Engine::builder().store(Arc::new(store)).start().await.map_err(|e| e.to_string())?;
        let (runs, steps) = (self.options.runs(inflight), self.options.steps);
        // Connections, prepared statements and the pages of the indexes' roots.
        flows::lanes(&engine, class, (inflight, 2, inflight)).await?;
        let measure = async {
            let (took, times) = flows::lanes(&engine, class, (runs, steps, inflight)).await?;
            Ok((took, times[times.len() / 2]))
        };
        let mut measured = self.measured(f64::from(runs) * f64::from(steps), measure).await?;
        engine.shutdown().await.map_err(|e| e.to_string())?;
        measured.tool_p50_ms = self.admin.query_one(TOOL_P50, &[]).await.map_err(|e| e.to_string())?.get(0);
        Ok(measured)
    }

    /// Median milliseconds of one row that is inserted and committed alone.
    async fn insert(&self) -> std::result::Result<f64, String> {
        let sql = "CREATE TABLE IF NOT EXISTS one_row(n int8 PRIMARY KEY, t text); TRUNCATE one_row";
        self.admin.batch_execute(sql).await.map_err(|e| e.to_string())?;
        let insert = self.admin.prepare("INSERT INTO one_row VALUES ($1, repeat('x', 500))").await;
        let insert = insert.map_err(|e| e.to_string())?;
        let mut times = Vec::new();
        for n in 0..500_i64 {
            let begun = Instant::now();
            self.admin.execute(&insert, &[&n]).await.map_err(|e| e.to_string())?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        Ok(times[times.len() / 2].as_secs_f64() * 1e3)
    }

    /// All rounds of one class and number of runs in flight, as a line. `beside` says whether there is a reader.
    async fn line(&self, class: Class, inflight: u32, beside: bool) -> std::result::Result<(), String> {
        let shapes = Arc::new(bare::shapes(&recorded::frames(class, self.options.steps).await?)?);
        let (mut bare, mut engine, mut inserts) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.options.rounds {
            inserts.push(self.insert().await?);
            bare.push(self.bare(&shapes, inflight).await?);
            engine.push(self.engine(class, inflight).await?);
        }
        let of = |all: &[Measured], what: fn(&Measured) -> f64| median(all.iter().map(what).collect());
        let ratios = engine.iter().zip(&bare).map(|(engine, bare)| engine.steps_per_s / bare.steps_per_s);
        let (insert, ratio) = (median(inserts.clone()), median(ratios.collect()));
        let (bare_rate, rate) = (of(&bare, |m| m.steps_per_s), of(&engine, |m| m.steps_per_s));
        let step_ms = of(&engine, |m| m.step_ms);
        let tool_p50s = engine.iter().map(|m| m.tool_p50_ms).collect::<Option<Vec<_>>>();
        let to_insert =
            tool_p50s.as_ref().map(|all| all.iter().zip(&inserts).map(|(ms, insert)| ms / insert));
        let (to_insert, tool_p50) = (to_insert.map(|all| median(all.collect())), tool_p50s.map(median));
        let shown = tool_p50.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2}"));
        let (bare_wal, wal) = (of(&bare, |m| m.wal_per_step), of(&engine, |m| m.wal_per_step));
        let figures = json!({
            "engine": "aether-postgres", "class": class.name(), "inflight": inflight, "runs": self.options.runs(inflight),
            "steps": self.options.steps, "rounds": self.options.rounds, "writers": self.options.writers,
            "databases": self.urls.len(), "reader": beside, "steps_per_s": rate, "step_ms": step_ms, "insert_ms": insert,
            "tool_p50_ms": tool_p50, "tool_p50_to_insert": to_insert,
            "wal_bytes_per_step": wal, "floor_steps_per_s": bare_rate, "floor_wal_bytes_per_step": bare_wal,
            "ratio": ratio,
        });
        let text = format!(
            "{:<5} {inflight:>8} {bare_rate:>9.0} {rate:>9.0} {ratio:>7.2} {step_ms:>10.2} {shown:>9} {insert:>9.2} {bare_wal:>9.0} {wal:>9.0}",
            class.name(),
        );
        tell(self.options.json, "chain_postgres", figures, &text);
        Ok(())
    }

    /// Says something to people: who asked for JSON gets nothing else.
    fn say(&self, text: &str) {
        if !self.options.json {
            println!("{text}");
        }
    }

    async fn lines(&self, beside: bool) -> std::result::Result<(), String> {
        self.say(&format!(
            "{:<5} {:>8} {:>9} {:>9} {:>7} {:>10} {:>9} {:>9} {:>9} {:>9}",
            "class",
            "inflight",
            "bare",
            "engine",
            "ratio",
            "ms/step",
            "tool p50",
            "insert ms",
            "WAL bare",
            "WAL"
        ));
        for class in &self.options.classes {
            for inflight in &self.options.inflight {
                self.line(*class, *inflight, beside).await?;
            }
        }
        Ok(())
    }
}

async fn measure(options: Options) -> std::result::Result<(), String> {
    let clusters: Vec<_> = match options.url {
        None => (0..options.databases).map(|_| Cluster::begin(Cluster::options().durable())).collect(),
        Some(_) => Vec::new(),
    };
    let mut databases = Vec::new();
    for cluster in &clusters {
        databases.push(cluster.database().await);
    }
    let urls = match &options.url {
        None => databases.iter().map(aether_pg_tests::Database::url).collect(),
        Some(url) => vec![url.clone()],
    };
    let bench = Bench { admin: bare::connect(&urls[0]).await?, urls, options };
    let version = bench.admin.query_one("SELECT version()", &[]).await.map_err(|e| e.to_string())?;
    bench.say(&format!(
        "{}\nsteps/s; ms/step is the median run divided by its {} steps, tool p50 from one step's beginning to the next one's",
        version.get::<_, &str>(0),
        bench.options.steps
    ));
    bench.lines(false).await?;
    if bench.options.reader {
        let reader = bare::connect(&bench.urls[0]).await?;
        let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
        reader.batch_execute(snapshot).await.map_err(|e| e.to_string())?;
        bench.say("beside a REPEATABLE READ snapshot:");
        bench.lines(true).await?;
        reader.batch_execute("COMMIT").await.map_err(|e| e.to_string())?;
    }
    drop(databases);
    Ok(())
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let outcome = match Options::parse() {
        Ok(options) => measure(options).await,
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = outcome {
        eprintln!("chain_postgres: {error}");
        return std::process::ExitCode::FAILURE;
    }
    std::process::ExitCode::SUCCESS
}
