//! The bare writer: what a disk and SQLite allow. One thread takes rows from a queue, writes what is there as one
//! transaction as soon as a row of it is waited for, and answers. It has no engine, and reads nothing.
//!
//! Promise: an answered row is on the disk. In the end every row is there, which is counted.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::Result;

/// At most so many rows in one transaction.
const BATCH: usize = 2_000;

/// How long a batch stays open that nobody waits for.
const LINGER: Duration = Duration::from_millis(1);

const SETTINGS: &str = "
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 10000;
PRAGMA cache_size = -65536;
CREATE TABLE bare(run INTEGER, number INTEGER, events TEXT, PRIMARY KEY(run, number)) WITHOUT ROWID;";

/// A row of a run, and whether its writing is waited for.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) text: Arc<str>,
    pub(crate) awaited: bool,
}

struct Queued {
    run: i64,
    number: i64,
    text: Arc<str>,
    written: Option<oneshot::Sender<()>>,
}

/// What a writer has written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) rows: u64,
    pub(crate) batches: u64,
}

/// A writer that runs.
pub(crate) struct Writer {
    queue: Sender<Queued>,
    thread: JoinHandle<Result<Written>>,
}

impl Writer {
    /// Starts one on a new file.
    pub(crate) fn start(path: &Path) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute_batch(SETTINGS)?;
        let (queue, rows) = channel();
        Ok(Self { queue, thread: std::thread::spawn(move || serve(connection, &rows)) })
    }

    /// Who queues the rows of one run.
    pub(crate) fn run(&self, run: u32) -> Run {
        Run { queue: self.queue.clone(), run: run.into(), next: 0 }
    }

    /// Waits until everything is written.
    pub(crate) fn end(self) -> Result<Written> {
        drop(self.queue);
        self.thread.join().map_err(|_| "the bare writer panicked")?
    }
}

/// One run of a bare writer.
pub(crate) struct Run {
    queue: Sender<Queued>,
    run: i64,
    next: i64,
}

impl Run {
    /// Queues its next row, and waits until it is written where that is asked for.
    pub(crate) async fn put(&mut self, row: &Row) -> Result<()> {
        let (written, answer) = oneshot::channel();
        let written = row.awaited.then_some(written);
        let queued = Queued { run: self.run, number: self.next, text: Arc::clone(&row.text), written };
        self.next += 1;
        self.queue.send(queued).map_err(|_| "the bare writer is gone")?;
        if row.awaited {
            answer.await.map_err(|_| "the bare writer failed")?;
        }
        Ok(())
    }
}

fn serve(mut connection: Connection, queue: &Receiver<Queued>) -> Result<Written> {
    let (mut all, mut batch) = (Written { rows: 0, batches: 0 }, Vec::with_capacity(BATCH));
    while let Ok(first) = queue.recv() {
        fill(&mut batch, first, queue);
        write(&mut connection, &batch)?;
        all.rows += batch.len() as u64;
        all.batches += 1;
        for written in batch.drain(..).filter_map(|queued| queued.written) {
            let _asker_gone = written.send(());
        }
    }
    let found: i64 = connection.query_row("SELECT count(*) FROM bare", [], |row| row.get(0))?;
    if u64::try_from(found)? != all.rows {
        return Err(format!("the bare writer left {found} rows of {}", all.rows).into());
    }
    Ok(all)
}

/// Takes what is in the queue. A batch that nobody waits for stays open for a moment: committed at once, it would keep the
/// disk from the next one.
fn fill(batch: &mut Vec<Queued>, first: Queued, queue: &Receiver<Queued>) {
    let (mut awaited, until) = (first.written.is_some(), Instant::now() + LINGER);
    batch.push(first);
    while batch.len() < BATCH {
        let next = queue.try_recv().ok();
        let wait = || queue.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
        let Some(next) = next.or_else(|| if awaited { None } else { wait() }) else { break };
        awaited |= next.written.is_some();
        batch.push(next);
    }
}

fn write(connection: &mut Connection, batch: &[Queued]) -> Result<()> {
    let transaction = connection.transaction()?;
    let mut insert = transaction.prepare_cached("INSERT INTO bare VALUES(?1, ?2, ?3)")?;
    for row in batch {
        insert.execute(params![row.run, row.number, row.text])?;
    }
    drop(insert);
    Ok(transaction.commit()?)
}

/// How long `runs` runs of the same rows took, `inflight` at a time.
pub(crate) struct Took {
    pub(crate) all: Duration,
    /// Of each run, from the shortest to the longest.
    pub(crate) runs: Vec<Duration>,
    pub(crate) written: Written,
}

/// Writes `runs` runs of these rows into a new file, `inflight` at a time.
pub(crate) async fn lanes(path: &Path, rows: &Arc<[Row]>, (runs, inflight): (u32, u32)) -> Result<Took> {
    let (writer, begun) = (Writer::start(path)?, Instant::now());
    let lanes = (0..inflight).map(|lane| {
        let mine = (lane..runs).step_by(inflight as usize).map(|run| writer.run(run)).collect::<Vec<_>>();
        let rows = Arc::clone(rows);
        tokio::spawn(async move {
            let mut times = Vec::with_capacity(mine.len());
            for mut run in mine {
                let begun = Instant::now();
                for row in &*rows {
                    run.put(row).await?;
                }
                times.push(begun.elapsed());
            }
            Result::Ok(times)
        })
    });
    let mut times = Vec::new();
    for lane in lanes.collect::<Vec<_>>() {
        times.extend(lane.await??);
    }
    let all = begun.elapsed();
    times.sort_unstable();
    let written = writer.end()?;
    let wanted = u64::from(runs) * rows.len() as u64;
    if written.rows != wanted {
        return Err(format!("the bare writer wrote {} rows of {wanted}", written.rows).into());
    }
    Ok(Took { all, runs: times, written })
}
