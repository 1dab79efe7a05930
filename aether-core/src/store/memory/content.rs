//! What the reference store holds, and how appends change it.
//!
//! Promise: an append is checked as a whole before any of it is written, so a refused one leaves nothing behind.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::journal::frame::{CHAIN_START, Frame, StoredFrame, chain};
use crate::sched::HashMap;
use crate::store::append::{Append, END_REQUESTS, StatusChange, StoredEffect};
use crate::store::codes::DefinitionRecord;
use crate::store::error::{AppendError, StoreError};
use crate::store::filter::Cursor;
use crate::store::ledger::{Acquired, LedgerEntry, LedgerStatus, LedgerUpdate};
use crate::store::memory::blobs::Blobs;
use crate::store::memory::inbox::Inbox;
use crate::store::memory::queues::Queues;
use crate::store::memory::reservations::{Reservations, is_of_run};
use crate::store::memory::schedules::Schedules;
use crate::store::memory::streams::Streams;
use crate::store::memory::waits::Waits;
use crate::store::memory::workers::Workers;
use crate::store::queues::QueueState;
use crate::store::records::{CodeChange, Created, Decision, Message, NewRun, RunRecord, Sent, Snapshot};
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CodeId, CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use crate::vocabulary::payload::Payload;

#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) runs: HashMap<RunId, Run>,
    /// Runs by the order of their creation.
    pub(super) created: BTreeMap<u64, RunId>,
    pub(super) creations: u64,
    pub(super) ledger: Vec<Option<LedgerEntry>>,
    pub(super) keys: HashMap<IdempotencyKey, usize>,
    /// Business keys that are unique in their run.
    pub(super) business: HashMap<String, usize>,
    pub(super) reservations: Reservations,
    pub(super) messages: u64,
    pub(super) blobs: Blobs,
    pub(super) workers: Workers,
    pub(super) schedules: Schedules,
    pub(super) waits: Waits,
    pub(super) definitions: HashMap<CodeId, DefinitionRecord>,
    pub(super) queues: Queues,
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) record: RunRecord,
    pub(super) frames: Vec<StoredFrame>,
    pub(super) inbox: Inbox,
    pub(super) snapshot: Option<Snapshot>,
    pub(super) progress: HashMap<CommandId, Payload>,
    pub(super) effects: Vec<StoredEffect>,
    pub(super) streams: Streams,
    /// When a child first notified it since it was claimed or last began to wait.
    pub(super) notified: Option<Timestamp>,
    /// Whether its owner holds a slot of its queue.
    pub(super) slot: bool,
    /// When it may be ended without a slot, because its first turn was not granted.
    pub(super) lapses_at: Option<Timestamp>,
}

impl Run {
    pub(super) fn push(&mut self, frame: &Frame, at: Timestamp) {
        if frame.count == 0 {
            return;
        }
        let position = self.record.next;
        let previous = self.frames.last().map_or(CHAIN_START, |last| last.chain);
        self.frames.push(StoredFrame {
            position,
            at,
            epoch: self.record.epoch,
            text: frame.text.clone(),
            chain: chain(&previous, position, at, &frame.text),
            decoded: None,
        });
        self.record.next += Position::from(frame.count);
    }

    /// Whether it waits for nothing and is due later than `beyond`.
    pub(super) fn is_late(&self, beyond: Timestamp) -> bool {
        let record = &self.record;
        let may_go_on = match record.status {
            Status::Running => true,
            Status::Pending => {
                let terms = &record.terms;
                record.created_at > beyond && terms.queue.is_none() && terms.not_before.is_none()
            }
            _ => false,
        };
        let is_free = record.owner.is_none() && !record.parked;
        may_go_on && is_free && record.wake_at.is_some_and(|at| at > beyond)
    }

    /// Whether it has not begun, and begins at a time: a message is kept until then.
    fn begins_at_a_time(&self) -> bool {
        self.record.status == Status::Pending && self.record.terms.not_before.is_some()
    }

    pub(super) fn wake(&mut self, at: Timestamp) {
        if !self.record.status.is_terminal() {
            self.record.wake_at = Some(self.record.wake_at.map_or(at, |wake_at| wake_at.min(at)));
        }
    }

    pub(super) fn release(&mut self) {
        self.record.owner = None;
    }

    pub(super) fn change(&mut self, change: &StatusChange, at: Timestamp) {
        self.record.status = change.status;
        if change.status.is_terminal() {
            self.record.wake_at = None;
            self.record.parked = false;
            self.lapses_at = None;
            self.progress.clear();
        } else if change.status == Status::Waiting {
            // What came in after the worker's last look has set `wake_at`, which is about to be overwritten. Without this the
            // run would sleep with the message in its inbox.
            let unread = self.inbox.after(change.seen).map(|message| message.at);
            let came = unread.chain(self.notified.take()).min();
            self.record.wake_at = change.wake_at;
            if let Some(came) = came {
                self.wake(came.min(at));
            }
        } else {
            // A running run stays due: its lease protects it, and when the lease expires it can be claimed.
            self.record.wake_at = Some(change.wake_at.unwrap_or(self.record.created_at));
        }
        if change.release || change.status.is_terminal() {
            self.release();
        }
    }

    pub(super) fn is_asked_to_end(&self) -> bool {
        self.inbox.after(0).any(|message| END_REQUESTS.contains(&&*message.topic))
    }

    /// Whether no worker holds it, or one of `silent`.
    pub(super) fn is_free(&self, silent: &[WorkerId]) -> bool {
        !self.record.status.is_terminal()
            && self.record.owner.as_ref().is_none_or(|owner| silent.contains(owner))
    }

    /// Whether it waits for a turn of its queue.
    pub(super) fn is_ready(&self) -> bool {
        self.record.queue.waits_since.is_some()
    }

    /// When a claim must look at it. What waits for a turn waits for no time, but may expire.
    pub(super) fn next_look(&self) -> Option<Timestamp> {
        let due = self.record.wake_at.filter(|_| !self.is_ready());
        due.into_iter().chain(self.lapses_at).min()
    }

    pub(super) fn is_open_at(&self, epoch: Epoch) -> bool {
        self.record.epoch == epoch && !self.record.status.is_terminal()
    }

    /// One that was being advanced is due, whatever the time of its claim.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let is_taken_over = self.record.owner.is_some() && self.record.status == Status::Running;
        is_taken_over || self.record.wake_at.is_some_and(|wake_at| wake_at <= now)
    }
}

impl Content {
    pub(super) fn known(&mut self, run: &RunId) -> Result<&mut Run, StoreError> {
        self.runs.get_mut(run).ok_or_else(|| StoreError::UnknownRun { run: run.clone() })
    }

    pub(super) fn hasten(&mut self, now: Timestamp, beyond: Timestamp) -> usize {
        let late: Vec<_> = self.runs.values_mut().filter(|run| run.is_late(beyond)).collect();
        let count = late.len();
        late.into_iter().for_each(|run| run.record.wake_at = Some(now));
        count
    }

    pub(super) fn create_decided(&mut self, new: NewRun, decision: &Decision) -> Created {
        let (found, wanted) = match decision {
            Decision::KeyedStart { name, revision } => {
                (self.queues.keyed_start(name).map(|start| start.revision), revision)
            }
            Decision::Schedule { name, revision } => {
                (self.schedules.get(name).map(|schedule| schedule.revision), revision)
            }
        };
        if !self.runs.contains_key(&new.id) && found != Some(*wanted) {
            return self.refuse(&new, Created::DecisionGone);
        }
        self.create(new)
    }

    pub(super) fn create(&mut self, new: NewRun) -> Created {
        if let Some(run) = self.runs.get(&new.id) {
            return Created::Existing(Box::new(run.record.clone()));
        }
        if let (Some(parent), Some(epoch)) = (&new.parent, new.parent_epoch)
            && !self.runs.get(parent).is_some_and(|parent| parent.is_open_at(epoch))
        {
            return self.refuse(&new, Created::ParentLost);
        }
        if let Some((limit, open)) = self.over_open(&new) {
            return self.refuse(&new, Created::OverLimit { limit, open });
        }
        let owned = new.owner.is_some();
        let record = RunRecord {
            id: new.id.clone(),
            workflow: new.workflow,
            version: new.version,
            code: new.code,
            parked: false,
            status: if owned { Status::Running } else { Status::Pending },
            digest: new.digest,
            parent: new.parent,
            created_at: new.at,
            updated_at: new.at,
            next: 0,
            epoch: Epoch::from(owned),
            owner: new.owner,
            wake_at: Some(new.terms.begins(new.at)),
            labels: new.labels,
            traceparent: new.traceparent,
            place: Cursor::new(self.creations + 1),
            queue: QueueState {
                started_at: (owned && new.terms.queue.is_some()).then_some(new.at),
                waits_since: None,
            },
            terms: new.terms,
        };
        let is_queued = record.terms.queue.is_some();
        let expires_at = record.terms.expires_at.filter(|_| is_queued && !owned);
        let is_ready = is_queued && !owned && record.wake_at <= Some(new.at);
        let mut run = Run {
            record,
            frames: Vec::new(),
            inbox: Inbox::default(),
            snapshot: None,
            progress: HashMap::new(),
            effects: Vec::new(),
            streams: Streams::default(),
            notified: None,
            slot: is_queued && owned,
            lapses_at: expires_at,
        };
        run.push(&new.frame, new.at);
        self.creations += 1;
        self.created.insert(self.creations, new.id.clone());
        if is_queued {
            self.queues.note_open(self.creations, &new.id);
        }
        self.runs.insert(new.id, run);
        if is_ready {
            self.make_ready(self.creations);
        }
        Created::New
    }

    /// Refuses a run of which there is none. What was stored for it in advance goes: no purge would ever find it.
    fn refuse(&mut self, new: &NewRun, why: Created) -> Created {
        self.blobs.purge(&new.id);
        why
    }

    pub(super) fn create_fork(&mut self, new: NewRun, ledger: Vec<LedgerEntry>) -> Created {
        let run = new.id.clone();
        let created = self.create(new);
        if created == Created::New {
            for row in ledger {
                if self.holder(&row).is_none() {
                    self.insert(LedgerEntry { run: run.clone(), ..row });
                }
            }
        }
        created
    }

    /// All checks of an append. They come before its first change, so that a refused append leaves nothing behind.
    pub(super) fn check(&mut self, append: &Append) -> Result<(), AppendError> {
        let record = &self.known(&append.run)?.record;
        let run = append.run.clone();
        // The epoch first: a worker that lost the run learns that, and not that its position is wrong.
        if record.epoch != append.epoch {
            return Err(AppendError::StaleEpoch { run, held: append.epoch, found: record.epoch });
        }
        if record.status.is_terminal() {
            return Err(AppendError::RunEnded { run, status: record.status });
        }
        if record.next != append.expected {
            return Err(AppendError::WrongPosition { run, expected: append.expected, found: record.next });
        }
        if append.unless_asked_to_end && self.known(&append.run)?.is_asked_to_end() {
            return Err(AppendError::AskedToEnd { run });
        }
        // A row that this append acquires may also be changed by it.
        let own = append.acquire.as_ref().map(|acquire| &acquire.entry.key);
        match append.ledger.iter().find(|u| own != Some(&u.key) && !self.keys.contains_key(&u.key)) {
            Some(update) => Err(corrupt(format!("there is no ledger row `{}` to change", update.key)).into()),
            None => Ok(()),
        }
    }

    pub(super) fn append(&mut self, append: &Append) -> Result<Acquired, AppendError> {
        self.check(append)?;
        // Under the one lock of the store: between the look for a holder and the insert, no other run can get the key.
        let (frame, acquired) = match &append.acquire {
            None => (&append.frame, Acquired::NotAsked),
            Some(acquire) => match self.holder(&acquire.entry) {
                Some(row) => (&acquire.otherwise, Acquired::Taken(Box::new(row.clone()))),
                None => {
                    self.insert(acquire.entry.clone());
                    (&append.frame, Acquired::Granted)
                }
            },
        };
        for update in &append.ledger {
            self.settle(update, append.at);
        }
        let run = self.known(&append.run)?;
        run.push(frame, append.at);
        run.record.updated_at = append.at;
        append.consumed.iter().for_each(|seq| run.inbox.consume(*seq, append.expected));
        if let Some(renewal) = &append.renews {
            self.renew(&append.run, append.expected, renewal);
        }
        self.waits.change(&append.run, &append.waits);
        let run = self.known(&append.run)?;
        append.streams.iter().for_each(|end| run.streams.end(end, append.epoch, append.at));
        match &append.code {
            Some(CodeChange::Adopted(code)) => {
                (run.record.code, run.record.parked) = (code.clone(), false);
            }
            Some(CodeChange::Parked) => run.record.parked = true,
            None => {}
        }
        if let Some(change) = &append.status {
            run.change(change, append.at);
            if let Some(other) = change.notify.as_ref().and_then(|other| self.runs.get_mut(other)) {
                other.notified = Some(other.notified.map_or(append.at, |first| first.min(append.at)));
                other.wake(append.at);
            }
        }
        Ok(acquired)
    }

    /// The row that holds a key of `entry`.
    pub(super) fn holder(&self, entry: &LedgerEntry) -> Option<&LedgerEntry> {
        let row = self.keys.get(&entry.key).and_then(|row| self.row(*row));
        row.or_else(|| self.business.get(entry.business_key.as_ref()?).and_then(|row| self.row(*row)))
    }

    pub(super) fn row(&self, row: usize) -> Option<&LedgerEntry> {
        self.ledger.get(row).and_then(Option::as_ref)
    }

    pub(super) fn insert(&mut self, entry: LedgerEntry) {
        let row = self.ledger.len();
        self.keys.insert(entry.key.clone(), row);
        if let Some(key) = entry.business_key.as_ref().filter(|key| is_of_run(key)) {
            self.business.insert(key.clone(), row);
        }
        self.ledger.push(Some(entry));
    }

    pub(super) fn settle(&mut self, update: &LedgerUpdate, at: Timestamp) {
        let row = self.keys.get(&update.key).and_then(|row| self.ledger.get_mut(*row));
        let Some(row) = row.and_then(Option::as_mut) else { return };
        row.status = update.status;
        row.result.clone_from(&update.result);
        row.error.clone_from(&update.error);
        row.committed = update.committed;
        row.finished_at = (update.status != LedgerStatus::Started).then_some(at);
        // Only a definite failure frees the business key: every other status means that the call may have happened.
        if update.status == LedgerStatus::Failed
            && let Some(key) = row.business_key.take()
        {
            self.business.remove(&key);
        }
    }

    pub(super) fn send(&mut self, run: &RunId, mut message: Message) -> Result<Sent, StoreError> {
        let seq = self.messages + 1;
        let run = self.known(run)?;
        if run.inbox.knows(&message.id) {
            return Ok(Sent::Duplicate);
        }
        if run.record.status.is_terminal() {
            return Ok(Sent::RunEnded(run.record.status));
        }
        message.seq = seq;
        let asks_to_end = END_REQUESTS.contains(&&*message.topic);
        if asks_to_end || !run.begins_at_a_time() {
            run.wake(message.at);
        }
        let is_new = run.record.terms.queue.is_some() && run.record.queue.started_at.is_none();
        if is_new && asks_to_end {
            run.lapses_at = Some(run.lapses_at.map_or(message.at, |at| at.min(message.at)));
        }
        run.inbox.push(message);
        self.messages = seq;
        Ok(Sent::Delivered)
    }
}

pub(super) fn corrupt(reason: String) -> StoreError {
    StoreError::Corrupt { store: "memory".into(), reason }
}
