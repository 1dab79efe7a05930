//! Importing a recording into a store.
//!
//! Promise: no engine claims a run whose journal is only partly imported.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::journal::event::Event;
use crate::journal::frame::Frame;
use crate::recording::recorded::{RecordedFrame, RecordedRun, Recording, RecordingError};
use crate::store::ack::{Ack, DurableWatermark};
use crate::store::api::Store;
use crate::store::append::{Append, StatusChange};
use crate::store::encoding::key_of_program;
use crate::store::error::{AppendError, StoreError};
use crate::store::ledger::{Acquire, LedgerEntry, LedgerStatus, LedgerUpdate, Reservation};
use crate::store::open_waits::OpenWaits;
use crate::store::records::{Created, NewRun};
use crate::store::reserve::{Reserved, reserve};
use crate::store::waits::WaitChange;
use crate::vocabulary::codec::CodecError;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CodeId, Position, RunId, WorkerId};

impl Recording {
    /// Imports its runs and blobs into `store`, and returns the ids of the runs. Journals get new hash chains there.
    ///
    /// Nothing is executed: a run that had not ended waits, and no engine claims it by itself. It resumes when a message
    /// is sent to it.
    ///
    /// # Errors
    /// [`RecordingError::Exists`] when the store has a run with one of these ids; this is checked before anything is
    /// written, as is that a store without the program's payload codec would get values in the open beside encoded ones:
    /// [`StoreError::Codec`], told from the newest run of the workflow, or else of the store. [`RecordingError::Store`] and [`RecordingError::Refused`] when the store fails; a run that is then only
    /// partly imported is never claimed by an engine.
    pub async fn import(&self, store: &dyn Store) -> Result<Vec<RunId>, RecordingError> {
        for run in &self.runs {
            if store.run(&run.run).await?.is_some() {
                return Err(exists(store, &run.run));
            }
        }
        for run in &self.runs {
            refuse_open(store, run).await?;
        }
        for run in &self.runs {
            store.announce(&run.run, &run.created.labels);
            for name in run.blob_names() {
                if let Some(blob) = self.blobs.get(name) {
                    store.put_blob(&run.run, name, blob.clone()).await?;
                }
            }
            load(store, run).await?;
        }
        Ok(self.runs.iter().map(|run| run.run.clone()).collect())
    }
}

/// Refuses a run whose values would stand in the open beside those of a program that encodes them.
async fn refuse_open(store: &dyn Store, run: &RecordedRun) -> Result<(), StoreError> {
    let Some(key) = key_of_program(store, &run.created.workflow).await? else { return Ok(()) };
    let what = format!("recorded run `{}`", run.run);
    Err(StoreError::Codec { what, run: Some(run.run.clone()), error: CodecError::WouldBeOpen { key } })
}

/// A thousand years.
const FOR_EVER: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);

fn exists(store: &dyn Store, run: &RunId) -> RecordingError {
    RecordingError::Exists { run: run.clone(), store: store.describe() }
}

async fn load(store: &dyn Store, run: &RecordedRun) -> Result<(), RecordingError> {
    let events = run.events()?;
    let Some((first, later)) = run.frames.split_first() else { return Ok(()) };
    let created = &run.created;
    // The lease outlives every engine until the import is complete: none may resume a run with half a journal. Not
    // registered, so that the end of this process does not free the run either.
    let importer = WorkerId::from(format!("import of {}", run.run));
    store.renew(&importer, FOR_EVER, Vec::new()).await?;
    let new = NewRun {
        id: run.run.clone(),
        workflow: created.workflow.clone(),
        version: created.version,
        code: CodeId::of(&created.module, &created.workflow, created.version, &created.fingerprint),
        digest: created.digest.clone(),
        parent: created.parent.clone(),
        labels: created.labels.clone(),
        traceparent: None,
        frame: first.stored(),
        at: first.at,
        owner: Some(importer.clone()),
        parent_epoch: None,
        terms: created.terms.clone(),
    };
    if store.create(new).await? != Created::New {
        return Err(exists(store, &run.run));
    }
    let mut loading =
        Loading { store, run, next: Position::from(first.stored().count), at: first.at, waits: Vec::new() };
    loading.earlier_rows(&events).await?;
    for frame in later {
        loading.frame(frame).await?;
    }
    loading.finish(status(&events)).await?;
    Ok(store.retire(&importer).await?)
}

/// The status of a run with this journal.
fn status(events: &[Event]) -> Status {
    events.last().and_then(Event::ends_as).unwrap_or(Status::Waiting)
}

impl RecordedFrame {
    fn stored(&self) -> Frame {
        Frame { count: u32::try_from(self.events.len()).unwrap_or(u32::MAX), text: self.text() }
    }
}

struct Loading<'a> {
    store: &'a dyn Store,
    run: &'a RecordedRun,
    next: Position,
    at: Timestamp,
    /// Goes into the next append.
    waits: Vec<WaitChange>,
}

impl Loading<'_> {
    /// Appends a frame, together with the ledger rows that it acquires: the first one in its own append, the others behind it.
    /// Each is settled before the next one, because a later attempt has the business key that a failed one has freed.
    async fn frame(&mut self, frame: &RecordedFrame) -> Result<(), RecordingError> {
        self.at = frame.at;
        let journal = |error| RecordingError::Journal { run: self.run.run.clone(), error };
        let rows = frame.read(self.next).map_err(journal)?.into_iter().filter_map(|event| match event {
            Event::ToolInvocationStarted(e) => self.run.ledger.iter().find(|row| row.key == e.key),
            _ => None,
        });
        let mut stored = Some(frame.stored());
        for row in rows {
            self.row(row, stored.take().unwrap_or_else(nothing)).await?;
        }
        match stored {
            Some(stored) => self.append(stored, None, None).await,
            None => Ok(()),
        }
    }

    /// Takes over a row, in the append of the frame that begins its call.
    async fn row(&mut self, row: &LedgerEntry, frame: Frame) -> Result<(), RecordingError> {
        let acquire = Acquire { entry: self.begun(row).await?, otherwise: frame.clone() };
        self.append(frame, Some(acquire), None).await?;
        match row.status != LedgerStatus::Started || row.committed {
            true => self.settle(row).await,
            false => Ok(()),
        }
    }

    /// Takes over the rows of earlier generations of the run, whose events are not in the journal any more.
    async fn earlier_rows(&mut self, events: &[Event]) -> Result<(), RecordingError> {
        let run = self.run;
        let begins = |event: &Event, row: &LedgerEntry| matches!(event, Event::ToolInvocationStarted(e) if e.key == row.key);
        for row in run.ledger.iter().filter(|row| !events.iter().any(|event| begins(event, row))) {
            self.row(row, nothing()).await?;
        }
        Ok(())
    }

    /// A ledger row as it was when its invocation began. A store-wide business key that another run of this store holds
    /// stays with that run.
    async fn begun(&self, row: &LedgerEntry) -> Result<LedgerEntry, RecordingError> {
        let mut begun = LedgerEntry {
            status: LedgerStatus::Started,
            result: None,
            error: None,
            committed: false,
            epoch: 1,
            finished_at: None,
            ..row.clone()
        };
        if let Some(wanted) = Reservation::of_row(&begun)
            && let Reserved::Taken(_) = reserve(self.store, &wanted).await?
        {
            begun.business_key = None;
        }
        Ok(begun)
    }

    async fn settle(&mut self, row: &LedgerEntry) -> Result<(), RecordingError> {
        let update = LedgerUpdate {
            key: row.key.clone(),
            status: row.status,
            result: row.result.clone(),
            error: row.error.clone(),
            committed: row.committed,
        };
        let at = row.finished_at.unwrap_or(self.at);
        self.send(nothing(), at, None, vec![update], None).await
    }

    async fn finish(&mut self, status: Status) -> Result<(), RecordingError> {
        let change = StatusChange { status, wake_at: None, release: true, seen: 0, notify: None };
        // Read back, because only the store has the values that the frames refer to.
        self.waits = match OpenWaits::load(self.store, &self.run.run).await {
            Ok((_, open)) => open.rows().into_iter().map(|row| WaitChange::Opened(Box::new(row))).collect(),
            // The run itself will say so when it is resumed.
            Err(StoreError::Corrupt { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        self.append(nothing(), None, Some(change)).await
    }

    async fn append(
        &mut self,
        frame: Frame,
        acquire: Option<Acquire>,
        status: Option<StatusChange>,
    ) -> Result<(), RecordingError> {
        self.send(frame, self.at, acquire, Vec::new(), status).await
    }

    async fn send(
        &mut self,
        frame: Frame,
        at: Timestamp,
        acquire: Option<Acquire>,
        ledger: Vec<LedgerUpdate>,
        status: Option<StatusChange>,
    ) -> Result<(), RecordingError> {
        let (run, expected) = (self.run.run.clone(), self.next);
        self.next += Position::from(frame.count);
        let (ack, reply) = Ack::awaited(run.clone(), self.next, Arc::new(DurableWatermark::default()));
        let (consumed, waits) = (Vec::new(), std::mem::take(&mut self.waits));
        self.store.append(Append {
            run,
            epoch: 1,
            expected,
            at,
            frame,
            work: None,
            acquire,
            ledger,
            status,
            consumed,
            waits,
            code: None,
            unless_asked_to_end: false,
            renews: None,
            streams: Vec::new(),
            ack,
        });
        match reply.await {
            Ok(answer) => Ok(answer.map(drop)?),
            Err(_dropped) => {
                let (store, reason) = (self.store.describe(), "it dropped an append unanswered".into());
                Err(AppendError::Store(StoreError::Unavailable { store, reason }).into())
            }
        }
    }
}

/// An append that changes rows or a status and no journal.
fn nothing() -> Frame {
    Frame { count: 0, text: "[]".into() }
}
