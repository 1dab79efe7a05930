//! What the writer does while the server is away, and when it is back.
//!
//! Promise: an append whose answer was lost is looked for in its journal: there with the same epoch, position, time and
//! text, it is durable; else it is written again. Nothing is answered before that. What cannot be looked for holds up no
//! other append. What belongs to a bucket that was moved meanwhile waits for the former database no longer: it is looked for,
//! and written, in the new one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aether_core::store::StoreError;
use aether_core::store::ledger::Acquired;
use tokio_postgres::Row;

use crate::database::Tries;
use crate::error::{Failure, OpError, failure, gone};
use crate::row::{self, get};
use crate::shard::shard;
use crate::writer::batch::{Batch, Group, Item};
use crate::writer::statements::Link;
use crate::writer::{Head, Op, Stuck, Writer, fail, sql};

impl Writer {
    /// Waits for the server, connects again, and answers what is found to be written. When the store closes meanwhile and
    /// the server stays away, everything is answered with the error.
    pub(crate) async fn wait_for_server(
        &mut self,
        kind: Failure,
        error: StoreError,
        batch: &mut Batch,
        work: &mut Vec<Batch>,
    ) {
        self.tell_written();
        self.note_stuck(error);
        // A connection that takes no writes was given up: the next one may lead to another server.
        let lost = kind != Failure::Moment || !self.conn.is_sound();
        loop {
            self.pause(batch, work).await;
            self.send_moved_on(batch, work);
            if self.gives_up() {
                self.abandon(batch, work);
                return;
            }
            if !lost && self.conn.is_sound() {
                return;
            }
            match self.come_back(batch, work).await {
                Ok(()) => {
                    // All of it had been written before.
                    if batch.is_empty() && work.iter().all(Batch::is_empty) {
                        self.is_written();
                    }
                    return;
                }
                Err(error) => {
                    let is_of_a_part = self.conn.is_sound() && is_of_a_part(&error);
                    self.note_stuck(error.into_store_error(&self.database.name));
                    if is_of_a_part {
                        // What was lost keeps its numbers: written again in parts, each is looked for apart from the others.
                        return;
                    }
                }
            }
        }
    }

    fn note_stuck(&mut self, error: StoreError) {
        match &mut self.stuck {
            Some(stuck) => stuck.error = error,
            None => {
                tracing::warn!(%error, "nothing can be written at the moment; appends wait");
                self.stuck = Some(Stuck { since: Instant::now(), error, tries: Tries::new(Duration::MAX) });
            }
        }
    }

    /// Waits before the next try. Creations that have waited for too long are answered: who asks for one looks before it
    /// asks again.
    async fn pause(&mut self, batch: &mut Batch, work: &mut [Batch]) {
        let Some(stuck) = &mut self.stuck else { return };
        tokio::time::sleep(stuck.tries.next(Failure::Lost)).await;
        let error = stuck.error.clone();
        while let Ok(op) = self.ops.try_recv() {
            match op {
                Op::Close(reply) => self.close(reply),
                op => self.waiting.push_back(op),
            }
        }
        let patience = self.database.options.patience;
        for batch in std::iter::once(batch).chain(work) {
            let late = |creation: &crate::writer::Creation| creation.since.elapsed() >= patience;
            for creation in batch.creations.extract_if(.., |creation| late(creation)) {
                let _asker_gone = creation.reply.send(Err(error.clone()));
            }
        }
        self.answer_late_creations();
        for op in std::mem::take(&mut self.waiting) {
            match op {
                Op::Create(creation) if creation.since.elapsed() >= patience => {
                    let _asker_gone = creation.reply.send(Err(error.clone()));
                }
                Op::Close(reply) => self.close(reply),
                op => self.waiting.push_back(op),
            }
        }
    }

    /// Sends on what belongs to buckets that are in another database now, also what may have been written before they left:
    /// then its frame went with them, under the number at which it is looked for. No statement of this writer can have it
    /// written after that, because the move had a lock for which each of them waits before it looks at its rows.
    fn send_moved_on(&mut self, batch: &mut Batch, work: &mut [Batch]) {
        for op in std::mem::take(&mut self.waiting) {
            match op {
                Op::Moved(shard, spot, told) => self.leaving.note(shard, spot, Some(told)),
                op => self.waiting.push_back(op),
            }
        }
        if self.leaving.is_empty() {
            return;
        }
        // In the order in which they would be written.
        for batch in std::iter::once(batch).chain(work.iter_mut().rev()) {
            self.keep_order(batch);
            self.leaving.take(batch);
        }
        self.send_on();
    }

    /// The store closes while nothing can be written: everything is answered.
    fn abandon(&mut self, batch: &mut Batch, work: &mut Vec<Batch>) {
        let error =
            self.stuck.as_ref().map_or_else(|| gone(&self.database.name), |stuck| stuck.error.clone());
        tracing::error!(%error, "the store closes with writes that could not be made");
        self.given_up = Some(error.clone());
        fail(std::mem::take(batch), &error);
        work.drain(..).for_each(|batch| fail(batch, &error));
        let mut rest = Batch { creations: self.take_later_creations(), ..Batch::default() };
        for (_, (_, group)) in std::mem::take(&mut self.later) {
            rest.insert(group);
        }
        fail(rest, &error);
        for op in std::mem::take(&mut self.waiting) {
            self.refuse(op, &error);
        }
    }

    /// Connects, and takes what is found to be written out of the batches.
    async fn come_back(&mut self, batch: &mut Batch, work: &mut [Batch]) -> Result<(), OpError> {
        self.conn = Arc::new(self.database.connect_writer(&self.thread).await?);
        let link = self.link();
        // In the order in which they would be written.
        for batch in std::iter::once(batch).chain(work.iter_mut().rev()) {
            link.recover_runs(batch).await?;
            link.recover_appends(batch).await?;
        }
        Ok(())
    }
}

impl Link {
    /// Answers those who asked for runs that are found to be created.
    pub(super) async fn recover_runs(&self, batch: &mut Batch) -> Result<(), OpError> {
        let (mut numbers, mut shards, mut runs, mut places) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (number, creation) in (0_i64..).zip(&batch.creations) {
            for place in &creation.lost {
                let run = creation.new.id.as_str();
                numbers.push(number);
                shards.push(shard(run));
                runs.push(run);
                places.push(*place);
            }
        }
        if numbers.is_empty() {
            return Ok(());
        }
        let rows = self.conn.query(sql::FIND_RUNS, &[&numbers, &shards, &runs, &places]).await?;
        let found: Vec<i64> = rows.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
        let mut number = -1;
        let is_there = |_: &mut _| {
            number += 1;
            found.contains(&number)
        };
        for creation in batch.creations.extract_if(.., is_there) {
            self.database.heads.set(&creation.new.id, crate::writer::batch::first_head(&creation.new));
            let _asker_gone = creation.reply.send(Ok(true));
        }
        Ok(())
    }

    async fn recover_appends(&self, batch: &mut Batch) -> Result<(), OpError> {
        let mut found = self.find(batch.groups.values()).await?;
        for (key, mut group) in std::mem::take(&mut batch.groups) {
            // In their order: one that is not there has none behind it that is.
            let mut rest = Vec::new();
            for item in std::mem::take(&mut group.items) {
                let there = found.remove(&(group.run.clone(), item.append.expected, item.lost.clone()));
                match there.filter(|_| rest.is_empty()) {
                    Some(head) => {
                        tracing::debug!(run = %group.run, position = item.append.expected, "an append was durable");
                        self.database.heads.set(&group.run, head);
                        answer(item);
                    }
                    None => rest.push(item),
                }
            }
            if !rest.is_empty() {
                // Where the journal ends is not known any more.
                self.database.heads.forget(&group.run);
                group.items = rest;
                batch.groups.insert(key, group);
            }
        }
        Ok(())
    }

    /// The appends that are in their journals, each with where the journal ends behind it.
    pub(crate) async fn find<'g>(&self, groups: impl Iterator<Item = &'g Group>) -> Result<Found, OpError> {
        let items: Vec<(&Group, &Item, i64)> = groups
            .flat_map(|group| group.items.iter().map(move |item| (group, item)))
            .flat_map(|(group, item)| item.lost.iter().map(move |frame| (group, item, *frame)))
            .collect();
        if items.is_empty() {
            return Ok(Found::new());
        }
        let numbers: Vec<i64> = (0..).take(items.len()).collect();
        let shards: Vec<i16> = items.iter().map(|(group, ..)| group.shard).collect();
        let runs: Vec<&str> = items.iter().map(|(group, ..)| group.run.as_str()).collect();
        let frames: Vec<i64> = items.iter().map(|(.., frame)| *frame).collect();
        let rows = self.conn.query(sql::FIND, &[&numbers, &shards, &runs, &frames]).await?;
        let mut found = Found::new();
        for row in &rows {
            let number = usize::try_from(get::<i64>(row, 0)?).unwrap_or(usize::MAX);
            if let Some((group, item, _)) = items.get(number)
                && let Some(head) = same(row, item)?
            {
                found.insert((group.run.clone(), item.append.expected, item.lost.clone()), head);
            }
        }
        Ok(found)
    }
}

/// Whether what stopped a look may be one row, or one value, and not the others.
fn is_of_a_part(error: &OpError) -> bool {
    match error {
        OpError::Driver(error) => crate::error::is_of_a_part(error) || failure(error) == Failure::Data,
        OpError::Row(_) => true,
        OpError::Refused(_) => false,
    }
}

/// Appends that were found, by run, position and the numbers noted for them.
type Found = HashMap<(aether_core::id::RunId, u64, Vec<i64>), Head>;

/// Whether a row of [`sql::FIND`] is this append.
fn same(row: &Row, item: &Item) -> Result<Option<Head>, OpError> {
    let (frame, epoch, position, at): (i64, i64, i64, i64) =
        (get(row, 1)?, get(row, 2)?, get(row, 3)?, get(row, 4)?);
    let (events, hash): (&str, &[u8]) = (get(row, 5)?, get(row, 6)?);
    let append = &item.append;
    let same = epoch == row::int(append.epoch)
        && position == row::int(append.expected)
        && at == row::micros(append.at)
        && events == item.frame().text;
    Ok(if same { Some(Head { frame, chain: row::chain(hash)? }) } else { None })
}

/// Answers an append that is durable.
pub(crate) fn answer(item: Item) {
    let acquired = match (item.taken, &item.append.acquire) {
        (Some(row), _) => Acquired::Taken(row),
        (None, Some(_)) => Acquired::Granted,
        (None, None) => Acquired::NotAsked,
    };
    item.append.ack.durable(acquired);
}
