//! Batches of appends into a SQLite file, as those of tool steps are.
//!
//! Promise: every batch has the same number of appends, and the writer's thread never finds its queue empty: it is held
//! until all of them are queued, and nobody waits for the answers but for the last. Otherwise waiting and waking would
//! count, and they depend on who gets a turn when.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use aether::id::{CodeId, CommandId, IdempotencyKey, InvocationId, RunId, WorkerId};
use aether::jiff::Timestamp;
use aether::sqlite::{SqliteOptions, SqliteStore};
use aether::store::journal::Frame;
use aether::store::ledger::{Acquire, LedgerEntry, LedgerStatus, LedgerUpdate};
use aether::store::{Ack, Append, DurableWatermark, NewRun, Rollback, Store, StoreError, Work};
use aether_core::journal::event::Event;
use aether_core::payload::{Digest, Payload};

use super::Result;

/// A batch has two appends for each.
pub(crate) const STEPS_OF_A_BATCH: u32 = 32;
const HOUR: Duration = Duration::from_secs(3_600);

/// Writes so many batches of the two appends of `step`, its intent and its outcome.
pub(crate) async fn write(step: &[Vec<Event>], batches: u32) -> Result<()> {
    let [intent, outcome] = step else { return Err(format!("a step has {} frames", step.len()).into()) };
    let (intent, outcome) = (Frame::encode(intent)?, Frame::encode(outcome)?);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let options =
        SqliteOptions { batch: 2 * STEPS_OF_A_BATCH as usize, linger: HOUR, ..SqliteOptions::default() };
    let store = SqliteStore::open_with(dir.path().join("instructions.db"), options)?;
    let mut journal = Journal::begin(&store, &intent).await?;
    let (release, until) = channel();
    journal.hold(&store, &outcome, until);
    for number in 0..batches * STEPS_OF_A_BATCH {
        let acquire = acquire(&journal.run, number, &outcome)?;
        let key = acquire.entry.key.clone();
        journal.append(&store, &intent, Some(acquire), Vec::new());
        journal.append(&store, &outcome, None, vec![succeeded(key)?]);
    }
    release.send(())?;
    journal.last(&store, &outcome).await?;
    store.close().await?;
    Ok(())
}

/// A unit of work that keeps the writer's thread until it is released.
#[derive(Debug)]
struct Hold {
    key: IdempotencyKey,
    frame: Frame,
    until: Receiver<()>,
}

impl Work for Hold {
    fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    fn timeout(&self) -> Option<Duration> {
        None
    }

    fn call(&mut self) -> bool {
        self.until.recv().is_ok()
    }

    fn frame(&mut self, _undone: Option<Rollback>) -> std::result::Result<Frame, StoreError> {
        Ok(self.frame.clone())
    }
}

/// A run that is written.
struct Journal {
    run: RunId,
    end: u64,
    watermark: Arc<DurableWatermark>,
}

impl Journal {
    async fn begin(store: &SqliteStore, frame: &Frame) -> Result<Self> {
        let run = RunId::new("written")?;
        let new = NewRun {
            id: run.clone(),
            workflow: "chain".into(),
            version: 1,
            code: CodeId::of("bench", "chain", 1, "0011223344556677"),
            digest: Digest::of(&Payload::null())?,
            parent: None,
            labels: Default::default(),
            traceparent: None,
            frame: frame.clone(),
            at: Timestamp::UNIX_EPOCH,
            owner: Some(WorkerId::from("worker".to_owned())),
            parent_epoch: None,
            terms: Default::default(),
        };
        store.create(new).await?;
        let end = u64::from(frame.count);
        Ok(Self { run, end, watermark: Arc::new(DurableWatermark::from(end)) })
    }

    /// What is appended after this is written when `until` says so.
    fn hold(&mut self, store: &SqliteStore, frame: &Frame, until: Receiver<()>) {
        let key = IdempotencyKey::new(&self.run, &CommandId::new("0", "hold"), 0);
        let work = Hold { key, frame: frame.clone(), until };
        let append = Append { work: Some(Box::new(work)), ..self.next(frame) };
        store.append(append);
    }

    fn append(
        &mut self,
        store: &SqliteStore,
        frame: &Frame,
        acquire: Option<Acquire>,
        ledger: Vec<LedgerUpdate>,
    ) {
        let append = Append { acquire, ledger, ..self.next(frame) };
        store.append(append);
    }

    /// The append behind all others, and its answer.
    async fn last(&mut self, store: &SqliteStore, frame: &Frame) -> Result<()> {
        let (ack, answer) = Ack::awaited(self.run.clone(), self.after(frame), Arc::clone(&self.watermark));
        let append = self.answered_by(frame, ack);
        store.append(append);
        answer.await??;
        Ok(())
    }

    fn next(&mut self, frame: &Frame) -> Append {
        let ack = Ack::silent(self.run.clone(), self.after(frame), Arc::clone(&self.watermark));
        self.answered_by(frame, ack)
    }

    fn after(&self, frame: &Frame) -> u64 {
        self.end + u64::from(frame.count)
    }

    fn answered_by(&mut self, frame: &Frame, ack: Ack) -> Append {
        let after = self.after(frame);
        let expected = std::mem::replace(&mut self.end, after);
        Append {
            run: self.run.clone(),
            epoch: 1,
            expected,
            at: Timestamp::UNIX_EPOCH,
            frame: frame.clone(),
            work: None,
            acquire: None,
            ledger: Vec::new(),
            status: None,
            consumed: Vec::new(),
            waits: Vec::new(),
            code: None,
            unless_asked_to_end: false,
            renews: None,
            streams: Vec::new(),
            ack,
        }
    }
}

fn acquire(run: &RunId, number: u32, otherwise: &Frame) -> Result<Acquire> {
    let command = CommandId::new(&number.to_string(), "send");
    let entry = LedgerEntry {
        key: IdempotencyKey::new(run, &command, 0),
        run: run.clone(),
        invocation: InvocationId::new(&command, 0),
        command,
        tool: "send".into(),
        digest: Digest::of(&Payload::encode(&number)?)?,
        business_key: None,
        status: LedgerStatus::Started,
        result: None,
        error: None,
        committed: false,
        epoch: 1,
        started_at: Timestamp::UNIX_EPOCH,
        finished_at: None,
    };
    Ok(Acquire { entry, otherwise: otherwise.clone() })
}

fn succeeded(key: IdempotencyKey) -> Result<LedgerUpdate> {
    let result = Some(Payload::encode(&"0".repeat(100))?);
    Ok(LedgerUpdate { key, status: LedgerStatus::Succeeded, result, error: None, committed: true })
}
