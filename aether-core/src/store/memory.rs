//! The reference store: everything in memory, for tests and for programs that need no durability.
//!
//! Promise: every call takes effect, whole, before it returns, and answers what every other store must answer. Clones
//! share their content, so that a test can restart an engine on what the last one left.

use std::ops::Bound;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use jiff::Timestamp;

use crate::journal::frame::StoredFrame;
use crate::journal::large_values::LargeValue;
use crate::sched::Mutex;
use crate::store::api::{Durability, Store};
use crate::store::append::{Append, StoredEffect};
use crate::store::codes::{DefinitionRecord, ForeignRuns, Recode};
use crate::store::error::{AppendError, StoreError};
use crate::store::filter::RunFilter;
use crate::store::ledger::{LedgerEntry, Reservation};
use crate::store::memory::content::{Content, Run};
use crate::store::purge::{EndedRuns, Purged};
use crate::store::queues::{DueStarts, KeyedStart, Limit, QueuePosition};
use crate::store::records::{
    ClaimRequest, Created, Decision, Lease, Message, NewRun, RunRecord, Sent, Snapshot, Unread,
};
use crate::store::schedules::{DueSchedules, ScheduleRecord};
use crate::store::streams::{StreamItem, StreamWrite};
use crate::store::waits::{ListedWait, OpenWait, WaitFilter};
use crate::store::workers::{KnownWorker, LostRun, Serving, WorkerRecord};
use crate::vocabulary::id::{CodeId, CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use crate::vocabulary::payload::Payload;
use crate::vocabulary::queue::{LimitPattern, Serves};

mod blobs;
mod claims;
mod codes;
mod content;
mod inbox;
mod purge;
mod queued;
mod queues;
mod renewal;
mod reservations;
mod schedules;
mod streams;
mod tampering;
mod waits;
mod workers;

/// A store that lives and dies with its process. Cheap to clone; clones share their content.
///
/// ```
/// use aether_core::store::memory::MemoryStore;
/// use aether_core::store::{Durability, Store};
/// assert_eq!(MemoryStore::new().durability(), Durability::Volatile);
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    /// One lock around everything: it makes each append atomic, also where it touches a second run or the ledger.
    content: Arc<Mutex<Content>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer<T: Send + 'static, E: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Content) -> Result<T, E>,
    ) -> BoxFuture<'_, Result<T, E>> {
        ready(ask(&mut self.content())).boxed()
    }
}

impl Store for MemoryStore {
    fn describe(&self) -> String {
        "memory".into()
    }

    fn durability(&self) -> Durability {
        Durability::Volatile
    }

    fn create(&self, new: NewRun) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.answer(|content| Ok(content.create(new)))
    }

    fn create_decided(&self, new: NewRun, decision: Decision) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.answer(|content| Ok(content.create_decided(new, &decision)))
    }

    fn create_fork(
        &self,
        new: NewRun,
        ledger: Vec<LedgerEntry>,
    ) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.answer(|content| Ok(content.create_fork(new, ledger)))
    }

    fn append(&self, append: Append) {
        if append.work.is_some() {
            return append.ack.failed(StoreError::NoTransactions { store: self.describe() }.into());
        }
        let answer = self.content().append(&append);
        match answer {
            Ok(acquired) => append.ack.durable(acquired),
            Err(error) => append.ack.failed(error),
        }
    }

    fn load(&self, run: &RunId, from: Position) -> BoxFuture<'_, Result<Vec<StoredFrame>, StoreError>> {
        self.answer(|content| {
            let Some(run) = content.runs.get(run) else { return Ok(Vec::new()) };
            let ends = run.frames.iter().skip(1).map(|frame| frame.position).chain([run.record.next]);
            let frames = run.frames.iter().zip(ends).filter(|(_, end)| *end > from);
            Ok(frames.map(|(frame, _)| frame.clone()).collect())
        })
    }

    fn load_page<'s>(
        &'s self,
        run: &RunId,
        from: Position,
        events: u64,
    ) -> BoxFuture<'s, Result<Vec<StoredFrame>, StoreError>> {
        self.answer(|content| {
            let Some(run) = content.runs.get(run) else { return Ok(Vec::new()) };
            if from >= run.record.next {
                return Ok(Vec::new());
            }
            let first = run.frames.partition_point(|frame| frame.position <= from).saturating_sub(1);
            let begins = run.frames.first().map_or(0, |first| first.position);
            let end = from.max(begins).saturating_add(events.max(1));
            let page = run.frames.iter().skip(first).take_while(|frame| frame.position < end);
            Ok(page.cloned().collect())
        })
    }

    fn last_frame(&self, run: &RunId) -> BoxFuture<'_, Result<Option<StoredFrame>, StoreError>> {
        self.answer(|content| Ok(content.runs.get(run).and_then(|run| run.frames.last().cloned())))
    }

    fn run(&self, run: &RunId) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        self.answer(|content| Ok(content.runs.get(run).map(|run| run.record.clone())))
    }

    fn runs(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        self.answer(|content| {
            let before = filter.after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.number()));
            let newest = content.created.range((Bound::Unbounded, before)).rev();
            let newest = newest.filter_map(|(_, id)| content.runs.get(id)).map(|run| &run.record);
            let wanted = newest.filter(|record| filter.admits(record));
            let limit = if filter.limit == 0 { usize::MAX } else { filter.limit };
            Ok(wanted.take(limit).cloned().collect())
        })
    }

    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Vec<Lease>, StoreError>> {
        self.answer(|content| Ok(content.claim(&request)))
    }

    fn waits(&self, filter: WaitFilter) -> BoxFuture<'_, Result<Vec<ListedWait>, StoreError>> {
        self.answer(|content| {
            let run_of = |run: &RunId| content.runs.get(run).map(|run| &run.record);
            Ok(content.waits.listed(&filter, run_of))
        })
    }

    fn unlisted_waits(&self, limit: usize) -> BoxFuture<'_, Result<Vec<RunId>, StoreError>> {
        self.answer(|content| Ok(content.waits.unlisted(limit)))
    }

    fn list_waits<'s>(
        &'s self,
        run: &RunId,
        next: Position,
        waits: Vec<OpenWait>,
    ) -> BoxFuture<'s, Result<bool, StoreError>> {
        self.answer(|content| {
            let current = content.known(run)?.record.next == next;
            if current {
                content.waits.list(run, &waits);
            }
            Ok(current)
        })
    }

    fn held(&self, worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, Epoch)>, StoreError>> {
        self.answer(|content| {
            let held = content.runs.values().map(|run| &run.record);
            let held = held.filter(|run| run.owner.as_ref() == Some(worker) && !run.status.is_terminal());
            Ok(held.map(|run| (run.id.clone(), run.epoch)).collect())
        })
    }

    fn unread_held(&self, worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, u64)>, StoreError>> {
        self.answer(|content| {
            let held = content.runs.values().filter(|run| run.record.owner.as_ref() == Some(worker));
            let newest = |run: &Run| run.inbox.after(0).last().map(|message| message.seq);
            Ok(held.filter_map(|run| Some((run.record.id.clone(), newest(run)?))).collect())
        })
    }

    fn register(
        &self,
        worker: &WorkerId,
        lease: Duration,
        codes: Vec<CodeId>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.answer(|content| Ok(content.workers.register(worker, lease, codes)))
    }

    fn serve(&self, worker: &WorkerId, serves: Serves) -> BoxFuture<'_, Result<(), StoreError>> {
        self.answer(|content| {
            content.workers.serve(worker, serves);
            Ok(())
        })
    }

    fn serving_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<Serving>, StoreError>> {
        self.answer(|content| Ok(content.workers.serving_elsewhere(me)))
    }

    fn codes_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<CodeId>, StoreError>> {
        self.answer(|content| Ok(content.workers.codes_elsewhere(me)))
    }

    fn recode(&self, runs: Vec<Recode>) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.answer(|content| Ok(content.recode(runs)))
    }

    fn foreign(&self, query: ForeignRuns) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        self.answer(|content| Ok(content.foreign(&query)))
    }

    fn put_definition(&self, definition: DefinitionRecord) -> BoxFuture<'_, Result<(), StoreError>> {
        self.answer(|content| {
            content.definitions.entry(definition.code.clone()).or_insert(definition);
            Ok(())
        })
    }

    fn definitions(&self) -> BoxFuture<'_, Result<Vec<DefinitionRecord>, StoreError>> {
        self.answer(|content| Ok(content.all_definitions()))
    }

    fn workers(&self) -> BoxFuture<'_, Result<Vec<WorkerRecord>, StoreError>> {
        self.answer(|content| Ok(content.holders()))
    }

    fn known_workers(&self) -> BoxFuture<'_, Result<Vec<KnownWorker>, StoreError>> {
        self.answer(|content| Ok(content.known_workers()))
    }

    fn retire(&self, worker: &WorkerId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.answer(|content| {
            content.retire(worker);
            Ok(())
        })
    }

    fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        noticed: Vec<LostRun>,
    ) -> BoxFuture<'_, Result<Vec<LostRun>, StoreError>> {
        self.answer(|content| Ok(content.workers.renew(worker, lease, &noticed)))
    }

    fn release(
        &self,
        worker: &WorkerId,
        run: &RunId,
        epoch: Epoch,
        wake_at: Timestamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        self.answer(|content| {
            let run = content.known(run)?;
            let is_held = run.record.owner.as_ref() == Some(worker) && run.record.epoch == epoch;
            if is_held && !run.record.status.is_terminal() {
                run.record.wake_at = Some(wake_at);
                run.lapses_at = run.lapses_at.map(|at| at.max(wake_at));
                run.release();
            }
            Ok(())
        })
    }

    fn hasten(&self, now: Timestamp, beyond: Timestamp) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.answer(|content| Ok(content.hasten(now, beyond)))
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        self.answer(|content| {
            let free = content.runs.values().filter(|run| run.record.owner.is_none() && !run.record.parked);
            Ok(free.filter_map(Run::next_look).min())
        })
    }

    fn entry(
        &self,
        run: &RunId,
        key: &IdempotencyKey,
    ) -> BoxFuture<'_, Result<Option<LedgerEntry>, StoreError>> {
        self.answer(|content| {
            let row = content.keys.get(key).and_then(|row| content.row(*row));
            Ok(row.filter(|row| row.run == *run).cloned())
        })
    }

    fn reserve(
        &self,
        wanted: Reservation,
        replaces: Option<Reservation>,
    ) -> BoxFuture<'_, Result<Reservation, StoreError>> {
        self.answer(|content| Ok(content.reservations.reserve(wanted, replaces.as_ref())))
    }

    fn reservation(&self, business_key: &str) -> BoxFuture<'_, Result<Option<Reservation>, StoreError>> {
        self.answer(|content| Ok(content.reservations.get(business_key).cloned()))
    }

    fn entries(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<LedgerEntry>, StoreError>> {
        self.answer(|content| {
            Ok(content.ledger.iter().flatten().filter(|row| row.run == *run).cloned().collect())
        })
    }

    fn send(&self, run: &RunId, message: Message) -> BoxFuture<'_, Result<Sent, StoreError>> {
        self.answer(|content| content.send(run, message))
    }

    fn inbox(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<Vec<Message>, StoreError>> {
        self.answer(|content| {
            Ok(content.runs.get(run).map(|run| run.inbox.after(after).cloned().collect()).unwrap_or_default())
        })
    }

    fn unread<'s>(&'s self, run: &RunId) -> BoxFuture<'s, Result<Unread, StoreError>> {
        self.answer(|content| Ok(content.runs.get(run).map_or(Unread::default(), |run| run.inbox.unread())))
    }

    fn save_progress(
        &self,
        run: &RunId,
        epoch: Epoch,
        command: &CommandId,
        progress: Payload,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        self.answer(|content| {
            let run = content.known(run)?;
            if run.record.epoch == epoch && !run.record.status.is_terminal() {
                run.progress.insert(command.clone(), progress);
            }
            Ok(())
        })
    }

    fn progress(
        &self,
        run: &RunId,
        command: &CommandId,
    ) -> BoxFuture<'_, Result<Option<Payload>, StoreError>> {
        self.answer(|content| Ok(content.runs.get(run).and_then(|run| run.progress.get(command).cloned())))
    }

    fn write_streams(
        &self,
        writes: Vec<StreamWrite>,
    ) -> BoxFuture<'_, Result<Vec<Option<Vec<StreamItem>>>, StoreError>> {
        self.answer(|content| {
            let written = writes.iter().map(|write| {
                let run = content.runs.get_mut(&write.run).filter(|run| run.is_open_at(write.epoch))?;
                Some(run.streams.write(write))
            });
            Ok(written.collect())
        })
    }

    fn open_streams(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<CommandId>, StoreError>> {
        self.answer(|content| Ok(content.runs.get(run).map(|run| run.streams.open()).unwrap_or_default()))
    }

    fn stream(
        &self,
        run: &RunId,
        stream: &str,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StreamItem>, StoreError>> {
        self.answer(|content| {
            let run = content.runs.get(run);
            Ok(run.map(|run| run.streams.read(stream, after, limit)).unwrap_or_default())
        })
    }

    fn put_blob(&self, run: &RunId, hash: &str, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.answer(|content| {
            content.blobs.put(run, hash, &bytes);
            Ok(())
        })
    }

    fn blob(&self, _run: &RunId, hash: &str) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        self.answer(|content| Ok(content.blobs.get(hash)))
    }

    fn put_effect(
        &self,
        effect: StoredEffect,
        epoch: Epoch,
        values: Vec<LargeValue>,
    ) -> BoxFuture<'_, Result<(), AppendError>> {
        self.answer(|content| {
            let run = content.known(&effect.run)?;
            if run.record.epoch != epoch {
                let found = run.record.epoch;
                return Err(AppendError::StaleEpoch { run: effect.run, held: epoch, found });
            }
            let (id, effects) = (effect.run.clone(), &mut run.effects);
            if effects.iter().all(|known| known.key != effect.key) {
                effects.push(effect);
            }
            for LargeValue { value, at } in values {
                content.blobs.put(&id, &at.sha256, value.as_str().as_bytes());
            }
            Ok(())
        })
    }

    fn effects(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<StoredEffect>, StoreError>> {
        self.answer(|content| Ok(content.runs.get(run).map(|run| run.effects.clone()).unwrap_or_default()))
    }

    fn save_snapshot(&self, run: &RunId, snapshot: Snapshot) -> BoxFuture<'_, Result<(), StoreError>> {
        self.answer(|content| {
            let run = content.known(run)?;
            if run.snapshot.as_ref().is_none_or(|old| old.position <= snapshot.position) {
                run.snapshot = Some(snapshot);
            }
            Ok(())
        })
    }

    fn snapshot(&self, run: &RunId) -> BoxFuture<'_, Result<Option<Snapshot>, StoreError>> {
        self.answer(|content| Ok(content.runs.get(run).and_then(|run| run.snapshot.clone())))
    }

    fn put_schedule(
        &self,
        schedule: ScheduleRecord,
        replaces: u64,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.answer(|content| Ok(content.schedules.put(schedule, replaces)))
    }

    fn schedules(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        self.answer(|content| Ok(content.schedules.page(after, limit)))
    }

    fn schedule(&self, name: &str) -> BoxFuture<'_, Result<Option<ScheduleRecord>, StoreError>> {
        self.answer(|content| Ok(content.schedules.get(name)))
    }

    fn put_limit(&self, limit: Limit) -> BoxFuture<'_, Result<(), StoreError>> {
        self.answer(|content| {
            content.queues.put_limit(limit);
            Ok(())
        })
    }

    fn remove_limit(&self, pattern: &LimitPattern, kind: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.answer(|content| Ok(content.queues.remove_limit(pattern, kind)))
    }

    fn limits(&self) -> BoxFuture<'_, Result<Vec<Limit>, StoreError>> {
        self.answer(|content| Ok(content.queues.limits()))
    }

    fn queue_position(
        &self,
        run: &RunId,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Option<QueuePosition>, StoreError>> {
        self.answer(|content| content.queue_position(run, now))
    }

    fn keyed_start(&self, name: &str) -> BoxFuture<'_, Result<Option<KeyedStart>, StoreError>> {
        self.answer(|content| Ok(content.queues.keyed_start(name)))
    }

    fn put_keyed_start(&self, start: KeyedStart, replaces: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.answer(|content| Ok(content.queues.put_keyed_start(start, replaces)))
    }

    fn remove_keyed_start(&self, name: &str, revision: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.answer(|content| Ok(content.queues.remove_keyed_start(name, revision)))
    }

    fn due_starts(&self, query: DueStarts) -> BoxFuture<'_, Result<Vec<KeyedStart>, StoreError>> {
        self.answer(|content| Ok(content.queues.due_starts(&query)))
    }

    fn due_schedules(&self, query: DueSchedules) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        self.answer(|content| Ok(content.schedules.due(&query)))
    }

    fn remove_schedule(&self, name: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.answer(|content| Ok(content.schedules.remove(name)))
    }

    fn ended(&self, query: EndedRuns) -> BoxFuture<'_, Result<Vec<(u64, RunRecord)>, StoreError>> {
        self.answer(|content| Ok(content.ended(&query)))
    }

    fn purge(&self, run: &RunId, created_at: Option<Timestamp>) -> BoxFuture<'_, Result<Purged, StoreError>> {
        self.answer(|content| Ok(content.purge(run, created_at)))
    }

    fn delete_snapshots(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.answer(|content| {
            content.runs.values_mut().for_each(|run| run.snapshot = None);
            Ok(())
        })
    }

    /// Does nothing: the content stays available to the other clones.
    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(Ok(())).boxed()
    }
}
