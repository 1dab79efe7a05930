//! What the next batch is made of: what is queued, in its order.
//!
//! Promise: appends of a run come into batches in the order in which they were queued.

use std::collections::btree_map::Entry;
use std::time::Instant;

use aether_core::id::RunId;

use crate::shard::shard;
use crate::writer::batch::{Batch, Group, Item};
use crate::writer::{BATCH_BYTES, Op, Writer};

/// A batch that is being put together.
#[derive(Debug, Default)]
pub(super) struct Filling {
    pub(super) batch: Batch,
    /// Whether somebody waits for something in it.
    awaited: bool,
    /// How many operations were taken for it.
    pub(super) count: usize,
    /// The length of their texts.
    bytes: usize,
}

impl Writer {
    /// The next batch, which is empty where a bucket has left; `None` when the writer is to end.
    pub(super) async fn collect(&mut self) -> Option<Batch> {
        loop {
            let batch = self.fill().await;
            if !batch.is_empty() || !self.leaving.is_empty() {
                return Some(batch);
            }
            let is_done = self.waiting.is_empty() && self.later.is_empty() && self.later_creations.is_empty();
            if self.closing.is_some() && is_done {
                return None;
            }
        }
    }

    /// All that is queued. While nobody waits for it, it stays open for a moment, because what somebody waits for is about
    /// to come and shares the commit; and so it does for runs that are about to append. Empty when the time of something that
    /// was held up has come, or at the end.
    async fn fill(&mut self) -> Batch {
        if let Some(batch) = self.take_later() {
            return batch;
        }
        while self.has_room() {
            let Some(op) = self.next().await else { break };
            if !self.take(op) {
                break;
            }
        }
        self.gather.end();
        self.filled()
    }

    /// The batch as it is; the next one begins.
    pub(super) fn filled(&mut self) -> Batch {
        std::mem::take(&mut self.filling).batch
    }

    /// Whether something more may be taken into the batch.
    pub(super) fn has_room(&self) -> bool {
        self.filling.count < self.database.options.batch && self.filling.bytes < BATCH_BYTES
    }

    /// Takes an operation into the batch; `false` if the batch is complete without it.
    pub(super) fn take(&mut self, op: Op) -> bool {
        self.filling.count += 1;
        match op {
            Op::Close(reply) => self.close(reply),
            Op::Create(creation) => {
                self.filling.awaited = true;
                self.filling.bytes += creation.new.frame.text.len();
                self.filling.batch.creations.push(*creation);
            }
            Op::Append(item) => {
                let is_awaited = item.append.ack.is_awaited();
                self.filling.awaited |= is_awaited;
                self.gather.note(self.filling.count, is_awaited);
                self.filling.bytes += item.append.frame.text.len();
                if let Some(item) = self.add(item) {
                    // The next batch begins with it: appends of a run keep their order.
                    self.waiting.push_front(Op::Append(item));
                    return false;
                }
            }
            Op::Barrier(run, reply) => {
                self.filling.awaited = true;
                self.tell_written();
                self.barriers.push((run, reply));
                self.lower_barriers();
            }
            Op::Moved(shard, spot, told) => {
                // What is in the batch of it is taken out again before the batch is written.
                self.leaving.note(shard, spot, Some(told));
                return false;
            }
        }
        true
    }

    /// Puts an append into the batch; returns it if it must wait for the next one.
    fn add(&mut self, item: Item) -> Option<Item> {
        let run = &item.append.run;
        if self.later.contains_key(run) || self.later_creations.contains_key(run) {
            self.put_off(Group::new(item));
            return None;
        }
        let key = (shard(run.as_str()), run.clone());
        match self.filling.batch.groups.entry(key) {
            Entry::Vacant(place) => {
                place.insert(Group::new(item));
            }
            Entry::Occupied(group) if !group.get().takes(&item) => return Some(item),
            Entry::Occupied(mut group) => group.get_mut().items.push(item),
        }
        None
    }

    /// Lets the transaction steps begin whose runs have nothing on its way.
    pub(super) fn lower_barriers(&mut self) {
        let (later, later_creations, waiting) = (&self.later, &self.later_creations, &self.waiting);
        let batch = &self.filling.batch;
        let gathered = |run: &RunId| {
            batch.groups.contains_key(&(shard(run.as_str()), run.clone()))
                || batch.creations.iter().any(|creation| creation.new.id == *run)
        };
        let waits = |run: &RunId| {
            waiting.iter().any(|op| match op {
                Op::Append(item) => item.append.run == *run,
                Op::Create(creation) => creation.new.id == *run,
                Op::Barrier(..) | Op::Moved(..) | Op::Close(_) => false,
            })
        };
        let free = |run: &RunId| {
            !later.contains_key(run) && !later_creations.contains_key(run) && !gathered(run) && !waits(run)
        };
        for (_, reply) in self.barriers.extract_if(.., |(run, _)| free(run)) {
            let _the_store_closes = reply.send(());
        }
    }

    /// What was gathered is queued again, before everything else.
    pub(super) fn put_back(&mut self) {
        let batch = self.filled();
        self.put_back_of(batch);
    }

    /// The same of a batch that was not sent.
    pub(super) fn put_back_of(&mut self, batch: Batch) {
        let appends = batch.groups.into_values().flat_map(|group| group.items).map(Op::Append);
        let creations = batch.creations.into_iter().map(|creation| Op::Create(Box::new(creation)));
        let mut ops: Vec<Op> = creations.chain(appends).collect();
        while let Some(op) = ops.pop() {
            self.waiting.push_front(op);
        }
    }

    /// The next operation. With nothing in the batch, waits for one; `None` when the writer is to end or the batch is full
    /// enough.
    async fn next(&mut self) -> Option<Op> {
        if let Some(op) = self.waiting.pop_front() {
            return Some(op);
        }
        if let Ok(op) = self.ops.try_recv() {
            return Some(op);
        }
        // Before anything is waited for: what comes next may come from them.
        self.tell_written();
        if self.closing.is_some() {
            return None;
        }
        if !self.filling.batch.is_empty() {
            let linger = self.database.options.linger;
            let open = (!self.filling.awaited && !linger.is_zero()).then(|| Instant::now() + linger);
            let until = open.into_iter().chain(self.gather.until()).max()?;
            return tokio::time::timeout_at(until.into(), self.ops.recv()).await.ok()?;
        }
        let op = match self.next_of_later() {
            Some(at) => tokio::time::timeout_at(at.into(), self.ops.recv()).await.ok()?,
            None => self.ops.recv().await,
        };
        // Nobody can queue anything any more.
        if op.is_none() {
            self.close(None);
        }
        op
    }
}
