//! The store in front of the store.
//!
//! Promise: what is encoded on its way in is decoded on its way out, and everything else is passed on as it is. Appends and
//! creations are passed on in the order in which they are called.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use jiff::Timestamp;

use crate::codec::seal::Seal;
use crate::codec::subjects::{Subject, Subjects};
use crate::codec::values::is_erased;
use crate::codec::work::CodedWork;
use crate::journal::encoded::key_of;
use crate::journal::event::Event;
use crate::journal::frame::{Frame, StoredFrame};
use crate::journal::large_values::LargeValue;
use crate::store::api::{Append, Durability, END_REQUESTS, Store, StoreClock, StoredEffect, Work};
use crate::store::codes::{DefinitionRecord, ForeignRuns};
use crate::store::error::{AppendError, StoreError};
use crate::store::filter::{Cursor, RunFilter};
use crate::store::ledger::{Acquired, LedgerEntry, Reservation};
use crate::store::purge::{EndedRuns, Purged};
use crate::store::queues::{DueStarts, KeyedStart, Limit, QueuePosition};
use crate::store::records::{
    ClaimRequest, Created, Lease, Message, NewRun, RunRecord, Sent, Snapshot, Unread,
};
use crate::store::schedules::{DueSchedules, ScheduleRecord};
use crate::store::streams::{StreamItem, StreamWrite};
use crate::store::waits::{ListedWait, OpenWait, WaitChange, WaitFilter};
use crate::store::workers::{KnownWorker, LostRun, Serving, WorkerRecord};
use crate::vocabulary::codec::{CodecError, PayloadCodec, PayloadOwner, PayloadPlace};
use crate::vocabulary::id::{CodeId, CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::payload::{Digest, Payload};
use crate::vocabulary::queue::{LimitPattern, Serves};

/// A store whose values go through a codec: what an engine with
/// [`EngineBuilder::payload_codec`](crate::engine::EngineBuilder::payload_codec) works on. For programs that read a store
/// without an engine.
///
/// ```
/// use std::sync::Arc;
/// use aether_core::codec::{CodedStore, PayloadCodec};
/// use aether_core::id::RunId;
/// use aether_core::recording::{Masking, Recording, RecordingError};
/// use aether_core::store::Store;
///
/// # async fn example(store: Arc<dyn Store>, codec: Arc<dyn PayloadCodec>, run: RunId) -> Result<(), RecordingError> {
/// let store = CodedStore::new(store, Some(codec));
/// Recording::export(&store, &run, &Masking::standard()).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct CodedStore {
    inner: Arc<dyn Store>,
    seal: Seal,
    subjects: Arc<Subjects>,
}

/// The place of a run's digest, of a snapshot's state, of a body's progress.
fn of_run<'p>(run: &'p RunId, name: &'p str) -> PayloadPlace<'p> {
    PayloadPlace::new(PayloadOwner::Run(run), name)
}

const INPUT_DIGEST: &str = "digest of the input";

/// Whether a frame holds nothing but the end of a run that somebody asked for, and nothing of what the run did.
fn is_asked_end(frame: &Frame) -> bool {
    match serde_json::from_str::<Vec<Event>>(&frame.text).as_deref() {
        Ok([Event::RunTerminated(_)]) => true,
        Ok([Event::RunCancelled(end)]) => end.uncompensated.is_empty(),
        _ => false,
    }
}

impl CodedStore {
    /// Puts `codec` in front of `inner`. Without one, nothing is encoded, and what is encoded is told apart from what is not.
    pub fn new(inner: Arc<dyn Store>, codec: Option<Arc<dyn PayloadCodec>>) -> Self {
        Self { inner, seal: Seal(codec), subjects: Arc::default() }
    }

    /// The labels of a run, where the codec asks for them. Those of a run that is not advanced here are read each time: it
    /// may have been purged and started again, for somebody else.
    async fn labels(&self, run: &RunId) -> Result<Option<Labels>, StoreError> {
        if !self.seal.needs_labels() {
            return Ok(None);
        }
        if let Some(subject) = self.subjects.advanced(run) {
            return Ok(Some(subject.labels));
        }
        let labels = match self.inner.run(run).await? {
            Some(record) => Some(record.labels),
            // It is about to be created.
            None => self.subjects.labels(run),
        };
        labels.map(Some).ok_or_else(|| StoreError::UnknownRun { run: run.clone() })
    }

    /// The labels of a run that this process advances, or advanced: what its bodies hand over is of that run.
    fn labels_here(&self, run: &RunId) -> Result<Option<Labels>, StoreError> {
        if !self.seal.needs_labels() {
            return Ok(None);
        }
        self.subjects.labels(run).map(Some).ok_or_else(|| StoreError::Codec {
            what: format!("an append of run `{run}`"),
            run: Some(run.clone()),
            error: CodecError::Failed { reason: "its labels are not known here".into() },
        })
    }

    /// The subject of a run that this process advances.
    fn advanced(&self, append: &Append) -> Result<Subject, StoreError> {
        if !self.seal.is_set() {
            return Ok(Subject::default());
        }
        let run = &append.run;
        let has_key = append.acquire.as_ref().is_some_and(|acquire| acquire.entry.business_key.is_some());
        match self.subjects.advanced(run) {
            Some(subject) => Ok(subject),
            // Under which name its rows hold a key is known from its claim on alone.
            None if has_key => Err(StoreError::Codec {
                what: format!("a business key of run `{run}`"),
                run: Some(run.clone()),
                error: CodecError::Failed { reason: "the run was not claimed through this store".into() },
            }),
            None => Ok(Subject { labels: self.labels_here(run)?.unwrap_or_default(), ..Subject::default() }),
        }
    }

    fn seal_append(&self, append: &mut Append) -> Result<(), StoreError> {
        let (run, first, seal) = (append.run.clone(), append.expected, &self.seal);
        let subject = self.advanced(append)?;
        let labels = seal.needs_labels().then_some(&subject.labels);
        if append.work.is_none() {
            let sealed = seal.seal_frame(&mut append.frame, &run, labels, first);
            match sealed {
                // What an operator says reaches the run although its own key was destroyed.
                Err(error) if is_erased(&error) && labels.is_some() && is_asked_end(&append.frame) => {
                    seal.seal_frame(&mut append.frame, &run, None, first)?;
                }
                sealed => sealed?,
            }
        }
        for update in &mut append.ledger {
            seal.seal_update(update, &run, labels)?;
        }
        for end in &mut append.streams {
            seal.seal_end(end, &run, labels)?;
        }
        for wait in &mut append.waits {
            if let WaitChange::Opened(wait) = wait {
                seal.seal_wait(wait, &run, labels)?;
            }
        }
        if let Some(acquire) = &mut append.acquire {
            seal.seal_frame(&mut acquire.otherwise, &run, labels, first)?;
            seal.seal_entry(&mut acquire.entry, &run, labels, &subject.open_keys)?;
        }
        let labels = labels.cloned();
        append.work = append.work.take().map(|work| -> Box<dyn Work> {
            Box::new(CodedWork { work, seal: seal.clone(), run, labels, position: first })
        });
        Ok(())
    }

    /// Encodes a new run. Answers the number of what this process begins to advance with it, if it does.
    fn seal_new(&self, new: &mut NewRun) -> Result<Option<u64>, StoreError> {
        let labels = self.seal.needs_labels().then_some(&new.labels);
        self.seal.seal_frame(&mut new.frame, &new.id, labels, 0)?;
        let mut digest = new.digest.as_str().to_owned();
        self.seal.seal_string(&mut digest, &of_run(&new.id, INPUT_DIGEST).labels(labels))?;
        new.digest = Digest::stored(&digest);
        let advances = self.seal.is_set() && new.owner.is_some();
        Ok(advances.then(|| self.subjects.begin_new(&new.id, &new.labels)).flatten())
    }

    /// Decodes what a list says of a run, as far as the keys at hand allow.
    fn open_record(&self, record: &mut RunRecord) {
        let mut digest = record.digest.as_str().to_owned();
        if self.seal.open_string(&mut digest, &of_run(&record.id, INPUT_DIGEST)).is_ok() {
            record.digest = Digest::stored(&digest);
        }
    }

    fn opened(&self, mut records: Vec<RunRecord>) -> Vec<RunRecord> {
        records.iter_mut().for_each(|record| self.open_record(record));
        records
    }

    fn open_created(
        &self,
        run: &RunId,
        begun: Option<u64>,
        created: Result<Created, StoreError>,
    ) -> Result<Created, StoreError> {
        let created = created.map(|created| match created {
            Created::Existing(mut record) => {
                self.open_record(&mut record);
                Created::Existing(record)
            }
            other => other,
        });
        // After an error it may be there all the same, and be launched.
        if let (Ok(answer), Some(number)) = (&created, begun)
            && *answer != Created::New
        {
            self.subjects.end_begun(run, number);
        }
        created
    }

    /// Notes the business keys that a run acquired before there was a codec: they are held under their own names.
    async fn hold_open_keys(&self, run: &RunId, frames: &[StoredFrame]) -> Result<(), StoreError> {
        let is_older = frames.iter().any(|frame| key_of(&frame.text).is_none());
        if !self.seal.is_set() || !is_older || !self.subjects.is_advanced(run) {
            return Ok(());
        }
        let rows = self.inner.entries(run).await?;
        let mut open = BTreeSet::new();
        for key in rows.into_iter().filter_map(|row| row.business_key) {
            if self.seal.business_key(&key)? != key {
                open.insert(key);
            }
        }
        self.subjects.hold_open(run, open);
        Ok(())
    }

    /// The name under which a store-wide business key is kept: its own where it was reserved before there was a codec.
    async fn reserved_name(&self, business_key: &str) -> Result<String, StoreError> {
        let name = self.seal.business_key(business_key)?;
        let is_kept_open = name != business_key && self.inner.reservation(business_key).await?.is_some();
        Ok(if is_kept_open { business_key.to_owned() } else { name })
    }

    fn open_reservation(&self, business_key: &str, mut found: Reservation) -> Reservation {
        found.business_key = business_key.to_owned();
        if let Some(tombstone) = &mut found.sealed {
            self.seal.open_foreign_entry(tombstone);
        }
        found
    }

    fn open_messages(&self, run: &RunId, mut messages: Vec<Message>) -> Result<Vec<Message>, StoreError> {
        for message in &mut messages {
            self.seal.open_message(message, run)?;
        }
        Ok(messages)
    }
}

/// An error that is there already.
fn failed<'a, T: Send + 'a, E: Send + 'a>(error: E) -> BoxFuture<'a, Result<T, E>> {
    Box::pin(ready(Err(error)))
}

impl Store for CodedStore {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn clock(&self) -> Option<Arc<dyn StoreClock>> {
        self.inner.clock()
    }

    fn register(
        &self,
        worker: &WorkerId,
        lease: Duration,
        codes: Vec<CodeId>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.register(worker, lease, codes)
    }

    fn serve(&self, worker: &WorkerId, serves: Serves) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.serve(worker, serves)
    }

    fn serving_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<Serving>, StoreError>> {
        self.inner.serving_elsewhere(me)
    }

    fn codes_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<CodeId>, StoreError>> {
        self.inner.codes_elsewhere(me)
    }

    fn workers(&self) -> BoxFuture<'_, Result<Vec<WorkerRecord>, StoreError>> {
        self.inner.workers()
    }

    fn known_workers(&self) -> BoxFuture<'_, Result<Vec<KnownWorker>, StoreError>> {
        self.inner.known_workers()
    }

    fn retire(&self, worker: &WorkerId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.retire(worker)
    }

    fn unaware_owners(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<WorkerId>, StoreError>> {
        self.inner.unaware_owners(run)
    }

    fn transactions(&self) -> Option<&'static str> {
        self.inner.transactions()
    }

    fn announce(&self, run: &RunId, labels: &Labels) {
        if self.seal.needs_labels() {
            self.subjects.see(run, labels);
        }
        self.inner.announce(run, labels);
    }

    fn create(&self, mut new: NewRun) -> BoxFuture<'_, Result<Created, StoreError>> {
        let begun = match self.seal_new(&mut new) {
            Ok(begun) => begun,
            Err(error) => return failed(error),
        };
        let id = new.id.clone();
        let creation = self.inner.create(new);
        Box::pin(async move { self.open_created(&id, begun, creation.await) })
    }

    fn create_fork(
        &self,
        mut new: NewRun,
        mut ledger: Vec<LedgerEntry>,
    ) -> BoxFuture<'_, Result<Created, StoreError>> {
        let sealed = self.seal_new(&mut new).and_then(|begun| {
            let labels = self.seal.needs_labels().then_some(&new.labels);
            let open = BTreeSet::new();
            ledger.iter_mut().try_for_each(|row| self.seal.seal_entry(row, &new.id, labels, &open))?;
            Ok(begun)
        });
        let begun = match sealed {
            Ok(begun) => begun,
            Err(error) => return failed(error),
        };
        let id = new.id.clone();
        let creation = self.inner.create_fork(new, ledger);
        Box::pin(async move { self.open_created(&id, begun, creation.await) })
    }

    fn append(&self, mut append: Append) {
        if let Err(error) = self.seal_append(&mut append) {
            return append.ack.failed(error.into());
        }
        let releases = append.status.as_ref().is_some_and(|to| to.release || to.status.is_terminal());
        if self.seal.is_set() && (releases || append.acquire.is_some()) {
            let begun = self.subjects.begun(&append.run).filter(|_| releases);
            let (seal, subjects, run) = (self.seal.clone(), Arc::clone(&self.subjects), append.run.clone());
            append.ack = append.ack.reading(move |acquired| {
                // The run may have been claimed again by now.
                if let Some(number) = begun {
                    subjects.end_begun(&run, number);
                }
                match acquired {
                    Acquired::Taken(mut row) => seal.open_entry(&mut row).map(|()| Acquired::Taken(row)),
                    other => Ok(other),
                }
            });
        }
        self.inner.append(append);
    }

    fn load(&self, run: &RunId, from: Position) -> BoxFuture<'_, Result<Vec<StoredFrame>, StoreError>> {
        let (run, frames) = (run.clone(), self.inner.load(run, from));
        Box::pin(async move {
            let mut frames = frames.await?;
            if from == 0 {
                self.hold_open_keys(&run, &frames).await?;
            }
            self.seal.open_frames(&mut frames, &run)?;
            Ok(frames)
        })
    }

    fn load_page<'s>(
        &'s self,
        run: &RunId,
        from: Position,
        events: u64,
    ) -> BoxFuture<'s, Result<Vec<StoredFrame>, StoreError>> {
        let (run, frames) = (run.clone(), self.inner.load_page(run, from, events));
        Box::pin(async move {
            let mut frames = frames.await?;
            self.seal.open_frames(&mut frames, &run)?;
            Ok(frames)
        })
    }

    fn last_frame(&self, run: &RunId) -> BoxFuture<'_, Result<Option<StoredFrame>, StoreError>> {
        let (run, frame) = (run.clone(), self.inner.last_frame(run));
        Box::pin(async move {
            let mut frame = frame.await?;
            self.seal.open_frames(frame.as_mut_slice(), &run)?;
            Ok(frame)
        })
    }

    fn run(&self, run: &RunId) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        let record = self.inner.run(run);
        Box::pin(async move {
            let mut record = record.await?;
            record.iter_mut().for_each(|record| self.open_record(record));
            Ok(record)
        })
    }

    fn runs(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        Box::pin(async move { Ok(self.opened(self.inner.runs(filter).await?)) })
    }

    fn count(&self, filter: RunFilter) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.inner.count(filter)
    }

    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Vec<Lease>, StoreError>> {
        Box::pin(async move {
            let mut leases = self.inner.claim(request).await?;
            for lease in &mut leases {
                if self.seal.is_set() {
                    self.subjects.begin(&lease.run.id, &lease.run.labels, lease.run.epoch);
                }
                self.open_record(&mut lease.run);
            }
            Ok(leases)
        })
    }

    fn foreign(&self, query: ForeignRuns) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        Box::pin(async move { Ok(self.opened(self.inner.foreign(query).await?)) })
    }

    fn put_definition(&self, definition: DefinitionRecord) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.put_definition(definition)
    }

    fn definitions(&self) -> BoxFuture<'_, Result<Vec<DefinitionRecord>, StoreError>> {
        self.inner.definitions()
    }

    fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        noticed: Vec<LostRun>,
    ) -> BoxFuture<'_, Result<Vec<LostRun>, StoreError>> {
        let lost = self.inner.renew(worker, lease, noticed);
        Box::pin(async move {
            let lost = lost.await?;
            lost.iter().for_each(|lost| self.subjects.lose(&lost.run, lost.epoch));
            Ok(lost)
        })
    }

    fn is_renewed(&self, worker: &WorkerId, run: &RunId) -> bool {
        self.inner.is_renewed(worker, run)
    }

    fn release(
        &self,
        run: &RunId,
        epoch: Epoch,
        wake_at: Timestamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        if self.seal.is_set() {
            self.subjects.end(run);
        }
        self.inner.release(run, epoch, wake_at)
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        self.inner.next_wake()
    }

    fn entry(
        &self,
        run: &RunId,
        key: &IdempotencyKey,
    ) -> BoxFuture<'_, Result<Option<LedgerEntry>, StoreError>> {
        let entry = self.inner.entry(run, key);
        Box::pin(async move {
            let mut entry = entry.await?;
            entry.iter_mut().try_for_each(|row| self.seal.open_entry(row))?;
            Ok(entry)
        })
    }

    fn holder_entry(
        &self,
        run: &RunId,
        key: &IdempotencyKey,
    ) -> BoxFuture<'_, Result<Option<LedgerEntry>, StoreError>> {
        let entry = self.inner.holder_entry(run, key);
        Box::pin(async move {
            let mut entry = entry.await?;
            entry.iter_mut().for_each(|row| self.seal.open_foreign_entry(row));
            Ok(entry)
        })
    }

    fn is_business_key(&self, stored: &str, asked: &str) -> bool {
        stored == asked || self.seal.business_key(asked).is_ok_and(|name| name == stored)
    }

    fn reserve(
        &self,
        wanted: Reservation,
        replaces: Option<Reservation>,
    ) -> BoxFuture<'_, Result<Reservation, StoreError>> {
        Box::pin(async move {
            let asked = wanted.business_key.clone();
            let name = self.reserved_name(&asked).await?;
            let named = |reservation: Reservation| Reservation { business_key: name.clone(), ..reservation };
            let found = self.inner.reserve(named(wanted), replaces.map(named)).await?;
            Ok(self.open_reservation(&asked, found))
        })
    }

    fn reservation(&self, business_key: &str) -> BoxFuture<'_, Result<Option<Reservation>, StoreError>> {
        let asked = business_key.to_owned();
        Box::pin(async move {
            let name = self.reserved_name(&asked).await?;
            let found = self.inner.reservation(&name).await?;
            Ok(found.map(|found| self.open_reservation(&asked, found)))
        })
    }

    fn entries(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<LedgerEntry>, StoreError>> {
        let entries = self.inner.entries(run);
        Box::pin(async move {
            let mut entries = entries.await?;
            entries.iter_mut().try_for_each(|row| self.seal.open_entry(row))?;
            Ok(entries)
        })
    }

    fn send(&self, run: &RunId, mut message: Message) -> BoxFuture<'_, Result<Sent, StoreError>> {
        let run = run.clone();
        Box::pin(async move {
            let labels = self.labels(&run).await?;
            self.seal.seal_message(&mut message, &run, labels.as_ref())?;
            self.inner.send(&run, message).await
        })
    }

    fn inbox(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<Vec<Message>, StoreError>> {
        let (run, messages) = (run.clone(), self.inner.inbox(run, after));
        Box::pin(async move { self.open_messages(&run, messages.await?) })
    }

    /// One that cannot be read is passed on as it stands in the store: that it was asked for can be seen.
    fn end_requests<'s>(&'s self, run: &RunId) -> BoxFuture<'s, Result<Vec<Message>, StoreError>> {
        let (run, messages) = (run.clone(), self.inner.inbox(run, 0));
        Box::pin(async move {
            let mut messages = messages.await?;
            messages.retain(|message| END_REQUESTS.contains(&&*message.topic));
            for message in &mut messages {
                match self.seal.open_message(message, &run) {
                    Ok(()) | Err(StoreError::Codec { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(messages)
        })
    }

    fn unread<'s>(&'s self, run: &RunId) -> BoxFuture<'s, Result<Unread, StoreError>> {
        self.inner.unread(run)
    }

    fn unread_waiting(
        &self,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunRecord, u64)>, StoreError>> {
        Box::pin(async move {
            let mut found = self.inner.unread_waiting(after, limit).await?;
            found.iter_mut().for_each(|(record, _)| self.open_record(record));
            Ok(found)
        })
    }

    fn waits(&self, filter: WaitFilter) -> BoxFuture<'_, Result<Vec<ListedWait>, StoreError>> {
        Box::pin(async move {
            let mut waits = self.inner.waits(filter.clone()).await?;
            if let Some(name) = &filter.name
                && let Some(name) = self.seal.wait_name(name)?
            {
                // Some names stand in the open, and some do not.
                let hidden = WaitFilter { name: Some(name), ..filter.clone() };
                waits.extend(self.inner.waits(hidden).await?);
                waits.sort_by_key(|wait| wait.place);
                if filter.limit > 0 {
                    waits.truncate(filter.limit);
                }
            }
            for listed in &mut waits {
                self.seal.open_wait(&mut listed.wait, &listed.run);
            }
            Ok(waits)
        })
    }

    fn unlisted_waits(&self, limit: usize) -> BoxFuture<'_, Result<Vec<RunId>, StoreError>> {
        self.inner.unlisted_waits(limit)
    }

    fn list_waits<'s>(
        &'s self,
        run: &RunId,
        next: Position,
        mut waits: Vec<OpenWait>,
    ) -> BoxFuture<'s, Result<bool, StoreError>> {
        let run = run.clone();
        Box::pin(async move {
            let labels = self.labels(&run).await?;
            for wait in &mut waits {
                self.seal.seal_wait(wait, &run, labels.as_ref())?;
            }
            self.inner.list_waits(&run, next, waits).await
        })
    }

    fn unread_held(&self, worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, u64)>, StoreError>> {
        self.inner.unread_held(worker)
    }

    fn save_progress(
        &self,
        run: &RunId,
        epoch: Epoch,
        command: &CommandId,
        mut progress: Payload,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let name = format!("progress of `{command}`");
        let sealed = self
            .labels_here(run)
            .and_then(|labels| self.seal.seal(&mut progress, &of_run(run, &name).labels(labels.as_ref())));
        match sealed {
            Ok(()) => self.inner.save_progress(run, epoch, command, progress),
            Err(error) => failed(error),
        }
    }

    fn progress(
        &self,
        run: &RunId,
        command: &CommandId,
    ) -> BoxFuture<'_, Result<Option<Payload>, StoreError>> {
        let (run, name) = (run.clone(), format!("progress of `{command}`"));
        let progress = self.inner.progress(&run, command);
        Box::pin(async move {
            let mut progress = progress.await?;
            if let Some(progress) = &mut progress {
                self.seal.open(progress, &of_run(&run, &name))?;
            }
            Ok(progress)
        })
    }

    fn write_streams(
        &self,
        mut writes: Vec<StreamWrite>,
    ) -> BoxFuture<'_, Result<Vec<Option<Vec<StreamItem>>>, StoreError>> {
        // A chunk that cannot be encoded is refused, and takes no other along.
        let runs: Vec<_> = writes.iter().map(|write| write.run.clone()).collect();
        let seal = |write: &mut StreamWrite| {
            let labels = self.labels_here(&write.run)?;
            self.seal.seal_stream(write, labels.as_ref())
        };
        let is_sealed = |write: &mut StreamWrite| match seal(write) {
            Ok(()) => true,
            Err(error) => {
                let (run, command) = (&write.run, &write.command);
                tracing::warn!(target: "aether::step", %run, %command, %error, "a chunk of a stream cannot be encoded");
                false
            }
        };
        let sealed: Vec<_> = writes.iter_mut().map(is_sealed).collect();
        let mut kept = sealed.iter();
        writes.retain(|_| kept.next().is_some_and(|sealed| *sealed));
        let written = self.inner.write_streams(writes);
        Box::pin(async move {
            let mut written = written.await?.into_iter();
            let mut answers = Vec::with_capacity(runs.len());
            for (run, sealed) in runs.iter().zip(sealed) {
                let mut items = if sealed { written.next().flatten() } else { None };
                for item in items.iter_mut().flatten() {
                    self.seal.open_stream(item, run)?;
                }
                answers.push(items);
            }
            Ok(answers)
        })
    }

    fn open_streams(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<CommandId>, StoreError>> {
        self.inner.open_streams(run)
    }

    fn stream(
        &self,
        run: &RunId,
        stream: &str,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StreamItem>, StoreError>> {
        let (run, items) = (run.clone(), self.inner.stream(run, stream, after, limit));
        Box::pin(async move {
            let mut items = items.await?;
            items.iter_mut().try_for_each(|item| self.seal.open_stream(item, &run))?;
            Ok(items)
        })
    }

    fn put_blob(&self, run: &RunId, hash: &str, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), StoreError>> {
        let (run, hash) = (run.clone(), hash.to_owned());
        Box::pin(async move {
            let labels = self.labels(&run).await?;
            let sealed = self.seal.seal_blob(&run, &hash, &bytes, labels.as_ref())?;
            let name = self.seal.blob_name(&run, &hash)?;
            self.inner.put_blob(&run, &name, sealed.map_or(bytes, String::into_bytes)).await
        })
    }

    fn blob(&self, run: &RunId, hash: &str) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        let (run, hash) = (run.clone(), hash.to_owned());
        Box::pin(async move {
            let name = self.seal.blob_name(&run, &hash)?;
            let mut bytes = self.inner.blob(&run, &name).await?;
            if bytes.is_none() && name != hash {
                // Stored before there was a codec.
                bytes = self.inner.blob(&run, &hash).await?;
            }
            bytes.map(|bytes| self.seal.open_blob(&run, &hash, bytes)).transpose()
        })
    }

    fn put_effect(
        &self,
        mut effect: StoredEffect,
        epoch: Epoch,
        mut values: Vec<LargeValue>,
    ) -> BoxFuture<'_, Result<(), AppendError>> {
        let sealed = self
            .labels_here(&effect.run)
            .and_then(|labels| self.seal.seal_effect(&mut effect, &mut values, labels.as_ref()));
        match sealed {
            Ok(()) => self.inner.put_effect(effect, epoch, values),
            Err(error) => failed(error.into()),
        }
    }

    fn effects(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<StoredEffect>, StoreError>> {
        let effects = self.inner.effects(run);
        Box::pin(async move {
            let mut effects = effects.await?;
            effects.iter_mut().try_for_each(|effect| self.seal.open_effect(effect))?;
            Ok(effects)
        })
    }

    fn save_snapshot(&self, run: &RunId, mut snapshot: Snapshot) -> BoxFuture<'_, Result<(), StoreError>> {
        let run = run.clone();
        Box::pin(async move {
            let labels = self.labels(&run).await?;
            let name = format!("snapshot at {}", snapshot.position);
            self.seal.seal(&mut snapshot.state, &of_run(&run, &name).labels(labels.as_ref()))?;
            self.inner.save_snapshot(&run, snapshot).await
        })
    }

    fn snapshot(&self, run: &RunId) -> BoxFuture<'_, Result<Option<Snapshot>, StoreError>> {
        let (run, snapshot) = (run.clone(), self.inner.snapshot(run));
        Box::pin(async move {
            let mut snapshot = snapshot.await?;
            if let Some(Snapshot { position, state }) = &mut snapshot {
                self.seal.open(state, &of_run(&run, &format!("snapshot at {position}")))?;
            }
            Ok(snapshot)
        })
    }

    fn put_schedule(
        &self,
        mut schedule: ScheduleRecord,
        replaces: u64,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        match self.seal.seal_schedule(&mut schedule) {
            Ok(()) => self.inner.put_schedule(schedule, replaces),
            Err(error) => failed(error),
        }
    }

    /// One whose input cannot be read is listed with what stands in the store.
    fn schedules(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        let schedules = self.inner.schedules(after, limit);
        Box::pin(async move {
            let mut schedules = schedules.await?;
            for schedule in &mut schedules {
                let mut opened = schedule.clone();
                if self.seal.open_schedule(&mut opened).is_ok() {
                    *schedule = opened;
                }
            }
            Ok(schedules)
        })
    }

    fn schedule(&self, name: &str) -> BoxFuture<'_, Result<Option<ScheduleRecord>, StoreError>> {
        let schedule = self.inner.schedule(name);
        Box::pin(async move {
            let mut schedule = schedule.await?;
            schedule.iter_mut().try_for_each(|schedule| self.seal.open_schedule(schedule))?;
            Ok(schedule)
        })
    }

    /// Leaves out, with a warning, those whose input cannot be read: they start nothing.
    fn due_schedules(&self, query: DueSchedules) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        Box::pin(async move {
            let mut due = self.inner.due_schedules(query).await?;
            due.retain_mut(|schedule| match self.seal.open_schedule(schedule) {
                Ok(()) => true,
                Err(error) => {
                    tracing::warn!(target: "aether::engine", schedule = schedule.name, %error, "a schedule cannot start a run");
                    false
                }
            });
            Ok(due)
        })
    }

    fn remove_schedule(&self, name: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.remove_schedule(name)
    }

    fn put_limit(&self, limit: Limit) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.put_limit(limit)
    }

    fn remove_limit(&self, pattern: &LimitPattern, kind: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.remove_limit(pattern, kind)
    }

    fn limits(&self) -> BoxFuture<'_, Result<Vec<Limit>, StoreError>> {
        self.inner.limits()
    }

    fn queue_position(
        &self,
        run: &RunId,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Option<QueuePosition>, StoreError>> {
        self.inner.queue_position(run, now)
    }

    /// One whose key was destroyed has the record `null`, so that it can be removed.
    fn keyed_start(&self, name: &str) -> BoxFuture<'_, Result<Option<KeyedStart>, StoreError>> {
        let start = self.inner.keyed_start(name);
        Box::pin(async move {
            let mut start = start.await?;
            if let Some(start) = &mut start {
                match self.seal.open_start(start) {
                    Err(error) if is_erased(&error) => start.record = Payload::null(),
                    opened => opened?,
                }
            }
            Ok(start)
        })
    }

    fn put_keyed_start(
        &self,
        mut start: KeyedStart,
        replaces: u64,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        match self.seal.seal_start(&mut start) {
            Ok(()) => self.inner.put_keyed_start(start, replaces),
            Err(error) => failed(error),
        }
    }

    fn remove_keyed_start(&self, name: &str, revision: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.remove_keyed_start(name, revision)
    }

    /// Leaves out, with a warning, those that cannot be read.
    fn due_starts(&self, query: DueStarts) -> BoxFuture<'_, Result<Vec<KeyedStart>, StoreError>> {
        Box::pin(async move {
            let mut due = self.inner.due_starts(query).await?;
            due.retain_mut(|start| match self.seal.open_start(start) {
                Ok(()) => true,
                Err(error) => {
                    tracing::warn!(target: "aether::engine", name = start.name, %error, "a keyed start cannot begin");
                    false
                }
            });
            Ok(due)
        })
    }

    fn ended(&self, query: EndedRuns) -> BoxFuture<'_, Result<Vec<(u64, RunRecord)>, StoreError>> {
        Box::pin(async move {
            let mut ended = self.inner.ended(query).await?;
            ended.iter_mut().for_each(|(_, record)| self.open_record(record));
            Ok(ended)
        })
    }

    fn purge(&self, run: &RunId) -> BoxFuture<'_, Result<Purged, StoreError>> {
        self.inner.purge(run)
    }

    fn delete_snapshots(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.delete_snapshots()
    }

    fn is_shared(&self) -> bool {
        Arc::strong_count(&self.inner) > 1 || self.inner.is_shared()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.close()
    }
}

#[cfg(test)]
mod tests;
