//! The store in front of the store.
//!
//! Promise: what is encoded on its way in is decoded on its way out, and everything else is passed on as it is. Appends and
//! creations are passed on in the order in which they are called.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::codec::coded::{CodedStore, failed, of_run};
use crate::journal::frame::StoredFrame;
use crate::journal::large_values::LargeValue;
use crate::store::api::{Durability, Store, StoreClock};
use crate::store::append::{Append, StoredEffect};
use crate::store::birth::BirthNotice;
use crate::store::codes::{DefinitionRecord, ForeignRuns, Recode};
use crate::store::error::{AppendError, StoreError};
use crate::store::filter::{Cursor, RunFilter};
use crate::store::ledger::{LedgerEntry, Reservation};
use crate::store::purge::{EndedRuns, Purged};
use crate::store::queues::{DueStarts, KeyedStart, Limit, QueuePosition};
use crate::store::records::{
    ClaimRequest, Created, DamagedRun, Decision, Lease, Message, NewRun, RunRecord, RunRow, Sent, Snapshot,
    Unread,
};
use crate::store::schedules::{DueSchedules, ScheduleRecord};
use crate::store::streams::{StreamItem, StreamWrite};
use crate::store::waits::{ListedWait, OpenWait, WaitFilter};
use crate::store::workers::{KnownWorker, LostRun, Serving, WorkerRecord};
use crate::vocabulary::id::{CodeId, CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::measures::Batches;
use crate::vocabulary::payload::Payload;
use crate::vocabulary::queue::{LimitPattern, Serves};

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

    fn batches(&self) -> Option<Batches> {
        self.inner.batches()
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

    fn create(&self, new: NewRun) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.create_sealed(new, |inner, new| inner.create(new))
    }

    fn create_early(&self, new: NewRun, notice: BirthNotice) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.create_sealed(new, |inner, new| inner.create_early(new, notice))
    }

    fn create_decided(&self, new: NewRun, decision: Decision) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.create_sealed(new, |inner, new| inner.create_decided(new, decision))
    }

    fn create_fork(
        &self,
        new: NewRun,
        ledger: Vec<LedgerEntry>,
    ) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.create_sealed_fork(new, ledger)
    }

    fn append(&self, append: Append) {
        self.append_sealed(append);
    }

    fn load(&self, run: &RunId, from: Position) -> BoxFuture<'_, Result<Vec<StoredFrame>, StoreError>> {
        let (run, frames) = (run.clone(), self.inner.load(run, from));
        Box::pin(async move {
            let mut frames = frames.await?;
            self.hold_open_keys(&run, &frames).await?;
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
            self.hold_open_keys(&run, &frames).await?;
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

    fn damaged_runs(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<DamagedRun>, StoreError>> {
        self.inner.damaged_runs(filter)
    }

    fn run_rows(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>> {
        Box::pin(async move {
            let mut rows = self.inner.run_rows(filter).await?;
            rows.iter_mut().flat_map(|row| &mut row.run).for_each(|record| self.open_record(record));
            Ok(rows)
        })
    }

    fn damage(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        self.inner.damage()
    }

    fn count(&self, filter: RunFilter) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.inner.count(filter)
    }

    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Vec<Lease>, StoreError>> {
        Box::pin(async move {
            let mut leases = self.inner.claim(request).await?;
            leases.iter_mut().for_each(|lease| self.begin(lease));
            Ok(leases)
        })
    }

    fn recode(&self, runs: Vec<Recode>) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.inner.recode(runs)
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

    fn is_renewed_everywhere(&self, worker: &WorkerId) -> bool {
        self.inner.is_renewed_everywhere(worker)
    }

    fn lapses(&self, worker: &WorkerId) -> u64 {
        self.inner.lapses(worker)
    }

    fn release(
        &self,
        worker: &WorkerId,
        run: &RunId,
        epoch: Epoch,
        wake_at: Timestamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        if self.seal.is_set() {
            self.subjects.end(run);
        }
        self.inner.release(worker, run, epoch, wake_at)
    }

    fn hasten(&self, now: Timestamp, beyond: Timestamp) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.inner.hasten(now, beyond)
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
            self.refuse_open_message(&run, &message).await?;
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
        Box::pin(async move { self.open_end_requests(&run, messages.await?) })
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
        Box::pin(self.open_waits(filter))
    }

    fn unlisted_waits(&self, limit: usize) -> BoxFuture<'_, Result<Vec<RunId>, StoreError>> {
        self.inner.unlisted_waits(limit)
    }

    fn list_waits<'s>(
        &'s self,
        run: &RunId,
        next: Position,
        waits: Vec<OpenWait>,
    ) -> BoxFuture<'s, Result<bool, StoreError>> {
        let run = run.clone();
        Box::pin(async move { self.list_sealed_waits(&run, next, waits).await })
    }

    fn held(&self, worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, Epoch)>, StoreError>> {
        self.inner.held(worker)
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
        writes: Vec<StreamWrite>,
    ) -> BoxFuture<'_, Result<Vec<Option<Vec<StreamItem>>>, StoreError>> {
        self.write_sealed_streams(writes)
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
        Box::pin(async move { self.put_sealed_blob(&run, &hash, bytes).await })
    }

    fn blob(&self, run: &RunId, hash: &str) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        let (run, hash) = (run.clone(), hash.to_owned());
        Box::pin(async move { self.opened_blob(&run, &hash).await })
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
        schedule: ScheduleRecord,
        replaces: u64,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(self.put_sealed_schedule(schedule, replaces))
    }

    fn schedules(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        let schedules = self.inner.schedules(after, limit);
        Box::pin(async move { Ok(self.open_listed(schedules.await?)) })
    }

    fn schedule(&self, name: &str) -> BoxFuture<'_, Result<Option<ScheduleRecord>, StoreError>> {
        let schedule = self.inner.schedule(name);
        Box::pin(async move { schedule.await?.map(|schedule| self.open_named(schedule)).transpose() })
    }

    fn due_schedules(&self, query: DueSchedules) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        Box::pin(self.readable_due_schedules(query))
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

    fn keyed_start(&self, name: &str) -> BoxFuture<'_, Result<Option<KeyedStart>, StoreError>> {
        let start = self.inner.keyed_start(name);
        Box::pin(async move { start.await?.map(|start| self.open_keyed_start(start)).transpose() })
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

    fn due_starts(&self, query: DueStarts) -> BoxFuture<'_, Result<Vec<KeyedStart>, StoreError>> {
        Box::pin(self.readable_due_starts(query))
    }

    fn ended(&self, query: EndedRuns) -> BoxFuture<'_, Result<Vec<(u64, RunRecord)>, StoreError>> {
        Box::pin(async move {
            let mut ended = self.inner.ended(query).await?;
            ended.iter_mut().for_each(|(_, record)| self.open_record(record));
            Ok(ended)
        })
    }

    fn purge(&self, run: &RunId, created_at: Option<Timestamp>) -> BoxFuture<'_, Result<Purged, StoreError>> {
        self.inner.purge(run, created_at)
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
